#include "tools/reader/trace_reader.h"

#include <gtest/gtest.h>

#include "tests/unit/tools/trace_files.h"
#include "tools/model/error.h"

namespace cuheap {
namespace {

constexpr std::uint32_t kSmallChunk = 1024;  // keeps the tests over every byte short

std::string error_of(const std::string& path) {
  try {
    open_trace(path);
  } catch (const Error& error) { return error.what(); }
  return "";
}

void patch(std::fstream& file, std::size_t at, char byte) {
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
  file.flush();
}

TEST(TraceReader, MergesThreadsInTimeOrder) {
  TestFolder folder;
  write_small_trace(folder / "a.cuheap");

  const Trace trace = open_trace(folder / "a.cuheap");
  const std::vector<Event> events = events_of(trace);

  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(trace.event_count, 4u);
  EXPECT_EQ(events[0].size, 20001u);
  EXPECT_EQ(events[1].size, 20002u);
  EXPECT_EQ(events[2].address, 0x7000u);
  EXPECT_EQ(events[3].address, 0x9000u);
  EXPECT_EQ(events[2].thread, 2u);
  EXPECT_TRUE(trace.damage.empty());
}

TEST(TraceReader, StreamsAgainFromTheBeginning) {
  TestFolder folder;
  write_small_trace(folder / "a.cuheap");
  const Trace trace = open_trace(folder / "a.cuheap");

  const std::vector<Event> first = events_of(trace), second = events_of(trace);

  EXPECT_EQ(first, second);
}

TEST(TraceReader, NamesStacksInnermostFirst) {
  TestFolder folder;
  write_small_trace(folder / "a.cuheap");

  const Trace trace = open_trace(folder / "a.cuheap");
  const std::vector<Frame> stack = trace.stack(events_of(trace)[0].site);

  ASSERT_EQ(stack.size(), 2u);
  EXPECT_EQ(stack[0], (Frame{"step", "train.py", 4, "", FrameLanguage::Python}));
  EXPECT_EQ(stack[1], (Frame{"<module>", "train.py", 9, "", FrameLanguage::Python}));
}

TEST(TraceReader, KnowsTheProcessAndItsDevices) {
  TestFolder folder;
  write_small_trace(folder / "a.cuheap");

  const Trace trace = open_trace(folder.path());

  ASSERT_EQ(trace.processes.size(), 1u);
  EXPECT_EQ(trace.processes[0].pid, 42u);
  EXPECT_EQ(trace.processes[0].rank, 3);
  EXPECT_TRUE(trace.processes[0].ended_orderly);
  EXPECT_EQ(trace.processes[0].meta.at("command"), "python train.py");
  ASSERT_EQ(trace.devices.size(), 1u);
  EXPECT_EQ(trace.devices[0].total_bytes, 80ull << 30);
  EXPECT_EQ(trace.start_ns, kStart);
  EXPECT_EQ(trace.end_ns, kStart + 500);
}

TEST(TraceReader, PutsEqualStacksOfTwoProcessesUnderOneSite) {
  TestFolder folder;
  write_small_trace(folder / "a.cuheap");
  write_small_trace(folder / "b.cuheap");

  const Trace trace = open_trace(folder.path());
  const std::vector<Event> events = events_of(trace);

  ASSERT_EQ(events.size(), 8u);
  EXPECT_EQ(trace.sites.size(), 3u);  // the empty stack and two
  EXPECT_EQ(events[0].site, events[1].site);
  EXPECT_NE(events[0].process, events[1].process);
}

TEST(TraceReader, PutsClocksOfOtherMachinesOnTheFirstOne) {
  TestFolder folder;
  TraceFileWriter::Options here{.start_ns = kStart, .start_wall_ns = 500 * kStart};
  TraceFileWriter::Options there{.start_ns = 90 * kStart, .start_wall_ns = 501 * kStart};
  TraceFileWriter first(folder / "a.cuheap", here), second(folder / "b.cuheap", there);
  first.write(event_of(EventKind::Allocate, kStart + 5, 1, 1));
  second.write(event_of(EventKind::Allocate, 90 * kStart + 5, 2, 1));
  first.finish(0);
  second.finish(0);

  const std::vector<Event> events = events_of(open_trace(folder.path()));

  EXPECT_EQ(events[0].time_ns, kStart + 5);
  EXPECT_EQ(events[1].time_ns, 2 * kStart + 5);
}

/// Two processes, each with one event of `ordinal` on the device that it calls so.
Trace of_two_ranks(const TestFolder& folder, std::uint32_t first, const std::string& first_uuid, std::uint32_t second,
                   const std::string& second_uuid, const char* second_name = "card") {
  const auto write = [&](const char* file, std::uint64_t wall, std::uint32_t ordinal, const std::string& uuid, const char* name) {
    TraceFileWriter writer(folder / file, {.start_ns = kStart, .start_wall_ns = wall});
    writer.define_device(ordinal, name, 80ull << 30, uuid);
    Event e = event_of(EventKind::Allocate, kStart + wall, 0x1000, 1);
    e.device = static_cast<std::int16_t>(ordinal);
    writer.write(e);
    e = event_of(EventKind::Allocate, kStart + wall, 0x2000, 1, 0, 2);
    e.device = -1;
    writer.write(e);
    writer.finish(0);
  };
  write("a.cuheap", 1, first, first_uuid, "card");
  write("b.cuheap", 2, second, second_uuid, second_name);
  return open_trace(folder.path());
}

TEST(TraceReader, OneOrdinalOfTwoRanksIsTwoDevicesWhereTheGpusDiffer) {
  TestFolder folder;
  const Trace trace = of_two_ranks(folder, 0, "gpu-x-----------", 0, "gpu-y-----------");
  const std::vector<Event> events = events_of(trace);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].device, 0);
  EXPECT_EQ(events[1].device, -1);
  EXPECT_EQ(events[2].device, 1);
  EXPECT_EQ(events[3].device, -1);
  ASSERT_EQ(trace.devices.size(), 2u);
  EXPECT_EQ(trace.devices[1].ordinal, 1);
  EXPECT_EQ(trace.devices[1].seen_as, 0);
  EXPECT_EQ(trace.devices[1].uuid, "gpu-y-----------");
}

