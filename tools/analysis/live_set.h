// LiveSet: what is alive, and how many bytes each floor holds, after the events seen so far. Every analysis stands on it:
// reader -> replay (replay.h) -> LiveSet -> observers (peak, timeline, leaks ...). Rules of counting: docs/definitions.md.
// Memory is bounded by the live set, never by the number of events.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "tracer/format/event.h"

namespace cuheap {

constexpr std::size_t kFloorCount = 4;       // Floor::None included, so that a Floor is an index
constexpr std::int16_t kHostDevice = -1;     // where host families are reported
constexpr std::size_t index_of(Floor floor) { return static_cast<std::size_t>(floor); }

/// One living block, as it was born.
struct Block {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t time_ns = 0;  // birth
  std::uint64_t serial = 0;   // nth birth of the trace, from 0
  std::uint64_t tag = 0;      // free for the one observer of a replay that wants it
  std::uint64_t stream = 0;
  std::uint64_t context = 0;
  SiteId site = 0;
  PhaseId phase = 0;
  std::uint32_t thread = 0;
  std::int16_t device = 0;    // kHostDevice for host families
  std::uint16_t process = 0;
  Floor floor = Floor::None;  // where it was recorded; it may count on more (floors_of)
  Family family = Family::None;
  std::uint8_t flags = 0;
};

/// Floors on which a block's bytes are live, a bit each (1 << Floor).
std::uint8_t floors_of(const Block& block);
constexpr std::uint8_t floor_bit(Floor floor) { return static_cast<std::uint8_t>(1u << static_cast<unsigned>(floor)); }
inline bool counts_on(const Block& block, Floor floor) { return (floors_of(block) & floor_bit(floor)) != 0; }

/// One floor of one device, so far.
struct FloorState {
  bool seen = false;              // any event counted here
  std::uint64_t live = 0;
  std::uint64_t held = 0;
  std::uint64_t peak_live = 0;
  std::uint64_t peak_live_ns = 0;
  std::uint64_t peak_held = 0;
  std::uint64_t peak_held_ns = 0;
  std::uint64_t live_blocks = 0;
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t failures = 0;     // AllocateFailed
  std::uint64_t ooms = 0;         // OutOfMemory
};

/// 1 - live/held; 0 where nothing is held.
double fragmentation_of(std::uint64_t live, std::uint64_t held);

struct DeviceState {
  std::int16_t device = 0;
  std::array<FloorState, kFloorCount> floors;
  std::uint64_t imported = 0;         // another process pays for it: on no floor
  std::uint64_t peak_imported = 0;
  std::uint64_t segments = 0;         // bytes of Family::Segment
  bool segments_seen = false;
  bool totals_seen = false;
  std::uint64_t reserved = 0;         // last Totals.extra1 (or of an OutOfMemory), summed over processes
  bool memory_info_seen = false;
  std::uint64_t driver_free = 0;      // last MemoryInfo
  std::uint64_t driver_total = 0;
  std::uint64_t driver_ns = 0;
  const FloorState& operator[](Floor floor) const { return floors[index_of(floor)]; }
};

/// A piece of address space that has memory behind it (Map events).
struct MappedRange {
  std::uint16_t process = 0;
  std::int16_t device = 0;
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t handle = 0;
  std::uint64_t handle_offset = 0;
  bool pool = false;                  // the handle is a PoolGranule
};

enum class Death : std::uint8_t { Freed, Replaced, ContextEnded };

class LiveSet;

/// Told of every change, in order; the block is the one in the set (born, revived: after; died: just taken out).
class LiveSetObserver {
 public:
  virtual ~LiveSetObserver() = default;
  virtual void born(Block&, const Event&) {}
  virtual void died(const Block&, const Event&, Death) {}
  virtual void revived(Block&, const Event&) {}  // its free was refused: take `died` back
  virtual void resized(const Block&, std::uint64_t /*old_size*/, const Event&) {}
  virtual void after(const Event&, const LiveSet&) {}  // after every event, floors are up to date
};

class LiveSet {
 public:
  LiveSet();
  void observe(LiveSetObserver& observer) { observers_.push_back(&observer); }
  void apply(const Event& event);

