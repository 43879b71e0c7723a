#include "tracer/format/codec.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace cuheap {
namespace {

ChunkHeader header_at(std::uint64_t first_ns) {
  ChunkHeader header{};
  header.magic = kChunkMagic;
  header.thread = 77;
  header.first_ns = first_ns;
  return header;
}

Event allocate(std::uint64_t time, std::uint64_t address, std::uint64_t size, SiteId site) {
  Event e;
  e.time_ns = time;
  e.address = address;
  e.size = size;
  e.site = site;
  e.thread = 77;
  e.kind = EventKind::Allocate;
  e.floor = Floor::Allocation;
  e.family = Family::Device;
  return e;
}

Event free_of(std::uint64_t time, std::uint64_t address) {
  Event e = allocate(time, address, 0, 0);
  e.kind = EventKind::Free;
  return e;
}

std::vector<std::uint8_t> encode(const std::vector<Event>& events, std::uint64_t first_ns) {
  std::vector<std::uint8_t> bytes(events.size() * kMaxEventBytes + 1);
  ChunkDeltas deltas;
  deltas.time_ns = first_ns;
  std::uint8_t* out = bytes.data();
  for (const Event& e : events) out = encode_event(deltas, e, out);
  bytes.resize(static_cast<std::size_t>(out - bytes.data()));
  return bytes;
}

std::vector<Event> decode(const std::vector<std::uint8_t>& bytes, std::uint64_t first_ns, Decoded* last = nullptr) {
  ChunkDecoder decoder(header_at(first_ns), bytes.data(), bytes.data() + bytes.size());
  std::vector<Event> events;
  Record record;
  for (;;) {
    const Decoded what = decoder.next(record);
    if (what == Decoded::Event) events.push_back(record.event);
    if (what == Decoded::End || what == Decoded::Damaged) {
      if (last != nullptr) *last = what;
      return events;
    }
  }
}

std::vector<Event> random_events(unsigned seed, int count) {
  std::mt19937_64 random(seed);
  std::vector<Event> events;
  std::uint64_t time = 1000;
  for (int i = 0; i < count; ++i) {
    Event e;
    time += random() % 5000;
    e.time_ns = time;
    e.thread = 77;
    e.kind = static_cast<EventKind>(1 + random() % 19);
    e.floor = static_cast<Floor>(1 + random() % 3);
    e.family = static_cast<Family>(random() % 15);
    e.device = static_cast<std::int16_t>(static_cast<int>(random() % 10) - 1);
    e.flags = static_cast<std::uint8_t>(random() % 16);
    e.address = random() % 3 == 0 ? random() : (random() % 100000) * 512;
    e.size = e.kind == EventKind::Free ? 0 : random() % 4 == 0 ? 4096 : random() % (1ull << 36);
    e.stream = random() % 3 == 0 ? random() : 0;
    e.context = random() % 2;
    e.site = static_cast<SiteId>(random() % 50);
    e.phase = static_cast<PhaseId>(random() % 3);
    if (random() % 5 == 0) { e.extra0 = random(); e.extra1 = random(); }
    events.push_back(e);
  }
  return events;
}

TEST(Codec, GivesBackEveryFieldOfEveryKind) {
  const std::vector<Event> events = random_events(1, 20000);

  const std::vector<Event> read = decode(encode(events, 500), 500);

  ASSERT_EQ(read.size(), events.size());
  for (std::size_t i = 0; i < events.size(); ++i) ASSERT_EQ(read[i], events[i]) << "event " << i;
}

// Each field of the state alone: none of them may ride on a change of another.
TEST(Codec, AChangeOfOneFieldIsKept) {
  const Event first = allocate(100, 512, 20001, 3);
  const auto change = [&first](auto member, auto value) {
    Event second = first;
    second.time_ns = 200;
    second.*member = value;
    return std::vector<Event>{first, second};
  };
  const std::vector<Event> changes[] = {
      change(&Event::family, Family::Managed), change(&Event::device, std::int16_t{1}), change(&Event::stream, std::uint64_t{7}),
      change(&Event::context, std::uint64_t{8}), change(&Event::phase, PhaseId{9}), change(&Event::flags, kEventPooled),
      change(&Event::extra0, std::uint64_t{10}), change(&Event::extra1, std::uint64_t{11}), change(&Event::floor, Floor::Framework)};

  for (const std::vector<Event>& events : changes) EXPECT_EQ(decode(encode(events, 0), 0), events) << &events - changes;
}

TEST(Codec, WritesAnEarlierTimeAsTheSameTime) {
  const std::vector<Event> read = decode(encode({allocate(100, 512, 1, 1), allocate(40, 1024, 1, 1)}, 0), 0);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[1].time_ns, 100u);
}

TEST(Codec, AHotPairTakesAtMostTwentyBytes) {
  // The shape of a training step: 2 MiB-aligned addresses, microseconds apart, sites that change.
  std::vector<Event> events;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::uint64_t address = 0x7f0000000000 + (i * 37 % 4096) * 512 * 1024;
    events.push_back(allocate(1000 + i * 3000, address, (i % 7 + 1) * 1048576, static_cast<SiteId>(i % 90 + 1)));
    events.push_back(free_of(2000 + i * 3000, address));
  }
  EXPECT_LE(encode(events, 0).size(), 20 * 1000u);
}

