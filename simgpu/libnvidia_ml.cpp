// libnvidia-ml.so.1 of the make-believe machine: devices, memory in use and the processes that use it. In a process that also
// runs simgpu's libcuda the numbers are that library's own; with SIMGPU_SESSION they are those of all processes of the session.
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "simgpu/device_attributes.h"
#include "simgpu/machine.h"
#include "simgpu/nvml_entry.h"

#define SIMGPU_API extern "C" __attribute__((visibility("default")))

namespace cuheap::sim {
namespace {

struct Nvml {
  std::mutex lock;
  int references = 0;
  bool adopted = false;
  std::vector<DeviceChoice> devices;
  SharedState shared;
};

Nvml& nvml() {
  static auto& only = *new Nvml;
  return only;
}

/// The state of the libcuda of this process once it has one: without a session it is private to that library.
void join_libcuda(Nvml& n) {
  if (n.adopted) return;
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return;
  const auto descriptor = reinterpret_cast<int (*)()>(::dlsym(library, "simgpu_state_descriptor"));
  const int fd = descriptor != nullptr ? descriptor() : -1;
  if (fd >= 0) {
    SharedState joined;
    if (joined.adopt(fd)) n.shared = joined, n.adopted = true;
  }
  ::dlclose(library);
}

nvmlReturn_t start(unsigned flags) {
  Nvml& n = nvml();
  std::lock_guard guard(n.lock);
  if (n.references == 0) {
    std::string error;
    if (!devices_from_environment(n.devices, error)) {
      if ((flags & NVML_INIT_FLAG_NO_GPUS) != 0) n.devices.clear();
      else return std::fprintf(stderr, "%s\n", error.c_str()), NVML_ERROR_DRIVER_NOT_LOADED;
    }
    if (!n.shared.is_open() && !n.shared.open(std::getenv("SIMGPU_SESSION"), n.devices)) return NVML_ERROR_UNKNOWN;
  }
  ++n.references;
  return NVML_SUCCESS;
}

/// The index of a device handle; a result to return otherwise.
nvmlReturn_t index_of(nvmlDevice_t handle, int& index) {
  Nvml& n = nvml();
  std::lock_guard guard(n.lock);
  if (n.references == 0) return NVML_ERROR_UNINITIALIZED;
  const auto value = reinterpret_cast<uintptr_t>(handle);
  if (value == 0 || value > n.devices.size()) return NVML_ERROR_INVALID_ARGUMENT;
  join_libcuda(n);
  index = static_cast<int>(value - 1);
  return NVML_SUCCESS;
}

#define SIMGPU_DEVICE_OR_RETURN(handle)                                                     \
  int index = 0;                                                                            \
  if (const nvmlReturn_t wrong = index_of(handle, index); wrong != NVML_SUCCESS) return wrong

const DeviceSpec& spec(int index) { return nvml().devices[static_cast<size_t>(index)].spec; }

nvmlDevice_t handle_of(int index) { return reinterpret_cast<nvmlDevice_t>(static_cast<uintptr_t>(index + 1)); }

nvmlReturn_t give_text(char* out, unsigned length, const std::string& text) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (text.size() + 1 > length) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

std::string uuid_text(int index) {
  unsigned char b[16];
  device_uuid(index, b);
  char text[64];
  std::snprintf(text, sizeof text, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3],
                b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
  return text;
}

nvmlReturn_t fill_pci(int index, nvmlPciInfo_t* out) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *out = {};
  out->bus = static_cast<unsigned>(device_bus(index));
  out->pciDeviceId = static_cast<unsigned>(spec(index).pci_device_id);
  std::snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "%s", pci_bus_id(index).c_str());
  std::snprintf(out->busId, sizeof out->busId, "0000%s", pci_bus_id(index).c_str());
  return NVML_SUCCESS;
}

template <class Info>
nvmlReturn_t processes(nvmlDevice_t device, unsigned* count, Info* out) {
  SIMGPU_DEVICE_OR_RETURN(device);
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const auto found = nvml().shared.processes(index);
  const unsigned room = *count;
  *count = static_cast<unsigned>(found.size());
  if (found.empty()) return NVML_SUCCESS;
  if (out == nullptr || room < found.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (size_t i = 0; i < found.size(); ++i) {
    std::memset(&out[i], 0xff, sizeof out[i]);  // no MIG: the instance ids are 0xFFFFFFFF
    out[i].pid = static_cast<unsigned>(found[i].pid);
    out[i].usedGpuMemory = found[i].bytes;
  }
  return NVML_SUCCESS;
}

int driver_version() {
  const char* text = std::getenv("SIMGPU_DRIVER_VERSION");
  const int wanted = text != nullptr ? std::atoi(text) : 0;
  return wanted > 0 ? wanted : 13000;
}

}  // namespace

