// Random traffic of everything that touches memory: blocks of every kind and size, streams, events, captures and graphs,
// contexts, peers, trims and out-of-memories, from two threads in turns. Each step prints its call and the answer; the
// choice of the next depends on nothing else, so a run under the library must print the same lines. Every block is checked
// against the others when it is made, and its bytes before it goes: WRONG is printed for what no run may show.
//
//   traffic MODE FIRST COUNT STEPS [LEAVE_OUT...]     seeds FIRST to FIRST + COUNT - 1
//   MODE  roomy  whatever fits easily
//         exact  little memory, blocks of whole granules: out-of-memory comes at the same byte, and free memory is printed
//         short  little memory, blocks of any size: when it runs out depends on the allocator, so only WRONG is printed
#include <dlfcn.h>

#include <algorithm>
#include <condition_variable>
#include <cstdarg>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "program.h"

namespace {

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;
constexpr size_t kGiB = 1024 * kMiB;
constexpr int kDevices = 2;
constexpr int kNone = -1;

enum class Mode { Roomy, Exact, Short };
enum class Kind { Plain, Async, Managed, Host, Mapped };

struct Context {
  CUcontext handle;
  int device;
  bool is_primary;
  bool is_alive = true;
};
struct Stream {
  CUstream handle;
  int context;
  bool is_alive = true;
};
struct Block {
  CUdeviceptr address;
  size_t bytes;
  Kind kind;
  int device;
  int context = kNone;  // whose end is its end
  int value = kNone;    // what it holds; none: nobody knows
  int writer = kNone;   // the stream that may still be writing
  bool is_lost = false; // work that nobody can wait for may still write it: never looked at again
  CUmemGenericAllocationHandle handle = 0;
  unsigned long long buffer_id = 0;
  bool is_alive = true;
};
/// Small blocks are written whole, of large ones some places: what is never written costs simgpu nothing.
std::vector<std::pair<size_t, size_t>> written_places(size_t bytes) {
  constexpr size_t kWhole = 256 * kKiB, kPlace = 1024;
  if (bytes <= kWhole) return {{0, bytes}};
  std::vector<std::pair<size_t, size_t>> places;
  for (size_t i = 0; i <= 4; ++i) places.push_back({(bytes - kPlace) / 4 * i, kPlace});
  places.push_back({bytes - kPlace, kPlace});
  return places;
}
struct Write {
  size_t block;
  int value;
};
struct Graph {
  CUgraph handle;
  int device;
  std::vector<Write> writes;
  bool is_alive = true;
};
struct Exec {
  CUgraphExec handle;
  int device;
  std::vector<Write> writes;
  bool is_alive = true;
};
struct Capture {
  int stream;
  std::vector<Write> writes;
};
struct Event {
  CUevent handle;
  int context;
  bool is_alive = true;
};

/// A thread that does what it is told, one thing at a time; the first one is the program's own.
class Actor {
 public:
  explicit Actor(bool is_own) {
    if (!is_own) thread_ = std::thread([this] { serve(); });
  }
  ~Actor() {
    if (!thread_.joinable()) return;
    do_job(nullptr);
    thread_.join();
  }
  void run(const std::function<void()>& job) { thread_.joinable() ? do_job(&job) : job(); }

 private:
  void do_job(const std::function<void()>* job) {
    std::unique_lock lock(mutex_);
    job_ = job;
    has_job_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !has_job_; });
  }
  void serve() {
    for (bool is_last = false; !is_last;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return has_job_; });
      is_last = job_ == nullptr;
      if (!is_last) (*job_)();
      has_job_ = false;
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* job_ = nullptr;
  bool has_job_ = false;
  std::thread thread_;
};

using DelayStream = int (*)(void*, uint64_t);
using SetCapacity = int (*)(int, uint64_t);
using UsedBytes = uint64_t (*)(int);

