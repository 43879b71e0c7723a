// Any bytes as a trace file: opened, streamed twice, every stack walked. Only Error may come out.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/fuzz/fuzz_driver.h"
#include "tests/unit/tools/trace_files.h"
#include "tools/model/error.h"
#include "tools/reader/trace_reader.h"

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "reader_fuzz: %s\n", what);
  std::abort();
}

void read_all(const std::string& path) {
  const cuheap::Trace trace = cuheap::open_trace(path);
  std::uint64_t before = 0, events = 0;
  trace.events->for_each([&](std::span<const cuheap::Event> batch) {
    for (const cuheap::Event& event : batch) {
      require(event.time_ns >= before, "events out of order");
      require(event.site < trace.sites.size(), "an unknown site");
      require(event.phase < trace.names.size(), "an unknown phase");
      require(event.process < trace.processes.size(), "an unknown process");
      before = event.time_ns;
      ++events;
    }
  });
  require(events == trace.event_count, "the count of events differs from the events");
  for (cuheap::SiteId site = 0; site < trace.sites.size(); ++site)
    require(site == 0 || trace.sites[site].parent < site, "a parent after its child");
  for (cuheap::SiteId site = 0; site < trace.sites.size() && site < 100; ++site) trace.stack(site);
  trace.loss_reasons();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int fd = ::memfd_create("fuzz", MFD_CLOEXEC);
  require(fd >= 0 && ::write(fd, data, size) == static_cast<ssize_t>(size), "no memory file");
  try {
    read_all("/proc/self/fd/" + std::to_string(fd));
  } catch (const cuheap::Error&) {}
  ::close(fd);
  return 0;
}

std::vector<cuheap::fuzz::Input> cuheap::fuzz::seeds() {
  const TestFolder folder;
  write_small_trace(folder / "small.cuheap", 512);
  const std::vector<char> small = bytes_of(folder / "small.cuheap");
  return {{small.begin(), small.end()}};
}
