#include "tools/commands/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "tools/commands/output.h"
#include "tools/reader/trace_reader.h"

namespace cuheap {

/// The events of a trace, counted as they go by.
class Progress::CountedEvents final : public EventSource {
 public:
  CountedEvents(std::shared_ptr<const EventSource> events, std::shared_ptr<Count> count)
      : events_(std::move(events)), count_(std::move(count)) {}
  void for_each(const Sink& sink) const override {
    count_->events.store(0, std::memory_order_relaxed);
    count_->passes.fetch_add(1, std::memory_order_relaxed);
    events_->for_each([&](std::span<const Event> batch) {
      sink(batch);
      count_->events.fetch_add(batch.size(), std::memory_order_relaxed);
    });
  }

 private:
  std::shared_ptr<const EventSource> events_;
  std::shared_ptr<Count> count_;
};

namespace {

/// The last part of a path: a line that wraps could not be wiped.
std::string last_part(const std::string& path) {
  const std::filesystem::path whole = std::filesystem::path(path).lexically_normal();
  return printable((whole.has_filename() ? whole.filename() : whole.parent_path().filename()).string());
}

}  // namespace

bool Progress::stderr_is_terminal() {
  const char* const term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

Progress::Progress(const Options& options) : options_(options) {
  if (options_.is_terminal) thread_ = std::thread([this] { run(); });
}

void Progress::doing(const std::string& what) {
  const std::lock_guard lock(mutex_);
  what_ = what;
}

Trace Progress::open(const std::string& path) {
  doing("opening " + last_part(path));
  Trace trace = open_trace(path);
  if (!options_.is_terminal || trace.events == nullptr) return trace;
  trace.events = std::make_shared<CountedEvents>(trace.events, count_);
  const std::lock_guard lock(mutex_);
  what_ = "reading " + last_part(path);
  total_ = trace.event_count;
  return trace;
}

void Progress::end() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::string Progress::line() const {
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  std::string text = what_;
  const std::uint64_t passes = count_->passes.load(std::memory_order_relaxed);
  if (passes != 0 && total_ != 0) {
    const double share = static_cast<double>(count_->events.load(std::memory_order_relaxed)) / static_cast<double>(total_);
    text += fmt::format(", pass {} of its {} events: {:.0f} %", passes, count_text(total_), 100 * std::min(share, 1.0));
  }
  return text + fmt::format(", {:.0f} s", seconds);
}

void Progress::run() {
  std::unique_lock lock(mutex_);
  bool is_shown = false;
  for (auto wait = options_.patience; !wake_.wait_for(lock, wait, [&] { return ended_; }); wait = options_.pace) {
    fmt::print(options_.stream, "\r\x1b[K{}", line());
    std::fflush(options_.stream);
    is_shown = true;
  }
  if (!is_shown) return;
  fmt::print(options_.stream, "\r\x1b[K");
  std::fflush(options_.stream);
}

}  // namespace cuheap
