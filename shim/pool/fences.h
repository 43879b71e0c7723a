// Fences: when may freed memory be reused. A native cuMemFree may wait for the work queued before it; the pool must at
// least know that this work is done before the memory changes hands. Nothing here runs while a stream capture is open: an
// event recorded in a context that captures would invalidate the capture.
#pragma once
#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "shim/driver/driver.h"
#include "shim/pool/allocator.h"
#include "shim/pool/graph_book.h"
#include "shim/pool/pool_lock.h"

namespace cuheap {

/// True for results after which every call of the process answers the same: the pool must not try to be clever any more.
bool is_sticky(CUresult result);
/// True for the answers by which the driver refuses a call because of a stream capture.
bool is_capture_error(CUresult result);

/// The contexts whose work a fence covers.
struct ContextSet {
  static constexpr unsigned kMax = 64;
  std::uint64_t items[kMax] = {};
  std::uint64_t foreign = 0;  // a bit each: covered, but no native free would wait for it
  unsigned count = 0;

  /// False: no room. A context that was added as foreign is so no longer.
  [[nodiscard]] bool add(std::uint64_t context) { return add(context, false); }
  [[nodiscard]] bool add_foreign(std::uint64_t context) { return add(context, true); }
  bool is_foreign(unsigned i) const { return (foreign >> i & 1) != 0; }

 private:
  bool add(std::uint64_t context, bool is_foreign);
};

/// Whom a wait waits for. Native: those that a native free would wait for; the others must have passed already, for work of
/// another device may itself wait for what the host does after the free.
enum class Waiting : std::uint8_t { No, Native, All };

/// One event per context, or (before driver 12.5) the contexts themselves, to be waited for.
struct Fence {
  CUevent events[ContextSet::kMax] = {};
  std::uint32_t lives[ContextSet::kMax] = {};  // which life of each context it stands for
  ContextSet contexts;
};

/// The contexts we have met, which of them may reach which device's memory, and their events.
class Contexts {
 public:
  constexpr Contexts() = default;
  void start(const DriverTable& driver, bool has_context_events) {
    driver_ = &driver;
    has_events_ = has_context_events;
  }

  /// Nothing is learnt of a life that is over.
  void learn(std::uint64_t context, std::uint32_t generation, int device, ContextLife life = {});
  /// That life of it is over: its events died with it. The next one may have been met already.
  void forget(std::uint64_t context, std::uint32_t generation);
  /// The device of a context; asks the driver (by making it current for a moment) if it was never met. -1: unknown.
  int device_of(std::uint64_t context);

  /// `context` may (not) use memory of `peer` from now on. True: that changed whether its device may reach the peer's.
  bool pair(std::uint64_t context, std::uint64_t peer);
  bool unpair(std::uint64_t context, std::uint64_t peer);
  /// Adds every context of the process. Those of other devices without peer access are foreign: they reach the memory of
  /// `device` by copies between peers only. False: no room.
  [[nodiscard]] bool add_all(int device, ContextSet* set);
  /// Named by a stream; nothing else is known of it.
  void learn_named(std::uint64_t context);
  /// Stand-ins: blocks of the driver's own, made in this life of the context, that are only ever shown to the driver, in
  /// questions. False: the life is not known, so none could be kept. 0: none is kept at this moment.
  [[nodiscard]] bool take_stand_in(std::uint64_t context, std::uint32_t generation, CUdeviceptr* out);
  void keep_stand_in(std::uint64_t context, std::uint32_t generation, CUdeviceptr stand_in);
  /// There are contexts that no fence covers.
  bool has_overflowed() const { return overflowed_.load(std::memory_order_relaxed); }

  /// Records everything queued so far in these contexts. Fails without trace: NOT_READY if a capture is open.
  [[nodiscard]] CUresult record(CaptureGate& captures, const ContextSet& contexts, Fence* out);
  /// SUCCESS: all done. NOT_READY: not yet. Else the driver's (sticky) answer.
  [[nodiscard]] CUresult query(const Fence& fence);
  /// NOT_READY as well if a context that is not waited for has not passed.
  [[nodiscard]] CUresult wait(CaptureGate& captures, const Fence& fence, Waiting waiting = Waiting::All);
  /// Gives the events back for reuse.
  void recycle(Fence* fence);

  bool has_events() const { return has_events_; }
  void after_fork_in_child() { lock_.reset(); }

 private:
  static constexpr unsigned kMaxContexts = 56;  // fewer than a set holds: there is room for one that is not known
  static constexpr unsigned kMaxPairs = 256;
  static constexpr unsigned kMaxEvents = 16;  // kept per context
  static constexpr unsigned kMaxStandIns = 4;  // the same: as many threads as may ask at once
  struct Known {
    std::uint64_t context = 0;  // 0: free place
    std::uint32_t generation = 0;
    bool is_generation_known = false;  // else it was only named as somebody's peer
    std::uint32_t life = 0;            // ours, never used twice
    ContextLife host_life;             // whether it is being ended at this moment
    int device = -1;
    CUevent events[kMaxEvents] = {};
    unsigned event_count = 0;
    CUdeviceptr stand_ins[kMaxStandIns] = {};
    unsigned stand_in_count = 0;
  };
  struct Pair {
    std::uint64_t context = 0;
    std::uint64_t peer = 0;
    int from = -1;  // device of context
    int to = -1;    // device of peer
  };

  Known* find(std::uint64_t context);  // the lock is held
  Known* find(std::uint64_t context, std::uint32_t generation);
  bool reaches(int from, int to) const;
  void drop_pairs(std::uint64_t context);  // the lock is held
  CUevent take_event(std::uint64_t context);
  CUresult synchronize(CaptureGate& captures, std::uint64_t context);
  CUresult synchronize_now(std::uint64_t context);
  enum class State : std::uint8_t { AtWork, Ending, Gone };
  State state_of(const Fence& fence, unsigned i);
  bool is_ending(std::uint64_t context);
  std::uint32_t life_of(std::uint64_t context);
  Known* make_known(std::uint64_t context, int device);  // the lock is held

  PoolLock lock_;
  const DriverTable* driver_ = nullptr;
  bool has_events_ = false;
  std::uint32_t next_life_ = 1;
  std::atomic<bool> overflowed_{false};  // more contexts than places: one that is not known may yet be alive
  Known known_[kMaxContexts] = {};
  Pair pairs_[kMaxPairs] = {};
  unsigned pair_count_ = 0;
};

/// Around our own driver calls. They pass beside the captures of other threads, and the thread's mode is as it was
/// afterwards. The thread cannot be cancelled meanwhile: the driver opens files and waits, and a thread that ended there
/// would take along what it has in transit.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const DriverTable& driver) : driver_(driver) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
    driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~RelaxedCapture() {
    driver_.cuThreadExchangeStreamCaptureMode(&mode_);
    pthread_setcancelstate(cancel_state_, nullptr);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const DriverTable& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  int cancel_state_ = 0;
};

}  // namespace cuheap
