// Granules: the physical handles of one device. All handle arithmetic is here: how large they are, where they are mapped,
// how many of their bytes are in use, which lie unmapped in stock. Driver calls that make and end a handle are here too,
// but take no lock and touch no table.
#pragma once
#include <cstdint>

#include "shim/driver/driver.h"
#include "shim/pool/node_store.h"

namespace cuheap {

struct Segment;

/// One handle. It maps as a whole, at one place at a time (cuMemMap's offset must be 0 in practice).
struct Granule {
  CUmemGenericAllocationHandle handle = 0;
  std::uint64_t size = 0;
  std::uint64_t address = 0;     // where it is mapped; 0: in stock
  std::uint64_t used = 0;        // bytes of blocks that are live or wait for their fence
  std::uint64_t exposed = 0;     // bytes of freed blocks that the outside may still know: nobody else may get them
  Segment* segment = nullptr;
  bool in_transit = false;       // a driver call about it is under way without the lock
  Granule* next = nullptr;       // in stock
};

/// How handles are made; found by the self-test.
struct HandleForm {
  CUmemAllocationHandleType types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  bool rdma_capable = false;
};

[[nodiscard]] CUresult create_handle(const DriverTable& driver, int device, HandleForm form, std::uint64_t size,
                                     CUmemGenericAllocationHandle* out);

class Granules {
 public:
  /// Takes a handle into the books; null if there is no memory for its record.
  [[nodiscard]] Granule* adopt(CUmemGenericAllocationHandle handle, std::uint64_t size);
  [[nodiscard]] bool prepare(std::size_t count) { return nodes_.prepare(count); }
  /// The handle has been released.
  void forget(Granule* granule);
  /// Unmapped and free to be mapped anywhere.
  void stock(Granule* granule);
  /// One of exactly this size from the stock, or null.
  [[nodiscard]] Granule* take(std::uint64_t size);
  /// Any from the stock, or null.
  [[nodiscard]] Granule* take_any();

  /// Notes a change of the bytes in use; keeps idle_bytes().
  void use(Granule* granule, std::uint64_t bytes);
  void unuse(Granule* granule, std::uint64_t bytes);
  void expose(Granule* granule, std::uint64_t bytes);  // they count as used no more, and as free never again

  std::uint64_t held_bytes() const { return held_; }   // of all handles
  std::uint64_t stock_bytes() const { return stocked_; }
  /// Of handles without a used or exposed byte, those in stock included: what any request can be made of.
  std::uint64_t idle_bytes() const { return idle_; }
  std::uint64_t count() const { return count_; }

 private:
  static bool is_idle(const Granule* granule) { return granule->used == 0 && granule->exposed == 0; }

  NodeStore<Granule> nodes_;
  Granule* stock_ = nullptr;
  std::uint64_t held_ = 0;
  std::uint64_t stocked_ = 0;
  std::uint64_t idle_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace cuheap
