#include "shim/pool/granules.h"

namespace cuheap {

CUresult create_handle(const DriverTable& driver, int device, HandleForm form, std::uint64_t size,
                       CUmemGenericAllocationHandle* out) {
  CUmemAllocationProp prop;
  __builtin_memset(&prop, 0, sizeof prop);
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  prop.requestedHandleTypes = form.types;
  prop.allocFlags.gpuDirectRDMACapable = form.rdma_capable;
  return driver.cuMemCreate(out, size, &prop, 0);
}

Granule* Granules::adopt(CUmemGenericAllocationHandle handle, std::uint64_t size) {
  Granule* granule = nodes_.make();
  if (granule == nullptr) return nullptr;
  granule->handle = handle;
  granule->size = size;
  held_ += size;
  idle_ += size;
  ++count_;
  return granule;
}

void Granules::forget(Granule* granule) {
  if (is_idle(granule)) idle_ -= granule->size;
  held_ -= granule->size;
  --count_;
  nodes_.drop(granule);
}

void Granules::stock(Granule* granule) {
  granule->address = 0;
  granule->segment = nullptr;
  granule->next = stock_;
  stock_ = granule;
  stocked_ += granule->size;
}

Granule* Granules::take(std::uint64_t size) {
  for (Granule** at = &stock_; *at != nullptr; at = &(*at)->next) {
    Granule* granule = *at;
    if (granule->size != size) continue;
    *at = granule->next;
    granule->next = nullptr;
    stocked_ -= size;
    return granule;
  }
  return nullptr;
}

Granule* Granules::take_any() { return stock_ != nullptr ? take(stock_->size) : nullptr; }

void Granules::use(Granule* granule, std::uint64_t bytes) {
  if (is_idle(granule)) idle_ -= granule->size;
  granule->used += bytes;
}

void Granules::unuse(Granule* granule, std::uint64_t bytes) {
  granule->used -= bytes;
  if (is_idle(granule)) idle_ += granule->size;
}

void Granules::expose(Granule* granule, std::uint64_t bytes) {
  granule->used -= bytes;
  granule->exposed += bytes;
}

}  // namespace cuheap
