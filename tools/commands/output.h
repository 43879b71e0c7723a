// What all outputs share: sizes and times for people, the head of every JSON answer, losses first.
#pragma once
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/model/trace.h"

namespace cuheap {

using Json = nlohmann::ordered_json;

std::string size_text(std::uint64_t bytes);   // 1.50 GiB
std::string duration_text(std::uint64_t ns);  // 12.3 s
std::string count_text(std::uint64_t count);  // 49,442
std::string percent_text(double share);       // 12.3 %

/// Time since the start of the recording, as every output gives it.
std::uint64_t since_start(const Trace& trace, std::uint64_t time_ns);
std::string when_text(const Trace& trace, std::uint64_t time_ns);

/// {"cuheap", "trace", "ground", "loss"} and what else every answer begins with.
Json json_head(const Trace& trace);
Json site_json(const Trace& trace, SiteId site);
void print_json(const Json& json);

/// Losses: the first lines of every report for people. Notes go to stderr (notes.h).
void print_losses(const Trace& trace, std::FILE* out = stdout);
/// What is known of the program and the machine, one line a process.
void print_processes(const Trace& trace, std::FILE* out = stdout);

/// "GPU-0001...-...": the device's own name as nvidia-smi writes it; empty if unknown.
std::string uuid_text(const TraceDevice& device);
/// "rank 1 sees it as 0", a process each that calls a device by another number than the trace; empty if none does.
std::string other_numbers_text(const Trace& trace, std::int16_t device);

/// "simulated on h100-80g", "real GPU NVIDIA H200", "imported".
std::string ground_text(const Trace& trace);

/// Text with bytes that a terminal or JSON could not take made visible.
std::string printable(const std::string& text);

}  // namespace cuheap
