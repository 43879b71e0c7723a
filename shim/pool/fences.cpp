#include "shim/pool/fences.h"

#include <sched.h>

namespace cuheap {
namespace {

constexpr int kEndingYields = 10'000;  // how long a wait stands by while a context is being ended

}  // namespace

bool is_sticky(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_UNKNOWN:
      return true;
    default:
      return false;
  }
}

bool is_capture_error(CUresult result) {
  return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

bool ContextSet::add(std::uint64_t context, bool is_foreign) {
  if (context == 0) return true;
  for (unsigned i = 0; i < count; ++i) {
    if (items[i] != context) continue;
    if (!is_foreign) foreign &= ~(std::uint64_t{1} << i);
    return true;
  }
  if (count == kMax) return false;
  if (is_foreign) foreign |= std::uint64_t{1} << count;
  items[count++] = context;
  return true;
}

Contexts::Known* Contexts::find(std::uint64_t context) {
  for (Known& known : known_) {
    if (known.context == context) return &known;
  }
  return nullptr;
}

Contexts::Known* Contexts::find(std::uint64_t context, std::uint32_t generation) {
  Known* known = context != 0 ? find(context) : nullptr;
  return known != nullptr && known->is_generation_known && known->generation == generation ? known : nullptr;
}

Contexts::Known* Contexts::make_known(std::uint64_t context, int device) {
  Known* known = find(context);
  if (known == nullptr) known = find(0);
  if (known == nullptr) {
    overflowed_.store(true, std::memory_order_relaxed);  // its fences are synchronisations
    return nullptr;
  }
  drop_pairs(context);  // of the life before
  *known = Known{};
  known->context = context;
  known->life = next_life_++;
  known->device = device;
  return known;
}

void Contexts::learn(std::uint64_t context, std::uint32_t generation, int device, ContextLife life) {
  if (context == 0) return;
  const PoolGuard guard(lock_);
  if (life.is_over()) return;  // asked under the lock that forget() takes after the end
  Known* known = find(context);
  const bool is_same = known != nullptr && (!known->is_generation_known || known->generation == generation);
  if (!is_same) known = make_known(context, device);
  if (known == nullptr) return;
  known->generation = generation;
  known->is_generation_known = true;
  known->host_life = life;
}

void Contexts::forget(std::uint64_t context, std::uint32_t generation) {
  if (context == 0) return;
  const PoolGuard guard(lock_);
  Known* known = find(context);
  // Whoever ended it may be the last to say so: by then another thread may have made it again, and works there.
  if (known != nullptr && known->is_generation_known && known->generation > generation) return;
  if (known != nullptr) *known = Known{};
  drop_pairs(context);
}

void Contexts::drop_pairs(std::uint64_t context) {
  for (unsigned i = 0; i < pair_count_;) {
    if (pairs_[i].context == context || pairs_[i].peer == context) {
      pairs_[i] = pairs_[--pair_count_];
    } else {
      ++i;
    }
  }
}

int Contexts::device_of(std::uint64_t context) {
  {
    const PoolGuard guard(lock_);
    const Known* known = context != 0 ? find(context) : nullptr;
    if (known != nullptr) return known->device;
  }
  const auto handle = reinterpret_cast<CUcontext>(context);
  if (context == 0 || driver_->cuCtxPushCurrent_v2(handle) != CUDA_SUCCESS) return -1;
  CUdevice device = -1;
  if (driver_->cuCtxGetDevice(&device) != CUDA_SUCCESS) device = -1;
  CUcontext popped = nullptr;
  driver_->cuCtxPopCurrent_v2(&popped);
  return device;
}

bool Contexts::reaches(int from, int to) const {
  for (unsigned i = 0; i < pair_count_; ++i) {
    if (pairs_[i].from == from && pairs_[i].to == to) return true;
  }
  return false;
}

bool Contexts::pair(std::uint64_t context, std::uint64_t peer) {
  const int from = device_of(context);
  const int to = device_of(peer);
  const PoolGuard guard(lock_);
  if (from < 0 || to < 0 || pair_count_ == kMaxPairs) return false;
  if (find(context) == nullptr) make_known(context, from);
  if (find(peer) == nullptr) make_known(peer, to);
  const bool was_reached = reaches(from, to);
  pairs_[pair_count_++] = {context, peer, from, to};
  return !was_reached && from != to;
}

bool Contexts::unpair(std::uint64_t context, std::uint64_t peer) {
  const PoolGuard guard(lock_);
  for (unsigned i = 0; i < pair_count_; ++i) {
    if (pairs_[i].context != context || pairs_[i].peer != peer) continue;
    const Pair gone = pairs_[i];
    pairs_[i] = pairs_[--pair_count_];
    return gone.from != gone.to && !reaches(gone.from, gone.to);
  }
  return false;
}

bool Contexts::add_all(int device, ContextSet* set) {
  const PoolGuard guard(lock_);
  bool room = true;
  for (const Known& known : known_) {
    if (known.context == 0) continue;
    const bool is_near = known.device == device || reaches(known.device, device);
    room = (is_near ? set->add(known.context) : set->add_foreign(known.context)) && room;
  }
  return room;
}

void Contexts::learn_named(std::uint64_t context) {
  {
    const PoolGuard guard(lock_);
    if (context == 0 || find(context) != nullptr) return;
  }
  const int device = device_of(context);
  const PoolGuard guard(lock_);
  if (find(context) == nullptr) make_known(context, device);
}

bool Contexts::take_stand_in(std::uint64_t context, std::uint32_t generation, CUdeviceptr* out) {
  const PoolGuard guard(lock_);
  Known* known = find(context, generation);
  *out = known != nullptr && known->stand_in_count != 0 ? known->stand_ins[--known->stand_in_count] : 0;
  return known != nullptr;
}

void Contexts::keep_stand_in(std::uint64_t context, std::uint32_t generation, CUdeviceptr stand_in) {
  const PoolGuard guard(lock_);
  Known* known = find(context, generation);  // none: it has ended, and took its memory along
  if (known != nullptr && known->stand_in_count < kMaxStandIns) known->stand_ins[known->stand_in_count++] = stand_in;
}

CUevent Contexts::take_event(std::uint64_t context) {
  {
    const PoolGuard guard(lock_);
    Known* known = find(context);
    if (known == nullptr) return nullptr;  // its end would go unseen, and with it the end of the event
    if (known->event_count != 0) return known->events[--known->event_count];
  }
  CUevent event = nullptr;
  if (driver_->cuCtxPushCurrent_v2(reinterpret_cast<CUcontext>(context)) != CUDA_SUCCESS) return nullptr;
  if (driver_->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) event = nullptr;
  CUcontext popped = nullptr;
  driver_->cuCtxPopCurrent_v2(&popped);
  return event;
}

// An event died with its context, and so did the work it stood for. While that is under way nobody touches the event.
Contexts::State Contexts::state_of(const Fence& fence, unsigned i) {
  const PoolGuard guard(lock_);
  const Known* known = find(fence.contexts.items[i]);
  if (known == nullptr) return has_overflowed() ? State::AtWork : State::Gone;
  if (known->life != fence.lives[i]) return State::Gone;
  return known->host_life.is_over() ? State::Ending : State::AtWork;
}

bool Contexts::is_ending(std::uint64_t context) {
  const PoolGuard guard(lock_);
  const Known* known = find(context);
  return known != nullptr && known->host_life.is_over();
}

std::uint32_t Contexts::life_of(std::uint64_t context) {
  const PoolGuard guard(lock_);
  const Known* known = find(context);
  return known != nullptr ? known->life : 0;
}

CUresult Contexts::synchronize(CaptureGate& captures, std::uint64_t context) {
  if (!captures.enter()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const CUresult result = synchronize_now(context);
  captures.leave();
  return result;
}

CUresult Contexts::synchronize_now(std::uint64_t context) {
  const CUresult pushed = driver_->cuCtxPushCurrent_v2(reinterpret_cast<CUcontext>(context));
  if (pushed != CUDA_SUCCESS) return is_sticky(pushed) ? pushed : CUDA_SUCCESS;  // no such context: nothing runs in it
  const CUresult result = driver_->cuCtxSynchronize();
  CUcontext popped = nullptr;
  driver_->cuCtxPopCurrent_v2(&popped);
  return result;
}

CUresult Contexts::record(CaptureGate& captures, const ContextSet& contexts, Fence* out) {
  out->contexts = contexts;
  CUresult result = CUDA_SUCCESS;
  for (unsigned i = 0; i < contexts.count && result == CUDA_SUCCESS; ++i) {
    out->lives[i] = life_of(contexts.items[i]);
    CUevent event = has_events_ && !is_ending(contexts.items[i]) ? take_event(contexts.items[i]) : nullptr;
    out->events[i] = event;
    if (event == nullptr) continue;  // to be synchronised when it is waited for
    if (!captures.enter()) {
      result = CUDA_ERROR_NOT_READY;
      break;
    }
    const CUresult recorded = driver_->cuCtxRecordEvent(reinterpret_cast<CUcontext>(contexts.items[i]), event);
    captures.leave();
    if (recorded == CUDA_SUCCESS) continue;
    driver_->cuEventDestroy_v2(event);
    out->events[i] = nullptr;
    if (is_sticky(recorded)) result = recorded;
    if (is_capture_error(recorded)) result = CUDA_ERROR_NOT_READY;
  }
  if (result != CUDA_SUCCESS) recycle(out);
  return result;
}

CUresult Contexts::query(const Fence& fence) {
  for (unsigned i = 0; i < fence.contexts.count; ++i) {
    const State state = state_of(fence, i);
    if (state == State::Gone) continue;
    if (state == State::Ending || fence.events[i] == nullptr) return CUDA_ERROR_NOT_READY;
    const CUresult result = driver_->cuEventQuery(fence.events[i]);
    if (result == CUDA_ERROR_NOT_READY || is_sticky(result)) return result;
  }
  return CUDA_SUCCESS;
}

CUresult Contexts::wait(CaptureGate& captures, const Fence& fence, Waiting waiting) {
  CUresult all = CUDA_SUCCESS;
  for (unsigned i = 0; i < fence.contexts.count; ++i) {
    CUresult result = CUDA_SUCCESS;
    State state = state_of(fence, i);
    // The driver is ending it in another thread, which takes the length of that call.
    for (int k = 0; state == State::Ending && k < kEndingYields; ++k) {
      sched_yield();
      state = state_of(fence, i);
    }
    if (state == State::Gone) continue;
    if (state == State::Ending) {
      all = CUDA_ERROR_NOT_READY;
      continue;
    }
    if (waiting != Waiting::All && fence.contexts.is_foreign(i)) {
      result = fence.events[i] != nullptr ? driver_->cuEventQuery(fence.events[i]) : CUDA_ERROR_NOT_READY;
      if (result == CUDA_ERROR_NOT_READY) all = result;
    } else if (fence.events[i] == nullptr) {
      result = synchronize(captures, fence.contexts.items[i]);
    } else {
      result = driver_->cuEventSynchronize(fence.events[i]);
    }
    if (is_sticky(result)) return result;
    if (is_capture_error(result)) return CUDA_ERROR_NOT_READY;
  }
  return all;
}

void Contexts::recycle(Fence* fence) {
  for (unsigned i = 0; i < fence->contexts.count; ++i) {
    CUevent event = fence->events[i];
    if (event == nullptr) continue;
    fence->events[i] = nullptr;
    bool kept = false;
    bool alive = false;
    {
      const PoolGuard guard(lock_);
      Known* known = find(fence->contexts.items[i]);
      alive = known != nullptr && known->life == fence->lives[i];
      kept = alive && known->event_count < kMaxEvents;
      if (kept) known->events[known->event_count++] = event;
    }
    // Of a context that is being ended an event too many is lost at worst.
    if (alive && !kept && !is_ending(fence->contexts.items[i])) driver_->cuEventDestroy_v2(event);
  }
}

}  // namespace cuheap
