// EventMerge: the events of all chunks of all files, in time order. Memory: one decoder a chunk that is open at the
// same moment, and one batch. The EventSource behind every Trace that comes from files.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tools/model/trace.h"
#include "tools/reader/definitions.h"
#include "tools/reader/trace_file.h"

namespace cuheap {

struct MergeInput {
  std::shared_ptr<const TraceFile> file;
  FileNumbering numbering;
  std::int64_t shift_ns = 0;  // added to the file's times: files of another machine have another clock
};

class EventMerge final : public EventSource {
 public:
  explicit EventMerge(std::vector<MergeInput> inputs);
  void for_each(const Sink& sink) const override;

 private:
  /// Chunks that follow each other in time: those of a thread, as a rule.
  struct Lane {
    std::uint16_t process = 0;
    std::vector<const Chunk*> chunks;
  };
  class Cursor;
  void add_lanes(std::uint16_t process, const TraceFile& file);

  std::vector<MergeInput> inputs_;
  std::vector<Lane> lanes_;
};

}  // namespace cuheap