TEST(TraceReader, OneGpuIsOneDeviceWhateverTwoRanksCallIt) {
  TestFolder folder;
  const Trace trace = of_two_ranks(folder, 3, "gpu-x-----------", 0, "gpu-x-----------");
  const std::vector<Event> events = events_of(trace);
  EXPECT_EQ(events[0].device, 3);
  EXPECT_EQ(events[2].device, 3);
  EXPECT_EQ(trace.devices[1].ordinal, 3);
  EXPECT_EQ(trace.devices[1].seen_as, 0);
}

TEST(TraceReader, WithoutTheGpusNameAnOrdinalIsADeviceUnlessItCannotBe) {
  const std::string none(16, '\0');  // what the driver gave is no name
  TestFolder same, zero, other;
  EXPECT_EQ(events_of(of_two_ranks(same, 0, "", 0, "gpu-y-----------")).at(2).device, 0);
  EXPECT_EQ(events_of(of_two_ranks(zero, 1, none, 0, none)).at(2).device, 0);
  EXPECT_EQ(events_of(of_two_ranks(other, 0, "", 0, "", "another card")).at(2).device, 1);
}

TEST(TraceReader, TakesAFreeBeforeAnAllocationOfTheSameNanosecond) {
  TestFolder folder;
  TraceFileWriter writer(folder / "a.cuheap", {.start_ns = kStart});
  writer.write(event_of(EventKind::Allocate, kStart + 1, 0x200, 7, 0, 2));
  writer.write(event_of(EventKind::Allocate, kStart + 9, 0x200, 8, 0, 1));
  writer.write(event_of(EventKind::Free, kStart + 9, 0x200, 0, 0, 2));
  writer.finish(0);

  const std::vector<Event> events = events_of(open_trace(folder / "a.cuheap"));

  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].kind, EventKind::Free);
  EXPECT_EQ(events[2].size, 8u);
}

