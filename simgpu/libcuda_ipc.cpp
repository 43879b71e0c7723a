// Memory and events of other processes. A handle names the owner, its descriptor and the place; the importer opens the descriptor
// through /proc, as two processes of one user may. Bytes stay alive while anybody has them open.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "simgpu/libcuda_entry.h"

using namespace cuheap::sim;

namespace cuheap::sim {
namespace {

constexpr uint64_t kMemoryMagic = 0x73696d69706d656d;
constexpr uint64_t kEventMagic = 0x73696d6970657674;

struct MemoryHandle {
  uint64_t magic;
  int32_t pid;
  int32_t fd;
  uint64_t offset;       // of the first granule in the file
  uint64_t granules;     // bytes
  uint64_t inside;       // of the block in the first granule
  uint64_t size;
  uint64_t buffer_id;    // a freed and remade block at the same address has another
  int32_t device;
};
static_assert(sizeof(MemoryHandle) <= sizeof(CUipcMemHandle));

struct EventHandle {
  uint64_t magic;
  int32_t pid;
  int32_t fd;
  int32_t device;
  uint32_t flags;
};
static_assert(sizeof(EventHandle) <= sizeof(CUipcEventHandle));

int open_of(int pid, int fd) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
  return ::open(path, O_RDWR | O_CLOEXEC);
}

/// Opened before in this process and context: the same address, one more reference.
struct Opened {
  int pid;
  uint64_t buffer_id;
  uint64_t base;
  uint64_t context_id;
};

std::mutex& opened_lock() {
  static auto& only = *new std::mutex;
  return only;
}

std::vector<Opened>& opened() {
  static auto& only = *new std::vector<Opened>;
  return only;
}

CUresult open_memory(CUdeviceptr* out, const MemoryHandle& handle) {
  Context& context = current_context();
  // "cuIpcOpenMemHandle on a handle of this process": the exporting process may not open it.
  if (handle.pid == ::getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  if (!valid_device(handle.device)) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard guard(opened_lock());
  for (const Opened& known : opened()) {
    if (known.pid != handle.pid || known.buffer_id != handle.buffer_id || known.context_id != context.id) continue;
    machine().allocations.update(known.base, [](Allocation& block) { ++block.imports; });
    *out = known.base;
    return CUDA_SUCCESS;
  }
  const int fd = open_of(handle.pid, handle.fd);
  if (fd < 0) return CUDA_ERROR_INVALID_HANDLE;
  PhysicalRef physical = machine().memory.import_physical(fd, handle.offset, handle.device, handle.granules);
  ::close(fd);
  if (physical == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t address = machine().memory.reserve(handle.granules, kGranule, 0);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  machine().memory.map(address, *physical, 0, handle.granules, kAccessAll);
  Allocation block{.base = address + handle.inside, .size = handle.size, .reserved = handle.granules, .kind = Kind::Imported,
                   .device = handle.device, .context_id = context.id};
  block.imports = 1;
  block.physical = std::move(physical);
  machine().allocations.add(std::move(block));
  opened().push_back({handle.pid, handle.buffer_id, address + handle.inside, context.id});
  *out = address + handle.inside;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace cuheap::sim

SIMGPU_API CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address) {
  SIMGPU_ENTER(Needs::Context);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto block = machine().allocations.find(address);
  // Only memory of cuMemAlloc: neither mapped, pooled, managed nor imported memory has such a handle.
  if (!block || block->kind != Kind::Device || block->physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Physical& physical = *block->physical;
  const MemoryHandle handle{kMemoryMagic, ::getpid(), machine().memory.file_descriptor(physical.file), physical.offset, physical.size,
                            block->base % kGranule, block->size, block->buffer_id, block->device};
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  SIMGPU_ENTER(Needs::Context);
  MemoryHandle read;
  std::memcpy(&read, &handle, sizeof read);
  if (out == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  if (read.magic != kMemoryMagic) return CUDA_ERROR_INVALID_HANDLE;
  return open_memory(out, read);
}

SIMGPU_API CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  SIMGPU_ENTER(Needs::Context);
  std::lock_guard guard(opened_lock());
  const auto block = machine().allocations.find_base(address);
  if (!block || block->kind != Kind::Imported) return CUDA_ERROR_INVALID_VALUE;
  int left = 0;
  machine().allocations.update(address, [&](Allocation& changed) { left = --changed.imports; });
  if (left > 0) return CUDA_SUCCESS;
  std::erase_if(opened(), [&](const Opened& known) { return known.base == address; });
  return free_allocation(address, true);
}

SIMGPU_API CUresult cuIpcGetEventHandle(CUipcEventHandle* out, CUevent handle) {
  SIMGPU_ENTER(Needs::Context);
  const auto event = machine().events.find(handle);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (event == nullptr || event->shared == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const EventHandle made{kEventMagic, ::getpid(), event->shared_fd, event->device, event->flags};
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &made, sizeof made);
  return CUDA_SUCCESS;
}

SIMGPU_API CUresult cuIpcOpenEventHandle(CUevent* out, CUipcEventHandle handle) {
  SIMGPU_ENTER(Needs::Context);
  EventHandle read;
  std::memcpy(&read, &handle, sizeof read);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (read.magic != kEventMagic) return CUDA_ERROR_INVALID_HANDLE;
  if (!valid_device(read.device)) return CUDA_ERROR_INVALID_DEVICE;
  const int fd = open_of(read.pid, read.fd);
  if (fd < 0) return CUDA_ERROR_INVALID_HANDLE;
  auto event = std::make_shared<Event>(read.device, current_context().id, read.flags);
  if (!event->open_shared_page(fd)) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<CUevent>(machine().events.add(std::move(event)));
  return CUDA_SUCCESS;
}
