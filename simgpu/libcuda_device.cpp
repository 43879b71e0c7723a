// Driver version, devices and their properties.
#include <cstdio>
#include <cstring>

#include "simgpu/device_attributes.h"
#include "simgpu/libcuda_entry.h"

using namespace cuheap::sim;

SIMGPU_API CUresult cuDriverGetVersion(int* version) {
  SIMGPU_ENTER(Needs::Nothing);
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = driver_version();
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  SIMGPU_ENTER(Needs::Init);
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDeviceGetCount(int* count) {
  SIMGPU_ENTER(Needs::Init);
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(machine().devices.size());
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<size_t>(length), "%s", machine().devices[static_cast<size_t>(device)].name.c_str());
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  device_uuid(device, reinterpret_cast<unsigned char*>(uuid->bytes));
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = machine().shared.capacity(device);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  return device_attribute(device, attribute, *value) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const DeviceSpec& spec = machine().devices[static_cast<size_t>(device)].spec;
  *major = spec.capability_major;
  *minor = spec.capability_minor;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDeviceGetProperties(CUdevprop* properties, CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  if (properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const auto read = [&](int attribute) {
    int value = 0;
    device_attribute(device, attribute, value);
    return value;
  };
  *properties = {};
  properties->maxThreadsPerBlock = read(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  for (int i = 0; i < 3; ++i) {
    properties->maxThreadsDim[i] = read(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i);
    properties->maxGridSize[i] = read(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i);
  }
  properties->sharedMemPerBlock = read(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  properties->totalConstantMemory = read(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  properties->SIMDWidth = read(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  properties->memPitch = read(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  properties->regsPerBlock = read(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  properties->clockRate = read(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  properties->textureAlign = read(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  if (text == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(text, static_cast<size_t>(length), "%s", pci_bus_id(device).c_str());
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  SIMGPU_ENTER(Needs::Init);
  if (device == nullptr || text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  const bool parsed = std::sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) >= 3 ||
                      (domain = 0, std::sscanf(text, "%x:%x.%x", &bus, &slot, &function) >= 2);
  if (!parsed) return CUDA_ERROR_INVALID_VALUE;
  const int found = device_at_bus(static_cast<int>(bus));
  if (domain != 0 || slot != 0 || !valid_device(found)) return CUDA_ERROR_INVALID_DEVICE;
  *device = found;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  SIMGPU_ENTER(Needs::Init);
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(device) || !valid_device(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can = device != peer ? 1 : 0;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice source, CUdevice destination) {
  SIMGPU_ENTER(Needs::Init);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(source) || !valid_device(destination) || source == destination) return CUDA_ERROR_INVALID_DEVICE;
  const int nvlink = machine().devices[static_cast<size_t>(source)].spec.nvlink;
  switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK: *value = nvlink ? 0 : 1; break;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED: *value = 1; break;
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED: *value = nvlink; break;
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED: *value = 1; break;
    case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED: *value = 0; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDeviceGetExecAffinitySupport(int* supported, CUexecAffinityType type, CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  if (supported == nullptr || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *supported = 0;  // only under MPS
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t* width, CUarray_format, unsigned channels, CUdevice device) {
  SIMGPU_ENTER(Needs::Init);
  if (width == nullptr || channels == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *width = size_t{1} << 28;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuGetErrorName(CUresult error, const char** text) {
  SIMGPU_ENTER(Needs::Nothing);
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = error_text(error).name;
  return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_API CUresult cuGetErrorString(CUresult error, const char** text) {
  SIMGPU_ENTER(Needs::Nothing);
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = error_text(error).meaning;
  return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// The private tables are the vendor's own business: there are none here.
SIMGPU_API CUresult cuGetExportTable(const void** table, const CUuuid*) {
  SIMGPU_ENTER(Needs::Nothing);
  if (table == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

SIMGPU_API CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget, CUflushGPUDirectRDMAWritesScope) {
  SIMGPU_ENTER(Needs::Context);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuProfilerStart() {
  SIMGPU_ENTER(Needs::Init);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuProfilerStop() {
  SIMGPU_ENTER(Needs::Init);
  return CUDA_SUCCESS;
}