TEST(TraceReader, LooksIntoAThreadThatBeginsInTheSameNanosecond) {
  TestFolder folder;
  TraceFileWriter writer(folder / "a.cuheap", {.start_ns = kStart});
  writer.write(event_of(EventKind::Allocate, kStart + 1, 0x200, 7, 0, 1));
  writer.write(event_of(EventKind::Allocate, kStart + 9, 0x200, 8, 0, 1));
  writer.write(event_of(EventKind::Free, kStart + 9, 0x200, 0, 0, 2));  // the first word of its thread
  writer.finish(0);

  const std::vector<Event> events = events_of(open_trace(folder / "a.cuheap"));

  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].kind, EventKind::Free);
  EXPECT_EQ(events[2].size, 8u);
}

TEST(TraceReader, TakesChunksOfOneInstantBySequenceWhereverTheyLie) {
  TestFolder folder;
  constexpr std::uint64_t kEvents = 1000;
  {
    TraceFileWriter writer(folder / "a.cuheap", {.start_ns = kStart, .chunk_bytes = kSmallChunk});
    for (std::uint64_t i = 0; i < kEvents; ++i) writer.write(event_of(EventKind::Allocate, kStart, i * 512, i + 1));
    writer.finish(0);
  }
  std::vector<char> bytes = bytes_of(folder / "a.cuheap");
  const std::size_t chunks = (bytes.size() - kHeaderBytes + kSmallChunk - 1) / kSmallChunk;
  ASSERT_GT(chunks, 2u);
  bytes.resize(kHeaderBytes + chunks * kSmallChunk);
  std::vector<char> turned(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(kHeaderBytes));
  for (std::size_t chunk = chunks; chunk-- > 0;) {
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(kHeaderBytes + chunk * kSmallChunk);
    turned.insert(turned.end(), begin, begin + kSmallChunk);
  }
  store_bytes(folder / "a.cuheap", turned);

  const std::vector<Event> events = events_of(open_trace(folder / "a.cuheap"));

  ASSERT_EQ(events.size(), kEvents);
  for (std::uint64_t i = 0; i < kEvents; ++i) ASSERT_EQ(events[i].size, i + 1);
}

TEST(TraceReader, NothingBehindATimeThatCannotBeIsRead) {
  TestFolder folder;
  constexpr std::uint64_t kTwentyYears = 20ull * 365 * 24 * 3600 * 1'000'000'000;
  TraceFileWriter writer(folder / "a.cuheap", {.start_ns = kStart});
  writer.write(event_of(EventKind::Allocate, kStart + 1, 0x1000, 7));
  writer.write(event_of(EventKind::Allocate, kStart + kTwentyYears, 0x2000, 8));
  writer.write(event_of(EventKind::Allocate, kStart + kTwentyYears, 0x3000, 9));
  writer.finish(0);

  const Trace trace = open_trace(folder / "a.cuheap");
  const std::vector<Event> events = events_of(trace);

  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].size, 7u);
  EXPECT_EQ(trace.event_count, 1u);
  EXPECT_EQ(trace.end_ns, kStart + 1);
  ASSERT_EQ(trace.damage.size(), 1u);
  EXPECT_EQ(trace.damage[0].reason, "a time that cannot be");
}

TEST(TraceReader, TellsAKilledProcessFromOneThatEnded) {
  TestFolder folder;
  for (const std::uint64_t end : {std::uint64_t{0}, kStart + 500}) {
    TraceFileWriter writer(folder / "a.cuheap", {.start_ns = kStart});
    writer.write(event_of(EventKind::Allocate, kStart + 1, 0x1000, 7));
    writer.finish(end);
    const Trace trace = open_trace(folder / "a.cuheap");
    EXPECT_EQ(trace.processes[0].ended_orderly, end != 0);
    EXPECT_EQ(trace.end_ns, end != 0 ? end : kStart + 1);
  }
}

TEST(TraceReader, SaysOnWhatItWasRecorded) {
  TestFolder folder;
  const std::pair<const char*, Ground> kGrounds[] = {
      {"simulated", Ground::Simulated}, {"gpu", Ground::Gpu}, {"imported", Ground::Imported}, {nullptr, Ground::Gpu}};
  for (const auto& [word, ground] : kGrounds) {
    TraceFileWriter writer(folder / "a.cuheap", {.start_ns = kStart});
    if (word != nullptr) writer.define_meta("ground", word);
    writer.finish(0);
    EXPECT_EQ(open_trace(folder / "a.cuheap").ground, ground) << (word == nullptr ? "nothing said" : word);
  }
}

