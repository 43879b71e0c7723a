#include "tracer/recorder.h"

#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <initializer_list>

#include "tracer/backtrace.h"
#include "tracer/base/arena.h"
#include "tracer/base/keep_errno.h"
#include "tracer/base/message.h"
#include "tracer/base/options.h"
#include "tracer/base/process.h"
#include "tracer/base/scratch.h"
#include "tracer/base/spin_lock.h"
#include "tracer/chunks.h"
#include "tracer/format/file_systems.h"
#include "tracer/helper.h"
#include "tracer/module_map.h"
#include "tracer/site_table.h"
#include "tracer/trace_writer.h"
#include "tracer/writer_table.h"

namespace cuheap {
namespace {

/// What define_name has given out.
struct KnownName {
  KnownName* next;
  NameId id;
  std::size_t size;
  char* text;
};
constexpr NameId kMaxNames = 100'000;

enum class Phase : std::uint8_t { Idle, Recording, Stopped, ForkChild };

/// All that the recorder keeps, in static storage.
struct State {
  std::atomic<Phase> phase{Phase::Idle};
  std::atomic<LossReason> stopped_for{LossReason::Disabled};  // what events count as once recording has ended
  std::atomic<bool> native_stacks{false};
  std::uint64_t own_low = 0, own_high = 0;  // where the object with this code lies
  std::atomic<std::uint32_t> run{0};  // a thread's writer of an earlier run is stale

  ChunkFile file;
  Helper helper;
  bool helper_tidies = false;  // tidy_writers is among its tasks
  WriterTable writers;

