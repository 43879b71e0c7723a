// Launches and occupancy. A launch computes nothing unless a double is registered for its kernel; it takes its place in the
// order of the stream and some of the virtual time.
#include <algorithm>

#include "simgpu/libcuda_kernel.h"

namespace cuheap::sim {
namespace {

constexpr int kWarp = 32;

bool fits(const CUDA_KERNEL_NODE_PARAMS& p, const DeviceSpec& spec) {
  const uint64_t threads = uint64_t{p.blockDimX} * p.blockDimY * p.blockDimZ;
  if (threads == 0 || threads > 1024 || p.blockDimZ > 64) return false;
  if (p.gridDimX == 0 || p.gridDimY == 0 || p.gridDimZ == 0) return false;
  if (p.gridDimX > 2147483647u || p.gridDimY > 65535 || p.gridDimZ > 65535) return false;
  return p.sharedMemBytes <= static_cast<unsigned>(spec.shared_memory_per_block_optin);
}

/// Blocks of a kernel of 32 registers a thread that one multiprocessor holds.
int resident_blocks(const DeviceSpec& spec, int block_size, size_t shared) {
  if (block_size <= 0 || block_size > 1024) return 0;
  const int threads = (block_size + kWarp - 1) / kWarp * kWarp;
  int blocks = std::min(spec.max_threads_per_multiprocessor / threads, spec.max_blocks_per_multiprocessor);
  blocks = std::min(blocks, 65536 / (32 * threads));
  // From capability 8.0 on the system takes 1 KiB of shared memory a block.
  const size_t reserved = spec.capability_major >= 8 ? 1024 : 0;
  if (shared + reserved > 0)
    blocks = std::min(
        blocks, static_cast<int>(static_cast<size_t>(spec.shared_memory_per_multiprocessor) / (shared + reserved)));
  return blocks;
}

const DeviceSpec& current_spec() { return machine().devices[static_cast<size_t>(current_context().device)].spec; }

CUresult potential_block(int* grid, int* block, CUfunction handle, CUoccupancyB2DSize shared_of, size_t shared, int limit) {
  if (grid == nullptr || block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (machine().functions.find(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const DeviceSpec& spec = current_spec();
  int best_threads = 0;
  *block = kWarp, *grid = 1;
  for (int size = limit > 0 ? std::min(limit, 1024) / kWarp * kWarp : 1024; size >= kWarp; size -= kWarp) {
    const int resident = resident_blocks(spec, size, shared_of != nullptr ? shared_of(size) : shared);
    if (resident * size <= best_threads) continue;
    best_threads = resident * size;
    *block = size;
    *grid = resident * spec.multiprocessors;
  }
  return CUDA_SUCCESS;
}

}  // namespace

Work kernel_work(const CUDA_KERNEL_NODE_PARAMS& parameters) {
  Work work;
  work.cost_ns = kKernelCostNs;
  const auto function = machine().functions.find(parameters.func);
  if (function == nullptr || function->call == nullptr) return work;
  // Only a double looks at the arguments, and it knows their layout: they are kept as the addresses the caller gave. A double
  // therefore runs before the launch returns, or reads through what the caller keeps alive (control.h).
  work.may_run_inline = false;
  work.run = [call = function->call, user = function->user, arguments = parameters.kernelParams](Stream&) {
    return call(arguments, user), Io::Ok;
  };
  return work;
}

CUresult check_kernel(CUDA_KERNEL_NODE_PARAMS& parameters, int device) {
  if (parameters.func == nullptr) parameters.func = reinterpret_cast<CUfunction>(parameters.kern);
  if (machine().functions.find(parameters.func) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return fits(parameters, machine().devices[static_cast<size_t>(device)].spec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

namespace {

CUresult launch(CUDA_KERNEL_NODE_PARAMS parameters, CUstream stream) {
  Context& context = current_context();
  if (const CUresult wrong = check_kernel(parameters, context.device); wrong != CUDA_SUCCESS) return wrong;
  return submit(context, stream, NodeType::Kernel, kernel_work(parameters), parameters);
}

}  // namespace
}  // namespace cuheap::sim

using namespace cuheap::sim;

SIMGPU_API CUresult cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                                   unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void** arguments,
                                   void** extra) {
  SIMGPU_ENTER(Needs::Context);
  if (arguments != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  return launch({function, gx, gy, gz, bx, by, bz, shared, arguments, extra, nullptr, nullptr}, stream);
}

SIMGPU_API CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments, void** extra) {
  SIMGPU_ENTER(Needs::Context);
  if (config == nullptr || (config->numAttrs > 0 && config->attrs == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  return launch({function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX, config->blockDimY,
                 config->blockDimZ, config->sharedMemBytes, arguments, extra, nullptr, nullptr}, config->hStream);
}

SIMGPU_API CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                                              unsigned int by, unsigned int bz, unsigned int shared, CUstream stream,
                                              void** arguments) {
  SIMGPU_ENTER(Needs::Context);
  const DeviceSpec& spec = current_spec();
  const int resident = resident_blocks(spec, static_cast<int>(bx * by * bz), shared);
  if (uint64_t{gx} * gy * gz > static_cast<uint64_t>(resident) * static_cast<uint64_t>(spec.multiprocessors))
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  return launch({function, gx, gy, gz, bx, by, bz, shared, arguments, nullptr, nullptr, nullptr}, stream);
}

SIMGPU_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function, int size, size_t shared,
                                                                         unsigned int flags) {
  SIMGPU_ENTER(Needs::Context);
  if (blocks == nullptr || size <= 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) return CUDA_ERROR_INVALID_VALUE;
  if (machine().functions.find(function) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *blocks = resident_blocks(current_spec(), size, shared);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int size, size_t shared) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, size, shared, 0);
}

SIMGPU_API CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of,
                                                              size_t shared, int limit, unsigned int) {
  SIMGPU_ENTER(Needs::Context);
  return potential_block(grid, block, function, shared_of, shared, limit);
}

SIMGPU_API CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of,
                                                     size_t shared, int limit) {
  SIMGPU_ENTER(Needs::Context);
  return potential_block(grid, block, function, shared_of, shared, limit);
}

SIMGPU_API CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction function, int blocks, int size) {
  SIMGPU_ENTER(Needs::Context);
  if (bytes == nullptr || blocks <= 0 || size <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (machine().functions.find(function) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const DeviceSpec& spec = current_spec();
  const int each = spec.shared_memory_per_multiprocessor / blocks - (spec.capability_major >= 8 ? 1024 : 0);
  *bytes = static_cast<size_t>(std::clamp(each, 0, spec.shared_memory_per_block_optin));
  return CUDA_SUCCESS;
}

// Clusters exist from capability 9.0 on; eight blocks are portable.
SIMGPU_API CUresult cuOccupancyMaxPotentialClusterSize(int* size, CUfunction function, const CUlaunchConfig* config) {
  SIMGPU_ENTER(Needs::Context);
  if (size == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (machine().functions.find(function) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *size = current_spec().capability_major >= 9 ? 8 : 1;
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function, const CUlaunchConfig* config) {
  SIMGPU_ENTER(Needs::Context);
  if (clusters == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (machine().functions.find(function) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const DeviceSpec& spec = current_spec();
  const auto size = static_cast<int>(config->blockDimX * config->blockDimY * config->blockDimZ);
  unsigned in_cluster = 1;
  for (unsigned i = 0; i < config->numAttrs; ++i)
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      in_cluster = std::max(1u, config->attrs[i].value.clusterDim.x * config->attrs[i].value.clusterDim.y *
                                    config->attrs[i].value.clusterDim.z);
  *clusters = resident_blocks(spec, size, config->sharedMemBytes) * spec.multiprocessors / static_cast<int>(in_cluster);
  return CUDA_SUCCESS;
}

// The map is opaque and only kernels read it: what was asked for is kept, nothing more.
SIMGPU_API CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank, void* address, const cuuint64_t*,
                                           const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                                           CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  SIMGPU_ENTER(Needs::Init);
  if (map == nullptr || rank == 0 || rank > 5 || reinterpret_cast<uint64_t>(address) % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  *map = {};
  map->opaque[0] = reinterpret_cast<cuuint64_t>(address);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  SIMGPU_ENTER(Needs::Init);
  if (map == nullptr || reinterpret_cast<uint64_t>(address) % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  map->opaque[0] = reinterpret_cast<cuuint64_t>(address);
  return CUDA_SUCCESS;
}
