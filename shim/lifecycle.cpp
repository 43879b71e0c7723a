// Load, arming, fork, exit: the only file that acts without being called by a hook for an event.
//
//   load    notes where stderr goes and our options, no more: a process that never initialises CUDA gets no file and no thread
//   arming  the host's cuInit has succeeded: start the scribe, describe the devices, choose the allocator
//   fork    after arming the child is silent; before, it may arm itself
//   exit    no driver call; the trace is complete without a goodbye, so an orderly end only stamps it
#include "shim/lifecycle.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstring>

#include "shim/driver/driver.h"
#include "shim/driver/elf_symbols.h"
#include "shim/hooks/entry_names.h"
#include "shim/hooks/entry_points.h"
#include "shim/hooks/phases.h"
#include "shim/pool/direct.h"
#include "shim/pool/pool.h"
#include "tracer/base/keep_errno.h"
#include "tracer/base/message.h"
#include "tracer/base/options.h"
#include "tracer/helper.h"

namespace cuheap {

namespace detail {
constinit std::atomic<bool> armed{false};
constinit std::atomic<DeviceAllocator*> chosen_allocator{&direct_allocator};
}  // namespace detail

namespace {

enum class Arming : int { NotYet, InProgress, Done };
constinit std::atomic<Arming> arming{Arming::NotYet};

void in_fork_child() {
  detail::armed.store(false, std::memory_order_relaxed);
  process::disown();
  recorder().after_fork_in_child();
  allocator().after_fork_in_child();
}

struct Path {
  char text[4096];
};

constinit Path driver_path = {};
constinit std::atomic<std::uint32_t> driver_kept{0};

void* keep_driver(void*) {
  const HookScope scope;
  static_cast<void>(dlopen(driver_path.text, RTLD_LAZY | RTLD_NOLOAD));
  driver_kept.store(1, std::memory_order_release);
  syscall(SYS_futex, &driver_kept, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  return nullptr;
}

// Our pointers into libcuda must stay good even if the host closes its handle. dlopen waits while another thread runs a
// constructor, and that constructor may wait for this cuInit: so a thread of ours asks, and is waited for only so long.
// Late is still in time for every host but one that closes libcuda while it opens another library.
void keep_driver_loaded() {
  constexpr timespec kPatience{0, 100'000'000};
  const bool found = visit_objects(
      [](const LoadedObject& object, void* context) {
        if (object.begin != driver_range().begin || std::strlen(object.path) >= sizeof(Path::text)) return false;
        std::strcpy(static_cast<Path*>(context)->text, object.path);
        return true;
      },
      &driver_path);
  if (!found || start_thread(keep_driver, nullptr) != 0) return;
  if (driver_kept.load(std::memory_order_acquire) == 0)
    syscall(SYS_futex, &driver_kept, FUTEX_WAIT_PRIVATE, 0, &kPatience, nullptr, 0);
}

std::uint32_t attribute(CUdevice_attribute which, CUdevice device) {
  int value = 0;
  return driver().cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS && value > 0 ? static_cast<std::uint32_t>(value) : 0;
}

void define_device(const HookScope& scope, int ordinal) {
  CUdevice device = 0;
  if (driver().cuDeviceGet(&device, ordinal) != CUDA_SUCCESS) return;
  char name[256] = "";
  CUuuid uuid{};
  std::size_t total = 0;
  driver().cuDeviceGetName(name, sizeof(name) - 1, device);
  driver().cuDeviceTotalMem_v2(&total, device);
  if (driver().cuDeviceGetUuid_v2(&uuid, device) != CUDA_SUCCESS) driver().cuDeviceGetUuid(&uuid, device);
  DeviceRecord record;
  record.ordinal = static_cast<std::uint32_t>(ordinal);
  record.total_bytes = total;
  record.major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  record.minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  record.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  record.name = {name, std::strlen(name)};
  record.uuid = {uuid.bytes, sizeof(uuid.bytes)};
  recorder().define_device(scope, record);
}

void define_driver_version(const HookScope& scope) {
  int version = 0;
  if (driver().cuDriverGetVersion(&version) != CUDA_SUCCESS) return;
  // 13020 is 13.2.
  char text[16];
  char* at = text + sizeof(text);
  *--at = '\0';
  *--at = static_cast<char>('0' + version % 100 / 10);
  *--at = '.';
  for (int major = version / 1000; major > 0; major /= 10) *--at = static_cast<char>('0' + major % 10);
  recorder().define_meta(scope, "driver", at);
}

/// "3.11.2" of "3.11.2 (main, ...) [GCC ...]". Py_GetVersion needs no interpreter lock: its string is static.
void define_python_version(const HookScope& scope) {
  const auto version_of = reinterpret_cast<const char* (*)()>(find_symbol("Py_GetVersion", nullptr));
  if (version_of == nullptr) return;
  char text[32] = "";
  std::strncpy(text, version_of(), sizeof(text) - 1);
  if (char* const space = std::strchr(text, ' ')) *space = '\0';
  recorder().define_meta(scope, "python", text);
}

/// The package's version.py lies beside the folder of libc10.
bool find_torch(Path& path) {
  return visit_objects(
      [](const LoadedObject& object, void* context) {
        constexpr char kLibrary[] = "/lib/libc10.so";
        constexpr char kVersion[] = "/version.py";
        const std::size_t size = std::strlen(object.path), tail = sizeof(kLibrary) - 1;
        if (size <= tail || std::strcmp(object.path + size - tail, kLibrary) != 0) return false;
        char* const text = static_cast<Path*>(context)->text;
        if (size + sizeof(kVersion) > sizeof(Path::text)) return false;
        std::memcpy(text, object.path, size - tail);
        std::memcpy(text + size - tail, kVersion, sizeof(kVersion));
        return true;
      },
      &path);
}

void define_torch_version(const HookScope& scope) {
  Path path;
  if (!find_torch(path)) return;
  const int file = open(path.text, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  char text[1024];
  const ssize_t size = read(file, text, sizeof(text) - 1);
  close(file);
  if (size <= 0) return;
  text[size] = '\0';
  char* version = std::strstr(text, "__version__ = '");
  if (version == nullptr) return;
  version += std::strlen("__version__ = '");
  if (char* const quote = std::strchr(version, '\'')) *quote = '\0';
  recorder().define_meta(scope, "torch", version);
}

void describe_process() {
  const HookScope scope;
  recorder().define_meta(scope, "ground", is_driver_simulated() ? "simulated" : "gpu");
  define_driver_version(scope);
  define_python_version(scope);
  define_torch_version(scope);
  int devices = 0;
  if (driver().cuDeviceGetCount(&devices) != CUDA_SUCCESS) return;
  for (int ordinal = 0; ordinal < devices; ++ordinal) define_device(scope, ordinal);
}

// A newer driver brings new functions. Whoever asks for details (CUHEAP_VERBOSE) learns which memory functions nobody has
// looked at yet.
void audit_driver() {
  LoadedObject library;
  if (options().verbose == 0 || !find_object("libcuda.so.1", &library)) return;
  library.for_each_function(
      [](const char* name, void*) {
        if (!is_memory_name(name) || is_classified(name)) return;
        MessageLine().text("this driver has ").text(name).text(", which cuheap does not know; its memory is not traced").send();
      },
      nullptr);
}

struct StepAsidePatterns {
  const char* patterns[kStepAsideModuleCount + 1] = {};
  constexpr StepAsidePatterns() {
    for (unsigned i = 0; i < kStepAsideModuleCount; ++i) patterns[i] = kStepAsideModules[i];
  }
};
constexpr StepAsidePatterns kStepAside;

bool start_recording() {
  return recorder().start({.directory = options().dir.value,
                           .native_stacks = options().stacks == Stacks::Native,
                           .module_patterns = kStepAside.patterns});
}

bool has_all_required() {
  for (std::size_t i = 0; i < kEntryPointCount; ++i) {
    if (kEntryPoints[i].need == Need::Required && driver_function(kEntryPoints[i].slot) == nullptr) return false;
  }
  return true;
}

/// Look-ups are substituted by address. A driver whose cuGetProcAddress gave other functions than it exports would let
/// others past us: then nothing may be pooled, for its end would not be seen.
bool is_look_up_consistent() {
  struct Probe {
    const char* name;
    int version;
    const void* expected;
  };
  const Probe probes[] = {{"cuMemAlloc", 3020, reinterpret_cast<const void*>(driver().cuMemAlloc_v2)},
                          {"cuMemFree", 3020, reinterpret_cast<const void*>(driver().cuMemFree_v2)},
                          {"cuMemGetInfo", 3020, reinterpret_cast<const void*>(driver().cuMemGetInfo_v2)},
                          {"cuPointerGetAttribute", 4000, reinterpret_cast<const void*>(driver().cuPointerGetAttribute)}};
  if (!has(driver().cuGetProcAddress_v2)) return true;  // before 12.0: libraries look up by dlsym
  for (const Probe& probe : probes) {
    void* found = nullptr;
    CUdriverProcAddressQueryResult status{};
    if (driver().cuGetProcAddress_v2(probe.name, &found, probe.version, 0, &status) == CUDA_SUCCESS && found == probe.expected) continue;
    MessageLine()
        .text("this driver hands out a ")
        .text(probe.name)
        .text(" of its own to libraries: their memory is not traced, and nothing is pooled")
        .send();
    return false;
  }
  return true;
}

DeviceAllocator& choose_allocator() {
  // Whose memory must step aside is seen on the stack: without stacks nobody is pooled unless the user insists.
  const bool blind = options().pool == PoolMode::Auto && options().stacks == Stacks::Off;
  const bool seen = has_all_required() && is_look_up_consistent();
  if (options().pool == PoolMode::Off || blind || !seen) return direct_allocator;
  return start_pool({.driver = &driver(),
                     .sink = &recorder(),
                     .is_forced = options().pool == PoolMode::On,
                     .is_simulated = is_driver_simulated(),
                     .ordered_free = options().pool_free == PoolFree::Ordered,
                     .has_context_events = has(driver().cuCtxRecordEvent),
                     .fill = options().poison ? 0xa5 : options().zero ? 0 : -1,
                     .checks = options().check != 0});
}

void arm() {
  keep_driver_loaded();
  if (!process::claim() || !start_recording()) return;  // one line has said why; the host goes on as without us
  pthread_atfork(nullptr, nullptr, in_fork_child);
  describe_process();
  audit_driver();
  detail::chosen_allocator.store(&choose_allocator(), std::memory_order_relaxed);
  detail::armed.store(true, std::memory_order_release);
  const HookScope scope;
  publish_phases(scope);
}

__attribute__((constructor)) void at_load() {
  remember_stderr();
  remember_environment(environment_block());
}

__attribute__((destructor)) void at_exit() {
  process::set_exiting();
  if (is_recording()) recorder().stop();
}

}  // namespace

void driver_initialised() {
  Arming expected = Arming::NotYet;
  if (!arming.compare_exchange_strong(expected, Arming::InProgress)) return;
  const KeepErrno keep;
  driver_will_stay();
  arm();
  arming.store(Arming::Done);
}

}  // namespace cuheap