int nvml_not_supported(const char* name) {
  static const int log = [] {
    const char* path = std::getenv("SIMGPU_LOG");
    FILE* file = path != nullptr && *path != 0 ? std::fopen(path, "ae") : nullptr;
    return file != nullptr ? ::fileno(file) : -1;
  }();
  char line[160];
  const int n = std::snprintf(line, sizeof line, "%d %s NOT_SUPPORTED\n", static_cast<int>(::getpid()), name);
  if (log >= 0 && ::write(log, line, static_cast<size_t>(n)) < 0) return NVML_ERROR_NOT_SUPPORTED;
  return NVML_ERROR_NOT_SUPPORTED;
}

}  // namespace cuheap::sim

using namespace cuheap::sim;

SIMGPU_API nvmlReturn_t nvmlInit() { return start(0); }
SIMGPU_API nvmlReturn_t nvmlInit_v2() { return start(0); }
SIMGPU_API nvmlReturn_t nvmlInitWithFlags(unsigned int flags) { return start(flags); }

SIMGPU_API nvmlReturn_t nvmlShutdown() {
  std::lock_guard guard(nvml().lock);
  if (nvml().references == 0) return NVML_ERROR_UNINITIALIZED;
  --nvml().references;
  return NVML_SUCCESS;
}

SIMGPU_API const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS: return "The operation was successful";
    case NVML_ERROR_UNINITIALIZED: return "NVML was not first initialized with nvmlInit()";
    case NVML_ERROR_INVALID_ARGUMENT: return "A supplied argument is invalid";
    case NVML_ERROR_NOT_SUPPORTED: return "The requested operation is not available on target device";
    case NVML_ERROR_NO_PERMISSION: return "The current user does not have permission for operation";
    case NVML_ERROR_NOT_FOUND: return "A query to find an object was unsuccessful";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "An input argument is not large enough";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "The driver is not loaded";
    default: return "Unknown error";
  }
}

SIMGPU_API nvmlReturn_t nvmlSystemGetDriverVersion(char* out, unsigned int length) { return give_text(out, length, "580.0.0-simgpu"); }
SIMGPU_API nvmlReturn_t nvmlSystemGetNVMLVersion(char* out, unsigned int length) { return give_text(out, length, "13.580.0"); }

SIMGPU_API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* out) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return *out = driver_version(), NVML_SUCCESS;
}

SIMGPU_API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* out) { return nvmlSystemGetCudaDriverVersion(out); }

SIMGPU_API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  std::lock_guard guard(nvml().lock);
  if (nvml().references == 0) return NVML_ERROR_UNINITIALIZED;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = static_cast<unsigned>(nvml().devices.size());
  return NVML_SUCCESS;
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetCount(unsigned int* count) { return nvmlDeviceGetCount_v2(count); }

