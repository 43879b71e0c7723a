// Virtual memory management: physical handles, address ranges, mappings, and memory of other processes.
//
// A handle's memory is given back when it has been released as often as it was made or retained *and* is mapped nowhere.
// The driver may give the number of a released handle to a new one while the old memory is still mapped, so blocks live
// under an identity of their own: the handle's number, or for a number in use a number that no handle has.
#include "shim/driver/driver.h"
#include "shim/hooks/accounting.h"
#include "shim/hooks/contexts.h"
#include "tracer/base/keep_errno.h"

namespace cuheap {
namespace {

constinit BlockTable physical;    // by identity
constinit BlockTable identities;  // by handle number: Block::identity is what it stands for at present
constinit BlockTable mappings;    // by address: Block::identity is what is mapped there
constinit std::atomic<std::uint64_t> next_identity{std::uint64_t{1} << 62};

std::uint64_t identity_of(CUmemGenericAllocationHandle handle) {
  Block name;
  return identities.find(handle, &name) ? name.identity : 0;
}

void begin_life(const HookScope& scope, const Block& block);

void enter(const HookScope& scope, const PendingAllocation& pending, CUmemGenericAllocationHandle handle, int device) {
  Block block, name, present;
  block.size = pending.request.bytes;
  block.device = static_cast<std::int16_t>(device);
  block.family = pending.family;
  block.site = pending.request.site;
  block.identity = physical.find(handle, &present) ? next_identity.fetch_add(1, std::memory_order_relaxed) : handle;
  name.identity = block.identity;
  if (!physical.insert(block.identity, block) || !identities.insert(handle, name)) recorder().count_loss(LossReason::TableFull);
  begin_life(scope, block);
}

/// An import's size is known only when it is mapped; until then nothing is counted.
void begin_life(const HookScope& scope, const Block& block) {
  if (block.size == 0) return;
  count_live(Floor::Physical, block.device, static_cast<std::int64_t>(block.size));
  record_block(scope, EventKind::Allocate, Floor::Physical, block, 0, block.site, 0);
}

/// Records the end if this was the last hold on the memory. Before the driver's call, as every free.
void let_go(const HookScope& scope, std::uint64_t identity, std::uint32_t references, std::uint32_t mapped) {
  Block last;
  bool ends = false;
  physical.change(identity, [&](Block& block) {
    block.references -= references < block.references ? references : block.references;
    block.mappings -= mapped < block.mappings ? mapped : block.mappings;
    ends = block.references == 0 && block.mappings == 0;
    last = block;
  });
  if (!ends) return;
  if (last.size != 0) {
    record_block(scope, EventKind::Free, Floor::Physical, last, 0, 0, 0);
    count_live(Floor::Physical, last.device, -static_cast<std::int64_t>(last.size));
  }
  physical.erase(identity, last.serial);
}

/// The call that let_go announced was refused: the hold is back, and the memory with it.
void hold_again(const HookScope&, const Block& before, CUresult result) {
  Block still;
  if (physical.find(before.identity, &still)) {
    physical.change(before.identity, [&](Block& block) { block = before; });
    return;
  }
  physical.insert(before.identity, before);
  if (before.size == 0) return;
  count_live(Floor::Physical, before.device, static_cast<std::int64_t>(before.size));
  Event event;
  event.kind = EventKind::FreeFailed;
  event.floor = Floor::Physical;
  event.family = before.family;
  event.device = before.device;
  event.address = before.identity;
  event.extra0 = static_cast<std::uint64_t>(result);
  recorder().record(event);
}

bool is_host_location(const CUmemAllocationProp* prop) {
  return prop != nullptr && prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE && prop->location.type != CU_MEM_LOCATION_TYPE_INVALID;
}

void after_create(const PendingAllocation& pending, CUresult result, const CUmemGenericAllocationHandle* handle, int device) {
  if (result != CUDA_SUCCESS || !pending.counted) return after_allocation(pending, result, std::uint64_t{0});
  const KeepErrno keep;
  const HookScope scope;
  if (!scope) return recorder().count_loss(LossReason::Reentered);
  enter(scope, pending, *handle, device);
}

struct PendingRelease {
  std::uint64_t handle = 0;
  Block before;
  bool known = false;
};

PendingRelease before_release(CUmemGenericAllocationHandle handle) {
  PendingRelease pending;
  if (!is_recording()) return pending;
  const KeepErrno keep;
  const HookScope scope;
  if (!scope) {
    recorder().count_loss(LossReason::Reentered);
    return pending;
  }
  pending.handle = handle;
  const std::uint64_t identity = identity_of(handle);
  pending.known = identity != 0 && physical.find(identity, &pending.before);
  if (pending.known) let_go(scope, identity, 1, 0);
  return pending;
}

void after_release(const PendingRelease& pending, CUresult result) {
  if (!pending.known) return;
  const KeepErrno keep;
  const HookScope scope;
  if (!scope) return recorder().count_loss(LossReason::Reentered);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_DEINITIALIZED) return hold_again(scope, pending.before, result);
  Block name;
  if (pending.before.references <= 1 && identities.find(pending.handle, &name) && name.identity == pending.before.identity)
    identities.erase(pending.handle, name.serial);
}

void after_map(CUresult result, CUdeviceptr address, std::size_t size, std::size_t offset, CUmemGenericAllocationHandle handle) {
  if (result != CUDA_SUCCESS || !is_recording()) return;
  const std::uint64_t identity = identity_of(handle);
  {
    const KeepErrno keep;
    const HookScope scope;
    if (!scope) return recorder().count_loss(LossReason::Reentered);
    Block mapping;
    mapping.size = size;
    mapping.identity = identity;
    mappings.insert(address, mapping);
    Block found;
    const bool known = physical.change(identity, [&](Block& block) {
      found = block;
      ++block.mappings;
      if (block.size == 0) block.size = found.size = offset + size;
      else found.size = 0;
    });
    if (known) begin_life(scope, found);  // an import, mapped for the first time
  }
  note(EventKind::Map, Floor::Physical, address, size, identity != 0 ? identity : handle, offset);
}

/// One more hold. The number may be new, if all earlier holds were given back while the memory was mapped: what is mapped at
/// the address, which may lie inside a mapping, says whose it is.
void after_retain(CUresult result, const CUmemGenericAllocationHandle* handle, CUdeviceptr address) {
  if (result != CUDA_SUCCESS || !is_recording()) return;
  const KeepErrno keep;
  const HookScope scope;
  if (!scope) return recorder().count_loss(LossReason::Reentered);
  Block mapping, name;
  name.identity = mappings.find_around(address, &mapping) ? mapping.identity : identity_of(*handle);
  if (!physical.change(name.identity, [](Block& block) { ++block.references; })) return;
  if (!identities.insert(*handle, name)) recorder().count_loss(LossReason::TableFull);
}

/// The mappings of a range lie side by side; each one ends as a whole.
void after_unmap(CUresult result, CUdeviceptr address, std::size_t size) {
  if (result != CUDA_SUCCESS || !is_recording()) return;
  note(EventKind::Unmap, Floor::Physical, address, size);
  const KeepErrno keep;
  const HookScope scope;
  if (!scope) return;
  const CUdeviceptr end = address + size;
  for (Block mapping; address < end && mappings.find(address, &mapping); address += mapping.size) {
    mappings.erase(address, mapping.serial);
    let_go(scope, mapping.identity, 0, 1);
    if (mapping.size == 0) return;
  }
}

}  // namespace
}  // namespace cuheap

