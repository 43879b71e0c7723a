#include "tracer/base/message.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tracer/base/keep_errno.h"

namespace cuheap {
namespace {

// strerror() may load message catalogues; the few that matter here are spelled out.
const char* error_text(int error_number) {
  switch (error_number) {
    case EACCES: return "Permission denied";
    case EBADF: return "the file was closed by the program";
    case EDQUOT: return "Disk quota exceeded";
    case EEXIST: return "File exists";
    case EFBIG: return "File size limit reached";
    case EIO: return "Input/output error";
    case ELOOP: return "Too many levels of symbolic links";
    case EMFILE: return "Too many open files";
    case ENAMETOOLONG: return "File name too long";
    case ENOENT: return "No such file or directory";
    case ENOMEM: return "Out of memory";
    case ENOSPC: return "No space left on device";
    case ENOTDIR: return "Not a directory";
    case EPERM: return "Operation not permitted";
    case EROFS: return "Read-only file system";
    case EAGAIN: return "Resource temporarily unavailable";
    default: return nullptr;
  }
}

struct FileIdentity {
  dev_t device;
  ino_t inode;
};
constinit FileIdentity stderr_at_load = {};
constinit bool stderr_remembered = false;

FileIdentity identity_of_stderr() {
  struct stat status;
  return fstat(2, &status) == 0 ? FileIdentity{status.st_dev, status.st_ino} : FileIdentity{};
}

bool is_stderr_as_remembered() {
  if (!stderr_remembered) return true;
  const FileIdentity now = identity_of_stderr();
  return now.inode != 0 && now.device == stderr_at_load.device && now.inode == stderr_at_load.inode;
}

// A pipe has room for the whole line then, or its reader is gone.
bool takes_a_line() {
  pollfd stderr_now{2, POLLOUT, 0};
  const timespec at_once{};
  return syscall(SYS_ppoll, &stderr_now, 1, &at_once, nullptr, 0) == 1 && stderr_now.revents == POLLOUT;
}

constexpr std::uint64_t bit_of(int signal) { return std::uint64_t{1} << (signal - 1); }

// The kernel's own calls and its own set, one bit a signal: libc's sigtimedwait is a cancellation point.
constexpr std::size_t kSetBytes = sizeof(std::uint64_t);

/// Signals that a write may raise are held back meanwhile, and what it raised is taken away.
class SignalsOfAWrite {
 public:
  SignalsOfAWrite() {
    constexpr std::uint64_t kHeldBack = kRaised | bit_of(SIGTTOU);
    syscall(SYS_rt_sigpending, &pending_before_, kSetBytes);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &kHeldBack, &mask_before_, kSetBytes);
  }
  ~SignalsOfAWrite() { syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask_before_, nullptr, kSetBytes); }
  SignalsOfAWrite(const SignalsOfAWrite&) = delete;
  SignalsOfAWrite& operator=(const SignalsOfAWrite&) = delete;

  void take_raised() const {
    const std::uint64_t ours = kRaised & ~pending_before_;
    const timespec at_once{};
    syscall(SYS_rt_sigtimedwait, &ours, nullptr, &at_once, kSetBytes);
  }

 private:
  static constexpr std::uint64_t kRaised = bit_of(SIGPIPE) | bit_of(SIGXFSZ);
  std::uint64_t pending_before_ = 0;
  std::uint64_t mask_before_ = 0;
};

// Raw: write() of libc is a cancellation point.
void write_to_stderr(const char* line, std::size_t size) {
  if (!is_stderr_as_remembered() || !takes_a_line()) return;
  const SignalsOfAWrite signals;
  if (syscall(SYS_write, 2, line, size) < 0 && (errno == EPIPE || errno == EFBIG)) signals.take_raised();
}

}  // namespace

void remember_stderr() {
  const KeepErrno keep;
  stderr_at_load = identity_of_stderr();
  stderr_remembered = true;
}