TEST(Codec, EveryPrefixDecodesToThePrefixOfTheEvents) {
  const std::vector<Event> events = random_events(2, 200);
  const std::vector<std::uint8_t> bytes = encode(events, 500);

  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const std::vector<Event> read = decode({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(cut)}, 500);
    ASSERT_LE(read.size(), events.size());
    for (std::size_t i = 0; i < read.size(); ++i) ASSERT_EQ(read[i], events[i]) << "cut at " << cut;
  }
}

TEST(Codec, FlippedBytesNeverReadOutside) {
  const std::vector<std::uint8_t> bytes = encode(random_events(3, 300), 500);
  std::mt19937_64 random(4);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::uint8_t> broken = bytes;
    for (int i = 0; i < 3; ++i) broken[random() % broken.size()] = static_cast<std::uint8_t>(random());
    decode(broken, 500);  // the sanitizers watch
  }
}

// What the fast records remember goes on over the hand-over: a reader that skips the record loses the thread, nothing else.
TEST(Codec, HandsAChunkToAnotherThread) {
  std::uint8_t bytes[4 * kMaxEventBytes];
  ChunkDeltas deltas;
  deltas.time_ns = 1000;
  std::uint8_t* out = encode_event(deltas, allocate(1010, 0x7f0000000000, 4096, 3), bytes);
  out = encode_thread(4242, out);
  out = encode_event(deltas, allocate(1020, 0x7f0000001000, 4096, 3), out);

  const std::vector<Event> events = decode({bytes, out}, 1000);

  ASSERT_EQ(events.size(), 2u);
  Event second = allocate(1020, 0x7f0000001000, 4096, 3);
  second.thread = 4242;
  EXPECT_EQ(events[0], allocate(1010, 0x7f0000000000, 4096, 3));
  EXPECT_EQ(events[1], second);
}

TEST(Codec, RefusesAThreadThatIsNoThreadId) {
  std::uint8_t bytes[kMaxEventBytes];
  std::uint8_t* const out = codec::RecordBuilder(bytes, RecordKind::Thread).number(std::uint64_t{1} << 32).finish();
  Decoded last{};
  decode({bytes, out}, 1000, &last);
  EXPECT_EQ(last, Decoded::Damaged);
}

TEST(Codec, SkipsUnknownKindsAndUnknownFields) {
  std::uint8_t bytes[1024];
  ChunkDeltas deltas;
  std::uint8_t* out = codec::RecordBuilder(bytes, static_cast<RecordKind>(99)).number(1).string({"abc", 3}).finish();
  out = codec::RecordBuilder(out, RecordKind::Name).number(5).string({"load", 4}).number(123456).finish();
  out = encode_event(deltas, allocate(9, 512, 20001, 3), out);
  ChunkDecoder decoder(header_at(0), bytes, out);
  Record record;

  EXPECT_EQ(decoder.next(record), Decoded::Unknown);
  EXPECT_EQ(decoder.next(record), Decoded::Name);
  EXPECT_EQ(std::string(record.name.text.data, record.name.text.size), "load");
  EXPECT_EQ(decoder.next(record), Decoded::Event);
  EXPECT_EQ(record.event.size, 20001u);
  EXPECT_EQ(decoder.next(record), Decoded::End);
}

TEST(Codec, MissingFieldsReadAsZero) {
  std::uint8_t bytes[64];
  std::uint8_t* const out = codec::RecordBuilder(bytes, RecordKind::SiteNode).number(7).finish();
  ChunkDecoder decoder(header_at(0), bytes, out);
  Record record;

  ASSERT_EQ(decoder.next(record), Decoded::SiteNode);

  EXPECT_EQ(record.site_node.id, 7u);
  EXPECT_EQ(record.site_node.parent, 0u);
  EXPECT_EQ(record.site_node.b, 0u);
}

TEST(Codec, AZeroTagIsDamage) {
  const std::vector<std::uint8_t> bytes = {0, 0, 0};
  Decoded last = Decoded::End;
  decode(bytes, 0, &last);
  EXPECT_EQ(last, Decoded::Damaged);
}

TEST(Codec, DefinitionsCarryTheirStrings) {
  std::vector<std::uint8_t> bytes(8 * kMaxDefinitionBytes);
  const std::string path(5000, 'p');
  std::uint8_t* out = bytes.data();
  out = encode_definition(ModuleRecord{3, 0x1000, 0x2000, {path.data(), path.size()}, {"\x01\x02", 2}}, out);
  out = encode_definition(CodeRecord{4, Language::Native, 10, {"f", 1}, {"f.cpp", 5}}, out);
  out = encode_definition(MetaRecord{{"command", 7}, {"a.out", 5}}, out);
  out = encode_definition(DeviceRecord{1, 80ull << 30, 9, 0, 132, {"H100", 4}, {"0123456789abcdef", 16}}, out);
  ChunkDecoder decoder(header_at(0), bytes.data(), out);
  Record record;

  ASSERT_EQ(decoder.next(record), Decoded::Module);
  EXPECT_EQ(record.module.path.size, kMaxStringBytes);
  EXPECT_EQ(record.module.build_id.size, 2u);
  ASSERT_EQ(decoder.next(record), Decoded::Code);
  EXPECT_EQ(record.code.language, Language::Native);
  EXPECT_EQ(record.code.first_line, 10u);
  ASSERT_EQ(decoder.next(record), Decoded::Meta);
  EXPECT_EQ(std::string(record.meta.value.data, record.meta.value.size), "a.out");
  ASSERT_EQ(decoder.next(record), Decoded::Device);
  EXPECT_EQ(record.device.multiprocessors, 132u);
  EXPECT_EQ(decoder.next(record), Decoded::End);
}

}  // namespace
}  // namespace cuheap