using namespace cuheap;

CUHEAP_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                                   unsigned long long flags) {
  const bool host = is_host_location(prop);
  PendingAllocation pending = before_allocation(host ? Family::HostHandle : Family::Handle, size);
  // The properties say where the memory is; a current context need not exist.
  const int device = host || prop == nullptr ? -1 : prop->location.id;
  if (!host && prop != nullptr) pending.request.caller.device = device;
  const CUresult result = with_relief(pending, [&] { return driver().cuMemCreate(handle, size, prop, flags); });
  after_create(pending, result, handle, device);
  return result;
}

CUHEAP_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const PendingRelease pending = before_release(handle);
  const CUresult result = driver().cuMemRelease(handle);
  after_release(pending, result);
  return result;
}

CUHEAP_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  const CUdeviceptr asked = allocator().unmapped(reinterpret_cast<CUdeviceptr>(address));
  const CUresult result = driver().cuMemRetainAllocationHandle(handle, reinterpret_cast<void*>(asked));
  after_retain(result, handle, reinterpret_cast<CUdeviceptr>(address));
  return result;
}

CUHEAP_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* os_handle,
                                                      CUmemAllocationHandleType type) {
  PendingAllocation pending = before_allocation(Family::Imported, 0);
  const CUresult result = driver().cuMemImportFromShareableHandle(handle, os_handle, type);
  after_create(pending, result, handle, pending.request.caller.device);
  return result;
}

CUHEAP_EXPORT CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                                unsigned long long flags) {
  const CUresult result = driver().cuMemMap(allocator().unmapped(address), size, offset, handle, flags);
  after_map(result, address, size, offset, handle);
  return result;
}

CUHEAP_EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
  const CUresult result = driver().cuMemUnmap(allocator().unmapped(address), size);
  after_unmap(result, address, size);
  return result;
}

CUHEAP_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc* access, size_t count) {
  return driver().cuMemSetAccess(allocator().unmapped(address), size, access, count);
}

CUHEAP_EXPORT CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  return driver().cuMemGetAccess(flags, location, allocator().unmapped(address));
}

CUHEAP_EXPORT CUresult cuMemAddressReserve(CUdeviceptr* out, size_t size, size_t alignment, CUdeviceptr wish,
                                           unsigned long long flags) {
  const CUresult result = driver().cuMemAddressReserve(out, size, alignment, wish, flags);
  if (result == CUDA_SUCCESS) note(EventKind::Reserve, Floor::Physical, *out, size);
  return result;
}

CUHEAP_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
  // Another thread may be given the range at once: its Reserve must come later.
  const std::uint64_t before = is_recording() ? now_ns() : 0;
  const CUresult result = driver().cuMemAddressFree(allocator().unmapped(address), size);
  if (result == CUDA_SUCCESS) note(EventKind::Unreserve, Floor::Physical, address, size, 0, 0, nullptr, before);
  return result;
}