TEST(TraceReader, KeepsTheOrderOfManyChunksAndThreads) {
  TestFolder folder;
  TraceFileWriter writer(folder / "a.cuheap", {.start_ns = kStart, .chunk_bytes = 4096});
  constexpr std::uint64_t kEvents = 20000;
  for (std::uint64_t i = 0; i < kEvents; ++i) {
    writer.write(event_of(EventKind::Allocate, kStart + i, i * 512, i + 1, 0, static_cast<std::uint32_t>(i * i % 7)));
  }
  writer.finish(0);

  const std::vector<Event> events = events_of(open_trace(folder / "a.cuheap"));

  ASSERT_EQ(events.size(), kEvents);
  for (std::uint64_t i = 0; i < kEvents; ++i) ASSERT_EQ(events[i].size, i + 1);
}

TEST(TraceReader, CountsLossesByReason) {
  TestFolder folder;
  TraceFileWriter writer(folder / "a.cuheap", {.start_ns = kStart});
  writer.count_loss(LossReason::NoChunk, 5);
  writer.finish(0);

  const Trace trace = open_trace(folder / "a.cuheap");

  EXPECT_EQ(trace.lost_events(), 5u);
  ASSERT_EQ(trace.loss_reasons().size(), 1u);
  EXPECT_NE(trace.loss_reasons()[0].find("5 events"), std::string::npos);
}

TEST(TraceReader, OpensEveryPrefixOfAFile) {
  TestFolder folder;
  write_small_trace(folder / "a.cuheap", kSmallChunk);
  std::size_t most = 4;

  for (std::size_t size = std::filesystem::file_size(folder / "a.cuheap"); size-- > 0;) {
    std::filesystem::resize_file(folder / "a.cuheap", size);
    const Trace trace = open_trace(folder / "a.cuheap");
    const std::size_t events = events_of(trace).size();
    ASSERT_LE(events, most) << "a shorter prefix has more events, at " << size;
    ASSERT_FALSE(trace.damage.empty()) << "nothing says that something is missing, at " << size;
    most = events;
  }
  EXPECT_EQ(most, 0u);
}

TEST(TraceReader, SurvivesEveryFlippedByte) {
  TestFolder folder;
  write_small_trace(folder / "a.cuheap", kSmallChunk);
  const std::vector<char> good = bytes_of(folder / "a.cuheap");
  std::fstream file(folder / "a.cuheap", std::ios::binary | std::ios::in | std::ios::out);

  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const char flip : {'\x01', '\x80', '\xff'}) {
      const char bad = static_cast<char>(good[at] ^ flip);
      patch(file, at, bad);
      try {
        const Trace trace = open_trace(folder / "a.cuheap");
        std::uint64_t before = 0;
        for (const Event& event : events_of(trace)) {
          ASSERT_GE(event.time_ns, before);
          ASSERT_LT(event.site, trace.sites.size());
          before = event.time_ns;
        }
        for (SiteId site = 1; site < trace.sites.size(); ++site) ASSERT_LT(trace.sites[site].parent, site);
      } catch (const Error&) {
        ASSERT_LT(at, sizeof(FileHeader));  // only a header can make a file foreign
      }
    }
    patch(file, at, good[at]);
  }
}

TEST(TraceReader, ReadsTheRestOfADamagedFile) {
  TestFolder folder;
  write_small_trace(folder / "a.cuheap", kSmallChunk);
  std::vector<char> bytes = bytes_of(folder / "a.cuheap");
  bytes[kHeaderBytes + kSmallChunk + sizeof(ChunkHeader)] = 0;  // first record of the first event chunk
  store_bytes(folder / "a.cuheap", bytes);

  const Trace trace = open_trace(folder / "a.cuheap");

  EXPECT_EQ(events_of(trace).size(), 2u);
  ASSERT_EQ(trace.damage.size(), 1u);
  EXPECT_EQ(trace.damage[0].offset, kHeaderBytes + kSmallChunk + sizeof(ChunkHeader));
  EXPECT_GT(trace.damage[0].bytes, 0u);
}

