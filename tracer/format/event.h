// Event: the one struct of the project. The hooks fill it in, the trace file holds it, the reader gives it back, every
// analysis eats it. Plain integers only; no pointer, no CUDA type, no unit but bytes and nanoseconds.
//
// Glossary. allocation: what the host asked for · block: what the pool hands out for it · segment: a reserved address
// range · granule: a unit of physical memory · site: a distinct call stack · frame: one address of it · event: one thing
// that happened · trace: all of them · peak: the moment of most bytes · residue: alive at the end · hole: free space
// between blocks · floor: a level at which memory changes hands.
#pragma once
#include <cstdint>

namespace cuheap {

/// A level at which memory changes hands; each byte is counted once per floor.
enum class Floor : std::uint8_t {
  None = 0,
  Physical = 1,    // driver -> process
  Allocation = 2,  // CUDA API -> library or framework
  Framework = 3,   // caching allocator -> tensor
};

enum class EventKind : std::uint8_t {
  None = 0,
  // The two of the hot path; everything else is rare.
  Allocate = 1,     // address, size, family, site
  Free = 2,         // address; stamped before the real call
  // The rare ones.
  FreeFailed = 3,   // address; the free just recorded for it was refused. extra0: the driver's code
  OutOfMemory = 4,  // size: bytes asked for. extra0: bytes the floor had handed out, extra1: bytes it held
  MemoryInfo = 5,   // size: free bytes of the device, extra0: its total. A sample, not a change
  Totals = 6,       // the framework's own sums after an event. extra0: allocated, extra1: reserved
  Reserve = 7,      // address range, no memory behind it
  Unreserve = 8,    // address
  Map = 9,          // address, size. extra0: physical handle, extra1: offset in it
  Unmap = 10,       // address, size
  PoolActivity = 11,// size: bytes. extra0: PoolActivity
  PhaseBegin = 12,  // phase
  PhaseEnd = 13,    // phase
  Mark = 14,        // extra0: name id
  ContextEnd = 15,  // context: its remaining blocks died with it
  CaptureBegin = 16,// stream
  CaptureEnd = 17,  // stream
  Resize = 18,      // address; size: the new size of a live block (import of odd sources)
  AllocateFailed = 19, // size: bytes asked for. extra0: the driver's code, where it is not out-of-memory
};

/// What kind of memory a block is. Families never share an address space with another family of the same floor, except
/// that `cuMemFree` may end any device-addressed one.
enum class Family : std::uint8_t {
  None = 0,
  Device = 1,        // cuMemAlloc
  Pitch = 2,         // cuMemAllocPitch
  Managed = 3,       // cuMemAllocManaged
  Pinned = 4,        // cuMemHostAlloc, cuMemAllocHost (host memory)
  Registered = 5,    // cuMemHostRegister (the host's own memory)
  Array = 6,         // cuArrayCreate, mipmapped arrays; address = handle
  AsyncPool = 7,     // cuMemAllocAsync, cuMemAllocFromPoolAsync
  Graph = 8,         // memory nodes of graphs
  Handle = 9,        // cuMemCreate; address = handle
  Imported = 10,     // IPC, external memory, imported handles: another process pays for it
  PoolGranule = 11,  // physical memory that cuheap's own pool took; address = handle
  Tensor = 12,       // framework floor
  HostHandle = 13,   // cuMemCreate with a host location
  Segment = 14,      // a framework's segment where only its own recording shows it (imported snapshots)
};

/// True for families that take no device memory.
constexpr bool is_host_family(Family family) {
  return family == Family::Pinned || family == Family::Registered || family == Family::HostHandle;
}

/// Bits of Event::flags.
constexpr std::uint8_t kEventPooled = 1;    // Allocation floor: cuheap's pool served it; its bytes are inside PoolGranules
constexpr std::uint8_t kEventCapturing = 2; // made while a stream capture was open
constexpr std::uint8_t kEventEstimated = 4; // the size is ours, not the driver's (arrays)
constexpr std::uint8_t kEventInitial = 8;   // alive before the recording began; time and site are those of its discovery

enum class PoolActivity : std::uint8_t { None = 0, Grow = 1, Shrink = 2, Steal = 3, Wait = 4, Trim = 5, Disarm = 6, SelfTestFailed = 7 };

/// Why an event was lost; index into FileHeader::lost_events.
enum class LossReason : std::uint8_t {
  None = 0,
  NoChunk = 1,      // the stock of prepared chunks was empty
  WriteFailed = 2,  // the file could not grow (disk full, quota, limit)
  Reentered = 3,    // a hook ran inside our own work
  SiteTableFull = 4,// event kept, stack lost
  TableFull = 5,    // block table full: a free may lack its size
  Disabled = 6,     // recording had been switched off
  kCount = 8,
};

using SiteId = std::uint32_t;   // node of the site tree; 0: no stack
using PhaseId = std::uint32_t;  // name id of the phase; 0: none
using NameId = std::uint32_t;

struct Event {
  std::uint64_t time_ns = 0;  // CLOCK_MONOTONIC
  std::uint64_t address = 0;  // device or host address, or a handle (families Handle, PoolGranule, Array)
  std::uint64_t size = 0;     // bytes
  std::uint64_t stream = 0;   // CUstream as a number; 0 the default stream
  std::uint64_t context = 0;  // CUcontext as a number; only to tell contexts apart
  std::uint64_t extra0 = 0;   // by kind
  std::uint64_t extra1 = 0;   // by kind
  SiteId site = 0;
  PhaseId phase = 0;
  std::uint32_t thread = 0;   // kernel thread id
  std::int16_t device = 0;    // ordinal as the process sees it; -1 the host
  std::uint16_t process = 0;  // index of the process in a merged trace; 0 in a file
  EventKind kind = EventKind::None;
  Floor floor = Floor::None;
  Family family = Family::None;
  std::uint8_t flags = 0;

  bool operator==(const Event&) const = default;
};

}  // namespace cuheap