  // Rank 1, alone: nothing is called under it that could take another lock or the loader's. It covers everything below.
  SpinLock definitions_lock;
  TraceWriter definitions;
  SiteTable sites;
  ModuleMap modules;
  Arena names_arena;
  KnownName* names = nullptr;
  NameId next_name = 1;
};

constinit State state;

constinit thread_local ThreadWriter* thread_writer __attribute__((tls_model("initial-exec"))) = nullptr;

// Chunks of dead threads that wait for new ones: 4 MiB at most.
constexpr std::size_t kLeftChunks = 64;
constexpr std::uint64_t kTidyPeriodNs = 200'000'000;

struct FrameRoom {
  std::uintptr_t frames[kMaxFrames];
};
constinit ScratchPool<FrameRoom, 128> frame_rooms = {};  // captures under way at the same time

bool is_live() { return state.phase.load(std::memory_order_acquire) == Phase::Recording && process::is_owner(); }

// The one place where a loss is counted: in the mapped header, so that it survives a SIGKILL.
void add_loss(LossReason reason, std::uint64_t events) {
  FileHeader* const header = state.file.header();
  if (header == nullptr || !process::is_owner()) return;
  std::atomic_ref<std::uint64_t>(header->lost_events[static_cast<std::size_t>(reason)]).fetch_add(events, std::memory_order_relaxed);
}

// The file cannot grow any more. All threads stop at once: a trace with holes per thread would not add up.
void end_recording_for_want_of_space() {
  Phase expected = Phase::Recording;
  if (!state.phase.compare_exchange_strong(expected, Phase::Stopped)) return;
  state.stopped_for.store(LossReason::WriteFailed, std::memory_order_relaxed);
  const Growth growth = state.file.growth();
  if (growth.reached_max_size) message::trace_reached_max_size(state.file.path(), options().max_size);
  else message::trace_stopped(state.file.path(), growth.error);
}

[[nodiscard]] bool open_chunk(TraceWriter& writer, std::uint64_t first_ns, std::uint32_t flags) {
  writer.close();
  ChunkHeader* const chunk = state.file.pop();
  if (state.file.is_low()) state.helper.wake();
  if (chunk == nullptr) {
    if (state.file.is_exhausted()) end_recording_for_want_of_space();
    return false;
  }
  writer.open(chunk, process::thread_id(), first_ns, flags);
  return true;
}

// Null: no room for one more living thread, or not a thread of this process but of one that shares its memory (clone with
// CLONE_VM alone), which the kernel would call gone at once.
[[nodiscard]] ThreadWriter* own_writer(std::uint64_t first_ns) {
  const std::uint32_t run = state.run.load(std::memory_order_relaxed);
  if (thread_writer == nullptr) {
    if (process::pid() != state.file.header()->pid) return nullptr;
    return thread_writer = state.writers.take(process::thread_id(), first_ns, run);
  }
  if (thread_writer->run.load(std::memory_order_relaxed) != run) [[unlikely]] {
    thread_writer->writer.forget();
    thread_writer->run.store(run, std::memory_order_relaxed);
  }
  return thread_writer;
}

// The helper's.
void tidy_writers() {
  if (!is_live()) return;
  (void)state.writers.grow();
  state.writers.close_dead(kLeftChunks, state.run.load(std::memory_order_relaxed));
}

LossReason reason_for_no_chunk() {
  return state.file.is_exhausted() ? LossReason::WriteFailed : LossReason::NoChunk;
}

/// Under definitions_lock.
template <typename Definition>
bool write_definition(const Definition& definition, std::size_t bytes = kMaxDefinitionBytes) {
  if (!state.definitions.has_room(bytes) && !open_chunk(state.definitions, now_ns(), kChunkHoldsDefinitions)) return false;
  state.definitions.append_definition(definition);
  return true;
}

Bytes bytes_of(const char* text) { return {text, strlen(text)}; }

void write_meta(const char* key, const char* value) {
  const SpinGuard guard(state.definitions_lock);
  if (guard) (void)write_definition(MetaRecord{bytes_of(key), bytes_of(value)});
}

// --- What start() writes --------------------------------------------------------------------------------------------

// The first bytes of a file of /proc, or of a link's target.
std::size_t read_start_of(const char* path, char* out, std::size_t room) {
  const long file = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const long size = syscall(SYS_read, file, out, room);
  syscall(SYS_close, file);
  return size > 0 ? static_cast<std::size_t>(size) : 0;
}

void write_command_line() {
  char text[2048];
  std::size_t size = read_start_of("/proc/self/cmdline", text, sizeof(text) - 1);
  while (size != 0 && text[size - 1] == '\0') --size;
  for (std::size_t i = 0; i < size; ++i)
    if (text[i] == '\0') text[i] = ' ';
  text[size] = '\0';
  write_meta("command", text);
}

void write_executable() {
  char text[2048];
  const long size = syscall(SYS_readlink, "/proc/self/exe", text, sizeof(text) - 1);
  text[size > 0 ? size : 0] = '\0';
  write_meta("executable", text);
}

void write_environment() {
  utsname system;
  if (uname(&system) == 0) {
    write_meta("host", system.nodename);
    write_meta("kernel", system.release);
  }
  for (const char* const name : {"LOCAL_RANK", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
                                 "PYTORCH_NO_CUDA_MEMORY_CACHING"})
    if (const char* const value = find_variable(environment_block(), name)) {
      char key[64] = "env.";
      strncat(key, name, sizeof(key) - 5);
      write_meta(key, value);
    }
}

void write_options() {
  for_each_set_option(
      options(),
      [](const char* name, const char* value, void*) {
        char key[64] = "option.";
        strncat(key, name, sizeof(key) - 8);
        write_meta(key, value);
      },
      nullptr);
}

std::int32_t rank_of_environment() {
  for (const char* const name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    const char* const text = find_variable(environment_block(), name);
    std::uint64_t rank = 0;
    if (text != nullptr && parse_number(text, &rank) && rank < 0x7fffffff) return static_cast<std::int32_t>(rank);
  }
  return -1;
}

std::uint64_t wall_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

void fill_header(FileHeader& header) {
  header.version = kTraceVersion;
  header.minor = kTraceMinor;
  header.header_bytes = kHeaderBytes;
  header.chunk_bytes = kChunkBytes;
  header.pid = process::pid();
  header.parent_pid = process::parent_pid();
  header.rank = rank_of_environment();
  header.start_ns = now_ns();
  header.start_wall_ns = wall_ns();
  memcpy(header.magic, kTraceMagic, sizeof(kTraceMagic));
}

void warn_of_remote_file_system(const char* path) {
  struct statfs status;
  if (syscall(SYS_statfs, path, &status) != 0) return;
  if (const char* const name = remote_file_system(static_cast<std::uint32_t>(status.f_type)))
    message::trace_on_remote_file_system(path, name);
}

// Brings the module map up to the loader's state. The scan holds the loader's list lock and none of ours; the merge the
// reverse: so the two never wait for each other.
void refresh_modules() {
  ModuleScan scan;
  if (!scan.run()) return;
  const SpinGuard guard(state.definitions_lock);
  if (guard) state.modules.merge(scan, [](const ModuleRecord& module) { return write_definition(module); });
}

[[nodiscard]] bool reset_for_new_run() {
  state.modules.reset();
  state.names_arena.reset();
  state.names = nullptr;
  state.next_name = 1;
  state.definitions.forget();
  state.stopped_for.store(LossReason::Disabled, std::memory_order_relaxed);
  state.run.fetch_add(1, std::memory_order_relaxed);
  return state.writers.grow() && state.sites.reset();
}

KnownSite intern_new_stack(std::uint64_t hash, const std::uintptr_t* frames, const Backtrace& trace) {
  const LoaderGeneration generation = look_for_unloads();
  bool is_fresh;
  {
    const SpinGuard guard(state.definitions_lock);
    if (!guard) return {};
    is_fresh = state.modules.generation() == generation;
  }
  if (!is_fresh) refresh_modules();
  const SpinGuard guard(state.definitions_lock);
  if (!guard || !is_live()) return {};
  return state.sites.intern(hash, frames, trace.depth, state.modules,
                            [](const SiteNode& node) { return write_definition(node, kMaxEventBytes); });
}

constinit Recorder the_recorder;

}  // namespace

Recorder& recorder() { return the_recorder; }

std::uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

bool Recorder::start(const RecorderStart& start) {
  const KeepErrno keep;
  const HookScope scope;
  const Phase phase = state.phase.load(std::memory_order_acquire);
  if (phase == Phase::Recording || phase == Phase::ForkChild) return false;
  if (!reset_for_new_run()) {
    message::trace_not_started(start.directory, ENOMEM);
    return false;
  }
  const ChunkFile::Settings settings{start.directory, process::pid(), options().max_size};
  bool directory_failed = false;
  if (const int error = state.file.open(settings, &directory_failed); error != 0) {
    if (directory_failed) message::directory_not_usable(start.directory, error);
    else message::trace_not_started(state.file.path(), error);
    return false;
  }
  warn_of_remote_file_system(state.file.path());
  fill_header(*state.file.header());
  if (!process::claim()) {
    message::helper_not_started(ENOMEM);
    return false;
  }
  if (const int error = state.helper.start(state.file); error != 0) {
    message::helper_not_started(error);
    process::disown();
    return false;
  }
  if (!state.helper_tidies) state.helper_tidies = state.helper.add_task(&tidy_writers, kTidyPeriodNs);
  state.native_stacks.store(start.native_stacks, std::memory_order_relaxed);
  state.phase.store(Phase::Recording, std::memory_order_release);
  write_meta("cuheap", CUHEAP_VERSION);
  write_command_line();
  write_executable();
  write_environment();
  write_options();
  if (start.native_stacks) {
    state.modules.set_patterns(start.module_patterns);
    prepare_backtraces();
    refresh_modules();
    if (const Module* const own = state.modules.find(reinterpret_cast<std::uint64_t>(&recorder))) {
      state.own_low = own->low;
      state.own_high = own->high;
    }
  }
  return true;
}

bool Recorder::is_recording() const { return is_live(); }

[[gnu::noinline]] CapturedSite Recorder::capture_site(const HookScope& scope, unsigned skip) {
  if (!scope || !is_live() || !state.native_stacks.load(std::memory_order_relaxed)) return {};
  const ScratchLease room(frame_rooms);
  auto* const frames = room ? room->frames : static_cast<std::uintptr_t*>(__builtin_alloca(sizeof(FrameRoom)));
  Backtrace trace = capture(frames, kMaxFrames);
  // This function's own frame and what the caller says, but never a frame of the host: the caller cannot know what the
  // compiler has inlined.
  const unsigned wanted = skip + 1;
  for (skip = 0; skip < wanted && skip < trace.depth && frames[skip] >= state.own_low && frames[skip] < state.own_high;) ++skip;
  if (trace.depth <= skip) return {};
  trace.depth -= skip;
  // The same addresses may be other code after an unload; and where there is code that no object holds, after a load too.
  const std::uint64_t loads = trace.knows_all_code ? 0 : loader_generation().adds;
  const std::uint64_t hash = hash_stack(frames + skip, trace.depth, trace.unloads + (loads << 32));
  KnownSite site;
  if (!state.sites.find(hash, &site)) [[unlikely]] {
    const KeepErrno keep;
    site = intern_new_stack(hash, frames + skip, trace);
    if (site.id == 0) add_loss(LossReason::SiteTableFull, 1);
  }
  return {site.id, site.bits, trace.depth, trace.reused};
}

void Recorder::record(const Event& given) {
  if (!is_live()) {
    add_loss(state.stopped_for.load(std::memory_order_relaxed), 1);
    return;
  }
  Event event = given;
  if (event.time_ns == 0) event.time_ns = now_ns();
  ThreadWriter* const mine = own_writer(event.time_ns);
  const bool has_room = mine != nullptr && (mine->writer.has_room() || open_chunk(mine->writer, event.time_ns, kChunkHoldsEvents));
  if (!has_room) [[unlikely]] {
    add_loss(reason_for_no_chunk(), 1);
    return;
  }
  mine->writer.append(event);
}

NameId Recorder::define_name(const HookScope& scope, const char* text, std::size_t size) {
  const KeepErrno keep;
  if (!scope || !is_live() || size == 0) return 0;
  if (size > kMaxStringBytes) size = kMaxStringBytes;
  const SpinGuard guard(state.definitions_lock);
  if (!guard) return 0;
  for (const KnownName* name = state.names; name != nullptr; name = name->next)
    if (name->size == size && memcmp(name->text, text, size) == 0) return name->id;
  if (state.next_name > kMaxNames) return 0;
  auto* const name = state.names_arena.allocate_array<KnownName>(1);
  char* const copy = state.names_arena.allocate_array<char>(size);
  if (name == nullptr || copy == nullptr) return 0;
  if (!write_definition(NameRecord{state.next_name, {text, size}})) return 0;
  memcpy(copy, text, size);
  *name = KnownName{state.names, state.next_name++, size, copy};
  state.names = name;
  return name->id;
}

void Recorder::define_meta(const HookScope& scope, const char* key, const char* value) {
  const KeepErrno keep;
  if (scope && is_live()) write_meta(key, value);
}

void Recorder::define_device(const HookScope& scope, const DeviceRecord& device) {
  const KeepErrno keep;
  if (!scope || !is_live()) return;
  const SpinGuard guard(state.definitions_lock);
  if (guard) (void)write_definition(device);
}

void Recorder::count_loss(LossReason reason, std::uint64_t events) { add_loss(reason, events); }

bool Recorder::add_helper_task(void (*task)(), std::uint64_t period_ns) { return state.helper.add_task(task, period_ns); }

const char* Recorder::trace_path() const { return state.file.path(); }

void Recorder::stop() {
  const KeepErrno keep;
  const HookScope scope;
  if (!process::is_owner() || state.file.header() == nullptr) return;
  Phase expected = Phase::Recording;
  if (!state.phase.compare_exchange_strong(expected, Phase::Stopped) && expected != Phase::Stopped) return;
  std::atomic_ref<std::uint64_t>(state.file.header()->end_ns).store(now_ns(), std::memory_order_release);
  // A helper that does not come back (its task hangs) keeps the file open; the file is valid all the same.
  if (state.helper.stop()) state.file.close();
}

void Recorder::after_fork_in_child() {
  if (state.phase.load(std::memory_order_relaxed) == Phase::Idle) return;
  state.phase.store(Phase::ForkChild, std::memory_order_relaxed);
  process::disown();
  state.definitions_lock.reset();
  state.definitions.forget();
  state.helper.forget();
  state.file.forget();
  thread_writer = nullptr;
}

}  // namespace cuheap
