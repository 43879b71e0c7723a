#include "simgpu/shared_state.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace cuheap::sim {
namespace {

constexpr uint32_t kMagic = 0x73696d32;

/// Field 22 of /proc/PID/stat, counted after the closing parenthesis of the name. 0: no such process.
uint64_t start_time_of(int pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[1024];
  const ssize_t n = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (n <= 0) return 0;
  text[n] = 0;
  const char* at = std::strrchr(text, ')');
  if (at == nullptr || at[1] == 0 || at[2] == 'Z' || at[2] == 'X') return 0;
  for (int field = 2; field < 22 && at != nullptr; ++field) at = std::strchr(at + 1, ' ');
  return at != nullptr ? std::strtoull(at + 1, nullptr, 10) : 0;
}

}  // namespace

class SharedState::Lock {
 public:
  explicit Lock(SharedBlock* block) : block_(block) {
    // The owner may have died inside: the counters are valid after every single store, so the block stays usable.
    if (pthread_mutex_lock(&block_->lock) == EOWNERDEAD) pthread_mutex_consistent(&block_->lock);
  }
  ~Lock() { pthread_mutex_unlock(&block_->lock); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  SharedBlock* block_;
};

bool SharedState::map(int fd, bool fresh, const std::vector<DeviceChoice>& devices) {
  if (fresh && ::ftruncate(fd, sizeof(SharedBlock)) != 0) return false;
  void* at = ::mmap(nullptr, sizeof(SharedBlock), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return false;
  block_ = static_cast<SharedBlock*>(at);
  fd_ = fd;
  if (!fresh) return block_->magic.load(std::memory_order_acquire) == kMagic;
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&block_->lock, &attributes);
  block_->devices = static_cast<uint32_t>(devices.size());
  for (size_t i = 0; i < devices.size(); ++i) block_->capacity[i] = devices[i].spec.total_memory;
  block_->magic.store(kMagic, std::memory_order_release);
  return true;
}

bool SharedState::open(const char* session, const std::vector<DeviceChoice>& devices) {
  if (session == nullptr || *session == 0) return map(::memfd_create("simgpu-state", MFD_CLOEXEC), true, devices);
  const std::string name = "/dev/shm/simgpu-" + std::to_string(::getuid()) + "-" + session;
  const int fd = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return map(::memfd_create("simgpu-state", MFD_CLOEXEC), true, devices);
  ::flock(fd, LOCK_EX);
  struct stat status {};
  const bool known = ::fstat(fd, &status) == 0;
  const bool ok = known && map(fd, status.st_size < static_cast<off_t>(sizeof(SharedBlock)), devices);
  ::flock(fd, LOCK_UN);
  return ok;
}

bool SharedState::adopt(int fd) { return map(fd, false, {}); }

ProcessSlot* SharedState::own_slot() {
  if (slot_ != nullptr) return slot_;
  for (ProcessSlot& slot : block_->slots) {
    if (slot.pid.load() != 0) continue;
    slot.start_time = start_time_of(::getpid());
    for (auto& used : slot.used) used.store(0);
    for (auto& contexts : slot.contexts) contexts.store(0);
    slot.pid.store(::getpid());
    slot_ = &slot;
    return slot_;
  }
  return nullptr;
}

void SharedState::reclaim_dead() {
  for (ProcessSlot& slot : block_->slots) {
    const int pid = slot.pid.load();
    if (pid == 0 || &slot == slot_) continue;
    if (start_time_of(pid) != slot.start_time) slot.pid.store(0);
  }
}

uint64_t SharedState::used_locked(int device) {
  uint64_t sum = block_->foreign[device];
  for (ProcessSlot& slot : block_->slots)
    if (slot.pid.load(std::memory_order_relaxed) != 0) sum += slot.used[device].load(std::memory_order_relaxed);
  return sum;
}

bool SharedState::take(int device, uint64_t bytes) {
  Lock lock(block_);
  ProcessSlot* slot = own_slot();
  if (slot == nullptr) reclaim_dead(), slot = own_slot();
  if (slot == nullptr) return false;
  const uint64_t capacity = block_->capacity[device];
  if (bytes > capacity) return false;
  if (used_locked(device) + bytes > capacity) {
    reclaim_dead();
    if (used_locked(device) + bytes > capacity) return false;
  }
  slot->used[device] += bytes;
  return true;
}

void SharedState::give(int device, uint64_t bytes) {
  Lock lock(block_);
  if (slot_ != nullptr) slot_->used[device] -= bytes;
}

void SharedState::add_context(int device, int difference) {
  Lock lock(block_);
  if (ProcessSlot* slot = own_slot()) slot->contexts[device] += static_cast<uint32_t>(difference);
}

uint64_t SharedState::capacity(int device) {
  Lock lock(block_);
  return block_->capacity[device];
}

uint64_t SharedState::used(int device) {
  Lock lock(block_);
  reclaim_dead();
  return used_locked(device);
}

void SharedState::set_capacity(int device, uint64_t bytes) {
  Lock lock(block_);
  block_->capacity[device] = bytes;
}

void SharedState::set_foreign(int device, uint64_t bytes) {
  Lock lock(block_);
  block_->foreign[device] = bytes;
}

std::vector<ProcessUse> SharedState::processes(int device) {
  Lock lock(block_);
  reclaim_dead();
  std::vector<ProcessUse> result;
  for (ProcessSlot& slot : block_->slots)
    if (slot.pid.load() != 0 && slot.contexts[device].load() > 0)
      result.push_back({slot.pid.load(), slot.used[device].load()});
  return result;
}

}  // namespace cuheap::sim
