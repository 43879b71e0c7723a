// What cuheap says to people from inside their process: one line on fd 2, from a fixed buffer, each message at most once.
// Every message is a named function, so the texts are all in message.cpp and the callers read as prose.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cuheap {

/// A line under construction; too long ones are cut.
class MessageLine {
 public:
  MessageLine& text(const char* text);
  MessageLine& number(std::uint64_t value);
  MessageLine& bytes(std::uint64_t value);    // "1.5 GiB"
  MessageLine& error(int error_number);       // "No space left on device"
  /// Writes "cuheap: " and the line in one write. Drops it where that would block, raise a signal, or go into a file that has
  /// become fd 2 since remember_stderr().
  void send() const;

 private:
  char text_[480];
  std::size_t size_ = 0;
};

/// True the first time only.
inline bool first_time(std::atomic<bool>& said) { return !said.exchange(true, std::memory_order_relaxed); }

/// Notes what fd 2 is now: a program may close it, and get its number for a file of its own. Without it fd 2 is trusted.
void remember_stderr();

namespace message {

void trace_not_started(const char* path, int error_number);
void directory_not_usable(const char* directory, int error_number);
void trace_on_remote_file_system(const char* path, const char* file_system);
void trace_stopped(const char* path, int error_number);
void trace_reached_max_size(const char* path, std::uint64_t bytes);
void helper_not_started(int error_number);
void stacks_turned_off();
void option_ignored(const char* name, const char* value, const char* expected);

}  // namespace message
}  // namespace cuheap
