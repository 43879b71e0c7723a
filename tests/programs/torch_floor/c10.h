// The two reporting functions of libc10 as PyTorch declares them, with totals of both types: 2.x (size_t), 1.x (int64_t).
#pragma once
#include <cstddef>
#include <cstdint>

namespace c10 {

struct Device {
  signed char type;
  signed char index;
};

void reportMemoryUsageToProfiler(void* address, std::int64_t size, std::size_t allocated, std::size_t reserved, Device device);
void reportOutOfMemoryToProfiler(std::int64_t size, std::size_t allocated, std::size_t reserved, Device device);
void reportMemoryUsageToProfiler(void* address, std::int64_t size, std::int64_t allocated, std::int64_t reserved, Device device);
void reportOutOfMemoryToProfiler(std::int64_t size, std::int64_t allocated, std::int64_t reserved, Device device);

}  // namespace c10

/// Calls that arrived in libc10 so far.
extern "C" int c10_reports();