template <typename Function>
Function control(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

class World {
 public:
  World(Mode mode, unsigned seed, std::set<std::string> leave_out)
      : mode_(mode), seed_(seed), random_(seed), leave_out_(std::move(leave_out)) {}

  void begin();
  void step(unsigned number);
  void end();

 private:
  unsigned below(size_t limit) { return static_cast<unsigned>(random_() % limit); }
  bool chance(unsigned percent) { return below(100) < percent; }
  bool has(const char* what) const { return leave_out_.count(what) == 0; }

  // One line a call; nothing that may differ from run to run.
  CUresult told(const char* call, CUresult result, long long detail = 0) {
    if (mode_ != Mode::Short) std::printf("%u.%u t%d %s %lld -> %d\n", seed_, step_, actor_, call, detail, static_cast<int>(result));
    return result;
  }
  __attribute__((format(printf, 2, 3))) void wrong(const char* format, ...) {
    std::printf("WRONG %u.%u t%d: ", seed_, step_, actor_);
    va_list arguments;
    va_start(arguments, format);
    std::vprintf(format, arguments);
    va_end(arguments);
    std::printf("\n");
  }

  /// The index of one that is alive and that the condition likes; none: -1.
  template <typename Things, typename Like>
  int any(const Things& things, Like&& like) {
    std::vector<int> liked;
    for (size_t i = 0; i < things.size(); ++i) {
      if (things[i].is_alive && like(things[i])) liked.push_back(static_cast<int>(i));
    }
    return liked.empty() ? kNone : liked[below(liked.size())];
  }
  int index_of(const Block& block) const { return static_cast<int>(&block - blocks_.data()); }
  template <typename Things>
  int any(const Things& things) {
    return any(things, [](const auto&) { return true; });
  }

  std::vector<int>& stack() { return stacks_[actor_]; }
  int current() { return stack().empty() ? kNone : stack().back(); }
  int current_device() { return current() == kNone ? kNone : contexts_[current()].device; }
  bool is_in_use_elsewhere(int context);
  bool is_capturing(int stream) {
    return std::any_of(captures_.begin(), captures_.end(), [&](const Capture& c) { return c.stream == stream; });
  }
  int stream_here();

  // Blocks.
  size_t random_bytes();
  void made(Block block);
  void allocate();
  void allocate_async();
  void allocate_other();
  void allocate_absurd();
  void map_memory();
  void write();
  bool write_async(Block& block);
  bool settle(Block& block);
  void check(Block& block);
  void free_some();
  CUresult free_block(Block& block);
  CUresult free_async(Block& block);
  void misuse();
  void ask();
  void ask_info();
  void copy_between();
  // Streams, events.
  void make_stream();
  void end_stream();
  void synchronize();
  void use_event();
  // Captures, graphs.
  void capture();
  void end_capture();
  void use_graph();
  void launch();
  void end_graph();
  // Contexts, peers, pools.
  void make_context();
  void end_context();
  void reset_device();
  bool settle_blocks_of(int context);
  void forget_context(int context);
  void switch_context();
  void use_peer();
  void trim();
  void exchange_mode();

  Mode mode_;
  unsigned seed_;
  unsigned step_ = 0;
  int actor_ = 0;
  std::mt19937_64 random_;
  std::set<std::string> leave_out_;
  Actor actors_[2] = {Actor(true), Actor(false)};
  std::vector<int> stacks_[2];
  std::vector<Context> contexts_;
  std::vector<Stream> streams_;
  std::vector<Block> blocks_;
  std::vector<Graph> graphs_;
  std::vector<Exec> execs_;
  std::vector<Event> events_;
  std::vector<Capture> captures_;
  std::set<unsigned long long> buffer_ids_;
  std::set<std::pair<int, int>> peers_;
  size_t live_bytes_ = 0;
  size_t free_at_begin_ = 0;
};

// ---- blocks

size_t World::random_bytes() {
  if (mode_ == Mode::Exact) return (1 + below(12)) * 2 * kMiB;
  const unsigned kind = below(100);
  if (kind < 35) return 1 + below(64 * kKiB);
  if (kind < 60) return 64 * kKiB + below(960 * kKiB);
  if (kind < 90) return 1 * kMiB + below(mode_ == Mode::Short ? 15 * kMiB : 31 * kMiB);
  return 32 * kMiB + below(mode_ == Mode::Short ? 20 * kMiB : 68 * kMiB);
}

void World::made(Block block) {
  for (const Block& other : blocks_) {
    if (!other.is_alive || other.address >= block.address + block.bytes || block.address >= other.address + other.bytes) continue;
    wrong("a block of %zu bytes overlaps one of %zu", block.bytes, other.bytes);
  }
  live_bytes_ += block.bytes;
  blocks_.push_back(block);
}

void World::allocate() {
  const size_t bytes = random_bytes();
  CUdeviceptr address = 0;
  if (told("cuMemAlloc", cuMemAlloc(&address, bytes), static_cast<long long>(bytes)) != CUDA_SUCCESS) return;
  made({.address = address, .bytes = bytes, .kind = Kind::Plain, .device = current_device(), .context = current()});
  if (chance(60)) write();
}

void World::allocate_async() {
  const int stream = stream_here();
  if (mode_ == Mode::Exact || (stream != kNone && is_capturing(stream))) return;
  const size_t bytes = random_bytes();
  CUdeviceptr address = 0;
  const CUstream handle = stream != kNone ? streams_[stream].handle : nullptr;
  if (told("cuMemAllocAsync", cuMemAllocAsync(&address, bytes, handle), static_cast<long long>(bytes)) != CUDA_SUCCESS) return;
  made({.address = address, .bytes = bytes, .kind = Kind::Async, .device = current_device()});
  blocks_.back().writer = stream;
}

void World::allocate_other() {
  const size_t bytes = 1 + below(512 * kKiB);
  if (chance(50)) {
    CUdeviceptr address = 0;
    if (told("cuMemAllocManaged", cuMemAllocManaged(&address, bytes, CU_MEM_ATTACH_GLOBAL)) != CUDA_SUCCESS) return;
    return made({.address = address, .bytes = bytes, .kind = Kind::Managed, .device = current_device(), .context = current()});
  }
  void* host = nullptr;
  if (told("cuMemAllocHost", cuMemAllocHost(&host, bytes)) != CUDA_SUCCESS) return;
  const auto address = reinterpret_cast<CUdeviceptr>(host);
  made({.address = address, .bytes = bytes, .kind = Kind::Host, .device = current_device(), .context = current()});
}

void World::allocate_absurd() {
  CUdeviceptr address = 0;
  const size_t sizes[] = {0, 64 * kGiB, size_t{1} << 45, ~size_t{0}, ~size_t{0} - 5 * kMiB};
  const size_t bytes = sizes[below(5)];
  if (told("cuMemAlloc, absurd", cuMemAlloc(&address, bytes), static_cast<long long>(bytes)) == CUDA_SUCCESS) wrong("it succeeds");
  if (address != 0) wrong("a refusal writes an address");
}

/// Physical memory that the program maps itself.
void World::map_memory() {
  const int device = current_device();
  if (device == kNone) return;
  const size_t bytes = (1 + below(8)) * 2 * kMiB;
  CUmemAllocationProp form = {};
  form.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  form.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  Block block{.address = 0, .bytes = bytes, .kind = Kind::Mapped, .device = device};
  if (told("cuMemCreate", cuMemCreate(&block.handle, bytes, &form, 0), static_cast<long long>(bytes)) != CUDA_SUCCESS) return;
  const CUmemAccessDesc access = {form.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  told("cuMemAddressReserve", cuMemAddressReserve(&block.address, bytes, 0, 0, 0));
  told("cuMemMap", cuMemMap(block.address, bytes, 0, block.handle, 0));
  told("cuMemSetAccess", cuMemSetAccess(block.address, bytes, &access, 1));
  made(block);
}

/// No stream writes the block any more. False: the program cannot know.
bool World::settle(Block& block) {
  if (block.writer == kNone) return true;
  const CUresult result = told("cuStreamSynchronize of a writer", cuStreamSynchronize(streams_[block.writer].handle), block.writer);
  if (result == CUDA_SUCCESS) block.writer = kNone;
  return result == CUDA_SUCCESS;
}

bool World::write_async(Block& block) {
  const int stream = stream_here();
  if (stream == kNone || block.kind == Kind::Host) return false;
  if (block.writer != stream && !settle(block)) return true;
  const int value = static_cast<int>(below(256));
  for (const auto& [at, bytes] : written_places(block.bytes)) {
    const CUresult result = cuMemsetD8Async(block.address + at, static_cast<unsigned char>(value), bytes, streams_[stream].handle);
    if (told(is_capturing(stream) ? "captured cuMemsetD8Async" : "cuMemsetD8Async", result, index_of(block)) == CUDA_SUCCESS) continue;
    if (at != 0) block.value = kNone;
    return true;
  }
  for (Capture& capture : captures_) {
    if (capture.stream == stream) return capture.writes.push_back({static_cast<size_t>(index_of(block)), value}), true;
  }
  block.value = value;
  block.writer = stream;
  return true;
}

void World::write() {
  const int chosen = any(blocks_, [&](const Block& b) { return b.device == current_device() && !b.is_lost; });
  if (chosen == kNone) return;
  Block& block = blocks_[chosen];
  if (chance(60) && write_async(block)) return;
  if (!settle(block)) return;
  const int value = static_cast<int>(below(256));
  const auto byte = static_cast<unsigned char>(value);
  block.value = kNone;
  CUresult result = CUDA_SUCCESS;
  if (block.kind == Kind::Host) {
    std::memset(reinterpret_cast<void*>(block.address), value, block.bytes);
  } else if (block.bytes <= 64 * kKiB && chance(50)) {
    const std::vector<unsigned char> bytes(block.bytes, byte);
    result = told("cuMemcpyHtoD", cuMemcpyHtoD(block.address, bytes.data(), block.bytes), index_of(block));
  } else {
    for (const auto& [at, bytes] : written_places(block.bytes)) {
      if (result == CUDA_SUCCESS) result = told("cuMemsetD8", cuMemsetD8(block.address + at, byte, bytes), index_of(block));
    }
    const CUresult synchronized = told("cuStreamSynchronize", cuStreamSynchronize(nullptr));
    block.is_lost = synchronized != CUDA_SUCCESS;
  }
  if (result == CUDA_SUCCESS) block.value = value;
}

/// Its bytes are as they were written.
void World::check(Block& block) {
  if (block.value == kNone || block.is_lost || block.device != current_device() || !settle(block)) return;
  for (const auto& [at, bytes] : written_places(block.bytes)) {
    std::vector<unsigned char> now(bytes);
    const CUresult result = told("cuMemcpyDtoH", cuMemcpyDtoH(now.data(), block.address + at, bytes), index_of(block));
    if (result != CUDA_SUCCESS) return;
    const auto other = std::find_if(now.begin(), now.end(), [&](unsigned char byte) { return byte != block.value; });
    if (other == now.end()) continue;
    const size_t place = at + static_cast<size_t>(other - now.begin());
    return wrong("byte %zu of %zu of block %d is %d, not %d", place, block.bytes, index_of(block), *other, block.value);
  }
}

CUresult World::free_async(Block& block) {
  const int stream = stream_here();
  const CUstream handle = stream != kNone ? streams_[stream].handle : nullptr;
  if (block.is_lost || (block.writer != stream && !settle(block))) return CUDA_ERROR_NOT_READY;
  return told("cuMemFreeAsync", cuMemFreeAsync(block.address, handle), index_of(block));
}

CUresult World::free_block(Block& block) {
  switch (block.kind) {
    case Kind::Host: return told("cuMemFreeHost", cuMemFreeHost(reinterpret_cast<void*>(block.address)));
    case Kind::Mapped:
      if (block.is_lost || !settle(block)) return CUDA_ERROR_NOT_READY;  // nothing but us would wait for it
      told("cuCtxSynchronize", cuCtxSynchronize());
      told("cuMemUnmap", cuMemUnmap(block.address, block.bytes));
      told("cuMemAddressFree", cuMemAddressFree(block.address, block.bytes));
      return told("cuMemRelease", cuMemRelease(block.handle));
    case Kind::Managed: return told("cuMemFree, managed", cuMemFree(block.address), index_of(block));
    case Kind::Plain:
    case Kind::Async: break;
  }
  // Memory freed in stream order comes back some time: no run with exact answers.
  const bool may_be_async = mode_ != Mode::Exact && current() != kNone && block.device == current_device() &&
                            (captures_.empty() || has("async_capture"));
  if (may_be_async && chance(block.kind == Kind::Async ? 70 : 25)) return free_async(block);
  if (block.kind == Kind::Async && !settle(block)) return CUDA_ERROR_NOT_READY;
  return told("cuMemFree", cuMemFree(block.address), index_of(block));
}

void World::free_some() {
  const int chosen = any(blocks_);
  if (chosen == kNone) return;
  Block& block = blocks_[chosen];
  if (chance(60)) check(block);
  if (free_block(block) != CUDA_SUCCESS) return;
  block.is_alive = false;
  live_bytes_ -= block.bytes;
  if (chance(15)) told("cuMemFree, again", cuMemFree(block.address));
}

void World::misuse() {
  const int chosen = any(blocks_, [](const Block& b) { return b.bytes > 2048; });
  if (chosen == kNone) return;
  const Block& block = blocks_[chosen];
  switch (below(4)) {
    case 0: told("cuMemFree of the inside", cuMemFree(block.address + 512)); return;
    case 1:
      if (captures_.empty() || has("async_capture")) told("cuMemFreeAsync of the inside", cuMemFreeAsync(block.address + 1024, nullptr));
      return;
    case 2: told("cuMemFree of a stranger", cuMemFree(0x1234567000)); return;
    default: told("cuMemFree of nothing", cuMemFree(0)); return;
  }
}

void World::ask() {
  const int chosen = any(blocks_, [](const Block& b) { return b.kind == Kind::Plain; });
  if (chosen == kNone || current() == kNone) return;
  Block& block = blocks_[chosen];
  const size_t at = random_() % block.bytes;
  CUdeviceptr base = 0, start = 0;
  size_t size = 0, range = 0;
  const CUresult result = told("cuMemGetAddressRange", cuMemGetAddressRange(&base, &size, block.address + at));
  if (result == CUDA_SUCCESS && (base != block.address || size != block.bytes)) wrong("address range");
  CUcontext owner = nullptr;
  int device = kNone;
  unsigned long long id = 0;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_CONTEXT,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_BUFFER_ID};
  void* data[] = {&start, &range, &owner, &device, &id};
  const unsigned count = chance(30) ? 5 : 4;  // the last one exposes the block
  if (told("cuPointerGetAttributes", cuPointerGetAttributes(count, which, data, block.address + at), count) != CUDA_SUCCESS) return;
  if (start != block.address || range != block.bytes || device != block.device) wrong("attributes");
  if (owner != contexts_[block.context].handle) wrong("context");
  if (count == 4) return;
  const bool is_new = buffer_ids_.insert(id).second;
  if (is_new != (block.buffer_id == 0) || (!is_new && id != block.buffer_id)) wrong("buffer id");
  block.buffer_id = id;
}

void World::ask_info() {
  size_t free = 0, total = 0;
  const CUresult result = cuMemGetInfo(&free, &total);
  told("cuMemGetInfo", result, mode_ == Mode::Exact ? static_cast<long long>(free) : static_cast<long long>(total));
  if (free > total) wrong("more free than there is");
}

/// Between devices; by either name of the copy.
void World::copy_between() {
  const int to = any(blocks_, [&](const Block& b) { return b.kind == Kind::Plain && b.device == current_device(); });
  if (to == kNone || !captures_.empty()) return;
  Block& target = blocks_[to];
  const int from = any(blocks_, [&](const Block& b) { return b.kind == Kind::Plain && b.device != target.device && b.value != kNone; });
  if (from == kNone || !settle(target) || !settle(blocks_[from])) return;
  Block& source = blocks_[from];
  const size_t bytes = std::min(source.bytes, target.bytes);
  const bool may_reach = peers_.count({current(), source.context}) != 0 || has("far");
  target.value = kNone;
  CUresult result = CUDA_SUCCESS;
  if (may_reach && chance(50)) {
    result = told("cuMemcpyDtoD", cuMemcpyDtoD(target.address, source.address, bytes), static_cast<long long>(bytes));
  } else {
    result = told("cuMemcpyPeer", cuMemcpyPeer(target.address, contexts_[target.context].handle, source.address,
                                               contexts_[source.context].handle, bytes), static_cast<long long>(bytes));
  }
  if (result == CUDA_SUCCESS) result = told("cuCtxSynchronize", cuCtxSynchronize());
  unsigned char first = 0;
  if (result == CUDA_SUCCESS) result = told("cuMemcpyDtoH", cuMemcpyDtoH(&first, target.address, 1));
  if (result == CUDA_SUCCESS && first != source.value) wrong("a copy between devices brings %d, not %d", first, source.value);
}

// ---- streams and events

/// Mostly of the current context.
int World::stream_here() {
  if (current() == kNone) return kNone;
  return any(streams_, [&](const Stream& s) {
    return s.context == current() || (below(10) == 0 && contexts_[s.context].device == current_device());
  });
}

void World::make_stream() {
  if (std::count_if(streams_.begin(), streams_.end(), [](const Stream& s) { return s.is_alive; }) > 8) return;
  CUstream stream = nullptr;
  const unsigned kind = chance(60) ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
  if (told("cuStreamCreate", cuStreamCreate(&stream, kind), kind) != CUDA_SUCCESS) return;
  const auto delay = control<DelayStream>("simgpu_delay_stream");
  if (delay != nullptr && mode_ != Mode::Exact && chance(40)) delay(stream, 150'000);
  streams_.push_back({stream, current()});
}

void World::end_stream() {
  const int chosen = any(streams_);
  if (chosen == kNone || current() == kNone) return;
  Stream& stream = streams_[chosen];
  const bool is_through = told("cuStreamSynchronize", cuStreamSynchronize(stream.handle)) == CUDA_SUCCESS;
  if (told("cuStreamDestroy", cuStreamDestroy(stream.handle)) != CUDA_SUCCESS) return;
  stream.is_alive = false;
  std::erase_if(captures_, [&](const Capture& c) { return c.stream == chosen; });
  for (Block& block : blocks_) {
    if (block.writer != chosen) continue;
    block.writer = kNone;
    block.is_lost = block.is_lost || !is_through;
  }
}

void World::synchronize() {
  const int stream = stream_here();
  if (stream == kNone || chance(30)) {
    told("cuCtxSynchronize", cuCtxSynchronize());
  } else {
    told("cuStreamSynchronize", cuStreamSynchronize(streams_[stream].handle));
  }
}

void World::use_event() {
  const int stream = stream_here();
  if (stream == kNone || is_capturing(stream)) return;
  if (events_.size() < 4 || chance(10)) {
    CUevent event = nullptr;
    const CUresult result = told("cuEventCreate", cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    if (result == CUDA_SUCCESS) events_.push_back({event, current()});
  }
  const int chosen = any(events_, [&](const Event& e) { return e.context == streams_[stream].context; });
  if (chosen == kNone) return;
  Event& event = events_[chosen];
  told("cuEventRecord", cuEventRecord(event.handle, streams_[stream].handle));
  const int other = stream_here();
  if (other != kNone && !is_capturing(other)) told("cuStreamWaitEvent", cuStreamWaitEvent(streams_[other].handle, event.handle, 0));
  if (chance(30)) told("cuEventSynchronize", cuEventSynchronize(event.handle));
  if (chance(20) && told("cuEventDestroy", cuEventDestroy(event.handle)) == CUDA_SUCCESS) event.is_alive = false;
}

// ---- captures and graphs

void World::capture() {
  const int stream = stream_here();
  if (mode_ == Mode::Exact || stream == kNone || captures_.size() > 1) return;
  const unsigned choice = below(10);
  const CUstreamCaptureMode mode = choice < 6   ? CU_STREAM_CAPTURE_MODE_RELAXED
                                   : choice < 8 ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                                : CU_STREAM_CAPTURE_MODE_GLOBAL;
  if (told("cuStreamBeginCapture", cuStreamBeginCapture(streams_[stream].handle, mode), mode) == CUDA_SUCCESS) {
    captures_.push_back({stream, {}});
  }
}

void World::end_capture() {
  if (captures_.empty() || current() == kNone) return;
  const size_t chosen = below(captures_.size());
  const int stream = captures_[chosen].stream;
  CUgraph graph = nullptr;
  const CUresult result = told("cuStreamEndCapture", cuStreamEndCapture(streams_[stream].handle, &graph));
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  const CUresult known = cuStreamIsCapturing(streams_[stream].handle, &status);
  told("cuStreamIsCapturing", known, status);
  if (result == CUDA_SUCCESS) {
    graphs_.push_back({graph, contexts_[streams_[stream].context].device, captures_[chosen].writes});
  }
  if (status == CU_STREAM_CAPTURE_STATUS_NONE) captures_.erase(captures_.begin() + static_cast<long>(chosen));
}

void World::use_graph() {
  const int chosen = any(graphs_);
  if (chosen == kNone || current() == kNone) return;
  const Graph graph = graphs_[chosen];
  CUgraph other = nullptr;
  CUgraphExec exec = nullptr;
  switch (below(5)) {
    case 0:
      if (told("cuGraphClone", cuGraphClone(&other, graph.handle)) != CUDA_SUCCESS) return;
      return graphs_.push_back({other, graph.device, graph.writes});
    case 1: {
      if (told("cuGraphCreate", cuGraphCreate(&other, 0)) != CUDA_SUCCESS) return;
      CUgraphNode node = nullptr;
      const CUresult added = told("cuGraphAddChildGraphNode", cuGraphAddChildGraphNode(&node, other, nullptr, 0, graph.handle));
      return graphs_.push_back({other, graph.device, added == CUDA_SUCCESS ? graph.writes : std::vector<Write>{}});
    }
    case 2: {
      const int target = any(execs_, [&](const Exec& e) { return e.device == graph.device; });
      if (target == kNone) return;
      CUgraphExecUpdateResultInfo info = {};
      const CUresult result = cuGraphExecUpdate(execs_[target].handle, graph.handle, &info);
      told("cuGraphExecUpdate", result, info.result);
      if (result == CUDA_SUCCESS) execs_[target].writes = graph.writes;
      return;
    }
    default:
      if (told("cuGraphInstantiate", cuGraphInstantiate(&exec, graph.handle, 0)) != CUDA_SUCCESS) return;
      execs_.push_back({exec, graph.device, graph.writes});
  }
}

void World::launch() {
  const int stream = stream_here();
  if (stream == kNone || is_capturing(stream)) return;
  const int chosen = any(execs_, [&](const Exec& e) {
    const auto is_there = [&](const Write& w) { return blocks_[w.block].is_alive; };
    return e.device == current_device() && std::all_of(e.writes.begin(), e.writes.end(), is_there);
  });
  if (chosen == kNone) return;
  const Exec exec = execs_[chosen];
  for (const Write& write : exec.writes) {
    Block& block = blocks_[write.block];
    if (block.writer != stream && !settle(block)) return;
  }
  if (told("cuGraphLaunch", cuGraphLaunch(exec.handle, streams_[stream].handle)) != CUDA_SUCCESS) return;
  for (const Write& write : exec.writes) {
    blocks_[write.block].value = write.value;
    blocks_[write.block].writer = stream;
  }
}

void World::end_graph() {
  if (chance(50)) {
    const int chosen = any(graphs_);
    if (chosen == kNone || told("cuGraphDestroy", cuGraphDestroy(graphs_[chosen].handle)) != CUDA_SUCCESS) return;
    graphs_[chosen].is_alive = false;
  } else {
    const int chosen = any(execs_);
    if (chosen == kNone || told("cuGraphExecDestroy", cuGraphExecDestroy(execs_[chosen].handle)) != CUDA_SUCCESS) return;
    execs_[chosen].is_alive = false;
  }
}

void World::exchange_mode() {
  auto mode = static_cast<CUstreamCaptureMode>(below(3));
  const int wanted = mode;
  const CUresult result = cuThreadExchangeStreamCaptureMode(&mode);
  told("cuThreadExchangeStreamCaptureMode", result, wanted * 10 + mode);
}

// ---- contexts, peers, pools

bool World::is_in_use_elsewhere(int context) {
  const auto is_on = [&](const std::vector<int>& stack) { return std::count(stack.begin(), stack.end(), context) != 0; };
  return is_on(stacks_[1 - actor_]) || (is_on(stack()) && current() != context) ||
         std::count(stack().begin(), stack().end(), context) > 1;
}

void World::make_context() {
  if (std::count_if(contexts_.begin(), contexts_.end(), [](const Context& c) { return c.is_alive; }) > 4) return;
  CUcontext context = nullptr;
  CUctxCreateParams parameters = {};
  const int device = chance(70) ? 0 : 1;
  if (told("cuCtxCreate", cuCtxCreate(&context, &parameters, 0, device), device) != CUDA_SUCCESS) return;
  contexts_.push_back({context, device, false});
  stack().push_back(static_cast<int>(contexts_.size()) - 1);
}

/// Nothing of another context is still at work on its memory: that would be the program's fault.
bool World::settle_blocks_of(int context) {
  for (Block& block : blocks_) {
    const bool is_others = block.is_alive && block.context == context && block.writer != kNone &&
                           streams_[block.writer].context != context;
    if (is_others && !settle(block)) return false;
  }
  return true;
}

/// What ends with a context.
void World::forget_context(int context) {
  contexts_[context].is_alive = false;
  for (Block& block : blocks_) {
    if (block.is_alive && block.context == context) {
      block.is_alive = false;
      live_bytes_ -= block.bytes;
    }
    if (block.writer != kNone && streams_[block.writer].context == context) {
      block.writer = kNone;
      block.value = kNone;
    }
  }
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].context != context) continue;
    streams_[i].is_alive = false;
    std::erase_if(captures_, [&](const Capture& c) { return c.stream == static_cast<int>(i); });
  }
  for (Event& event : events_) event.is_alive = event.is_alive && event.context != context;
  std::erase_if(peers_, [&](const auto& pair) { return pair.first == context || pair.second == context; });
}

