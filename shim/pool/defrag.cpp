#include "shim/pool/defrag.h"

namespace cuheap {
namespace {

// Free space by address, mapped and unmapped stretches in turn. More stretches than this are not looked at: a request then
// takes fresh address space, which costs new granules but never fails for it.
constexpr unsigned kMaxSpans = 256;

struct Span {
  FreeRange range;
  bool mapped;
};

struct Spans {
  Span items[kMaxSpans];
  unsigned count = 0;

  void gather(const FreeIndex& ready, const FreeIndex& unmapped) {
    FreeRange with = ready.next_at(0);
    FreeRange without = unmapped.next_at(0);
    while (count < kMaxSpans && (with || without)) {
      const bool is_mapped = with && (!without || with.address < without.address);
      FreeRange& next = is_mapped ? with : without;
      items[count++] = {next, is_mapped};
      next = (is_mapped ? ready : unmapped).next_at(next.end());
    }
  }
  bool adjoins(unsigned i) const { return i != 0 && items[i - 1].range.end() == items[i].range.address; }
};

struct Window {
  FreeRange range;
  std::uint64_t needed = 0;  // unmapped granules to fill
  std::uint64_t run = 0;     // bytes of free space it is cut from

  bool is_better_than(const Window& other) const {
    if (!other.range) return true;
    if (needed != other.needed) return needed < other.needed;
    if (run != other.run) return run < other.run;
    return range.address < other.range.address;
  }
};

struct Run {
  unsigned first, last;  // spans, inclusive
  std::uint64_t begin, end;
};

std::uint64_t granules_needed(const Spans& spans, const Run& run, const FreeRange& range, std::uint64_t granule) {
  std::uint64_t needed = 0;
  for (unsigned i = run.first; i <= run.last && spans.items[i].range.address < range.end(); ++i) {
    const Span& span = spans.items[i];
    if (span.mapped || span.range.end() <= range.address) continue;
    const std::uint64_t from = span.range.address > range.address ? span.range.address : round_down(range.address, granule);
    const std::uint64_t to = span.range.end() < range.end() ? span.range.end() : round_up(range.end(), granule);
    needed += (to - from) / granule;
  }
  return needed;
}

void try_run(const Spans& spans, const Run& run, std::uint64_t size, std::uint64_t alignment, std::uint64_t granule,
             Window* best) {
  const auto consider = [&](std::uint64_t start) {
    if (start < run.begin || start > run.end || run.end - start < size) return;
    const FreeRange range{start, size};
    const Window window{range, granules_needed(spans, run, range, granule), run.end - run.begin};
    if (window.is_better_than(*best)) *best = window;
  };
  // The least is needed where the window begins with a stretch, or ends with a mapped one.
  for (unsigned i = run.first; i <= run.last; ++i) {
    const FreeRange& range = spans.items[i].range;
    consider(round_up(range.address, alignment));
    if (spans.items[i].mapped && range.end() >= size) consider(round_down(range.end() - size, alignment));
  }
}

void add_gaps(const FreeIndex& unmapped, std::uint64_t granule, Plan* plan) {
  const FreeRange block = plan->block;
  const std::uint64_t end = block.end();
  for (std::uint64_t at = round_down(block.address, granule); at < end; at += granule) {
    if (unmapped.find(at)) plan->moves[plan->count++] = {.to = at, .size = granule};
  }
}

bool is_claimed(const Plan& plan, std::uint64_t address, std::uint64_t granule) {
  if (address < plan.block.end() && plan.block.address < address + granule) return true;
  for (unsigned i = 0; i < plan.count; ++i) {
    if (plan.moves[i].from == address) return true;
  }
  return false;
}

}  // namespace

bool plan_window(const FreeIndex& ready, const FreeIndex& unmapped, std::uint64_t size, std::uint64_t alignment,
                 std::uint64_t granule, Plan* plan) {
  Spans spans;
  spans.gather(ready, unmapped);
  Window best;
  for (unsigned i = 0; i < spans.count;) {
    Run run{i, i, spans.items[i].range.address, 0};
    while (run.last + 1 < spans.count && spans.adjoins(run.last + 1)) ++run.last;
    run.end = spans.items[run.last].range.end();
    if (run.end - run.begin >= size) try_run(spans, run, size, alignment, granule, &best);
    i = run.last + 1;
  }
  if (!best.range) {
    const FreeRange fresh = unmapped.best_fit(size, alignment > granule ? alignment : granule);
    if (!fresh) return false;
    best.range = fresh;
  }
  plan->block = best.range;
  plan->count = 0;
  add_gaps(unmapped, granule, plan);
  return true;
}

FreeRange whole_granule(const FreeIndex& ready, std::uint64_t granule) {
  for (FreeRange range = ready.next_by_size(granule, {}); range; range = ready.next_by_size(granule, range)) {
    const std::uint64_t at = round_up(range.address, granule);
    if (at + granule <= range.end()) return {at, granule};
  }
  return {};
}

unsigned plan_steals(const FreeIndex& ready, std::uint64_t granule, Plan* plan) {
  unsigned next = 0;
  const auto skip_supplied = [&] {
    while (next < plan->count && (plan->moves[next].from != 0 || plan->moves[next].granule != nullptr)) ++next;
  };
  skip_supplied();
  for (FreeRange range = ready.next_by_size(granule, {}); range && next < plan->count;
       range = ready.next_by_size(granule, range)) {
    for (std::uint64_t at = round_up(range.address, granule); at + granule <= range.end() && next < plan->count; at += granule) {
      if (is_claimed(*plan, at, granule)) continue;
      plan->moves[next].from = at;
      skip_supplied();
    }
  }
  unsigned supplied = 0;
  for (unsigned i = 0; i < plan->count; ++i) supplied += plan->moves[i].from != 0 || plan->moves[i].granule != nullptr;
  return supplied;
}

namespace {

CUresult make_new(const Ground& ground, Plan* plan) {
  for (unsigned i = 0; i < plan->count; ++i) {
    Move& move = plan->moves[i];
    if (move.granule != nullptr) continue;
    move.outcome = Move::Outcome::Absent;
    const CUresult result = create_handle(*ground.driver, ground.device, ground.form, move.size, &move.handle);
    if (result != CUDA_SUCCESS) {
      for (unsigned k = i + 1; k < plan->count; ++k) {
        if (plan->moves[k].granule == nullptr) plan->moves[k].outcome = Move::Outcome::Absent;
      }
      return result;
    }
    move.is_new = true;
    move.outcome = Move::Outcome::Stray;
  }
  return CUDA_SUCCESS;
}

CUresult unmap_stolen(const Ground& ground, Plan* plan) {
  for (unsigned i = 0; i < plan->count; ++i) {
    Move& move = plan->moves[i];
    if (move.from == 0) continue;
    const CUresult result = ground.driver->cuMemUnmap(move.from, move.size);
    if (result != CUDA_SUCCESS) return result;
    move.outcome = Move::Outcome::Stray;
  }
  return CUDA_SUCCESS;
}

CUresult map_all(const Ground& ground, Plan* plan) {
  for (unsigned i = 0; i < plan->count; ++i) {
    Move& move = plan->moves[i];
    const CUresult result = ground.driver->cuMemMap(move.to, move.size, 0, move.handle, 0);
    if (result != CUDA_SUCCESS) return result;
    move.outcome = Move::Outcome::Placed;
  }
  return CUDA_SUCCESS;
}

// One call over each run of neighbours: the cost is per call more than per byte.
CUresult open_all(const Ground& ground, const Plan& plan) {
  for (unsigned i = 0; i < plan.count;) {
    const std::uint64_t begin = plan.moves[i].to;
    std::uint64_t end = begin;
    while (i < plan.count && plan.moves[i].to == end) end += plan.moves[i++].size;
    const CUresult result = ground.driver->cuMemSetAccess(begin, end - begin, ground.access, ground.access_count);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

// A stolen granule's old place is still its own, so going back needs no new address; it fails only if the driver does.
void send_home(const Ground& ground, Move* move) {
  const DriverTable& driver = *ground.driver;
  if (driver.cuMemMap(move->from, move->size, 0, move->handle, 0) != CUDA_SUCCESS) return;
  if (driver.cuMemSetAccess(move->from, move->size, ground.access, ground.access_count) == CUDA_SUCCESS) {
    move->outcome = Move::Outcome::Home;
  } else if (driver.cuMemUnmap(move->from, move->size) != CUDA_SUCCESS) {
    move->outcome = Move::Outcome::StuckHome;
  }
}

void undo(const Ground& ground, Plan* plan) {
  for (unsigned i = 0; i < plan->count; ++i) {
    Move& move = plan->moves[i];
    if (move.outcome == Move::Outcome::Placed) {
      const bool gone = ground.driver->cuMemUnmap(move.to, move.size) == CUDA_SUCCESS;
      move.outcome = gone ? Move::Outcome::Stray : Move::Outcome::Stuck;
    }
    if (move.outcome == Move::Outcome::Stray && move.from != 0) send_home(ground, &move);
  }
}

}  // namespace

CUresult execute(const Ground& ground, Plan* plan) {
  for (unsigned i = 0; i < plan->count; ++i) {
    Move& move = plan->moves[i];
    if (move.granule == nullptr) continue;
    move.handle = move.granule->handle;
    move.outcome = move.from != 0 ? Move::Outcome::Home : Move::Outcome::Stray;
  }
  CUresult result = make_new(ground, plan);
  if (result == CUDA_SUCCESS) result = unmap_stolen(ground, plan);
  if (result == CUDA_SUCCESS) result = map_all(ground, plan);
  if (result == CUDA_SUCCESS) result = open_all(ground, *plan);
  if (result != CUDA_SUCCESS) undo(ground, plan);
  return result;
}

}  // namespace cuheap
