// Stream capture: which streams are recording into which graph, which thread began it in which mode, and which calls are
// forbidden meanwhile. Follows the text of cuThreadExchangeStreamCaptureMode and of the capture calls.
#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "simgpu/event.h"
#include "simgpu/graph.h"
#include "simgpu/stream.h"

namespace cuheap::sim {

/// Values of CUstreamCaptureMode.
enum class CaptureMode { Global = 0, ThreadLocal = 1, Relaxed = 2 };

/// Values of the CUresult that says so.
enum class CaptureResult { Ok = 0, IllegalState = 401, Unsupported = 900, Invalidated = 901, Merge = 902, Unmatched = 903,
                           Unjoined = 904, Isolation = 905, Implicit = 906, CapturedEvent = 907, WrongThread = 908 };

struct Capture {
  uint64_t id = 0;
  std::shared_ptr<Graph> graph;
  CaptureMode mode = CaptureMode::Global;
  std::thread::id thread;
  std::shared_ptr<Stream> origin;
  std::vector<std::shared_ptr<Stream>> members;   // with the origin
  bool invalidated = false;
  bool ended = false;
};

std::mutex& capture_lock();
CaptureMode exchange_thread_mode(CaptureMode mode);

CaptureResult begin_capture(const std::shared_ptr<Stream>& stream, CaptureMode mode, std::shared_ptr<Graph> graph,
                            std::vector<GraphNode*> dependencies);
/// The graph, or null with an error; the capture is over in either case (but for a wrong stream or thread).
CaptureResult end_capture(const std::shared_ptr<Stream>& stream, std::shared_ptr<Graph>& graph);

/// A potentially unsafe call (an allocation, a wait): is it allowed on this thread now? If not, captures it endangers end.
CaptureResult check_unsafe_call();
/// A call that looks at or waits for this stream: never while it is captured.
CaptureResult check_stream_wait(const Stream& stream);
/// A call that implies the legacy stream, or waits for the whole context.
CaptureResult check_context_wait(uint64_t context_id);
CaptureResult check_legacy_use(uint64_t context_id);
/// True while any stream of the process is being captured.
bool any_capture();

/// Adds a node after the stream's last ones; null if the capture has been invalidated.
GraphNode* capture_node(const std::shared_ptr<Stream>& stream, NodeType type);
CaptureResult capture_record(const std::shared_ptr<Stream>& stream, Event& event);
/// `handled`: the wait was part of a capture and is done.
CaptureResult capture_wait(const std::shared_ptr<Stream>& stream, Event& event, bool& handled);
void invalidate(const std::shared_ptr<Stream>& stream);
/// A captured stream is destroyed.
void forget_stream(const std::shared_ptr<Stream>& stream);

}  // namespace cuheap::sim
