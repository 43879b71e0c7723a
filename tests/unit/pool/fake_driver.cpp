#include "fake_driver.h"

#include <algorithm>

namespace cuheap::fake {
namespace {

thread_local std::vector<std::uint64_t> current_contexts;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

std::string hex(std::uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

FakeDriver& driver() {
  static FakeDriver instance;
  return instance;
}

void FakeDriver::reset(std::uint64_t capacity, int devices) {
  const std::lock_guard lock(mutex_);
  devices_.assign(static_cast<std::size_t>(devices), Device{capacity, 0});
  handles_.clear();
  mappings_.clear();
  reservations_.clear();
  allocations_.clear();
  contexts_.clear();
  events_.clear();
  calls_.clear();
  violations_.clear();
  once_.clear();
  next_address_ = std::uint64_t{0x7f} << 40;
  next_context_ = 0xd0000000u;
  captures_ = 0;
  prohibited_ = false;
  vmm_supported_ = true;
  peers_possible_ = true;
  stream_status_ = CU_STREAM_CAPTURE_STATUS_NONE;
  sticky_ = CUDA_SUCCESS;
  fail_every_ = 0;
  for (int i = 0; i < devices; ++i) contexts_[context_of(i)] = Context{i, 0, 0, {}};
  current_contexts.assign(1, context_of(0));
  capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

  table_ = {};
  table_.cuMemCreate = [](CUmemGenericAllocationHandle* out, size_t size, const CUmemAllocationProp* prop, unsigned long long) {
    return driver().create(out, size, prop);
  };
  table_.cuMemRelease = [](CUmemGenericAllocationHandle handle) { return driver().release(handle); };
  table_.cuMemAddressReserve = [](CUdeviceptr* out, size_t size, size_t alignment, CUdeviceptr, unsigned long long) {
    return driver().reserve(out, size, alignment);
  };
  table_.cuMemAddressFree = [](CUdeviceptr address, size_t size) { return driver().unreserve(address, size); };
  table_.cuMemMap = [](CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long) {
    return driver().map(address, size, offset, handle);
  };
  table_.cuMemUnmap = [](CUdeviceptr address, size_t size) { return driver().unmap(address, size); };
  table_.cuMemSetAccess = [](CUdeviceptr address, size_t size, const CUmemAccessDesc* access, size_t count) {
    return driver().set_access(address, size, access, count);
  };
  table_.cuMemGetAllocationGranularity = [](size_t* out, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
    *out = kGranule;
    return CUDA_SUCCESS;
  };
  table_.cuMemGetInfo_v2 = [](size_t* free, size_t* total) { return driver().info(free, total); };
  table_.cuMemAlloc_v2 = [](CUdeviceptr* out, size_t bytes) { return driver().alloc(out, bytes); };
  table_.cuMemFree_v2 = [](CUdeviceptr address) { return driver().free(address); };
  table_.cuMemFreeAsync = [](CUdeviceptr address, CUstream) { return driver().free_async(address); };
  table_.cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus* status) {
    *status = driver().stream_status_;
    return CUDA_SUCCESS;
  };
  table_.cuDeviceCanAccessPeer = [](int* can, CUdevice, CUdevice) {
    *can = driver().peers_possible_;
    return CUDA_SUCCESS;
  };
  table_.cuMemGetAddressRange_v2 = [](CUdeviceptr*, size_t*, CUdeviceptr) { return CUDA_ERROR_NOT_FOUND; };
  table_.cuEventCreate = [](CUevent* out, unsigned) { return driver().event_create(out); };
  table_.cuEventDestroy_v2 = [](CUevent event) { return driver().event_destroy(event); };
  table_.cuEventQuery = [](CUevent event) { return driver().event_query(event); };
  table_.cuEventSynchronize = [](CUevent event) { return driver().event_synchronize(event); };
  table_.cuCtxRecordEvent = [](CUcontext context, CUevent event) { return driver().context_record(context, event); };
  table_.cuCtxSynchronize = [] { return driver().context_synchronize(); };
  table_.cuCtxPushCurrent_v2 = [](CUcontext context) { return driver().push(context); };
  table_.cuCtxPopCurrent_v2 = [](CUcontext* out) { return driver().pop(out); };
  table_.cuStreamGetCtx = [](CUstream stream, CUcontext* out) {  // a stream is numbered as its context
    *out = reinterpret_cast<CUcontext>(stream);
    return CUDA_SUCCESS;
  };
  table_.cuCtxGetDevice = [](CUdevice* out) { return driver().context_device(out); };
  table_.cuDeviceGet = [](CUdevice* out, int ordinal) {
    *out = ordinal;
    return CUDA_SUCCESS;
  };
  table_.cuDeviceGetAttribute = [](int* out, CUdevice_attribute which, CUdevice device) {
    return driver().attribute(out, which, device);
  };
  table_.cuDeviceTotalMem_v2 = [](size_t* out, CUdevice device) { return driver().total(out, device); };
  table_.cuDeviceGetName = [](char* name, int size, CUdevice) {
    std::snprintf(name, static_cast<std::size_t>(size), "fake");
    return CUDA_SUCCESS;
  };
  table_.cuDriverGetVersion = [](int* version) {
    *version = 13000;
    return CUDA_SUCCESS;
  };
  table_.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode* mode) { return driver().exchange_mode(mode); };
  table_.cuPointerGetAttribute = [](void* data, CUpointer_attribute attribute, CUdeviceptr address) {
    return driver().pointer_attribute(data, attribute, address);
  };
  table_.cuPointerGetAttributes = [](unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr address) {
    for (unsigned i = 0; i < count; ++i) {
      if (driver().pointer_attribute(data[i], attributes[i], address) != CUDA_SUCCESS) *static_cast<int*>(data[i]) = 0;
    }
    return CUDA_SUCCESS;
  };
  table_.cuPointerSetAttribute = [](const void*, CUpointer_attribute, CUdeviceptr) { return CUDA_ERROR_NOT_SUPPORTED; };
  table_.cuIpcGetMemHandle = [](CUipcMemHandle*, CUdeviceptr) { return CUDA_ERROR_INVALID_VALUE; };
  table_.cuMemsetD8_v2 = [](CUdeviceptr address, unsigned char, size_t bytes) { return driver().memset(address, bytes); };
  table_.cuMemGetHandleForAddressRange = [](void*, CUdeviceptr address, size_t bytes, CUmemRangeHandleType, unsigned long long) {
    return driver().range_handle(address, bytes);
  };
}

CUresult FakeDriver::enter(const char* name, bool may_fail) {
  ++calls_[name];
  if (sticky_ != CUDA_SUCCESS) return sticky_;
  for (auto at = once_.begin(); at != once_.end(); ++at) {
    if (at->name != name || --at->nth != 0) continue;
    const CUresult code = at->code;
    once_.erase(at);
    return code;
  }
  const bool counts = may_fail && fail_every_ != 0 && (fail_names_.empty() || fail_names_.count(name) != 0);
  return counts && ++fail_count_ % fail_every_ == 0 ? fail_code_ : CUDA_SUCCESS;
}

void FakeDriver::not_in_capture(const char* name) {
  if (captures_ > 0) violation(std::string(name) + " while a capture is open");
}

void FakeDriver::fail_every(unsigned n, CUresult code, std::set<std::string> names) {
  const std::lock_guard lock(mutex_);
  fail_every_ = n;
  fail_count_ = 0;
  fail_code_ = code;
  fail_names_ = std::move(names);
}

void FakeDriver::fail_once(const std::string& name, unsigned nth, CUresult code) {
  const std::lock_guard lock(mutex_);
  once_.push_back({name, nth, code});
}

std::uint64_t FakeDriver::new_context(int device) {
  const std::lock_guard lock(mutex_);
  contexts_[next_context_] = Context{device, 0, 0, {}};
  return next_context_++;
}

void FakeDriver::end_context(std::uint64_t context) {
  const std::lock_guard lock(mutex_);
  contexts_.erase(context);
  std::erase_if(events_, [&](const auto& entry) { return entry.second.context == context; });
}

void FakeDriver::new_life(std::uint64_t context, int device) {
  const std::lock_guard lock(mutex_);
  contexts_[context] = Context{device, 0, 0, {}};
}

void FakeDriver::set_current(std::uint64_t context) { current_contexts.assign(1, context); }

bool FakeDriver::is_open(std::uint64_t address, std::uint64_t bytes, int device) const {
  for (std::uint64_t at = address; at < address + bytes;) {
    auto next = mappings_.upper_bound(at);
    if (next == mappings_.begin()) return false;
    --next;
    if (next->first + next->second.size <= at || next->second.access.count(device) == 0) return false;
    at = next->first + next->second.size;
  }
  return true;
}

bool FakeDriver::is_open_to(std::uint64_t address, std::uint64_t bytes, int device) {
  const std::lock_guard lock(mutex_);
  return is_open(address, bytes, device);
}

std::map<std::uint64_t, std::uint64_t> FakeDriver::mapped() {
  const std::lock_guard lock(mutex_);
  std::map<std::uint64_t, std::uint64_t> places;
  for (const auto& [address, mapping] : mappings_) places[address] = mapping.handle;
  return places;
}

void FakeDriver::launch(std::uint64_t context, std::uint64_t address, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  Context& here = contexts_.at(context);
  if (!is_open(address, bytes, here.device)) violation("a kernel faults at " + hex(address));
  here.work.push_back({address, bytes, ++here.queued});
}

void FakeDriver::retire(Context& context, std::uint64_t number) {
  context.done = std::max(context.done, number);
  for (const Work& work : context.work) {
    if (work.number <= context.done && !is_open(work.address, work.bytes, context.device)) {
      violation("memory went away below a kernel at " + hex(work.address));
    }
  }
  std::erase_if(context.work, [&](const Work& work) { return work.number <= context.done; });
}

void FakeDriver::finish(std::uint64_t context) {
  const std::lock_guard lock(mutex_);
  Context& here = contexts_.at(context);
  retire(here, here.queued);
}

void FakeDriver::finish_all() {
  const std::lock_guard lock(mutex_);
  for (auto& [id, context] : contexts_) retire(context, context.queued);
}

bool FakeDriver::is_busy(std::uint64_t context) {
  const std::lock_guard lock(mutex_);
  return !contexts_.at(context).work.empty();
}

std::uint64_t FakeDriver::used(int device) {
  const std::lock_guard lock(mutex_);
  return devices_[static_cast<std::size_t>(device)].used;
}

std::uint64_t FakeDriver::calls(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return calls_[name];
}

CUresult FakeDriver::create(CUmemGenericAllocationHandle* out, std::size_t size, const CUmemAllocationProp* prop) {
  const std::lock_guard lock(mutex_);
  if (const CUresult result = enter("cuMemCreate", true); result != CUDA_SUCCESS) return result;
  if (size == 0 || size % kGranule != 0) {
    violation("cuMemCreate of " + hex(size));
    return CUDA_ERROR_INVALID_VALUE;
  }
  Device& device = devices_[static_cast<std::size_t>(prop->location.id)];
  if (device.capacity < device.used + size) return CUDA_ERROR_OUT_OF_MEMORY;
  device.used += size;
  handles_[next_handle_] = Handle{size, prop->location.id};
  *out = next_handle_++;
  return CUDA_SUCCESS;
}

void FakeDriver::drop_if_unused(std::uint64_t handle) {
  const auto at = handles_.find(handle);
  if (!at->second.released || at->second.mappings != 0) return;
  devices_[static_cast<std::size_t>(at->second.device)].used -= at->second.size;
  handles_.erase(at);
}

CUresult FakeDriver::release(CUmemGenericAllocationHandle handle) {
  const std::lock_guard lock(mutex_);
  if (const CUresult result = enter("cuMemRelease", false); result != CUDA_SUCCESS) return result;
  const auto at = handles_.find(handle);
  if (at == handles_.end() || at->second.released) {
    violation("cuMemRelease of a foreign handle");
    return CUDA_ERROR_INVALID_VALUE;
  }
  at->second.released = true;
  drop_if_unused(handle);
  return CUDA_SUCCESS;
}

CUresult FakeDriver::reserve(CUdeviceptr* out, std::size_t size, std::size_t alignment) {
  const std::lock_guard lock(mutex_);
  if (const CUresult result = enter("cuMemAddressReserve", true); result != CUDA_SUCCESS) return result;
  if (size == 0 || size % kGranule != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t base = (next_address_ + alignment) / kGranule * kGranule;
  next_address_ = base + size;  // ranges touch, as they do in life
  reservations_[base] = size;
  *out = base;
  return CUDA_SUCCESS;
}

CUresult FakeDriver::unreserve(CUdeviceptr address, std::size_t size) {
  const std::lock_guard lock(mutex_);
  if (const CUresult result = enter("cuMemAddressFree", false); result != CUDA_SUCCESS) return result;
  const auto at = reservations_.find(address);
  const auto mapped = mappings_.lower_bound(address);
  if (at == reservations_.end() || at->second != size || (mapped != mappings_.end() && mapped->first < address + size)) {
    violation("cuMemAddressFree of a part or of mapped memory");
    return CUDA_ERROR_INVALID_VALUE;
  }
  reservations_.erase(at);
  return CUDA_SUCCESS;
}

CUresult FakeDriver::map(CUdeviceptr address, std::size_t size, std::size_t offset, CUmemGenericAllocationHandle handle) {
  const std::lock_guard lock(mutex_);
  if (const CUresult result = enter("cuMemMap", true); result != CUDA_SUCCESS) return result;
  const auto of = handles_.find(handle);
  auto range = reservations_.upper_bound(address);
  const bool is_reserved = range != reservations_.begin() && (--range)->first + range->second >= address + size;
  auto next = mappings_.lower_bound(address);
  bool overlaps = next != mappings_.end() && next->first < address + size;
  if (next != mappings_.begin()) overlaps = overlaps || std::prev(next)->first + std::prev(next)->second.size > address;
  if (of == handles_.end() || of->second.released || offset != 0 || of->second.size != size || !is_reserved || overlaps ||
      address % kGranule != 0) {
    violation("cuMemMap against the rules at " + hex(address));
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (of->second.mappings != 0) violation("a granule in two places");
  ++of->second.mappings;
  mappings_[address] = Mapping{size, handle, {}};
  return CUDA_SUCCESS;
}

CUresult FakeDriver::unmap(CUdeviceptr address, std::size_t size) {
  const std::lock_guard lock(mutex_);
  if (const CUresult result = enter("cuMemUnmap", true); result != CUDA_SUCCESS) return result;
  not_in_capture("cuMemUnmap");
  std::vector<std::uint64_t> whole;
  std::uint64_t at = address;
  for (auto next = mappings_.find(address); next != mappings_.end() && next->first == at && at < address + size; ++next) {
    whole.push_back(next->first);
    at += next->second.size;
  }
  if (at != address + size) {
    violation("cuMemUnmap of a part of a mapping at " + hex(address));
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (const auto& [id, context] : contexts_) {
    for (const Work& work : context.work) {
      if (work.address < address + size && address < work.address + work.bytes) violation("cuMemUnmap below a kernel");
    }
  }
  for (const std::uint64_t base : whole) {
    const std::uint64_t handle = mappings_.at(base).handle;
    --handles_.at(handle).mappings;
    mappings_.erase(base);
    drop_if_unused(handle);
  }
  return CUDA_SUCCESS;
}

CUresult FakeDriver::set_access(CUdeviceptr address, std::size_t size, const CUmemAccessDesc* access, std::size_t count) {
  const std::lock_guard lock(mutex_);
  if (const CUresult result = enter("cuMemSetAccess", true); result != CUDA_SUCCESS) return result;
  std::uint64_t at = address;
  for (auto next = mappings_.find(address); next != mappings_.end() && next->first == at && at < address + size; ++next) {
    at += next->second.size;
  }
  if (at != address + size) return CUDA_ERROR_INVALID_VALUE;
  for (auto next = mappings_.find(address); next != mappings_.end() && next->first < address + size; ++next) {
    for (std::size_t i = 0; i < count; ++i) {
      if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) {
        next->second.access.erase(access[i].location.id);
      } else {
        next->second.access.insert(access[i].location.id);
      }
    }
  }
  return CUDA_SUCCESS;
}

CUresult FakeDriver::info(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(mutex_);
  if (const CUresult result = enter("cuMemGetInfo", false); result != CUDA_SUCCESS) return result;
  const Device& device = devices_[static_cast<std::size_t>(contexts_.at(current_contexts.back()).device)];
  *total = device.capacity;
  *free = device.capacity - device.used;
  return CUDA_SUCCESS;
}

CUresult FakeDriver::alloc(CUdeviceptr* out, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (const CUresult result = enter("cuMemAlloc", false); result != CUDA_SUCCESS) return result;
  if (prohibited_) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const int ordinal = contexts_.at(current_contexts.back()).device;
  Device& device = devices_[static_cast<std::size_t>(ordinal)];
  const std::uint64_t taken = (bytes + kGranule - 1) / kGranule * kGranule;
  if (device.capacity < device.used + taken) return CUDA_ERROR_OUT_OF_MEMORY;
  device.used += taken;
  const std::uint64_t base = next_address_ + kGranule;
  next_address_ = base + taken;
  allocations_[base] = {taken, ordinal};
  *out = base;
  return CUDA_SUCCESS;
}

CUresult FakeDriver::free(CUdeviceptr address) {
  const std::lock_guard lock(mutex_);
  if (const CUresult result = enter("cuMemFree", false); result != CUDA_SUCCESS) return result;
  if (prohibited_) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (address == 0) return CUDA_SUCCESS;
  const auto at = allocations_.find(address);
  if (at == allocations_.end()) return CUDA_ERROR_INVALID_VALUE;
  devices_[static_cast<std::size_t>(at->second.second)].used -= at->second.first;
  allocations_.erase(at);
  return CUDA_SUCCESS;
}

CUresult FakeDriver::free_async(CUdeviceptr address) {
  {
    const std::lock_guard lock(mutex_);
    if (const CUresult result = enter("cuMemFreeAsync", false); result != CUDA_SUCCESS) return result;
    if (allocations_.count(address) == 0) return CUDA_ERROR_INVALID_VALUE;
    if (stream_status_ != CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return free(address);
}

CUresult FakeDriver::event_create(CUevent* out) {
  const std::lock_guard lock(mutex_);
  if (const CUresult result = enter("cuEventCreate", true); result != CUDA_SUCCESS) return result;
  *out = reinterpret_cast<CUevent>(next_event_++);
  events_[*out] = EventState{current_contexts.back(), 0};
  return CUDA_SUCCESS;
}

CUresult FakeDriver::event_destroy(CUevent event) {
  const std::lock_guard lock(mutex_);
  if (const CUresult result = enter("cuEventDestroy", false); result != CUDA_SUCCESS) return result;
  if (events_.erase(event) == 0) violation("cuEventDestroy of a dead event");
  return CUDA_SUCCESS;
}

CUresult FakeDriver::event_query(CUevent event) {
  const std::lock_guard lock(mutex_);
  if (const CUresult result = enter("cuEventQuery", false); result != CUDA_SUCCESS) return result;
  not_in_capture("cuEventQuery");
  const auto at = events_.find(event);
  if (at == events_.end()) {
    violation("cuEventQuery of a dead event");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return contexts_.at(at->second.context).done >= at->second.number ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult FakeDriver::event_synchronize(CUevent event) {
  const std::lock_guard lock(mutex_);
  if (const CUresult result = enter("cuEventSynchronize", false); result != CUDA_SUCCESS) return result;
  not_in_capture("cuEventSynchronize");
  const auto at = events_.find(event);
  if (at == events_.end()) {
    violation("cuEventSynchronize of a dead event");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  retire(contexts_.at(at->second.context), at->second.number);
  return CUDA_SUCCESS;
}

CUresult FakeDriver::context_record(CUcontext context, CUevent event) {
  const std::lock_guard lock(mutex_);
  if (const CUresult result = enter("cuCtxRecordEvent", false); result != CUDA_SUCCESS) return result;
  not_in_capture("cuCtxRecordEvent");
  const auto of = contexts_.find(reinterpret_cast<std::uint64_t>(context));
  const auto at = events_.find(event);
  if (of == contexts_.end()) return CUDA_ERROR_INVALID_CONTEXT;
  if (at == events_.end() || at->second.context != of->first) {
    violation("cuCtxRecordEvent of an event of another context");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  at->second.number = of->second.queued;
  return CUDA_SUCCESS;
}

CUresult FakeDriver::context_synchronize() {
  const std::lock_guard lock(mutex_);
  if (const CUresult result = enter("cuCtxSynchronize", false); result != CUDA_SUCCESS) return result;
  not_in_capture("cuCtxSynchronize");
  Context& here = contexts_.at(current_contexts.back());
  retire(here, here.queued);
  return CUDA_SUCCESS;
}

CUresult FakeDriver::push(CUcontext context) {
  const std::lock_guard lock(mutex_);
  if (contexts_.count(reinterpret_cast<std::uint64_t>(context)) == 0) return CUDA_ERROR_INVALID_CONTEXT;
  current_contexts.push_back(reinterpret_cast<std::uint64_t>(context));
  return CUDA_SUCCESS;
}

CUresult FakeDriver::pop(CUcontext* out) {
  const std::lock_guard lock(mutex_);
  *out = reinterpret_cast<CUcontext>(current_contexts.back());
  current_contexts.pop_back();
  return CUDA_SUCCESS;
}

CUresult FakeDriver::context_device(CUdevice* out) {
  const std::lock_guard lock(mutex_);
  *out = contexts_.at(current_contexts.back()).device;
  return CUDA_SUCCESS;
}

CUresult FakeDriver::attribute(int* out, CUdevice_attribute which, CUdevice) {
  *out = which == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ? vmm_supported_ : 1;
  return CUDA_SUCCESS;
}

CUresult FakeDriver::total(std::size_t* out, CUdevice device) {
  *out = devices_[static_cast<std::size_t>(device)].capacity;
  return CUDA_SUCCESS;
}

CUresult FakeDriver::exchange_mode(CUstreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return CUDA_SUCCESS;
}

// Of device memory it returns before the bytes are set.
CUresult FakeDriver::memset(CUdeviceptr address, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (const CUresult result = enter("cuMemsetD8", false); result != CUDA_SUCCESS) return result;
  }
  launch(current_contexts.back(), address, bytes);
  return CUDA_SUCCESS;
}

// A dma-buf of mapped memory.
CUresult FakeDriver::range_handle(CUdeviceptr address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (const CUresult result = enter("cuMemGetHandleForAddressRange", false); result != CUDA_SUCCESS) return result;
  return is_open(address, bytes, 0) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// As the driver answers for VMM memory: the whole reservation, no context.
CUresult FakeDriver::pointer_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  const std::lock_guard lock(mutex_);
  if (!is_open(address, 1, 0)) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(data) = nullptr;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<CUmemorytype*>(data) = CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *static_cast<int*>(data) = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace cuheap::fake
