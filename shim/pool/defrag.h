// Defragmentation: moving granules, never data. A request that finds no mapped hole gets an address range whose unmapped
// parts are filled with granules that lie wholly free elsewhere, then with new ones. The plan is pure; the executor makes
// the driver calls without any lock, and undoes what it did when one of them fails.
#pragma once
#include <cstdint>

#include "shim/driver/driver.h"
#include "shim/pool/free_index.h"
#include "shim/pool/granules.h"
#include "shim/pool/policy.h"

namespace cuheap {

/// One handle on its way to an address.
struct Move {
  enum class Outcome : std::uint8_t {
    Planned,
    Placed,  // mapped at `to`, accessible
    Home,    // a stolen one that is mapped where it was
    Stray,   // ours, mapped nowhere
    Stuck,   // mapped at `to` but not to be used: the driver refused to undo
    StuckHome,  // the same at `from`
    Absent,  // was never made
  };
  std::uint64_t to = 0;
  std::uint64_t from = 0;       // stolen: where it was mapped; 0: out of the stock, or to be made
  std::uint64_t size = 0;
  Granule* granule = nullptr;   // null: to be made
  CUmemGenericAllocationHandle handle = 0;
  bool is_new = false;          // the handle was made for this plan
  Outcome outcome = Outcome::Planned;
};

struct Plan {
  static constexpr unsigned kMaxMoves = kHugeLimit / kGranuleBytes + 2;
  FreeRange block;              // what the request gets; empty: no plan
  Move moves[kMaxMoves];        // by rising `to`
  unsigned count = 0;
};

/// Pure. Chooses where `size` bytes shall lie so that the fewest unmapped granules are needed; among equals the shortest
/// run of free space, then the lowest address. Fills in block and moves (without source). False: no run is long enough.
[[nodiscard]] bool plan_window(const FreeIndex& ready, const FreeIndex& unmapped, std::uint64_t size, std::uint64_t alignment,
                               std::uint64_t granule, Plan* plan);

/// Pure. Gives moves without a source the wholly free granules of `ready`, those of the smallest holes first; `ready` may
/// be that of another class. Returns how many moves have a source then.
unsigned plan_steals(const FreeIndex& ready, std::uint64_t granule, Plan* plan);

/// The first wholly free granule of `ready` in order of hole size that passes no plan's claim; {} if there is none.
FreeRange whole_granule(const FreeIndex& ready, std::uint64_t granule);

/// What the executor needs to know of the device.
struct Ground {
  const DriverTable* driver = nullptr;
  int device = 0;
  HandleForm form;
  const CUmemAccessDesc* access = nullptr;
  unsigned access_count = 0;
};

/// Creates, unmaps, maps and opens, in this order, so that what fails most (memory for a new handle) fails before anything
/// was moved. Whatever it returns, every move's outcome says where its handle is.
[[nodiscard]] CUresult execute(const Ground& ground, Plan* plan);

}  // namespace cuheap
