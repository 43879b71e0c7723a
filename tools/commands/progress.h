// Progress: one line on a terminal for what takes longer than a second: what is being done, how far the pass over the events
// is. Where nobody looks (stderr is no terminal) it does nothing. A command opens its trace through it and ends it before
// its first word.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "tools/model/trace.h"

namespace cuheap {

class Progress {
 public:
  struct Options {
    std::FILE* stream = stderr;
    bool is_terminal = stderr_is_terminal();
    std::chrono::milliseconds patience{1000};  // until the first line
    std::chrono::milliseconds pace{200};       // between two
  };
  Progress() : Progress(Options{}) {}
  explicit Progress(const Options& options);
  ~Progress() { end(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// What is being done from now on: "reading snapshot.pickle".
  void doing(const std::string& what);
  /// open_trace; passes over its events show from then on.
  Trace open(const std::string& path);
  /// Wipes the line.
  void end();

  static bool stderr_is_terminal();

 private:
  class CountedEvents;
  struct Count {
    std::atomic<std::uint64_t> events{0}, passes{0};
  };
  void run();
  std::string line() const;

  Options options_;
  std::shared_ptr<Count> count_ = std::make_shared<Count>();  // the trace may outlive us
  std::uint64_t total_ = 0;  // events
  std::string what_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::mutex mutex_;         // of total_, what_, ended_
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace cuheap
