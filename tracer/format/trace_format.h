// The trace file, byte by byte. docs/trace-format.md is the long form; this header is what both sides compile.
//
//   +-----------------+  0
//   | FileHeader      |  kHeaderBytes, one page, mapped by the writer for its whole life (loss counters live here)
//   +-----------------+  kHeaderBytes
//   | chunk 0         |  kChunkBytes each: ChunkHeader, then records up to `committed`, then bytes without meaning
//   | chunk 1         |
//   | ...             |  a chunk belongs to one thread at a time; a chunk whose state is Stock was prepared and never used
//   +-----------------+
//
// Little endian. Any prefix of a valid file is a valid file. Damage inside a chunk costs that chunk's rest.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tracer/format/event.h"

namespace cuheap {

constexpr char kTraceMagic[8] = {'c', 'u', 'h', 'e', 'a', 'p', '\r', '\n'};
constexpr std::uint32_t kTraceVersion = 1;
constexpr std::uint32_t kTraceMinor = 1;  // what was added within the version; never a reason to refuse a file
constexpr std::uint32_t kHeaderBytes = 4096;
constexpr std::uint32_t kChunkBytes = 64 * 1024;
constexpr std::uint32_t kChunkMagic = 0x4b4e4843;  // "CHNK"

struct FileHeader {
  char magic[8];
  std::uint32_t version;        // readers refuse a greater one
  std::uint32_t header_bytes;   // where chunk 0 starts
  std::uint32_t chunk_bytes;
  std::uint32_t pid;
  std::uint32_t parent_pid;
  std::int32_t rank;            // RANK or its relatives in the environment; -1 none
  std::uint64_t start_ns;       // CLOCK_MONOTONIC when recording began
  std::uint64_t start_wall_ns;  // CLOCK_REALTIME at the same moment
  std::uint64_t end_ns;         // CLOCK_MONOTONIC of an orderly end; 0: killed, or still running
  std::uint64_t lost_events[static_cast<std::size_t>(LossReason::kCount)];  // by LossReason, counted in place
  std::uint64_t chunks;         // how many chunks the writer has prepared (a hint; the file's length decides)
  std::uint32_t minor;          // kTraceMinor of the writer
};
static_assert(sizeof(FileHeader) <= kHeaderBytes);

enum class ChunkState : std::uint32_t { Stock = 0, Open = 1, Closed = 2 };
constexpr std::uint32_t kChunkHoldsDefinitions = 1;  // bit of ChunkHeader::flags; the reader visits these first
constexpr std::uint32_t kChunkHoldsEvents = 2;

struct ChunkHeader {
  std::uint32_t magic;      // kChunkMagic once prepared
  ChunkState state;
  std::uint32_t thread;     // kernel thread id of the first writer; Thread records say who goes on
  std::uint32_t sequence;   // nth chunk that this thread began
  std::uint32_t flags;
  std::uint32_t committed;  // bytes of whole records behind this header; stored last, with release order
  std::uint64_t first_ns;   // time deltas start here
  std::uint64_t last_ns;    // time of the last event; with first_ns the time index of the file
  std::uint32_t events;     // events so far
  std::uint32_t reserved[5];
};
static_assert(sizeof(ChunkHeader) == 64);

// A record starts with a tag byte.
//
//   tag 1kffbbbb   fast record: Allocate (k=0) or Free (k=1) on floor ff, bits bbbb below. No length: its form is fixed
//                  for the life of this version.
//                    varint   time since the record before
//                    varint   folded address difference to the last fast record of the floor, in units of 512 bytes
//                             (kFastAligned) or bytes
//                    varint   size in bytes, Allocate without kFastSameSize
//                    varint   site id, if kFastNewSite; otherwise the site of the floor's last record of that kind
//   tag 0kkkkkkk   general record of RecordKind k:
//                    varint   length of the rest
//                    payload  varints in the order given at each kind; fields may be added at the end: a reader takes
//                             what it knows and skips the rest, a missing field is 0. Unknown kinds are skipped.
constexpr std::uint8_t kFastRecord = 0x80;
constexpr std::uint8_t kFastFree = 0x40;
constexpr unsigned kFastFloorShift = 4;
constexpr std::uint8_t kFastAligned = 1;
constexpr std::uint8_t kFastSameSize = 2;
constexpr std::uint8_t kFastNewSite = 4;

enum class RecordKind : std::uint8_t {
  None = 0,            // never written: a zero byte inside `committed` is damage
  State = 1,           // floor family device(folded) stream context phase flags: holds for the fast records behind it
  Event = 2,           // kind floor family flags device(folded) dt address size stream context extra0 extra1 site phase
  Thread = 3,          // thread: whose the records behind it are; its writer before is gone. Deltas and State go on
  SiteNode = 16,       // id parent FrameKind a b: see FrameKind
  Module = 17,         // id base size path build_id(bytes as string)
  Code = 18,           // id Language first_line function file: a function known by name
  Name = 19,           // id text: phases and marks
  Meta = 20,           // key value
  Device = 21,         // ordinal total_bytes major minor multiprocessors name uuid
};
// A string is a varint length and its bytes (UTF-8 as the process had them).

/// One frame of a stack; a site is a node, and its outer frames are its parents.
enum class FrameKind : std::uint8_t {
  Native = 0,  // a: module id (0 unknown), b: offset from the module's base; the return address minus 1
  Source = 1,  // a: code id, b: line: an interpreter's frame, or one that an imported trace had symbolised
};

enum class Language : std::uint8_t { Python = 0, Native = 1 };

}  // namespace cuheap
