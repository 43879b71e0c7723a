// An event: the last point it was recorded at, and the virtual time at which the stream passed it. One made for other processes
// also keeps its two counters in a page that travels as a descriptor.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "simgpu/stream.h"

namespace cuheap::sim {

struct Stamp {
  Mark mark;
  std::atomic<uint64_t> time_ns{0};
};

/// In the shared page: how often recorded, how often passed.
struct SharedEvent {
  std::atomic<uint64_t> recorded;
  std::atomic<uint64_t> passed;
};

class Event {
 public:
  Event(int of_device, uint64_t of_context, unsigned event_flags) : device(of_device), context_id(of_context), flags(event_flags) {}
  ~Event();
  bool make_shared_page();
  bool open_shared_page(int fd);

  const int device;
  const uint64_t context_id;
  const unsigned flags;

  std::mutex lock;
  std::shared_ptr<Stamp> last;          // null: never recorded, which counts as passed
  std::shared_ptr<Capture> capture;     // last recorded in this capture, at `nodes`
  std::vector<GraphNode*> nodes;
  SharedEvent* shared = nullptr;
  int shared_fd = -1;
};

}  // namespace cuheap::sim
