#include "fat_image.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cuheap::sim::runtime {
namespace {

// The container that `cuobjdump --list-elf --list-ptx` lists: a header, then entries of a header and a (maybe
// compressed) payload each.
constexpr std::uint32_t kMagic = 0xBA55ED50;

struct Header {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_bytes;
  std::uint64_t payload_bytes;  // of all entries
};

struct Entry {
  std::uint16_t kind;
  std::uint16_t version;
  std::uint32_t header_bytes;
  std::uint64_t payload_bytes;
  std::uint32_t compressed_bytes;
  std::uint32_t options;
  std::uint16_t minor;
  std::uint16_t major;
  std::uint32_t architecture;  // major * 10 + minor
};

enum Kind : std::uint16_t { kPtx = 1, kMachineCode = 2 };

// Machine code runs on devices of its major version and an equal or later minor one; PTX is compiled for any later
// device.
bool runs_on(const Entry& entry, int capability) {
  const int architecture = static_cast<int>(entry.architecture);
  if (architecture > capability) return false;
  return entry.kind == kPtx || architecture / 10 == capability / 10;
}

}  // namespace

int best_architecture(const void* image, int device_capability) {
  if (image == nullptr) return 0;
  Header header;
  std::memcpy(&header, image, sizeof header);
  if (header.magic != kMagic || header.header_bytes < sizeof header) return 0;
  int code = 0;
  int ptx = 0;
  const auto* bytes = static_cast<const unsigned char*>(image) + header.header_bytes;
  for (std::uint64_t at = 0; at + sizeof(Entry) <= header.payload_bytes;) {
    Entry entry;
    std::memcpy(&entry, bytes + at, sizeof entry);
    if (entry.header_bytes < sizeof entry) break;
    if (runs_on(entry, device_capability)) {
      int& best = entry.kind == kPtx ? ptx : code;
      if (static_cast<int>(entry.architecture) > best) best = static_cast<int>(entry.architecture);
    }
    at += entry.header_bytes + entry.payload_bytes;
  }
  return code != 0 ? code : ptx;
}

}  // namespace cuheap::sim::runtime
