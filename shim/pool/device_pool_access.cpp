// DevicePool: what the device can do, tried before it is used, and which other devices reach its memory.
#include "shim/pool/device_pool.h"

namespace cuheap {

// ---- arming

bool DevicePool::arm(PoolShared* shared, int device, std::uint64_t accessors) {
  shared_ = shared;
  device_ = device;
  const DriverTable& driver = *shared->driver;
  CUdevice handle = 0;
  if (driver.cuDeviceGet(&handle, device) != CUDA_SUCCESS) return false;
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    return driver.cuDeviceGetAttribute(&value, which, handle) == CUDA_SUCCESS ? value : 0;
  };
  if (attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) == 0) return false;
  std::size_t total = 0;
  if (driver.cuDeviceTotalMem_v2(&total, handle) != CUDA_SUCCESS) return false;
  total_ = total;
  access_[access_count_++] = device;
  for (int i = 0; i < static_cast<int>(kMaxAccess); ++i) {
    if (i != device && (accessors >> i & 1) != 0) access_[access_count_++] = i;
  }

  const bool rdma = attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) != 0;
  const bool fd = attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) != 0;
  const CUmemAllocationHandleType types = fd ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
  const RelaxedCapture relaxed(driver);
  // WSL2 says that RDMA is supported and then fails on it (pytorch #192330): what a flag costs is found by trying.
  return try_form({types, rdma}) || (rdma && try_form({types, false})) || (fd && try_form({CU_MEM_HANDLE_TYPE_NONE, false}));
}

bool DevicePool::try_form(HandleForm form) {
  const DriverTable& driver = *shared_->driver;
  form_ = form;
  CUmemAllocationProp prop;
  __builtin_memset(&prop, 0, sizeof prop);
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device_};
  prop.requestedHandleTypes = form.types;
  prop.allocFlags.gpuDirectRDMACapable = form.rdma_capable;
  std::size_t granularity = 0;
  if (driver.cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS) return false;
  if (granularity == 0 || (granularity & (granularity - 1)) != 0 || granularity > kHugeLimit / 2) return false;
  granule_ = granularity > kGranuleBytes ? granularity : kGranuleBytes;

  // Two handles into one range, moved once, opened in one call: everything the pool will ask of the driver.
  CUdeviceptr base = 0;
  if (driver.cuMemAddressReserve(&base, 4 * granule_, granule_, 0, 0) != CUDA_SUCCESS) return false;
  CUmemAccessDesc access[kMaxAccess];
  Plan plan;
  plan.count = 2;
  plan.moves[0] = {.to = base, .size = granule_};
  plan.moves[1] = {.to = base + granule_, .size = granule_};
  const Ground here = ground(access);
  bool works = execute(here, &plan) == CUDA_SUCCESS;
  if (works) {
    Granule moved;
    moved.handle = plan.moves[1].handle;
    Plan second;
    second.count = 1;
    second.moves[0] = {.to = base + 2 * granule_, .from = base + granule_, .size = granule_, .granule = &moved};
    works = execute(here, &second) == CUDA_SUCCESS;
    const bool is_moved = second.moves[0].outcome == Move::Outcome::Placed;
    works = driver.cuMemUnmap(base, granule_) == CUDA_SUCCESS && works;
    works = driver.cuMemUnmap(is_moved ? base + 2 * granule_ : base + granule_, granule_) == CUDA_SUCCESS && works;
  }
  for (unsigned i = 0; i < plan.count; ++i) {
    if (plan.moves[i].outcome != Move::Outcome::Absent) works = driver.cuMemRelease(plan.moves[i].handle) == CUDA_SUCCESS && works;
  }
  return driver.cuMemAddressFree(base, 4 * granule_) == CUDA_SUCCESS && works;
}

Ground DevicePool::ground(CUmemAccessDesc* access) {
  for (unsigned i = 0; i < access_count_; ++i) {
    access[i].location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = access_[i]};
    access[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  return {shared_->driver, device_, form_, access, access_count_};
}

// ---- who reaches the memory

bool DevicePool::update_access(int peer, bool may_reach) {
  const DriverTable& driver = *shared_->driver;
  {
    const PoolGuard guard(lock_);
    unsigned at = 1;
    while (at < access_count_ && access_[at] != peer) ++at;
    const bool is_known = at < access_count_;
    if (may_reach && !is_known) {
      if (access_count_ == kMaxAccess) return false;
      access_[access_count_++] = peer;
    }
    if (!may_reach && is_known) access_[at] = access_[--access_count_];
    ++access_version_;
  }
  const RelaxedCapture relaxed(driver);
  CUmemAccessDesc access;
  access.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = peer};
  access.flags = may_reach ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  for (unsigned i = 0; i < shared_->segments.count(); ++i) {
    Segment& segment = shared_->segments.at(i);
    if (segment.device != device_) continue;
    for (std::uint64_t at = segment.base; at < segment.end();) {
      Granule* granule = nullptr;
      FreeRange range;
      {
        const PoolGuard guard(lock_);
        granule = segment.slot_at(at);
        if (granule != nullptr && !granule->in_transit) range = {granule->address, granule->size};
      }
      at = range ? range.end() : at + granule_;
      if (!range || driver.cuMemSetAccess(range.address, range.size, &access, 1) == CUDA_SUCCESS) continue;
      const PoolGuard guard(lock_);
      const bool is_there = segment.slot_at(range.address) == granule && !granule->in_transit;
      if (is_there && may_reach) return false;  // the caller takes it back with may_reach = false
    }
  }
  return true;
}

/// Wherever its granules ended up: a growth that failed sent them home, or never touched them.
void DevicePool::reopen(const Ground& here, const Plan& plan) {
  for (unsigned i = 0; i < plan.count; ++i) {
    const Move& move = plan.moves[i];
    const bool is_placed = move.outcome == Move::Outcome::Placed;
    if (!is_placed && move.outcome != Move::Outcome::Home) continue;
    static_cast<void>(here.driver->cuMemSetAccess(is_placed ? move.to : move.from, move.size, here.access, here.access_count));
  }
}

/// What was to go and stayed.
void DevicePool::reopen(const Ground& here, Granule* const* granules, const bool* gone, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    const Granule& granule = *granules[i];
    if (!gone[i]) static_cast<void>(here.driver->cuMemSetAccess(granule.address, granule.size, here.access, here.access_count));
  }
}

}  // namespace cuheap