  std::uint64_t events() const { return events_; }       // applied so far
  std::uint64_t births() const { return births_; }
  std::size_t size() const { return live_; }
  std::uint64_t unmatched_frees() const { return unmatched_frees_; }        // address not known
  std::uint64_t replaced() const { return replaced_; }                      // born on a living address
  std::uint64_t lost_revivals() const { return lost_revivals_; }            // FreeFailed without its block
  const std::vector<DeviceState>& devices() const { return devices_; }      // host first, then ordinals; see seen
  const DeviceState* device(std::int16_t device) const;
  bool saw(Floor floor) const { return floors_seen_[index_of(floor)]; }     // on a real device
  /// The floor closest to the program that was seen on a device; of the host: the allocation floor.
  Floor top_floor() const;
  Floor top_floor(std::int16_t device) const { return device == kHostDevice ? Floor::Allocation : top_floor(); }

  const Block* find(std::uint16_t process, Floor floor, Family family, std::uint64_t address) const;
  std::vector<MappedRange> mapped() const;  // by process and address

  /// Calls f(const Block&) for every living block, in no order.
  template <typename F>
  void for_each_block(F&& f) const {
    for (const Block& block : blocks_) if (block.floor != Floor::None) f(block);
  }

 private:
  struct Slot {
    std::uint32_t check = 0;  // upper half of the hash, to skip most misses
    std::uint32_t block = 0;  // index + 1; 0: empty
  };
  struct Key {
    std::uint64_t address;
    std::uint32_t space;      // process, floor and family space
    bool operator==(const Key&) const = default;
  };
  struct MapKey {
    std::uint16_t process;
    std::uint64_t address;
    auto operator<=>(const MapKey&) const = default;
  };
  struct Recent {             // last blocks a thread freed: a refused free puts one back
    std::array<Block, 4> blocks;
    unsigned next = 0;
  };

  static Key key_of(std::uint16_t process, Floor floor, Family family, std::uint64_t address);
  static Key key_of(const Block& block) { return key_of(block.process, block.floor, block.family, block.address); }
  static std::uint64_t hash(const Key& key);
  std::size_t find_slot(const Key& key) const;   // slots_.size() if absent
  std::size_t find_freed(const Event& event) const;
  Block& insert(const Block& block);
  Block take(std::size_t slot);
  void grow();

  void allocate(const Event& event);
  void free(const Event& event);
  void free_failed(const Event& event);
  void resize(const Event& event);
  void end_context(const Event& event);
  void map(const Event& event);
  void unmap(const Event& event);
  void sample(const Event& event);
  void totals(const Event& event);
  void count(const Event& event);

  DeviceState& row(std::int16_t device);
  void add(const Block& block, std::uint64_t time_ns, bool counted);
  void remove(const Block& block, std::uint64_t time_ns);
  void settle(DeviceState& row, std::uint64_t time_ns);  // held and peaks

  std::vector<LiveSetObserver*> observers_;
  std::vector<Slot> slots_;
  std::vector<Block> blocks_;
  std::vector<std::uint32_t> unused_;
  std::size_t live_ = 0;
  std::vector<DeviceState> devices_;
  std::array<bool, kFloorCount> floors_seen_{};
  std::unordered_map<std::uint64_t, Recent> recent_;
  std::uint64_t recent_key_ = ~std::uint64_t{0};
  Recent* recent_last_ = nullptr;
  std::map<MapKey, MappedRange> maps_;
  std::map<std::pair<std::uint16_t, std::int16_t>, std::uint64_t> reserved_;  // last Totals by process and device
  std::uint64_t events_ = 0;
  std::uint64_t births_ = 0;
  std::uint64_t unmatched_frees_ = 0;
  std::uint64_t replaced_ = 0;
  std::uint64_t lost_revivals_ = 0;
};

}  // namespace cuheap