TEST(TraceReader, BreaksRingsOfSites) {
  TestFolder folder;
  TraceFileWriter writer(folder / "a.cuheap", {.start_ns = kStart});
  writer.define(SiteNode{5, 6, FrameKind::Native, 0, 1});
  writer.define(SiteNode{6, 5, FrameKind::Native, 0, 2});
  writer.write(event_of(EventKind::Allocate, kStart, 1, 1, 5));
  writer.finish(0);

  const Trace trace = open_trace(folder / "a.cuheap");

  EXPECT_EQ(trace.stack(events_of(trace)[0].site).size(), 2u);
}

TEST(TraceReader, TakesSitesOfAnyNumber) {
  TestFolder folder;
  TraceFileWriter writer(folder / "a.cuheap", {.start_ns = kStart});
  writer.define(SiteNode{0xfffffff0u, 0, FrameKind::Native, 0, 0x1a});
  writer.write(event_of(EventKind::Allocate, kStart, 1, 1, 0xfffffff0u));
  writer.write(event_of(EventKind::Allocate, kStart, 2, 1, 0xffffff00u));
  writer.finish(0);

  const Trace trace = open_trace(folder / "a.cuheap");
  const std::vector<Event> events = events_of(trace);

  EXPECT_EQ(trace.stack(events[0].site)[0].function, "unknown+0x1a");
  EXPECT_EQ(events[1].site, 0u);
}

TEST(TraceReader, NumbersPhasesAndMarks) {
  TestFolder folder;
  for (const char* const file : {"a.cuheap", "b.cuheap"}) {
    TraceFileWriter writer(folder / file, {.start_ns = kStart});
    if (file[0] == 'b') writer.define_name("warm-up");
    const NameId name = writer.define_name("load");
    Event mark = event_of(EventKind::Mark, kStart, 0, 0);
    mark.extra0 = mark.phase = name;
    writer.write(mark);
    writer.finish(0);
  }

  const Trace trace = open_trace(folder.path());

  for (const Event& event : events_of(trace)) {
    EXPECT_EQ(trace.names.at(event.phase), "load");
    EXPECT_EQ(trace.names.at(event.extra0), "load");
  }
}

TEST(TraceReader, RefusesForeignFilesInOneLine) {
  TestFolder folder;
  store_bytes(folder / "a.pickle", {'\x80', '\x04', '}', '.'});

  const std::string line = error_of(folder / "a.pickle");

  EXPECT_NE(line.find("a.pickle: not a cuheap trace"), std::string::npos) << line;
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

TEST(TraceReader, RefusesAFutureVersion) {
  TestFolder folder;
  write_small_trace(folder / "a.cuheap");
  std::vector<char> bytes = bytes_of(folder / "a.cuheap");
  bytes[offsetof(FileHeader, version)] = 99;
  store_bytes(folder / "a.cuheap", bytes);

  EXPECT_NE(error_of(folder / "a.cuheap").find("version 99"), std::string::npos);
}

TEST(TraceReader, NamesWhatIsNotThere) {
  TestFolder folder;

  EXPECT_NE(error_of(folder / "none.cuheap").find("No such file"), std::string::npos);
  EXPECT_NE(error_of(folder.path()).find("no .cuheap file"), std::string::npos);
  EXPECT_NE(error_of("/dev/null").find("not a regular file"), std::string::npos);
}

TEST(TraceReader, AForeignFileInADirectoryHidesNoOther) {
  TestFolder folder;
  write_small_trace(folder / "good.cuheap");
  store_bytes(folder / "bad.cuheap", {'n', 'o', 't', ' ', 'o', 'u', 'r', 's'});

  const Trace trace = open_trace(folder.path());

  EXPECT_EQ(trace.event_count, 4u);
  ASSERT_EQ(trace.damage.size(), 1u);
  EXPECT_NE(trace.damage[0].file.find("bad.cuheap"), std::string::npos);
}

}  // namespace
}  // namespace cuheap
