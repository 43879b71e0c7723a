// TraceFileWriter: an ordinary trace file written offline: importers put foreign recordings into it, tests build their
// inputs with it. The same records and chunks as the recorder's, without its care for a host process.
#pragma once
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tracer/format/codec.h"
#include "tracer/format/event.h"
#include "tracer/format/trace_format.h"

namespace cuheap {

class TraceFileWriter {
 public:
  struct Options {
    std::uint32_t pid = 0;
    std::uint32_t parent_pid = 0;
    std::int32_t rank = -1;
    std::uint64_t start_ns = 0;
    std::uint64_t start_wall_ns = 0;
    std::uint32_t chunk_bytes = kChunkBytes;
  };

  /// Creates the file. Throws Error if it cannot be written, here or later.
  TraceFileWriter(const std::string& path, const Options& options);
  ~TraceFileWriter();
  TraceFileWriter(const TraceFileWriter&) = delete;
  TraceFileWriter& operator=(const TraceFileWriter&) = delete;

  /// Definitions. `define_*` without an id number what they define, equal ones under one number.
  NameId define_name(std::string_view text);
  std::uint32_t define_code(Language language, std::string_view function, std::string_view file);
  SiteId define_source_site(SiteId parent, std::uint32_t code, std::uint32_t line);
  void define(const SiteNode& node);
  void define(const ModuleRecord& module);
  void define_meta(std::string_view key, std::string_view value);
  void define_device(std::uint32_t ordinal, std::string_view name, std::uint64_t total_bytes = 0,
                     std::string_view uuid = {});

  /// Events of one thread in the order of their times; threads may be mixed.
  void write(const Event& event);
  void count_loss(LossReason reason, std::uint64_t events);

  /// Writes what is left and the header's last word. `end_ns` 0: as if the process had been killed.
  void finish(std::uint64_t end_ns);

 private:
  struct OpenChunk;
  template <typename Definition>
  void put_definition(const Definition& definition);
  OpenChunk& chunk_with_room(std::unique_ptr<OpenChunk>& slot, std::uint32_t thread, std::uint64_t time_ns,
                             std::size_t room);
  void store(OpenChunk& chunk);
  void put(std::uint64_t offset, const void* bytes, std::size_t size);

  std::string path_;
  std::FILE* file_ = nullptr;
  FileHeader header_{};
  std::unique_ptr<OpenChunk> definitions_;
  std::map<std::uint32_t, std::unique_ptr<OpenChunk>> threads_;
  std::map<std::uint32_t, std::uint32_t> sequences_;
  std::map<std::string, NameId, std::less<>> names_;
  std::map<std::string, std::uint32_t> codes_;
  std::map<std::tuple<SiteId, std::uint32_t, std::uint32_t>, SiteId> sites_;
  SiteId last_site_ = 0;
};

}  // namespace cuheap
