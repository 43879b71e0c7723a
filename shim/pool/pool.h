// Pool: the DeviceAllocator that pools. It decides for each request whether the pool may serve it, tells the truth about
// pooled memory when it is asked, and hands everything else to the driver. The memory itself is DevicePool's work.
//
// Rules, each with a test in tests/unit/pool: what cannot be served is forwarded, never refused; no lock is held across a
// driver call; nothing is fenced, queried or unmapped while a capture is open; a sticky error ends pooling, not the process.
#pragma once
#include <atomic>
#include <cstdint>

#include "shim/pool/allocator.h"
#include "shim/pool/device_pool.h"
#include "shim/pool/policy.h"

namespace cuheap {

struct PoolConfig {
  const DriverTable* driver = nullptr;
  EventSink* sink = nullptr;
  bool is_forced = false;           // CUHEAP_POOL=on: the table of passed pairs is not asked
  bool is_simulated = false;        // is_driver_simulated()
  bool ordered_free = false;        // CUHEAP_POOL_FREE=ordered
  bool has_context_events = false;  // has(driver().cuCtxRecordEvent): since 12.5
  /// Site bits whose allocations are never pooled: those of kStepAsideModules in the recorder's module patterns.
  std::uint32_t step_aside_bits = kStepAsideBits;
  int fill = -1;                    // 0..255: every pooled block is filled with it (CUHEAP_ZERO, CUHEAP_POISON)
  bool checks = false;              // CUHEAP_CHECK: the books are checked after every step, and pooling ends if they are wrong
};

class Pool final : public DeviceAllocator {
 public:
  static constexpr int kMaxDevices = 64;

  void start(const PoolConfig& config);

  CUresult allocate(const AllocationRequest& request, CUdeviceptr* out, std::uint8_t* event_flags) override;
  CUresult release(const Caller& caller, CUdeviceptr address) override;
  CUresult release_async(const Caller& caller, CUdeviceptr address, CUstream stream) override;

  CUresult memory_info(const Caller& caller, std::size_t* free, std::size_t* total) override;
  CUresult address_range(CUdeviceptr* base, std::size_t* size, CUdeviceptr address) override;
  CUresult pointer_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) override;
  CUresult pointer_attributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr address) override;
  CUresult set_pointer_attribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address) override;
  CUresult ipc_handle(CUipcMemHandle* handle, CUdeviceptr address) override;
  CUresult range_handle(void* handle, CUdeviceptr address, std::size_t size, CUmemRangeHandleType type,
                        unsigned long long flags) override;
  CUdeviceptr unmapped(CUdeviceptr address) override;

  bool relieve(int device, std::size_t bytes) override;
  std::uint64_t idle_bytes(int device) override;

  void context_met(std::uint64_t context, std::uint32_t generation, int device, ContextLife life = {}) override;
  void context_ended(std::uint64_t context, std::uint32_t generation, bool ended) override;
  void peer_enabled(std::uint64_t context, std::uint64_t peer_context) override;
  void peer_disabled(std::uint64_t context, std::uint64_t peer_context) override;
  void capture_begun(std::uint64_t context, CUstream stream) override;
  void capture_ended(CUstream stream, CUgraph graph) override;
  std::uint64_t graph_ending(std::uint64_t graph) override;
  void graph_ended(std::uint64_t ending, std::uint64_t graph, bool ended) override;
  void graph_cloned(CUgraph clone, CUgraph original) override;
  void graph_child_added(CUgraph parent, CUgraph child) override;
  void graph_instantiated(CUgraphExec exec, CUgraph graph) override;
  void graph_child_set(CUgraph child) override;
  void graph_exec_updated(CUgraphExec exec, CUgraph graph) override;
  void graph_exec_child_set(CUgraphExec exec, CUgraph child) override;
  void frozen(bool is_frozen) override;
  void after_fork_in_child() override;

  bool is_pooling(int device) const;
  PoolFigures figures(int device) { return is_armed(device) ? devices_[device].pool->figures() : PoolFigures{}; }
  bool is_valid();

 private:
  static std::uint64_t number_of(const void* handle) { return reinterpret_cast<std::uint64_t>(handle); }
  enum class Arming : std::uint8_t { Unknown, UnderWay, Armed, Direct };
  struct Device {
    std::atomic<Arming> arming{Arming::Unknown};
    std::atomic<bool> is_closed{false};  // no new blocks; what is there is served on
    DevicePool* pool = nullptr;  // on pages of its own, made before the device is armed
  };

  Device* device_for(const AllocationRequest& request);
  Arming arm(int device);
  bool may_pool_on(int device);
  void meet_device(int device);
  void open_to(int device, int from);
  bool can_reach(int from, int device) const;
  std::uint64_t accessors_of(int device) const;
  CUresult serve(Device& device, const AllocationRequest& request, CUdeviceptr* out);
  CUresult fill(CUdeviceptr address, std::size_t bytes);
  CUresult end_block(const Caller& caller, CUdeviceptr address, bool ordered, bool* handled);
  void disarm(CUresult why, int device);
  void check(int device);
  bool find_block(CUdeviceptr address, PoolBlock* out, bool* is_ours);
  template <class Change>
  bool change_block(CUdeviceptr address, Change change);
  bool expose_block(CUdeviceptr address);
  CUresult ask_stream(const PoolBlock& block, CUstream stream);
  CUdeviceptr stand_in_for(const PoolBlock& block);
  CUdeviceptr make_stand_in(std::uint64_t context);
  Device* armed(int device);
  bool is_armed(int device) const;
  void release_kept();
  template <class Visit>
  void each_armed(Visit visit);

  PoolConfig config_;
  PoolShared shared_;
  std::atomic<bool> is_off_{true};  // not started, disarmed, or in a fork child: new requests go to the driver
  std::atomic<bool> is_dead_{false};
  std::atomic<std::uint64_t> met_devices_{0};     // a bit each: some context of the process was there
  std::atomic<std::uint64_t> opened_devices_{0};  // and what was armed then is open to it
  Device devices_[kMaxDevices];
};

/// The process's pool, started. Called once, at arming.
DeviceAllocator& start_pool(const PoolConfig& config);

}  // namespace cuheap
