// How much of each device is taken, by which process: one block of memory shared by all processes of a run
// (SIMGPU_SESSION), or private to this one. A process that died gives its memory back when somebody looks.
// libnvidia-ml answers its process lists from here.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "simgpu/device_spec.h"

namespace cuheap::sim {

inline constexpr int kMaxProcesses = 256;

struct ProcessSlot {
  std::atomic<int32_t> pid;                  // 0: free
  uint64_t start_time;                       // of /proc/PID/stat: tells a reused pid
  std::atomic<uint64_t> used[kMaxDevices];   // bytes
  std::atomic<uint32_t> contexts[kMaxDevices];
};

struct SharedBlock {
  std::atomic<uint32_t> magic;
  uint32_t devices;
  pthread_mutex_t lock;                      // robust, process-shared
  uint64_t capacity[kMaxDevices];            // bytes; may be shrunk by the control API
  uint64_t foreign[kMaxDevices];             // bytes taken by make-believe other users
  ProcessSlot slots[kMaxProcesses];
};

struct ProcessUse {
  int pid;
  uint64_t bytes;
};

class SharedState {
 public:
  /// Joins the session, or makes a private block. Null session: private. False: no shared memory to be had.
  bool open(const char* session, const std::vector<DeviceChoice>& devices);
  /// Uses a block that another library of this process has opened.
  bool adopt(int fd);
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool is_open() const { return block_ != nullptr; }

  /// All or nothing. False: the device has not that much left.
  [[nodiscard]] bool take(int device, uint64_t bytes);
  void give(int device, uint64_t bytes);
  void add_context(int device, int difference);

  [[nodiscard]] uint64_t capacity(int device);
  [[nodiscard]] uint64_t used(int device);
  void set_capacity(int device, uint64_t bytes);
  void set_foreign(int device, uint64_t bytes);
  [[nodiscard]] std::vector<ProcessUse> processes(int device);

 private:
  class Lock;
  bool map(int fd, bool fresh, const std::vector<DeviceChoice>& devices);
  ProcessSlot* own_slot();
  void reclaim_dead();
  uint64_t used_locked(int device);

  SharedBlock* block_ = nullptr;
  ProcessSlot* slot_ = nullptr;
  int fd_ = -1;
};

}  // namespace cuheap::sim
