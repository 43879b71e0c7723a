// What concerns more than one process, or a process's beginning and end: sessions, IPC, fork, exit, faults.
#include <dlfcn.h>
#include <nvml.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "fixture.h"

namespace cuheap::sim::test {
namespace {

/// Runs in a forked process of its own; true: it left with 0. The parent must not have called cuInit.
pid_t start(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::alarm(60);
  ::_exit(body() ? 0 : 1);
}

bool succeeded(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool use_device() {
  CUcontext context = nullptr;
  return cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS && cuCtxSetCurrent(context) == CUDA_SUCCESS;
}

size_t free_now() {
  size_t free = 0, total = 0;
  cuMemGetInfo(&free, &total);
  return free;
}

/// One byte says: go on.
struct Pipe {
  int ends[2];
  Pipe() { EXPECT_EQ(::pipe(ends), 0); }
  void send(const void* data, size_t bytes) const { EXPECT_EQ(::write(ends[1], data, bytes), static_cast<ssize_t>(bytes)); }
  bool receive(void* data, size_t bytes) const { return ::read(ends[0], data, bytes) == static_cast<ssize_t>(bytes); }
  void signal() const { send("x", 1); }
  bool wait() const {
    char byte;
    return receive(&byte, 1);
  }
};

}  // namespace

TEST(Processes, OneSeesTheBytesOfAnotherThroughIpc) {
  const Pipe to_importer, to_owner;
  const pid_t owner = start([&] {
    CUdeviceptr block = 0;
    CUipcMemHandle handle;
    char byte = 'i', back = 0;
    if (!use_device() || cuMemAlloc(&block, 20001) || cuMemAlloc(&block, 20002) || cuMemcpyHtoD(block + 20000, &byte, 1)) return false;
    if (cuIpcGetMemHandle(&handle, block)) return false;
    CUdeviceptr own = 0;
    if (cuIpcOpenMemHandle(&own, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS) return false;
    to_importer.send(&handle, sizeof handle);
    return to_owner.wait() && cuMemcpyDtoH(&back, block + 20001, 1) == CUDA_SUCCESS && back == 'j';
  });
  const pid_t importer = start([&] {
    CUipcMemHandle handle;
    CUdeviceptr block = 0, again = 0;
    char byte = 0;
    if (!to_importer.receive(&handle, sizeof handle) || !use_device()) return false;
    const size_t before = free_now();
    if (cuIpcOpenMemHandle(&block, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) return false;
    if (cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) || again != block) return false;
    if (free_now() != before || cuMemcpyDtoH(&byte, block + 20000, 1) || byte != 'i') return false;
    byte = 'j';
    if (cuMemcpyHtoD(block + 20001, &byte, 1)) return false;
    if (cuMemFree(block) == CUDA_SUCCESS || cuIpcCloseMemHandle(block) || cuIpcCloseMemHandle(block)) return false;
    to_owner.signal();
    return cuIpcCloseMemHandle(block) != CUDA_SUCCESS;
  });

  EXPECT_TRUE(succeeded(importer));
  EXPECT_TRUE(succeeded(owner));
}

TEST(Processes, AnEventOfAnotherProcessCanBeWaitedFor) {
  const Pipe to_importer, to_owner, recorded;
  const pid_t owner = start([&] {
    CUevent event = nullptr;
    CUstream stream = nullptr;
    CUipcEventHandle handle;
    if (!use_device() || cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) || cuStreamCreate(&stream, 1)) return false;
    if (cuIpcGetEventHandle(&handle, event)) return false;
    simgpu_hold_stream(stream, 1);
    if (cuEventRecord(event, stream)) return false;
    to_importer.send(&handle, sizeof handle);
    if (!to_owner.wait()) return false;
    simgpu_hold_stream(stream, 0);
    return cuStreamSynchronize(stream) == CUDA_SUCCESS && recorded.wait();
  });
  const pid_t importer = start([&] {
    CUipcEventHandle handle;
    CUevent event = nullptr;
    if (!to_importer.receive(&handle, sizeof handle) || !use_device() || cuIpcOpenEventHandle(&event, handle)) return false;
    if (cuEventQuery(event) != CUDA_ERROR_NOT_READY) return false;
    to_owner.signal();
    const bool passed = cuEventSynchronize(event) == CUDA_SUCCESS && cuEventQuery(event) == CUDA_SUCCESS;
    recorded.signal();
    return passed;
  });

  EXPECT_TRUE(succeeded(importer));
  EXPECT_TRUE(succeeded(owner));
}

TEST(Processes, OfOneSessionShareTheDeviceAndTheDeadGiveBack) {
  const std::string session = "test-" + std::to_string(::getpid());
  ::setenv("SIMGPU_SESSION", session.c_str(), 1);
  const Pipe taken, looked;
  const pid_t holder = start([&] {
    CUdeviceptr block = 0;
    if (!use_device() || cuMemAlloc(&block, kGiB)) return false;
    taken.signal();
    return looked.wait();
  });
  const pid_t watcher = start([&] {
    if (!taken.wait()) return false;
    nvmlDevice_t device = nullptr;
    unsigned count = 4;
    nvmlProcessInfo_t users[4];
    if (nvmlInit_v2() || nvmlDeviceGetHandleByIndex_v2(0, &device) ||
        nvmlDeviceGetComputeRunningProcesses_v3(device, &count, users))
      return false;
    if (count != 1 || users[0].pid != static_cast<unsigned>(holder) || users[0].usedGpuMemory <= kGiB) return false;
    if (!use_device()) return false;
    const size_t with_holder = free_now();
    ::kill(holder, SIGKILL);
    int status = 0;
    while (::kill(holder, 0) == 0 && free_now() == with_holder) ::usleep(1000);
    (void)status;
    return free_now() > with_holder + kGiB;
  });

  EXPECT_TRUE(succeeded(watcher));
  int status = 0;
  ::waitpid(holder, &status, 0);
  ::unlink(("/dev/shm/simgpu-" + std::to_string(::getuid()) + "-" + session).c_str());
  ::unsetenv("SIMGPU_SESSION");
}

TEST(Processes, NvmlSeesTheLibcudaOfItsOwnProcess) {
  EXPECT_TRUE(succeeded(start([] {
    nvmlDevice_t device = nullptr;
    nvmlMemory_t memory{};
    CUdeviceptr block = 0;
    int major = 0, minor = 0;
    char name[96];
    unsigned speed = 0;
    if (nvmlInit_v2() || nvmlDeviceGetHandleByIndex_v2(0, &device) || nvmlDeviceGetMemoryInfo(device, &memory) ||
        memory.used != 0)
      return false;
    if (!use_device() || cuMemAlloc(&block, kGiB) || nvmlDeviceGetMemoryInfo(device, &memory)) return false;
    if (memory.free != free_now() || memory.used < kGiB) return false;
    return nvmlDeviceGetCudaComputeCapability(device, &major, &minor) == NVML_SUCCESS && major == 8 &&
           nvmlDeviceGetName(device, name, sizeof name) == NVML_SUCCESS &&
           nvmlDeviceGetFanSpeed(device, &speed) == NVML_ERROR_NOT_SUPPORTED;
  })));
}

TEST(Processes, AForkedChildOfAnInitialisedParentHasNoDevice) {
  EXPECT_TRUE(succeeded(start([] {
    if (!use_device()) return false;
    const pid_t child = ::fork();
    if (child == 0) {
      CUdeviceptr block = 0;
      int count = 0;
      const bool dead = cuMemAlloc(&block, 1) == CUDA_ERROR_NOT_INITIALIZED && cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                        cuInit(0) == CUDA_ERROR_NOT_INITIALIZED;
      ::exit(dead ? 0 : 1);
    }
    CUdeviceptr block = 0;
    return succeeded(child) && cuMemAlloc(&block, 1) == CUDA_SUCCESS;
  })));
}

TEST(Processes, CallsBeforeInitAreRefused) {
  EXPECT_TRUE(succeeded(start([] {
    int count = 0, version = 0;
    CUdeviceptr block = 0;
    return cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED && cuMemAlloc(&block, 1) == CUDA_ERROR_NOT_INITIALIZED &&
           cuDriverGetVersion(&version) == CUDA_SUCCESS && version == CUDA_VERSION && cuInit(1) == CUDA_ERROR_INVALID_VALUE &&
           cuInit(0) == CUDA_SUCCESS && cuMemAlloc(&block, 1) == CUDA_ERROR_INVALID_CONTEXT;
  })));
}

TEST(Processes, ExitWhileAStreamWorksDoesNotHang) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    CUstream stream = nullptr;
    CUdeviceptr block = 0;
    use_device();
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cuMemAlloc(&block, 4096);
    simgpu_delay_stream(stream, 5'000'000'000);
    cuMemsetD8Async(block, 1, 4096, stream);
    ::exit(0);
  }
  EXPECT_TRUE(succeeded(child));
}

TEST(Processes, FaultsComeByEnvironment) {
  EXPECT_TRUE(succeeded(start([] {
    // A fresh program image, so that the library reads the variable.
    ::setenv("SIMGPU_FAULT", "cuMemAlloc:2:2,cuDeviceGetCount:0:999", 1);
    ::execl("/proc/self/exe", "self", "--gtest_filter=FaultedByEnvironment.*", "--gtest_also_run_disabled_tests",
            static_cast<char*>(nullptr));
    return false;
  })));
}

TEST(FaultedByEnvironment, DISABLED_SecondAllocationFails) {
  CUdeviceptr block = 0;
  int count = 0;
  ASSERT_TRUE(use_device());
  EXPECT_CU(cuMemAlloc(&block, 1));
  EXPECT_CU_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&block, 1));
  EXPECT_CU(cuMemAlloc(&block, 1));
  EXPECT_CU_ERROR(CUDA_ERROR_UNKNOWN, cuDeviceGetCount(&count));
}

TEST(Processes, AWrongFaultIsToldAndNothingStarts) {
  EXPECT_TRUE(succeeded(start([] {
    ::setenv("SIMGPU_FAULT", "cuMemAloc:nth=2:code=2", 1);
    ::execl("/proc/self/exe", "self", "--gtest_filter=WronglyFaulted.*", "--gtest_also_run_disabled_tests",
            static_cast<char*>(nullptr));
    return false;
  })));
}

TEST(WronglyFaulted, DISABLED_InitFails) {
  ::testing::internal::CaptureStderr();
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuInit(0));
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("SIMGPU_FAULT names no function of the driver: 'cuMemAloc'"), std::string::npos) << told;
}

TEST(Processes, AnAddressSpaceLimitOnlyShrinksTheReservation) {
  EXPECT_TRUE(succeeded(start([] {
    ::execl("/bin/sh", "sh", "-c", "ulimit -v 67108864; exec \"$0\" --gtest_filter=DeviceMemory.KeepsWhatWasCopiedIn", SIMGPU_TEST,
            static_cast<char*>(nullptr));
    return false;
  })));
}

}  // namespace cuheap::sim::test
