// make_golden DIR: writes the golden run of this format version. Run once a version; its files are never edited after,
// and the reader must read all versions for ever.
#include <filesystem>
#include <iostream>

#include "tools/reader/trace_file_writer.h"

namespace cuheap {
namespace {

constexpr std::uint64_t kStart = 1'000'000'000;
constexpr std::uint64_t kWall = 1'750'000'000'000'000'000;
constexpr std::uint32_t kSmallChunk = 1024;

Event event(EventKind kind, Floor floor, Family family, std::uint64_t after_ns, std::uint64_t address,
            std::uint64_t size, SiteId site = 0) {
  Event e;
  e.kind = kind;
  e.floor = floor;
  e.family = family;
  e.time_ns = kStart + after_ns;
  e.address = address;
  e.size = size;
  e.site = site;
  e.thread = 11;
  return e;
}

/// A process with every kind of record: two threads, Python and native frames, phases, marks, VMM, an out-of-memory,
/// losses.
void write_first(const std::string& path) {
  TraceFileWriter writer(path, {.pid = 4001,
                                .parent_pid = 4000,
                                .rank = 0,
                                .start_ns = kStart,
                                .start_wall_ns = kWall,
                                .chunk_bytes = kSmallChunk});
  writer.define_meta("command", "python train.py --steps 2");
  writer.define_meta("ground", "simulated");
  writer.define_meta("torch", "2.11.0");
  writer.define_device(0, "h100-80g", 80ull << 30);
  writer.define(ModuleRecord{1, 0x7f0000000000, 0x100000, {"/opt/gone/libworker.so", 22}, {"\x01\x02\x03\x04", 4}});
  const SiteId main = writer.define_source_site(0, writer.define_code(Language::Python, "<module>", "train.py"), 30);
  const SiteId step = writer.define_source_site(main, writer.define_code(Language::Python, "step", "train.py"), 12);
  writer.define(SiteNode{10, step, FrameKind::Native, 1, 0x1a2b});
  const NameId load = writer.define_name("load"), mark = writer.define_name("step 1");

  Event phase = event(EventKind::PhaseBegin, Floor::None, Family::None, 1000, 0, 0);
  phase.phase = load;
  writer.write(phase);
  writer.write(event(EventKind::Allocate, Floor::Allocation, Family::Device, 2000, 0x700000000000, 2 << 20, main));
  Event tensor = event(EventKind::Allocate, Floor::Framework, Family::Tensor, 3000, 0x700000000000, 20001, 10);
  tensor.stream = 7;
  tensor.phase = load;
  writer.write(tensor);
  Event totals = event(EventKind::Totals, Floor::Framework, Family::None, 3000, 0, 0);
  totals.extra0 = 20480;
  totals.extra1 = 2 << 20;
  writer.write(totals);
  phase.kind = EventKind::PhaseEnd;
  phase.time_ns = kStart + 4000;
  writer.write(phase);
  Event marked = event(EventKind::Mark, Floor::None, Family::None, 5000, 0, 0);
  marked.extra0 = mark;
  writer.write(marked);

  Event other = event(EventKind::Allocate, Floor::Framework, Family::Tensor, 5500, 0x700000008000, 20002, step);
  other.thread = 12;
  writer.write(other);
  Event handle = event(EventKind::Allocate, Floor::Physical, Family::Handle, 6000, 0x55, 2 << 20, main);
  writer.write(handle);
  Event map = event(EventKind::Map, Floor::Physical, Family::Handle, 6100, 0x710000000000, 2 << 20);
  map.extra0 = 0x55;
  writer.write(map);
  Event info = event(EventKind::MemoryInfo, Floor::Physical, Family::None, 6200, 0, 70ull << 30);
  info.extra0 = 80ull << 30;
  writer.write(info);
  writer.write(event(EventKind::Free, Floor::Framework, Family::Tensor, 7000, 0x700000000000, 0, step));
  writer.write(event(EventKind::FreeFailed, Floor::Framework, Family::Tensor, 7001, 0x700000000000, 0));
  Event oom = event(EventKind::OutOfMemory, Floor::Allocation, Family::Device, 8000, 0, 90ull << 30, step);
  oom.extra0 = 2 << 20;
  writer.write(oom);
  Event pinned = event(EventKind::Allocate, Floor::Allocation, Family::Pinned, 8500, 0x7e0000000000, 4096, main);
  pinned.device = -1;
  writer.write(pinned);
  writer.count_loss(LossReason::NoChunk, 3);
  writer.finish(kStart + 10000);
}

/// A second rank, killed: no orderly end.
void write_second(const std::string& path) {
  TraceFileWriter writer(path, {.pid = 4002,
                                .parent_pid = 4000,
                                .rank = 1,
                                .start_ns = kStart + 500,
                                .start_wall_ns = kWall + 500,
                                .chunk_bytes = kSmallChunk});
  writer.define_meta("command", "python train.py --steps 2");
  writer.define_device(0, "h100-80g", 80ull << 30);
  const SiteId main = writer.define_source_site(0, writer.define_code(Language::Python, "<module>", "train.py"), 30);
  writer.write(event(EventKind::Allocate, Floor::Allocation, Family::Device, 2500, 0x700000000000, 4 << 20, main));
  writer.write(event(EventKind::Free, Floor::Allocation, Family::Device, 9500, 0x700000000000, 0, main));
  writer.finish(0);
}

}  // namespace
}  // namespace cuheap

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "make_golden DIR\n";
    return 2;
  }
  const std::filesystem::path folder(argv[1]);
  std::filesystem::create_directories(folder / "run");
  cuheap::write_first((folder / "run" / "trace-4001.cuheap").string());
  cuheap::write_second((folder / "run" / "trace-4002.cuheap").string());
}
