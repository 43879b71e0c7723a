// The caching allocator's part: reports through the PLT, as libc10_cuda does.
#include "c10.h"

static void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

extern "C" int run_tensors() {
  constexpr c10::Device kCuda0 = {1, 0}, kCuda1 = {1, 1}, kCpu = {0, -1};
  const std::size_t reserved = 2 << 20, more = 22 << 20;
  c10::reportMemoryUsageToProfiler(at(0x7f0000000200), 20140, std::size_t{20480}, reserved, kCuda0);
  c10::reportMemoryUsageToProfiler(at(0x7f0000010200), 20141, std::size_t{40960}, reserved, kCuda0);
  c10::reportMemoryUsageToProfiler(at(0x1000), 64, std::size_t{64}, std::size_t{0}, kCpu);
  c10::reportMemoryUsageToProfiler(at(0x7f0000000200), -20140, std::size_t{20480}, reserved, kCuda0);
  c10::reportMemoryUsageToProfiler(at(0x7f0100000000), 20142, std::size_t{20480}, more, kCuda1);
  c10::reportOutOfMemoryToProfiler(20143, std::size_t{20480}, more, kCuda1);
  c10::reportMemoryUsageToProfiler(at(0x7f0200000000), 20144, std::int64_t{20480}, std::int64_t{1} << 21, kCuda1);
  c10::reportOutOfMemoryToProfiler(20145, std::int64_t{20480}, std::int64_t{1} << 21, kCuda1);
  return c10_reports();
}
