#include "tracer/trace_writer.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace cuheap {
namespace {

// docs/trace-format.md gives these numbers to readers in other languages.
TEST(TraceFormat, LiesWhereTheDocumentSays) {
  EXPECT_EQ(offsetof(FileHeader, version), 8u);
  EXPECT_EQ(offsetof(FileHeader, header_bytes), 12u);
  EXPECT_EQ(offsetof(FileHeader, chunk_bytes), 16u);
  EXPECT_EQ(offsetof(FileHeader, pid), 20u);
  EXPECT_EQ(offsetof(FileHeader, parent_pid), 24u);
  EXPECT_EQ(offsetof(FileHeader, rank), 28u);
  EXPECT_EQ(offsetof(FileHeader, start_ns), 32u);
  EXPECT_EQ(offsetof(FileHeader, start_wall_ns), 40u);
  EXPECT_EQ(offsetof(FileHeader, end_ns), 48u);
  EXPECT_EQ(offsetof(FileHeader, lost_events), 56u);
  EXPECT_EQ(offsetof(FileHeader, chunks), 120u);
  EXPECT_EQ(offsetof(FileHeader, minor), 128u);
  EXPECT_EQ(offsetof(ChunkHeader, magic), 0u);
  EXPECT_EQ(offsetof(ChunkHeader, state), 4u);
  EXPECT_EQ(offsetof(ChunkHeader, thread), 8u);
  EXPECT_EQ(offsetof(ChunkHeader, sequence), 12u);
  EXPECT_EQ(offsetof(ChunkHeader, flags), 16u);
  EXPECT_EQ(offsetof(ChunkHeader, committed), 20u);
  EXPECT_EQ(offsetof(ChunkHeader, first_ns), 24u);
  EXPECT_EQ(offsetof(ChunkHeader, last_ns), 32u);
  EXPECT_EQ(offsetof(ChunkHeader, events), 40u);
}

struct Chunk {
  alignas(64) std::uint8_t bytes[kChunkBytes] = {};
  ChunkHeader* header() { return reinterpret_cast<ChunkHeader*>(bytes); }
};

Event event_of(std::uint64_t i) {
  Event event;
  event.kind = i % 7 == 0 ? EventKind::Map : i % 2 == 0 ? EventKind::Allocate : EventKind::Free;
  event.floor = Floor::Allocation;
  event.time_ns = 1000 + i * i;
  event.address = i * 0x123456789;
  event.size = event.kind == EventKind::Free ? 0 : i * 977;
  event.stream = i / 100;
  event.site = static_cast<SiteId>(i % 13);
  event.thread = 42;
  return event;
}

TEST(TraceWriter, FillsAChunkToItsEndAndNoFurther) {
  auto chunk = std::make_unique<Chunk>();
  TraceWriter writer;
  writer.open(chunk->header(), 42, 1000, kChunkHoldsEvents);
  std::vector<Event> given;

  for (std::uint64_t i = 0; writer.has_room(); ++i) {
    given.push_back(event_of(i));
    writer.append(given.back());
    ASSERT_LE(chunk->header()->committed, kChunkBytes - sizeof(ChunkHeader));
    ASSERT_EQ(chunk->header()->events, i + 1);
    ASSERT_EQ(chunk->header()->last_ns, given.back().time_ns);
  }

  EXPECT_GT(chunk->header()->committed, kChunkBytes - sizeof(ChunkHeader) - kMaxEventBytes);
  const auto* const records = reinterpret_cast<const std::uint8_t*>(chunk->header() + 1);
  ChunkDecoder decoder(*chunk->header(), records, records + chunk->header()->committed);
  Record record;
  for (const Event& event : given) {
    ASSERT_EQ(decoder.next(record), Decoded::Event);
    ASSERT_EQ(record.event, event);
  }
  EXPECT_EQ(decoder.next(record), Decoded::End);
}

TEST(TraceWriter, HoldsWholeRecordsAtEveryCommit) {
  auto chunk = std::make_unique<Chunk>();
  TraceWriter writer;
  writer.open(chunk->header(), 42, 1000, kChunkHoldsEvents);
  const auto* const records = reinterpret_cast<const std::uint8_t*>(chunk->header() + 1);
  for (std::uint64_t i = 0; i < 300; ++i) {
    writer.append(event_of(i));
    ChunkDecoder decoder(*chunk->header(), records, records + chunk->header()->committed);
    Record record;
    std::uint64_t count = 0;
    while (decoder.next(record) == Decoded::Event) ++count;
    ASSERT_EQ(decoder.next(record), Decoded::End);
    ASSERT_EQ(count, i + 1);
  }
}

TEST(TraceWriter, NumbersItsChunksAndLetsGoOfThem) {
  auto first = std::make_unique<Chunk>();
  auto second = std::make_unique<Chunk>();
  TraceWriter writer;
  EXPECT_FALSE(writer.has_room());
  writer.open(first->header(), 1, 5, kChunkHoldsEvents);
  writer.close();
  EXPECT_FALSE(writer.is_open());
  writer.open(second->header(), 1, 6, kChunkHoldsEvents);

  EXPECT_EQ(first->header()->state, ChunkState::Closed);
  EXPECT_EQ(second->header()->state, ChunkState::Open);
  EXPECT_EQ(first->header()->sequence, 0u);
  EXPECT_EQ(second->header()->sequence, 1u);
}

TEST(TraceWriter, HasRoomForTheLargestDefinitionWhenItSaysSo) {
  auto chunk = std::make_unique<Chunk>();
  TraceWriter writer;
  writer.open(chunk->header(), 1, 5, kChunkHoldsDefinitions);
  const std::string text(2 * kMaxStringBytes, 'x');
  int count = 0;
  for (; writer.has_room(kMaxDefinitionBytes); ++count)
    writer.append_definition(MetaRecord{{text.data(), text.size()}, {text.data(), text.size()}});

  EXPECT_EQ(count, 7);
  const auto* const records = reinterpret_cast<const std::uint8_t*>(chunk->header() + 1);
  ChunkDecoder decoder(*chunk->header(), records, records + chunk->header()->committed);
  Record record;
  for (int i = 0; i < count; ++i) {
    ASSERT_EQ(decoder.next(record), Decoded::Meta);
    ASSERT_EQ(record.meta.value.size, kMaxStringBytes);
  }
  EXPECT_EQ(decoder.next(record), Decoded::End);
}

}  // namespace
}  // namespace cuheap
