// DeviceAllocator: where device memory comes from, as the hooks see it. `direct` forwards, `pool` pools; one of them is
// chosen at arming, so a hook has no branch. Requests come down from shim/hooks, driver calls go out through
// shim/driver; an allocator records only what it does itself (granules, pool activity) in the EventSink it was given.
//
// Contract of every function:
//  - called outside any HookScope and with no lock of ours held; the caller's errno may be changed (the hook keeps it);
//  - the result and the out-parameters are what the host gets, so a failure leaves out-parameters untouched;
//  - addresses that are not the allocator's own are forwarded to the driver unchanged, answer and all;
//  - a reentered call (a signal handler inside our own work: HookScope is false) must not wait for a lock of ours.
// The hooks record Allocate, Free, FreeFailed and OutOfMemory of the allocation floor.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shim/driver/cuda_api.h"
#include "tracer/format/event.h"

namespace cuheap {

/// What stream capture means for the calling thread at this moment (rules of cuThreadExchangeStreamCaptureMode).
struct CaptureView {
  bool open = false;        // some capture is open in this process: addresses handed out may end up in a graph
  bool prohibited = false;  // the driver would refuse a potentially unsafe call of this thread, and break the capture
};

/// One life of a CUcontext value. A context that another thread destroys or resets stays current where it is, so whoever was
/// asked while it lived looks again before it hands something out.
struct ContextLife {
  const std::atomic<std::uint64_t>* word = nullptr;  // null: nobody follows this context
  std::uint64_t at_work = 0;                         // what the word says while this life goes on
  /// Ended, or about to be.
  bool is_over() const { return word != nullptr && word->load(std::memory_order_acquire) != at_work; }
};

/// The calling thread's situation.
struct Caller {
  int device = -1;              // ordinal of the current context's device; -1: no current context
  std::uint64_t context = 0;    // the current CUcontext as a number; 0: none
  std::uint32_t generation = 0; // counts resets and destructions seen of that CUcontext value
  CaptureView capture;
  ContextLife life;
};

struct AllocationRequest {
  std::size_t bytes = 0;
  SiteId site = 0;               // 0: no stack
  std::uint32_t site_bits = 0;   // CapturedSite::bits: which module patterns are on the stack (stepping aside)
  Caller caller;
};

class DeviceAllocator {
 public:
  /// cuMemAlloc_v2. On success `*event_flags` gets kEventPooled if the pool served it.
  virtual CUresult allocate(const AllocationRequest& request, CUdeviceptr* out, std::uint8_t* event_flags) = 0;
  /// cuMemFree_v2, for any address that this call may end (null, managed, stream-ordered, foreign ones too).
  virtual CUresult release(const Caller& caller, CUdeviceptr address) = 0;
  /// cuMemFreeAsync and its _ptsz twin; there `stream` 0 has been replaced by CU_STREAM_PER_THREAD already.
  virtual CUresult release_async(const Caller& caller, CUdeviceptr address, CUstream stream) = 0;

  // Questions about memory.
  virtual CUresult memory_info(const Caller& caller, std::size_t* free, std::size_t* total) = 0;
  virtual CUresult address_range(CUdeviceptr* base, std::size_t* size, CUdeviceptr address) = 0;
  virtual CUresult pointer_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) = 0;
  virtual CUresult pointer_attributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr address) = 0;
  virtual CUresult set_pointer_attribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address) = 0;
  virtual CUresult ipc_handle(CUipcMemHandle* handle, CUdeviceptr address) = 0;
  virtual CUresult range_handle(void* handle, CUdeviceptr address, std::size_t size, CUmemRangeHandleType type,
                                unsigned long long flags) = 0;
  /// What is to be asked of the driver in place of this address by a call that is meant for mapped memory (cuMemUnmap,
  /// cuMemSetAccess, ...): memory of cuMemAlloc is none, so for it an address that means nothing to the driver.
  virtual CUdeviceptr unmapped(CUdeviceptr address) { return address; }

  /// Another call of the host (cuMemCreate, cuMemAllocAsync, ...) met OUT_OF_MEMORY: gives back to the driver what can be
  /// spared. Device -1: nobody knows which. True: something was given back, ask the driver once more.
  virtual bool relieve(int /*device*/, std::size_t /*bytes*/) { return false; }
  /// Bytes that the allocator holds of the device and that no block uses.
  virtual std::uint64_t idle_bytes(int /*device*/) { return 0; }

  // What happened around it; called after the driver's success unless said otherwise.
  /// There is such a context: made, retained, or seen at work. May be told often.
  virtual void context_met(std::uint64_t /*context*/, std::uint32_t /*generation*/, int /*device*/, ContextLife = {}) {}
  /// After a call that may end it (destroy, reset, last release): `ended` says whether the driver did it; if not, everything
  /// stays as it was. Its life was over already when that call began (ContextLife).
  virtual void context_ended(std::uint64_t /*context*/, std::uint32_t /*generation*/, bool /*ended*/) {}
  virtual void peer_enabled(std::uint64_t /*context*/, std::uint64_t /*peer_context*/) {}
  virtual void peer_disabled(std::uint64_t /*context*/, std::uint64_t /*peer_context*/) {}
  /// Before the driver begins it (a refusal is then capture_ended with null): after the return no fence is being recorded,
  /// so none can break the capture. Every beginning has one end: by name, with its stream, or with its context.
  virtual void capture_begun(std::uint64_t /*context*/, CUstream) {}
  virtual void capture_ended(CUstream, CUgraph /*null: the capture failed*/) {}
  /// Before the driver destroys a graph or an executable: afterwards the handle may be another's. The answer is for graph_ended.
  virtual std::uint64_t graph_ending(std::uint64_t /*graph or exec*/) { return 0; }
  /// After it: `ended` says whether the driver did it; if not, the handle means what it meant.
  virtual void graph_ended(std::uint64_t /*ending*/, std::uint64_t /*graph or exec*/, bool /*ended*/) {}
  virtual void graph_cloned(CUgraph /*clone*/, CUgraph /*original*/) {}
  virtual void graph_child_added(CUgraph /*parent*/, CUgraph /*child*/) {}
  virtual void graph_instantiated(CUgraphExec, CUgraph) {}
  /// A child node of some graph has got another child; the driver does not tell whose node it is.
  virtual void graph_child_set(CUgraph /*child*/) {}
  /// All of the executable comes from that graph now.
  virtual void graph_exec_updated(CUgraphExec, CUgraph) {}
  virtual void graph_exec_child_set(CUgraphExec, CUgraph /*child*/) {}
  /// The process is about to be checkpointed (true), or runs again (false).
  virtual void frozen(bool) {}
  /// In a fork child: CUDA is dead here. No system call, no driver call; forward everything from now on.
  virtual void after_fork_in_child() {}

 protected:
  ~DeviceAllocator() = default;  // never deleted through this type
};

}  // namespace cuheap
