#include "simgpu/device_attributes.h"

#include <cstdio>
#include <cstring>

#include <cuda.h>

#include "simgpu/machine.h"

namespace cuheap::sim {
namespace {

// Limits that the CUDA C++ Programming Guide's table "Technical Specifications per Compute Capability" gives alike for every
// capability from 7.0 on.
bool limit_attribute(int attribute, int& value) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: value = 1024; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X: case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: value = 1024; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: value = 64; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: value = 2147483647; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y: case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: value = 65535; return true;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: value = 65536; return true;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: value = 32; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH: value = 2147483647; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: value = 65536; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: value = 65536; return true;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT: case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT: value = 512; return true;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT: value = 32; return true;
    default: return false;
  }
}

// Texture and surface sizes, as deviceQuery prints them for capability 7.x to 9.0 (same guide, same table).
bool texture_attribute(int attribute, int& value) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH: case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH: case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH:
      value = 131072; return true;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT: case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT:
      value = 65536; return true;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT: value = 65000; return true;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH: value = 2097120; return true;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH: case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH: case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT: case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH:
      value = 16384; return true;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE: case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE:
      value = 8192; return true;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE: value = 32768; return true;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS: case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS: case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS:
      value = 2048; return true;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS: case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS:
      value = 2046; return true;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH: value = 268435456; return true;
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH: case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT: case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH: case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH: case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH: case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH: case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH: case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH:
    case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH: case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT:
      value = 32768; return true;
    default: return false;
  }
}

// What this machine can do. Zero where nothing is simulated: fabric, multicast, compression, NUMA, dma-buf, RDMA.
bool feature_attribute(const DeviceSpec& spec, int attribute, int& value) {
  const bool hopper = spec.capability_major >= 9;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP: case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS: case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER: case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED: case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY: case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED: case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS: case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1: case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH: case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED: case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS:
      value = 1; return true;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES: value = 0; return true;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH: case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED: value = hopper; return true;
    case CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT: value = hopper ? 4 : 1; return true;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: value = spec.capability_major >= 8 ? 1024 : 0; return true;
    case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO:
      // Throughput of the data-centre chips (x.0) is half for doubles, of the others 1/32 (1/64 from 8.9 on).
      value = spec.capability_minor == 0 ? 2 : spec.capability_minor == 9 ? 64 : 32;
      return true;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID: value = -1; return true;
    case CU_DEVICE_ATTRIBUTE_NUMA_ID: value = -1; return true;
    case CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID: value = 0; return true;
    default: return false;
  }
}

bool spec_attribute(const DeviceSpec& spec, int device, int attribute, int& value) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: value = spec.shared_memory_per_block; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: value = spec.shared_memory_per_block_optin; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: value = spec.shared_memory_per_multiprocessor; return true;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: value = spec.clock_khz; return true;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: value = spec.multiprocessors; return true;
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED: value = spec.ecc; return true;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: value = device_bus(device); return true;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: value = 0; return true;
    case CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID: value = spec.pci_device_id; return true;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: value = spec.memory_clock_khz; return true;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: value = spec.memory_bus_bits; return true;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: value = spec.l2_cache_bytes; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE: value = spec.persisting_l2_bytes; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE: value = spec.persisting_l2_bytes > 0 ? 134217728 : 0; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: value = spec.max_threads_per_multiprocessor; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: value = spec.max_blocks_per_multiprocessor; return true;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: value = spec.copy_engines; return true;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: value = spec.capability_major; return true;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: value = spec.capability_minor; return true;
    default: return false;
  }
}

}  // namespace

bool device_attribute(const DeviceSpec& spec, int device, int attribute, int& value) {
  if (spec_attribute(spec, device, attribute, value) || limit_attribute(attribute, value) ||
      texture_attribute(attribute, value) || feature_attribute(spec, attribute, value))
    return true;
  if (attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return false;
  value = 0;
  return true;
}

bool device_attribute(int device, int attribute, int& value) {
  return device_attribute(machine().devices[static_cast<size_t>(device)].spec, device, attribute, value);
}

void device_uuid(int device, unsigned char* bytes) {
  std::memcpy(bytes, "simgpu-make-beli", 16);
  bytes[15] = static_cast<unsigned char>(device + 1);
}

int device_bus(int device) { return device + 1; }

int device_at_bus(int bus) {
  const int device = bus - 1;
  return device >= 0 && device < kMaxDevices ? device : -1;
}

std::string pci_bus_id(int device) {
  char text[32];
  std::snprintf(text, sizeof text, "0000:%02X:00.0", static_cast<unsigned>(device_bus(device)));
  return text;
}

ErrorText error_text(int code) {
  switch (code) {
#define SIMGPU_ERROR(name, meaning) \
  case name: return {#name, meaning};
#include <error_texts.inc>
#undef SIMGPU_ERROR
    default: return {nullptr, nullptr};
  }
}

}  // namespace cuheap::sim
