// A context: its streams with the ordering rules of the legacy default stream, its limits, its sticky error.
// Memory belongs to a context by its id (allocations.h), so that a reset context never finds old blocks again.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "simgpu/memory.h"
#include "simgpu/stream.h"

namespace cuheap::sim {

class Context {
 public:
  /// The caller has checked that the device has room for `overhead`.
  Context(int device, bool primary, unsigned flags, PhysicalRef overhead);

  /// The order of the default streams: work of the legacy stream comes after all earlier work of blocking streams and before
  /// all later work of theirs.
  Mark submit(const std::shared_ptr<Stream>& stream, Work work);
  std::shared_ptr<Stream> new_stream(unsigned flags, bool non_blocking, int priority);
  void remove_stream(const std::shared_ptr<Stream>& stream);
  std::shared_ptr<Stream> per_thread_stream();
  /// Waits for all work submitted so far, on all streams.
  void synchronize();
  /// The end of the order on every stream right now.
  [[nodiscard]] std::vector<Mark> marks();
  [[nodiscard]] std::vector<std::shared_ptr<Stream>> streams();
  void close();

  const int device;
  const bool primary;
  const uint64_t id;
  std::atomic<unsigned> flags;
  std::atomic<int> usage{1};       // cuCtxAttach and cuCtxDetach
  std::shared_ptr<ErrorState> errors = std::make_shared<ErrorState>();
  std::shared_ptr<Stream> legacy;
  std::map<int, size_t> limits;
  int cache_config = 0;
  int shared_config = 0;
  std::set<uint64_t> peers;        // ids of contexts whose memory this one may use
  PhysicalRef overhead;            // what the driver itself takes on the device
  bool destroyed = false;

 private:
  void forget_closed();

  std::mutex lock_;                // order of submission to blocking streams; the list of streams
  std::vector<std::shared_ptr<Stream>> streams_;
};
using ContextRef = std::shared_ptr<Context>;

}  // namespace cuheap::sim