void World::end_context() {
  const int chosen = any(contexts_, [](const Context& c) { return !c.is_primary; });
  if (chosen == kNone || (is_in_use_elsewhere(chosen) && !has("stale"))) return;
  if (!settle_blocks_of(chosen)) return;
  if (told("cuCtxDestroy", cuCtxDestroy(contexts_[chosen].handle), chosen) != CUDA_SUCCESS) return;
  forget_context(chosen);
  if (current() == chosen) stack().pop_back();
}

void World::reset_device() {
  const int chosen = any(contexts_, [](const Context& c) { return c.is_primary; });
  const bool is_in_use = is_in_use_elsewhere(chosen) || current() == chosen;
  if (is_in_use && !has("stale")) return;
  Context& old = contexts_[chosen];
  const int device = old.device;
  if (!settle_blocks_of(chosen)) return;
  if (told("cuDevicePrimaryCtxReset", cuDevicePrimaryCtxReset(device), device) != CUDA_SUCCESS) return;
  forget_context(chosen);
  CUcontext context = nullptr;
  told("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, device));
  contexts_.push_back({context, device, true});
}

void World::switch_context() {
  const int chosen = any(contexts_);
  switch (below(4)) {
    case 0:
      if (stack().size() > 4 || told("cuCtxPushCurrent", cuCtxPushCurrent(contexts_[chosen].handle), chosen) != CUDA_SUCCESS) return;
      return stack().push_back(chosen);
    case 1: {
      CUcontext popped = nullptr;
      if (told("cuCtxPopCurrent", cuCtxPopCurrent(&popped)) == CUDA_SUCCESS) stack().pop_back();
      return;
    }
    default:
      if (told("cuCtxSetCurrent", cuCtxSetCurrent(contexts_[chosen].handle), chosen) != CUDA_SUCCESS) return;
      if (!stack().empty()) stack().pop_back();
      stack().push_back(chosen);
  }
}

void World::use_peer() {
  const int peer = any(contexts_, [&](const Context& c) { return c.device != current_device(); });
  if (peer == kNone || current() == kNone) return;
  if (chance(60)) {
    const CUresult result = told("cuCtxEnablePeerAccess", cuCtxEnablePeerAccess(contexts_[peer].handle, 0), peer);
    if (result == CUDA_SUCCESS) peers_.insert({current(), peer});
  } else {
    const CUresult result = told("cuCtxDisablePeerAccess", cuCtxDisablePeerAccess(contexts_[peer].handle), peer);
    if (result == CUDA_SUCCESS) peers_.erase({current(), peer});
  }
}

void World::trim() {
  CUmemoryPool pool = nullptr;
  const int device = static_cast<int>(below(kDevices));
  if (told("cuDeviceGetDefaultMemPool", cuDeviceGetDefaultMemPool(&pool, device)) != CUDA_SUCCESS) return;
  if (chance(50)) told("cuMemPoolTrimTo", cuMemPoolTrimTo(pool, below(2) * 32 * kMiB));
  uint64_t keep = chance(50) ? 0 : 256 * kMiB;
  told("cuMemPoolSetAttribute", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep), static_cast<long long>(keep));
}