SIMGPU_API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int wanted, nvmlDevice_t* out) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  SIMGPU_DEVICE_OR_RETURN(handle_of(static_cast<int>(wanted)));
  *out = handle_of(index);
  return NVML_SUCCESS;
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int wanted, nvmlDevice_t* out) {
  return nvmlDeviceGetHandleByIndex_v2(wanted, out);
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* text, nvmlDevice_t* out) {
  unsigned domain = 0, bus = 0, slot = 0;
  if (out == nullptr || text == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const bool parsed = std::sscanf(text, "%x:%x:%x", &domain, &bus, &slot) == 3 || std::sscanf(text, "%x:%x", &bus, &slot) == 2;
  if (!parsed) return NVML_ERROR_INVALID_ARGUMENT;
  SIMGPU_DEVICE_OR_RETURN(handle_of(device_at_bus(static_cast<int>(bus))));
  *out = handle_of(index);
  return NVML_SUCCESS;
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* text, nvmlDevice_t* out) {
  return nvmlDeviceGetHandleByPciBusId_v2(text, out);
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* text, nvmlDevice_t* out) {
  if (out == nullptr || text == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned count = 0;
  if (const nvmlReturn_t wrong = nvmlDeviceGetCount_v2(&count); wrong != NVML_SUCCESS) return wrong;
  for (int i = 0; i < static_cast<int>(count); ++i)
    if (uuid_text(i) == text) return *out = handle_of(i), NVML_SUCCESS;
  return NVML_ERROR_NOT_FOUND;
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* out, unsigned int length) {
  SIMGPU_DEVICE_OR_RETURN(device);
  return give_text(out, length, nvml().devices[static_cast<size_t>(index)].name);
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* out, unsigned int length) {
  SIMGPU_DEVICE_OR_RETURN(device);
  return give_text(out, length, uuid_text(index));
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char* out, unsigned int length) {
  SIMGPU_DEVICE_OR_RETURN(device);
  return give_text(out, length, "simgpu-" + std::to_string(index));
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int* out) {
  SIMGPU_DEVICE_OR_RETURN(device);
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return *out = static_cast<unsigned>(index), NVML_SUCCESS;
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int* out) { return nvmlDeviceGetIndex(device, out); }

SIMGPU_API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* out) {
  SIMGPU_DEVICE_OR_RETURN(device);
  return fill_pci(index, out);
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t* out) { return nvmlDeviceGetPciInfo_v3(device, out); }
SIMGPU_API nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t* out) { return nvmlDeviceGetPciInfo_v3(device, out); }

SIMGPU_API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* out) {
  SIMGPU_DEVICE_OR_RETURN(device);
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  out->total = nvml().shared.capacity(index);
  out->used = nvml().shared.used(index);
  out->free = out->total > out->used ? out->total - out->used : 0;
  return NVML_SUCCESS;
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* out) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (out->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  nvmlMemory_t simple{};
  const nvmlReturn_t result = nvmlDeviceGetMemoryInfo(device, &simple);
  if (result != NVML_SUCCESS) return result;
  out->total = simple.total, out->used = simple.used, out->free = simple.free, out->reserved = 0;
  return NVML_SUCCESS;
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  SIMGPU_DEVICE_OR_RETURN(device);
  if (major == nullptr || minor == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *major = spec(index).capability_major;
  *minor = spec(index).capability_minor;
  return NVML_SUCCESS;
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned int* out) {
  SIMGPU_DEVICE_OR_RETURN(device);
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return *out = static_cast<unsigned>(spec(index).memory_bus_bits), NVML_SUCCESS;
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t* out) {
  SIMGPU_DEVICE_OR_RETURN(device);
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return *out = NVML_COMPUTEMODE_DEFAULT, NVML_SUCCESS;
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t* out) {
  SIMGPU_DEVICE_OR_RETURN(device);
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return *out = NVML_FEATURE_ENABLED, NVML_SUCCESS;
}

// Nothing computes: the device is idle. That is the truth about this machine.
SIMGPU_API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* out) {
  SIMGPU_DEVICE_OR_RETURN(device);
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return *out = {0, 0}, NVML_SUCCESS;
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int* out) {
  SIMGPU_DEVICE_OR_RETURN(device);
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *out = static_cast<unsigned>(type == NVML_CLOCK_MEM ? spec(index).memory_clock_khz : spec(index).clock_khz) / 1000;
  return NVML_SUCCESS;
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int* out) {
  return nvmlDeviceGetMaxClockInfo(device, type, out);
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* count, nvmlProcessInfo_t* out) {
  return processes(device, count, out);
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int* count, nvmlProcessInfo_v2_t* out) {
  return processes(device, count, out);
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int* count, nvmlProcessInfo_v1_t* out) {
  return processes(device, count, out);
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int* count, nvmlProcessInfo_t*) {
  SIMGPU_DEVICE_OR_RETURN(device);
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return *count = 0, NVML_SUCCESS;
}

SIMGPU_API nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other, nvmlGpuP2PCapsIndex_t, nvmlGpuP2PStatus_t* out) {
  SIMGPU_DEVICE_OR_RETURN(one);
  if (const nvmlReturn_t wrong = index_of(other, index); wrong != NVML_SUCCESS) return wrong;
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return *out = NVML_P2P_STATUS_OK, NVML_SUCCESS;
}