MessageLine& MessageLine::text(const char* text) {
  const std::size_t length = strlen(text);
  const std::size_t room = sizeof(text_) - size_;
  const std::size_t taken = length < room ? length : room;
  memcpy(text_ + size_, text, taken);
  size_ += taken;
  return *this;
}

MessageLine& MessageLine::number(std::uint64_t value) {
  char digits[21];
  char* at = digits + sizeof(digits);
  *--at = '\0';
  do {
    *--at = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  return text(at);
}

MessageLine& MessageLine::bytes(std::uint64_t value) {
  static constexpr const char* kUnits[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  std::size_t unit = 0;
  std::uint64_t tenths = value * 10;
  while (tenths >= 10240 && unit + 1 < sizeof(kUnits) / sizeof(*kUnits)) {
    tenths /= 1024;
    ++unit;
  }
  number(tenths / 10);
  if (unit != 0 && tenths % 10 != 0) text(".").number(tenths % 10);
  return text(kUnits[unit]);
}

MessageLine& MessageLine::error(int error_number) {
  if (const char* const known = error_text(error_number)) return text(known);
  return text("error ").number(static_cast<std::uint64_t>(error_number));
}

void MessageLine::send() const {
  static constexpr char kPrefix[] = "cuheap: ";
  const KeepErrno keep;
  char line[sizeof(kPrefix) + sizeof(text_)];
  memcpy(line, kPrefix, sizeof(kPrefix) - 1);
  memcpy(line + sizeof(kPrefix) - 1, text_, size_);
  line[sizeof(kPrefix) - 1 + size_] = '\n';
  write_to_stderr(line, sizeof(kPrefix) + size_);
}

namespace message {

void trace_not_started(const char* path, int error_number) {
  static constinit std::atomic<bool> said{false};
  if (first_time(said))
    MessageLine().text("cannot write ").text(path).text(": ").error(error_number)
        .text("; the program runs without being recorded (set CUHEAP_DIR to a writable folder)").send();
}

void directory_not_usable(const char* directory, int error_number) {
  static constinit std::atomic<bool> said{false};
  if (first_time(said))
    MessageLine().text("cannot use the folder ").text(directory).text(": ").error(error_number)
        .text("; the program runs without being recorded (set CUHEAP_DIR to a writable folder)").send();
}

void trace_on_remote_file_system(const char* path, const char* file_system) {
  static constinit std::atomic<bool> said{false};
  if (first_time(said))
    MessageLine().text(path).text(" is on ").text(file_system)
        .text(": if its server fails or is full, events are lost without a count")
        .text(" (set CUHEAP_DIR to a local folder, or use cuheap run)").send();
}

void trace_stopped(const char* path, int error_number) {
  static constinit std::atomic<bool> said{false};
  if (first_time(said))
    MessageLine().text("recording stops: ").text(path).text(": ").error(error_number)
        .text("; what is recorded stays readable, later events are counted as lost").send();
}

void trace_reached_max_size(const char* path, std::uint64_t bytes) {
  static constinit std::atomic<bool> said{false};
  if (first_time(said))
    MessageLine().text("recording stops: ").text(path).text(" has reached CUHEAP_MAX_SIZE (").bytes(bytes)
        .text("); later events are counted as lost").send();
}

void helper_not_started(int error_number) {
  static constinit std::atomic<bool> said{false};
  if (first_time(said))
    MessageLine().text("cannot start the helper thread: ").error(error_number)
        .text("; the program runs without being recorded").send();
}

void stacks_turned_off() {
  static constinit std::atomic<bool> said{false};
  if (first_time(said))
    MessageLine().text("the unwinder met unwind information it cannot read; later events have no native stacks").send();
}

void option_ignored(const char* name, const char* value, const char* expected) {
  // Once per option: the caller parses each once.
  MessageLine().text(name).text("=").text(value).text(" is ignored: expected ").text(expected).send();
}

}  // namespace message
}  // namespace cuheap