// ---- the run of one seed

void World::begin() {
  for (int device = 0; device < kDevices; ++device) {
    CUcontext context = nullptr;
    told("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, device));
    contexts_.push_back({context, device, true});
  }
  const auto capacity = control<SetCapacity>("simgpu_set_capacity");
  const auto used = control<UsedBytes>("simgpu_used_bytes");
  for (int device = 0; device < kDevices && capacity != nullptr; ++device) {
    capacity(device, mode_ == Mode::Roomy ? 16 * kGiB : used(device) + 256 * kMiB);
  }
  for (actor_ = 0; actor_ < 2; ++actor_) {
    actors_[actor_].run([&] { told("cuCtxSetCurrent", cuCtxSetCurrent(contexts_[0].handle)); });
    stack().push_back(0);
  }
  actor_ = 0;
  size_t total = 0;
  told("cuMemGetInfo", cuMemGetInfo(&free_at_begin_, &total));
}

void World::step(unsigned number) {
  struct Weighted {
    const char* name;
    void (World::*call)();
    unsigned weight;
  };
  static constexpr Weighted kCalls[] = {
      {"alloc", &World::allocate, 30},        {"alloc_async", &World::allocate_async, 8},  {"alloc_other", &World::allocate_other, 3},
      {"absurd", &World::allocate_absurd, 1}, {"map", &World::map_memory, 3},              {"write", &World::write, 20},
      {"free", &World::free_some, 32},        {"misuse", &World::misuse, 3},               {"ask", &World::ask, 5},
      {"info", &World::ask_info, 4},          {"copy", &World::copy_between, 3},           {"stream", &World::make_stream, 4},
      {"end_stream", &World::end_stream, 2},  {"sync", &World::synchronize, 3},            {"event", &World::use_event, 4},
      {"capture", &World::capture, 4},        {"end_capture", &World::end_capture, 6},     {"graph", &World::use_graph, 5},
      {"launch", &World::launch, 6},          {"end_graph", &World::end_graph, 3},         {"context", &World::make_context, 1},
      {"end_context", &World::end_context, 1}, {"reset", &World::reset_device, 1},         {"switch", &World::switch_context, 6},
      {"peer", &World::use_peer, 3},          {"trim", &World::trim, 2},                   {"mode", &World::exchange_mode, 1},
  };
  step_ = number;
  actor_ = chance(70) ? 0 : 1;
  const size_t most = mode_ == Mode::Roomy ? 3 * kGiB : ~size_t{0};
  const auto count = std::count_if(blocks_.begin(), blocks_.end(), [](const Block& b) { return b.is_alive; });
  const bool is_full = live_bytes_ > most || count > 80;
  unsigned sum = 0;
  for (const Weighted& call : kCalls) sum += call.weight;
  unsigned choice = below(sum);
  const Weighted* chosen = kCalls;
  while (choice >= chosen->weight) choice -= (chosen++)->weight;
  if (!has(chosen->name)) return;
  auto call = chosen->call;
  if (is_full && std::strncmp(chosen->name, "alloc", 5) == 0) call = &World::free_some;
  actors_[actor_].run([&] { (this->*call)(); });
}

/// Everything goes, and the device has what it had.
void World::end() {
  actor_ = 0;
  while (!captures_.empty()) {
    const int stream = captures_.back().stream;
    told("cuStreamDestroy", cuStreamDestroy(streams_[stream].handle));
    streams_[stream].is_alive = false;
    for (Block& block : blocks_) {
      if (block.writer == stream) block.is_lost = true, block.writer = kNone;
    }
    captures_.pop_back();
  }
  for (const Context& context : contexts_) {  // no work of any has gone astray; every other seed goes on without waiting
    if (seed_ % 2 != 0 || !context.is_alive || cuCtxPushCurrent(context.handle) != CUDA_SUCCESS) continue;
    told("cuCtxSynchronize, at last", cuCtxSynchronize(), context.device);
    cuCtxPopCurrent(nullptr);
  }
  for (int device = 0; device < kDevices; ++device) {
    const int primary = any(contexts_, [&](const Context& c) { return c.is_primary && c.device == device; });
    told("cuCtxSetCurrent", cuCtxSetCurrent(contexts_[primary].handle));
    if (stack().empty()) stack().push_back(0);
    stack().back() = primary;
    for (Block& block : blocks_) {
      if (block.is_alive && block.device == device) check(block);
    }
  }
  for (Exec& exec : execs_) {
    if (exec.is_alive) told("cuGraphExecDestroy", cuGraphExecDestroy(exec.handle));
  }
  for (Graph& graph : graphs_) {
    if (graph.is_alive) told("cuGraphDestroy", cuGraphDestroy(graph.handle));
  }
  for (Block& block : blocks_) {
    if (block.is_alive) free_block(block);
  }
  for (Stream& stream : streams_) {
    if (stream.is_alive) told("cuStreamDestroy", cuStreamDestroy(stream.handle));
  }
  for (const Context& context : contexts_) {
    if (context.is_alive && !context.is_primary) told("cuCtxDestroy", cuCtxDestroy(context.handle));
  }
  for (actor_ = 1; actor_ >= 0; --actor_) {
    actors_[actor_].run([&] {
      auto mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
      cuThreadExchangeStreamCaptureMode(&mode);
      while (cuCtxPopCurrent(nullptr) == CUDA_SUCCESS) {
      }
    });
  }
  for (int device = 0; device < kDevices; ++device) told("cuDevicePrimaryCtxReset", cuDevicePrimaryCtxReset(device), device);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 5) return 2;
  const std::string name = arguments[1];
  const Mode mode = name == "roomy" ? Mode::Roomy : name == "exact" ? Mode::Exact : Mode::Short;
  const auto first = static_cast<unsigned>(std::atoi(arguments[2]));
  const auto seeds = static_cast<unsigned>(std::atoi(arguments[3]));
  const auto steps = static_cast<unsigned>(std::atoi(arguments[4]));
  const std::set<std::string> leave_out(arguments + 5, arguments + count);
  if (seeds == 1) std::setvbuf(stdout, nullptr, _IOLBF, 0);
  say("cuInit", cuInit(0));
  for (unsigned seed = first; seed < first + seeds; ++seed) {
    World world(mode, seed, leave_out);
    world.begin();
    for (unsigned i = 1; i <= steps; ++i) world.step(i);
    world.end();
    std::printf("end of %u\n", seed);
    std::fflush(stdout);
  }
}
