// What every entry point of libcuda.so.1 shares: the gate (initialised? forked? exiting? a fault on demand? which context?),
// the current context of the thread, stream handles, and the way work gets onto a stream or into a capture.
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>

#include <any>
#include <atomic>

#include "simgpu/capture.h"
#include "simgpu/machine.h"
#include "simgpu/module.h"

#define SIMGPU_API extern "C" __attribute__((visibility("default")))

namespace cuheap::sim {

enum class Needs { Nothing, Init, Context };

/// One per entry point: counts its calls and knows its faults.
struct CallSite {
  const char* name;
  std::atomic<uint64_t> calls{0};
  std::atomic<uint32_t> fault_epoch{0};
  std::atomic<bool> may_fault{false};
  std::atomic<bool> known{false};
  CallSite* next = nullptr;
};

/// The first lines of every entry point: an error to return at once, or CUDA_SUCCESS.
CUresult enter(CallSite& site, Needs needs);

#define SIMGPU_ENTER(needs)                                                                   \
  static constinit cuheap::sim::CallSite call_site{__func__};                                 \
  if (const CUresult refused = cuheap::sim::enter(call_site, needs); refused != CUDA_SUCCESS) \
    return refused

/// The whole of an entry point that is not implemented: counted, logged and failed on demand like any other.
CUresult not_supported(CallSite& site);

#define SIMGPU_NOT_SUPPORTED(name)                      \
  static constinit cuheap::sim::CallSite call_site{name}; \
  return cuheap::sim::not_supported(call_site)

/// The `_ptsz` and `_ptds` twins: the null stream of the call inside is the per-thread default stream.
class PerThreadDefaultStream {
 public:
  PerThreadDefaultStream();
  ~PerThreadDefaultStream();
  PerThreadDefaultStream(const PerThreadDefaultStream&) = delete;
  PerThreadDefaultStream& operator=(const PerThreadDefaultStream&) = delete;

 private:
  bool before_;
};

// Contexts of the calling thread.
std::vector<ContextRef>& context_stack();
/// Only after SIMGPU_ENTER(Needs::Context).
Context& current_context();
ContextRef current_context_or_null();
ContextRef find_context(CUcontext handle);
bool valid_device(CUdevice device);

/// The stream behind a handle, with the special handles of the context; null: invalid.
std::shared_ptr<Stream> find_stream(CUstream handle, Context& context);
/// A stream with its context, for the calls that need a current context only for a default stream.
struct Ordering {
  ContextRef context;
  std::shared_ptr<Stream> stream;
  CUresult result = CUDA_SUCCESS;
};
Ordering ordering_of(CUstream handle);
/// The context a stream was made in.
ContextRef context_of(const Stream& stream, Context& fallback);

inline CUresult result_of(CaptureResult result) { return static_cast<CUresult>(result); }
/// A call that capture may forbid (cuThreadExchangeStreamCaptureMode).
CUresult unsafe_call();

/// Puts work on a stream, or into the graph the stream records. `mark`: where it went; `node`: the node it became.
CUresult submit(Context& context, CUstream handle, NodeType type, Work work, std::any parameters = {}, Mark* mark = nullptr);
CUresult submit(Context& context, const std::shared_ptr<Stream>& stream, NodeType type, Work work, std::any parameters = {},
                Mark* mark = nullptr, GraphNode** node = nullptr);
/// The error a fault has left in the context, or success.
CUresult sticky(const Context& context);

ContextRef retain_primary(int device, CUresult& result);
CUresult new_context(int device, bool primary, unsigned flags, ContextRef& out);
/// Frees everything that belongs to it.
void destroy_context(const ContextRef& context);
CUresult free_allocation(uint64_t base, bool wait);
/// Ends the life of memory that an allocation node made.
CUresult free_graph_memory(uint64_t address);

inline CUcontext handle_of(const ContextRef& context) { return reinterpret_cast<CUcontext>(context.get()); }

/// Bytes of a module variable that the control API declared; 0: no such name.
size_t declared_global(const char* name);

// Faults and counters, for the control API.
uint64_t call_count(const char* name);
/// False with a reason: not the language of faults.h.
bool add_faults(const std::string& text, std::string& error);
void clear_faults();
void reset_counts();
int driver_version();
/// Gives idle memory of the pools of a device back, down to their thresholds: what synchronising does.
void trim_pools(int device);
/// The lowest number is the highest priority; as a device of capability 7 or later answers.
inline constexpr int kGreatestPriority = -5;

}  // namespace cuheap::sim
