// Any bytes as a PyTorch snapshot: parsed, written as a trace, checked. Only Error may come out.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/fuzz/fuzz_driver.h"
#include "tests/unit/tools/pickles.h"
#include "tools/importers/pytorch_snapshot.h"
#include "tools/model/error.h"
#include "tools/reader/trace_reader.h"

namespace {

int memory_file() {
  const int fd = ::memfd_create("fuzz", MFD_CLOEXEC);
  if (fd < 0) std::abort();
  return fd;
}
std::string path_of(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int in = memory_file(), out = memory_file();
  if (::write(in, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    const cuheap::PytorchSnapshot snapshot = cuheap::read_pytorch_snapshot(path_of(in));
    cuheap::write_as_trace(snapshot, path_of(out));
    cuheap::check_import(snapshot, cuheap::open_trace(path_of(out)));
  } catch (const cuheap::Error&) {}
  ::close(in);
  ::close(out);
  return 0;
}

std::vector<cuheap::fuzz::Input> cuheap::fuzz::seeds() {
  return {snapshot_bytes({{0x1000, 0x4000, false, {{0x2000, 200}, {0x3000, 300}}}, {0x9000, 0x1000, true, {}}},
                         {{"free_requested", 0x1000, 100, 5},
                          {"free_completed", 0x1000, 100, 5},
                          {"alloc", 0x3000, 300, 6},
                          {"segment_map", 0x9000, 0x4000, 7},
                          {"segment_unmap", 0xa000, 0x3000, 8},
                          {"oom", 7, 1 << 20, 9}}),
          PickleBytes().begin_dict().text("segments").op("]").end_dict().done()};
}
