// What `cuheap run` does with traces after the program has ended: it must never cost a recorded byte.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/tools/trace_files.h"
#include "tools/commands/staging.h"
#include "tools/commands/trim.h"
#include "tracer/format/trace_format.h"

namespace cuheap {
namespace {

constexpr std::uint32_t kPage = 4096, kChunk = 65536;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

/// A trace of one chunk with `committed` bytes, none of them zero; what is behind it was only reserved.
std::string trace_of(std::uint32_t committed, std::uint64_t end_ns, std::uint32_t pid, std::uint32_t magic = kChunkMagic) {
  FileHeader header{};
  std::memcpy(header.magic, kTraceMagic, sizeof kTraceMagic);
  header.version = kTraceVersion;
  header.header_bytes = kPage;
  header.chunk_bytes = kChunk;
  header.pid = pid;
  header.end_ns = end_ns;
  ChunkHeader chunk{};
  chunk.magic = magic;
  chunk.state = ChunkState::Open;
  chunk.committed = committed;
  std::string bytes(kPage + kChunk, 'x');
  std::memset(bytes.data(), 0, kPage);
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + kPage, &chunk, sizeof chunk);
  return bytes;
}

constexpr std::uint32_t kNobody = 0x7ffffff0;  // above any pid_max

TEST(TrimTraces, KeepsEveryCommittedByte) {
  for (std::uint32_t committed = 2 * kPage - 70; committed < 2 * kPage + 6; ++committed) {
    TestFolder folder;
    const std::string before = trace_of(committed, 0, kNobody), path = folder / "a.cuheap";
    write(path, before);

    trim_traces(std::filesystem::path(path).parent_path().string());

    const std::string after = contents(path);
    const std::size_t used = kPage + sizeof(ChunkHeader) + committed;
    ASSERT_GE(after.size(), used);
    EXPECT_EQ(after.substr(0, used), before.substr(0, used)) << committed;
    EXPECT_EQ(after.back(), 0) << "nothing was given back";
  }
}

TEST(TrimTraces, LeaveTheFileOfALivingWriterAlone) {
  TestFolder folder;
  const std::string before = trace_of(100, 0, static_cast<std::uint32_t>(::getpid())), path = folder / "a.cuheap";
  write(path, before);

  trim_traces(std::filesystem::path(path).parent_path().string());

  EXPECT_EQ(contents(path), before);
}

TEST(TrimTraces, LeaveAChunkThatTheyDoNotKnow) {
  TestFolder folder;
  const std::string before = trace_of(100, 0, kNobody, 0x12345678), path = folder / "a.cuheap";
  write(path, before);

  trim_traces(std::filesystem::path(path).parent_path().string());

  EXPECT_EQ(contents(path), before);
}

TEST(MoveTraces, NeverTouchWhatIsThereAlready) {
  TestFolder source, target;
  const std::string ours = trace_of(100, 1, kNobody);
  write(source / "a.cuheap", ours);
  write(source / "b.cuheap", ours);
  write(target / "a.cuheap", "somebody else's");

  move_traces(std::filesystem::path(source / "a.cuheap").parent_path().string(),
              std::filesystem::path(target / "a.cuheap").parent_path().string());

  EXPECT_EQ(contents(target / "a.cuheap"), "somebody else's");
  EXPECT_EQ(contents(source / "a.cuheap"), ours) << "it stays where it is";
  EXPECT_EQ(contents(target / "b.cuheap"), ours);
  EXPECT_FALSE(std::filesystem::exists(source / "b.cuheap"));
}

}  // namespace
}  // namespace cuheap
