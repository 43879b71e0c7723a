#include "simgpu/libcuda_entry.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "simgpu/faults.h"

namespace cuheap::sim {
namespace {

enum class State { Fresh, Ready, Failed };

struct Entry {
  std::mutex lock;
  std::atomic<State> state{State::Fresh};
  std::atomic<CUresult> init_result{CUDA_ERROR_NOT_INITIALIZED};
  std::atomic<bool> exiting{false};
  std::atomic<uint32_t> fault_epoch{1};
  std::vector<Fault> faults;
  std::string fault_error;               // what is wrong with SIMGPU_FAULT
  std::atomic<CallSite*> sites{nullptr};
  std::atomic<int> log_fd{-2};           // -2: not looked up
  const unsigned char* owner = nullptr;  // a page that a forked child finds wiped
};

Entry& entry() {
  static auto& only = *new Entry;
  return only;
}

thread_local bool per_thread_default = false;

bool is_forked_child() {
  const unsigned char* owner = entry().owner;
  return owner != nullptr && *owner == 0;
}

int log_fd() {
  Entry& e = entry();
  int fd = e.log_fd.load();
  if (fd != -2) return fd;
  const char* path = std::getenv("SIMGPU_LOG");
  fd = path != nullptr && *path != 0 ? ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
  e.log_fd.store(fd);
  return fd;
}

void log_call(const char* name, const char* remark) {
  const int fd = log_fd();
  if (fd < 0) return;
  char line[256];
  const int n = std::snprintf(line, sizeof line, "%d %s%s\n", static_cast<int>(::getpid()), name, remark);
  if (::write(fd, line, static_cast<size_t>(n)) < 0) entry().log_fd.store(-1);
}

void make_known(CallSite& site) {
  if (site.known.exchange(true)) return;
  Entry& e = entry();
  site.next = e.sites.load();
  while (!e.sites.compare_exchange_weak(site.next, &site)) {
  }
}

/// The code of a fault that is due, 0 otherwise.
int due_fault(CallSite& site) {
  Entry& e = entry();
  int code = 0;
  bool hangs = false;
  {
    std::lock_guard guard(e.lock);
    bool concerned = false;
    for (Fault& fault : e.faults) {
      if (!names_function(fault.name, site.name)) continue;
      concerned = true;
      if (!fault.is_due()) continue;
      if (fault.code != 0) code = fault.code;
      hangs = hangs || fault.hangs;
      const bool has_device = e.state.load() == State::Ready && valid_device(fault.device);
      if (fault.capacity != 0 && has_device) machine().shared.set_capacity(fault.device, fault.capacity);
    }
    site.may_fault.store(concerned);
    site.fault_epoch.store(e.fault_epoch.load());
  }
  while (hangs) ::pause();
  return code;
}

int fault_of(CallSite& site) {
  const bool looked = site.fault_epoch.load(std::memory_order_relaxed) == entry().fault_epoch.load(std::memory_order_relaxed);
  return looked && !site.may_fault.load(std::memory_order_relaxed) ? 0 : due_fault(site);
}

__attribute__((destructor)) void at_exit() { entry().exiting.store(true); }

}  // namespace

PerThreadDefaultStream::PerThreadDefaultStream() : before_(std::exchange(per_thread_default, true)) {}
PerThreadDefaultStream::~PerThreadDefaultStream() { per_thread_default = before_; }

CUresult enter(CallSite& site, Needs needs) {
  Entry& e = entry();
  site.calls.fetch_add(1, std::memory_order_relaxed);
  make_known(site);
  if (e.log_fd.load(std::memory_order_relaxed) != -1) log_call(site.name, "");
  if (e.exiting.load(std::memory_order_relaxed)) return CUDA_ERROR_DEINITIALIZED;
  if (is_forked_child()) return CUDA_ERROR_NOT_INITIALIZED;
  if (const int code = fault_of(site); code != 0) return static_cast<CUresult>(code);
  if (needs == Needs::Nothing) return CUDA_SUCCESS;
  if (e.state.load(std::memory_order_acquire) != State::Ready) return CUDA_ERROR_NOT_INITIALIZED;
  if (needs == Needs::Init) return CUDA_SUCCESS;
  const auto& stack = context_stack();
  if (stack.empty() || stack.back() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (stack.back()->destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return sticky(*stack.back());
}

CUresult not_supported(CallSite& site) {
  site.calls.fetch_add(1, std::memory_order_relaxed);
  make_known(site);
  log_call(site.name, " NOT_SUPPORTED");
  const int code = fault_of(site);
  return code != 0 ? static_cast<CUresult>(code) : CUDA_ERROR_NOT_SUPPORTED;
}

int driver_version() {
  static const int version = [] {
    const char* text = std::getenv("SIMGPU_DRIVER_VERSION");
    const int wanted = text != nullptr ? std::atoi(text) : 0;
    return wanted > 0 ? wanted : CUDA_VERSION;
  }();
  return version;
}

SIMGPU_API CUresult cuInit(unsigned int flags) {
  SIMGPU_ENTER(Needs::Nothing);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Entry& e = entry();
  std::lock_guard guard(e.lock);
  if (e.state.load() == State::Ready) return CUDA_SUCCESS;
  if (e.state.load() == State::Failed) return e.init_result.load();
  std::string error = e.fault_error;
  if (!error.empty() || !machine().start(error)) {
    std::fprintf(stderr, "%s\n", error.c_str());
    e.init_result.store(!e.fault_error.empty()          ? CUDA_ERROR_INVALID_VALUE
                        : machine().devices.empty() ? CUDA_ERROR_NO_DEVICE
                                                    : CUDA_ERROR_OUT_OF_MEMORY);
    e.state.store(State::Failed);
    return e.init_result.load();
  }
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page != MAP_FAILED && ::madvise(page, 4096, MADV_WIPEONFORK) == 0) {
    *static_cast<unsigned char*>(page) = 1;
    e.owner = static_cast<const unsigned char*>(page);
  }
  e.state.store(State::Ready, std::memory_order_release);
  return CUDA_SUCCESS;
}

// Contexts and streams of the calling thread --------------------------------------------------------------------------

// A static destructor of the program may call after the main thread's thread_locals have ended (tests/programs/exits.cpp),
// so that thread's stack is never destroyed; other threads end theirs.
std::vector<ContextRef>& context_stack() {
  thread_local std::vector<ContextRef>* stack = nullptr;
  if (stack == nullptr) {
    stack = new std::vector<ContextRef>;
    thread_local struct EndsWithThread {
      std::vector<ContextRef>* owned;
      ~EndsWithThread() {
        if (gettid() != getpid()) delete owned;
      }
    } end{stack};
  }
  return *stack;
}

ContextRef current_context_or_null() {
  const auto& stack = context_stack();
  return stack.empty() ? nullptr : stack.back();
}

Context& current_context() { return *context_stack().back(); }

ContextRef find_context(CUcontext handle) { return machine().contexts.find(handle); }

bool valid_device(CUdevice device) { return device >= 0 && static_cast<size_t>(device) < machine().devices.size(); }

std::shared_ptr<Stream> find_stream(CUstream handle, Context& context) {
  if (handle == nullptr) return per_thread_default ? context.per_thread_stream() : context.legacy;
  if (handle == CU_STREAM_LEGACY) return context.legacy;
  if (handle == CU_STREAM_PER_THREAD) return context.per_thread_stream();
  return machine().streams.find(handle);
}

Ordering ordering_of(CUstream handle) {
  Ordering found;
  if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    found.context = current_context_or_null();
    if (found.context == nullptr) return found.result = CUDA_ERROR_INVALID_CONTEXT, found;
    if (found.context->destroyed) return found.result = CUDA_ERROR_CONTEXT_IS_DESTROYED, found;
    found.stream = find_stream(handle, *found.context);
  } else {
    found.stream = machine().streams.find(handle);
    if (found.stream != nullptr) found.context = machine().context_by_id(found.stream->context_id);
    if (found.context == nullptr) return found.result = CUDA_ERROR_INVALID_HANDLE, found;
  }
  found.result = sticky(*found.context);
  return found;
}

ContextRef context_of(const Stream& stream, Context& fallback) {
  if (stream.context_id == fallback.id) return machine().contexts.find(&fallback);
  return machine().context_by_id(stream.context_id);
}

CUresult sticky(const Context& context) { return static_cast<CUresult>(context.errors->sticky.load(std::memory_order_relaxed)); }

CUresult unsafe_call() { return result_of(check_unsafe_call()); }

CUresult submit(Context& context, CUstream handle, NodeType type, Work work, std::any parameters, Mark* mark) {
  const auto stream = find_stream(handle, context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return submit(context, stream, type, std::move(work), std::move(parameters), mark);
}

CUresult submit(Context& context, const std::shared_ptr<Stream>& stream, NodeType type, Work work, std::any parameters, Mark* mark,
                GraphNode** node) {
  if (stream->capturing.load(std::memory_order_relaxed)) {
    GraphNode* added = capture_node(stream, type);
    if (added == nullptr) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    added->run = std::move(work.run);
    added->calls_host = !work.may_run_inline;
    added->cost_ns = work.cost_ns;
    added->parameters = std::move(parameters);
    if (node != nullptr) *node = added;
    return CUDA_SUCCESS;
  }
  ContextRef other;
  Context* owner = &context;
  if (stream->context_id != context.id) {
    other = machine().context_by_id(stream->context_id);
    if (other == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    owner = other.get();
  }
  if (stream == owner->legacy && any_capture())
    if (const CUresult refused = result_of(check_legacy_use(owner->id)); refused != CUDA_SUCCESS) return refused;
  const Mark at = owner->submit(stream, std::move(work));
  if (mark != nullptr) *mark = at;
  return CUDA_SUCCESS;
}

// Faults and counters -------------------------------------------------------------------------------------------------

uint64_t call_count(const char* name) {
  uint64_t sum = 0;
  for (CallSite* site = entry().sites.load(); site != nullptr; site = site->next)
    if (names_function(name, site->name)) sum += site->calls.load();
  return sum;
}

bool add_faults(const std::string& text, std::string& error) {
  Entry& e = entry();
  std::lock_guard guard(e.lock);
  if (!parse_faults(text, e.faults, error)) return false;
  ++e.fault_epoch;
  return true;
}

void clear_faults() {
  Entry& e = entry();
  std::lock_guard guard(e.lock);
  e.faults.clear();
  ++e.fault_epoch;
}

void reset_counts() {
  for (CallSite* site = entry().sites.load(); site != nullptr; site = site->next) site->calls.store(0);
}

namespace {
// Before any entry point can be called: the library's own constructor. It touches nothing but memory of ours.
__attribute__((constructor)) void at_load() {
  const char* text = std::getenv("SIMGPU_FAULT");
  std::string error;
  if (text != nullptr && !add_faults(text, error)) entry().fault_error = "simgpu: SIMGPU_FAULT " + error;
}
}  // namespace

}  // namespace cuheap::sim
