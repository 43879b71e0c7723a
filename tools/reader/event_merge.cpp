#include "tools/reader/event_merge.h"

#include <algorithm>
#include <map>
#include <queue>

namespace cuheap {
namespace {

constexpr std::size_t kBatch = 2048;

}  // namespace

/// One lane being read: the next event, ready.
class EventMerge::Cursor {
 public:
  Cursor(const Lane& lane, const MergeInput& input) : lane_(&lane), input_(&input) { next_chunk(); }

  bool is_done() const { return done_; }
  /// The time of the next event. A chunk that was not begun answers from its index, so that a thread of later costs
  /// nothing now.
  std::uint64_t time() const { return time_; }
  bool is_free() const { return begun_ && record_.event.kind == EventKind::Free; }
  bool is_ready() const { return begun_; }

  void begin() {
    decoder_ = ChunkDecoder(lane_->chunks[index_ - 1]->header, records().data(), records().data() + records().size());
    begun_ = true;
    step();
  }

  const Event& event() const { return record_.event; }

  void step() {
    for (;;) {
      const Decoded what = decoder_.next(record_);
      if (what == Decoded::Event) break;
      if (what == Decoded::End || what == Decoded::Damaged) return next_chunk();
    }
    translate(record_.event);
  }

 private:
  std::span<const std::uint8_t> records() const { return lane_->chunks[index_ - 1]->records; }

  void next_chunk() {
    begun_ = false;
    if (index_ == lane_->chunks.size()) {
      done_ = true;
      return;
    }
    time_ = lane_->chunks[index_++]->first_ns + static_cast<std::uint64_t>(input_->shift_ns);
  }

  void translate(Event& event) {
    time_ = event.time_ns += static_cast<std::uint64_t>(input_->shift_ns);
    event.process = lane_->process;
    event.device = input_->numbering.device(event.device);
    event.site = input_->numbering.sites[event.site];
    if (event.phase != 0) event.phase = input_->numbering.names[event.phase];
    if (event.kind == EventKind::Mark) event.extra0 = input_->numbering.names[static_cast<NameId>(event.extra0)];
  }

  const Lane* lane_;
  const MergeInput* input_;
  std::size_t index_ = 0;  // of the chunk after the one being read
  ChunkDecoder decoder_{ChunkHeader{}, nullptr, nullptr};
  Record record_;
  std::uint64_t time_ = 0;
  bool begun_ = false;
  bool done_ = false;
};

EventMerge::EventMerge(std::vector<MergeInput> inputs) : inputs_(std::move(inputs)) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) add_lanes(static_cast<std::uint16_t>(i), *inputs_[i].file);
}

void EventMerge::add_lanes(std::uint16_t process, const TraceFile& file) {
  std::map<std::uint32_t, std::vector<const Chunk*>> threads;
  for (const Chunk& chunk : file.chunks()) {
    if (chunk.events != 0) threads[chunk.header.thread].push_back(&chunk);
  }
  for (auto& [thread, chunks] : threads) {
    std::stable_sort(chunks.begin(), chunks.end(), [](const Chunk* a, const Chunk* b) {
      return a->first_ns != b->first_ns ? a->first_ns < b->first_ns : a->header.sequence < b->header.sequence;
    });
    // Chunks of one thread follow each other, unless a header lies; then they go side by side, so that order holds.
    const std::size_t first_lane = lanes_.size();
    for (const Chunk* const chunk : chunks) {
      const auto fits = [&](const Lane& lane) { return lane.chunks.back()->last_ns <= chunk->first_ns; };
      auto lane = std::find_if(lanes_.begin() + static_cast<std::ptrdiff_t>(first_lane), lanes_.end(), fits);
      if (lane == lanes_.end()) lane = lanes_.insert(lane, Lane{process, {}});
      lane->chunks.push_back(chunk);
    }
  }
}

void EventMerge::for_each(const Sink& sink) const {
  std::vector<Cursor> cursors;
  cursors.reserve(lanes_.size());
  for (const Lane& lane : lanes_) cursors.emplace_back(lane, inputs_[lane.process]);

  // At equal times a free comes first: the address may be handed out again in the same nanosecond. Then lane order.
  const auto before = [&](std::size_t a, std::size_t b) {
    const Cursor &x = cursors[a], &y = cursors[b];
    if (x.time() != y.time()) return x.time() < y.time();
    if (x.is_ready() != y.is_ready()) return y.is_ready();  // look into an unread chunk before deciding
    if (x.is_free() != y.is_free()) return x.is_free();
    return a < b;
  };
  const auto after = [&](std::size_t a, std::size_t b) { return before(b, a); };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(after)> heap(after);
  for (std::size_t i = 0; i < cursors.size(); ++i) {
    if (!cursors[i].is_done()) heap.push(i);
  }

  std::vector<Event> batch;
  batch.reserve(kBatch);
  while (!heap.empty()) {
    const std::size_t at = heap.top();
    heap.pop();
    Cursor& cursor = cursors[at];
    if (!cursor.is_ready()) {
      cursor.begin();
    } else {
      do {
        batch.push_back(cursor.event());
        if (batch.size() == kBatch) {
          sink(batch);
          batch.clear();
        }
        cursor.step();
      } while (cursor.is_ready() && (heap.empty() || before(at, heap.top())));
    }
    if (!cursor.is_done()) heap.push(at);
  }
  if (!batch.empty()) sink(batch);
}

}  // namespace cuheap
