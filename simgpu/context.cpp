#include "simgpu/context.h"

#include <algorithm>
#include <unordered_map>

namespace cuheap::sim {
namespace {
std::atomic<uint64_t> next_context_id{1};
}  // namespace

Context::Context(int device_index, bool is_primary, unsigned context_flags, PhysicalRef driver_bytes)
    : device(device_index), primary(is_primary), id(next_context_id++), flags(context_flags), overhead(std::move(driver_bytes)) {
  legacy = new_stream(0, false, 0);
}

std::shared_ptr<Stream> Context::new_stream(unsigned stream_flags, bool non_blocking, int priority) {
  auto stream = std::make_shared<Stream>(device, non_blocking, priority, errors);
  stream->flags = stream_flags;
  stream->context_id = id;
  std::lock_guard guard(lock_);
  forget_closed();
  streams_.push_back(stream);
  return stream;
}

// A destroyed stream with pending work stays in the order: later legacy work must still come after it.
void Context::forget_closed() {
  std::erase_if(streams_, [](const auto& stream) { return stream->is_closed() && stream->is_idle(); });
}

void Context::remove_stream(const std::shared_ptr<Stream>& stream) {
  stream->close();
  std::lock_guard guard(lock_);
  forget_closed();
}

std::shared_ptr<Stream> Context::per_thread_stream() {
  thread_local std::unordered_map<uint64_t, std::shared_ptr<Stream>> of_context;
  auto& stream = of_context[id];
  if (stream == nullptr) stream = new_stream(0, false, 0);
  return stream;
}

Mark Context::submit(const std::shared_ptr<Stream>& stream, Work work) {
  Mark mark{stream, 0};
  bool run_here = false;
  if (stream->non_blocking) {
    run_here = stream->prepare(work, mark.sequence);
  } else {
    std::lock_guard guard(lock_);
    if (stream == legacy) {
      for (const auto& other : streams_)
        if (other != legacy && !other->non_blocking && !other->is_idle()) work.after.push_back({other, other->submitted()});
    } else if (!legacy->is_idle()) {
      work.after.push_back({legacy, legacy->submitted()});
    }
    run_here = stream->prepare(work, mark.sequence);
  }
  if (run_here) stream->run_inline(work, mark.sequence);
  return mark;
}

std::vector<Mark> Context::marks() {
  std::lock_guard guard(lock_);
  std::vector<Mark> result;
  for (const auto& stream : streams_)
    if (!stream->is_idle()) result.push_back({stream, stream->submitted()});
  return result;
}

std::vector<std::shared_ptr<Stream>> Context::streams() {
  std::lock_guard guard(lock_);
  return streams_;
}

void Context::synchronize() {
  for (const Mark& mark : marks()) mark.stream->wait(mark.sequence);
}

void Context::close() {
  synchronize();
  for (const auto& stream : streams()) stream->close();
  overhead.reset();
  destroyed = true;
}

}  // namespace cuheap::sim
