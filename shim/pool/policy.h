// Every number and every list that the pool decides by, with unit and reason. Costs of driver calls are quoted from
// docs/pool.md, "What the calls cost"; nothing here is measured by us on a GPU yet.
#pragma once
#include <cstddef>
#include <cstdint>

namespace cuheap {

inline constexpr std::uint64_t kPoolKiB = 1024;
inline constexpr std::uint64_t kPoolMiB = 1024 * kPoolKiB;
inline constexpr std::uint64_t kPoolGiB = 1024 * kPoolMiB;

/// Base granule: the smallest handle that cuMemCreate makes on every GPU so far, and the page that the GPU maps.
inline constexpr std::uint64_t kGranuleBytes = 2 * kPoolMiB;

/// Kernels and frameworks count on 256 B from cudaMalloc, PyTorch rounds to 512.
inline constexpr std::uint64_t kMinAlignment = 512;

/// Pins of RDMA and dma-buf work on pages of 64 KiB: a block of the large class shares no such page. Smaller blocks do, as they
/// do in the driver's own slabs: with a page each, those that are no multiple of it ran out of memory up to 29 % early.
inline constexpr std::uint64_t kPinPageBytes = 64 * kPoolKiB;

/// Requests below live apart, so that a long-lived kilobyte never pins a large hole. PyTorch's line is the same.
inline constexpr std::uint64_t kSmallLimit = 1 * kPoolMiB;

/// From here a block gets one handle of its own: mapping 512 MiB of 2 MiB handles costs about 20 ms (80 us each, A100),
/// one handle about as much as cuMemAlloc; and NCCL and RDMA registration do not cross handles.
inline constexpr std::uint64_t kHugeLimit = 32 * kPoolMiB;

/// A huge block may take an idle handle that is larger than it needs by this share; the rest is slack while it lives.
inline constexpr std::uint64_t kHugeSlackShare = 16;

/// Idle huge handles beyond this share of the device are given back before a new one is made.
inline constexpr std::uint64_t kHugeIdleShare = 8;

/// First address range of a class; each further one doubles. Address space is free, but 128 TiB can be used up
/// (PyTorch PR 192269: device-size ranges per stream did).
inline constexpr std::uint64_t kFirstSmallSegment = 256 * kPoolMiB;
inline constexpr std::uint64_t kFirstLargeSegment = 4 * kPoolGiB;
inline constexpr std::uint64_t kMaxSegmentGrowth = 256 * kPoolGiB;

/// When the driver has less than this left after we have grown, idle memory goes back to it at once: allocations that no
/// hook sees (kernel local memory, lazily loaded modules) must find what they would have found without us. Above what a
/// context takes (some 500 MiB); of a small device a share.
inline constexpr std::uint64_t kTightBytes = 1 * kPoolGiB;
inline constexpr std::uint64_t kTightShare = 32;

/// free=ordered: blocks freed since the last fence share the next one, but not more than this.
inline constexpr std::uint64_t kFenceBatchBytes = 64 * kPoolMiB;
inline constexpr unsigned kMaxOpenFences = 16;

enum class SizeClass : std::uint8_t { Small = 0, Large = 1, Huge = 2 };
inline constexpr unsigned kSizeClasses = 3;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) { return (value + multiple - 1) / multiple * multiple; }
constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t multiple) { return value / multiple * multiple; }

constexpr SizeClass class_of(std::uint64_t bytes) {
  return bytes < kSmallLimit ? SizeClass::Small : bytes < kHugeLimit ? SizeClass::Large : SizeClass::Huge;
}

/// What a request of so many bytes takes out of its address range.
constexpr std::uint64_t held_bytes(std::uint64_t bytes, std::uint64_t granule) {
  return round_up(bytes, bytes < kSmallLimit ? kMinAlignment : bytes < kHugeLimit ? kPinPageBytes : granule);
}

constexpr std::uint64_t alignment_of(std::uint64_t bytes, std::uint64_t granule) {
  return bytes < kSmallLimit ? kMinAlignment : bytes < kGranuleBytes ? kPinPageBytes : granule;
}

/// The grid on which blocks of a class begin.
constexpr std::uint64_t unit_of(SizeClass size_class, std::uint64_t granule) {
  return size_class == SizeClass::Small ? kMinAlignment : size_class == SizeClass::Large ? kPinPageBytes : granule;
}

/// Callers whose memory is never pooled, by a part of their module's file name: they register, export or map memory on
/// their own, across handles, or keep caches of registrations that only a native free invalidates. Handed to the recorder
/// as its first module patterns; a request whose site carries one of these bits goes to the driver.
inline constexpr const char* kStepAsideModules[] = {
    "libnccl", "librccl", "libnvshmem", "libucp", "libuct", "libucs", "libfabric", "libmooncake", "mooncake", "libnixl",
    "libgdrapi", "libibverbs", "deep_ep", "libcufile", "libsharp",
};
inline constexpr unsigned kStepAsideModuleCount = sizeof(kStepAsideModules) / sizeof(kStepAsideModules[0]);
inline constexpr std::uint32_t kStepAsideBits = (std::uint32_t{1} << kStepAsideModuleCount) - 1;
static_assert(kStepAsideModuleCount < 32);

/// Where `auto` pools: (device, driver major) pairs that tests/device/run has passed. Empty until it has run on one; the
/// make-believe GPU is always in.
struct PassedPair {
  const char* device;  // part of cuDeviceGetName
  int driver_major;    // cuDriverGetVersion / 1000
};
inline constexpr const PassedPair* kPassedPairs = nullptr;
inline constexpr unsigned kPassedPairCount = 0;

}  // namespace cuheap
