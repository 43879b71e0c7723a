#include "simgpu/capture.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace cuheap::sim {
namespace {

std::atomic<int> active_count{0};
uint64_t next_capture_id = 1;
thread_local CaptureMode thread_mode = CaptureMode::Global;

std::vector<std::shared_ptr<Capture>>& active() {
  static auto& only = *new std::vector<std::shared_ptr<Capture>>;
  return only;
}

void join(const std::shared_ptr<Capture>& capture, const std::shared_ptr<Stream>& stream) {
  stream->capture = capture;
  stream->capturing.store(true);
  capture->members.push_back(stream);
}

void leave(const std::shared_ptr<Stream>& stream) {
  stream->capture = nullptr;
  stream->tail.clear();
  stream->capturing.store(false);
}

void add_unique(std::vector<GraphNode*>& to, const std::vector<GraphNode*>& from) {
  for (GraphNode* node : from)
    if (std::find(to.begin(), to.end(), node) == to.end()) to.push_back(node);
}

/// Every node that must have run before the last ones of the origin.
std::unordered_set<GraphNode*> ancestors(const std::vector<GraphNode*>& tail) {
  std::unordered_set<GraphNode*> seen;
  std::vector<GraphNode*> open = tail;
  while (!open.empty()) {
    GraphNode* node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    open.insert(open.end(), node->dependencies.begin(), node->dependencies.end());
  }
  return seen;
}

bool is_joined(const Capture& capture) {
  const auto reached = ancestors(capture.origin->tail);
  for (const auto& stream : capture.members)
    for (GraphNode* node : stream->tail)
      if (!reached.contains(node)) return false;
  return true;
}

}  // namespace

std::mutex& capture_lock() {
  static auto& only = *new std::mutex;
  return only;
}

bool any_capture() { return active_count.load() > 0; }

CaptureMode exchange_thread_mode(CaptureMode mode) { return std::exchange(thread_mode, mode); }

CaptureResult begin_capture(const std::shared_ptr<Stream>& stream, CaptureMode mode, std::shared_ptr<Graph> graph,
                            std::vector<GraphNode*> dependencies) {
  std::lock_guard guard(capture_lock());
  if (stream->capture != nullptr) return CaptureResult::IllegalState;
  auto capture = std::make_shared<Capture>();
  capture->id = next_capture_id++;
  capture->graph = graph != nullptr ? std::move(graph) : std::make_shared<Graph>();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream;
  stream->tail = std::move(dependencies);
  join(capture, stream);
  active().push_back(capture);
  ++active_count;
  return CaptureResult::Ok;
}

CaptureResult end_capture(const std::shared_ptr<Stream>& stream, std::shared_ptr<Graph>& graph) {
  std::lock_guard guard(capture_lock());
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return CaptureResult::IllegalState;
  if (capture->origin != stream) return CaptureResult::Unmatched;
  if (capture->mode != CaptureMode::Relaxed && capture->thread != std::this_thread::get_id()) return CaptureResult::WrongThread;
  CaptureResult result = CaptureResult::Ok;
  if (capture->invalidated) result = CaptureResult::Invalidated;
  else if (!is_joined(*capture)) result = CaptureResult::Unjoined;
  for (const auto& member : capture->members) leave(member);
  capture->members.clear();
  capture->ended = true;
  std::erase(active(), capture);
  --active_count;
  if (result == CaptureResult::Ok) graph = capture->graph;
  return result;
}

CaptureResult check_unsafe_call() {
  if (active_count.load() == 0 || thread_mode == CaptureMode::Relaxed) return CaptureResult::Ok;
  std::lock_guard guard(capture_lock());
  CaptureResult result = CaptureResult::Ok;
  for (const auto& capture : active()) {
    const bool own = capture->thread == std::this_thread::get_id();
    const bool forbidden = own ? capture->mode != CaptureMode::Relaxed
                               : thread_mode == CaptureMode::Global && capture->mode == CaptureMode::Global;
    if (!forbidden) continue;
    capture->invalidated = true;
    result = CaptureResult::Unsupported;
  }
  return result;
}

CaptureResult check_stream_wait(const Stream& stream) {
  if (!stream.capturing.load()) return CaptureResult::Ok;
  std::lock_guard guard(capture_lock());
  if (stream.capture == nullptr) return CaptureResult::Ok;
  stream.capture->invalidated = true;
  return CaptureResult::Unsupported;
}

CaptureResult check_context_wait(uint64_t context_id) {
  if (active_count.load() == 0) return CaptureResult::Ok;
  std::lock_guard guard(capture_lock());
  CaptureResult result = CaptureResult::Ok;
  for (const auto& capture : active()) {
    if (capture->origin->context_id != context_id) continue;
    capture->invalidated = true;
    result = CaptureResult::Unsupported;
  }
  return result;
}

CaptureResult check_legacy_use(uint64_t context_id) {
  if (active_count.load() == 0) return CaptureResult::Ok;
  std::lock_guard guard(capture_lock());
  CaptureResult result = CaptureResult::Ok;
  for (const auto& capture : active())
    for (const auto& member : capture->members)
      if (member->context_id == context_id && !member->non_blocking) {
        capture->invalidated = true;
        result = CaptureResult::Implicit;
      }
  return result;
}

GraphNode* capture_node(const std::shared_ptr<Stream>& stream, NodeType type) {
  std::lock_guard guard(capture_lock());
  if (stream->capture == nullptr || stream->capture->invalidated) return nullptr;
  GraphNode* node = stream->capture->graph->add(type, stream->tail);
  stream->tail = {node};
  return node;
}

CaptureResult capture_record(const std::shared_ptr<Stream>& stream, Event& event) {
  std::lock_guard guard(capture_lock());
  if (stream->capture == nullptr || stream->capture->invalidated) return CaptureResult::Invalidated;
  std::lock_guard event_guard(event.lock);
  event.capture = stream->capture;
  event.nodes = stream->tail;
  return CaptureResult::Ok;
}

CaptureResult capture_wait(const std::shared_ptr<Stream>& stream, Event& event, bool& handled) {
  handled = false;
  std::lock_guard guard(capture_lock());
  std::lock_guard event_guard(event.lock);
  if (stream->capture == nullptr && event.capture == nullptr) return CaptureResult::Ok;
  handled = true;
  if (event.capture == nullptr) {
    if (event.last == nullptr) return CaptureResult::Ok;
    // The graph would depend on work outside of it.
    stream->capture->invalidated = true;
    return CaptureResult::Isolation;
  }
  if (event.capture->ended) return CaptureResult::CapturedEvent;
  if (event.capture->invalidated) return CaptureResult::Invalidated;
  if (stream->capture != nullptr && stream->capture != event.capture) {
    stream->capture->invalidated = event.capture->invalidated = true;
    return CaptureResult::Merge;
  }
  if (stream->capture == nullptr) join(event.capture, stream);
  add_unique(stream->tail, event.nodes);
  return CaptureResult::Ok;
}

void invalidate(const std::shared_ptr<Stream>& stream) {
  std::lock_guard guard(capture_lock());
  if (stream->capture != nullptr) stream->capture->invalidated = true;
}

void forget_stream(const std::shared_ptr<Stream>& stream) {
  if (!stream->capturing.load()) return;
  std::lock_guard guard(capture_lock());
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return;
  capture->invalidated = true;
  if (capture->origin != stream) return std::erase(capture->members, stream), leave(stream);
  for (const auto& member : capture->members) leave(member);
  capture->members.clear();
  capture->ended = true;
  std::erase(active(), capture);
  --active_count;
}

}  // namespace cuheap::sim
