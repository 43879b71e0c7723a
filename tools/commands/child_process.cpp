#include "tools/commands/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "tools/model/error.h"

namespace cuheap {
namespace {

// What somebody may send to us and mean the program.
constexpr int kPassedOn[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGCONT, SIGTSTP};
constexpr timespec kAtOnce{0, 0};
constexpr timespec kMoment{0, 1'000'000};
constexpr int kMoments = 10;
constexpr int kGlanceMs = 50;

sigset_t set_of(int signal) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, signal);
  return set;
}

/// By a signal or a debugger. False where /proc does not say.
bool is_stopped(pid_t pid) {
  char text[128] = {};
  const int file = ::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  [[maybe_unused]] const ssize_t got = ::read(file, text, sizeof text - 1);
  ::close(file);
  const char* const name_end = std::strrchr(text, ')');
  return name_end != nullptr && (std::strncmp(name_end, ") T", 3) == 0 || std::strncmp(name_end, ") t", 3) == 0);
}

/// A second child that stays in our process group, has all signals blocked and tells which of them it was sent: one that
/// it got too went to the whole group (a key at the terminal, `kill -- -GROUP`, a shell's fg), and the program has it.
/// While we are stopped it watches the program: nobody else would wake us if that alone is woken or killed.
class Witness {
 public:
  Witness() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
    const timeval patience{1, 0};  // somebody may have stopped it
    ::setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    const pid_t us = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) testify(ends[1], us);
    ::close(ends[1]);
    line_ = ends[0];
    if (pid_ < 0) close();
  }
  ~Witness() {
    close();
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  }
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;

  /// Whether the signal that we were sent just now went to the whole group. The sender may still be on its way from us to
  /// the witness.
  bool was_sent_to_all(const siginfo_t& info) {
    for (int i = 0; i < kMoments; ++i) {
      if (i != 0) ::nanosleep(&kMoment, nullptr);
      char got = 0;
      if (!ask(info.si_signo, got)) {
        close();  // late answers would be taken for those to other questions
        return info.si_code == SI_KERNEL;  // the keys of a terminal go to all
      }
      if (got != 0) return true;
    }
    return false;
  }

  /// From now on it wakes us when we are stopped and the program is not. False: there is no witness.
  bool begin_watch(pid_t program) { return say(-program); }
  void end_watch() { say(kEndOfWatch); }
  bool sent(const siginfo_t& info) const { return info.si_code == SI_USER && info.si_pid == pid_; }

 private:
  static constexpr int kEndOfWatch = 0;  // other words: a signal that is asked about, a program to watch (negative)

  bool say(int word) { return line_ >= 0 && ::send(line_, &word, sizeof word, MSG_NOSIGNAL) == sizeof word; }
  bool ask(int signal, char& got) { return say(signal) && ::recv(line_, &got, sizeof got, 0) == sizeof got; }

  /// Ends with us: nobody else holds the other end of the line.
  [[noreturn]] static void testify(int line, pid_t us) {
    ::prctl(PR_SET_NAME, "cuheap-witness");
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    // The program's pipes end with the program, not with us.
    ::dup2(line, 0);
    if (::syscall(SYS_close_range, 1u, ~0u, 0u) != 0) {
      for (int fd = 1; fd < 4096; ++fd) ::close(fd);
    }
    int signal = 0;
    while (::recv(0, &signal, sizeof signal, 0) == sizeof signal) {
      if (signal < 0) watch(-signal, us);
      if (signal <= 0) continue;
      const sigset_t one = set_of(signal);
      const char got = ::sigtimedwait(&one, nullptr, &kAtOnce) == signal ? 1 : 0;
      if (::send(0, &got, sizeof got, MSG_NOSIGNAL) != sizeof got) break;
    }
    ::_exit(0);
  }

  /// Until the next word, or our end.
  static void watch(pid_t program, pid_t us) {
    pollfd line{0, POLLIN, 0};
    while (::poll(&line, 1, kGlanceMs) == 0) {
      if (!is_stopped(program) && is_stopped(us)) ::kill(us, SIGCONT);
    }
  }

  void close() {
    if (line_ >= 0) ::close(line_);
    line_ = -1;
  }

  pid_t pid_ = -1;
  int line_ = -1;
};

/// Our signals while the program runs: blocked and taken one by one. The program itself gets what we were given.
class Signals {
 public:
  Signals() {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &action, &old_child_);  // ignored, it would take the exit status away
    ::sigaction(SIGPIPE, &action, &old_pipe_);
    taken_ = set_of(SIGCHLD);
    for (const int signal : kPassedOn) ::sigaddset(&taken_, signal);
    ::sigprocmask(SIG_BLOCK, &taken_, &old_mask_);
  }
  /// What came while the program ended was meant for it.
  ~Signals() {
    while (::sigtimedwait(&taken_, nullptr, &kAtOnce) > 0) {}
    ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  }
  void restore_in_child() const {
    ::sigaction(SIGCHLD, &old_child_, nullptr);
    ::sigaction(SIGPIPE, &old_pipe_, nullptr);
    ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  }
  siginfo_t next() const {
    siginfo_t info{};
    while (::sigwaitinfo(&taken_, &info) < 0) {}
    return info;
  }

 private:
  sigset_t taken_{}, old_mask_{};
  struct sigaction old_child_ {};
  struct sigaction old_pipe_ {};
};

[[noreturn]] void become(const std::vector<std::string>& command, bool stdout_to_stderr, int report_fd) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  // Whoever kills us means the program: it must not stay behind, holding the GPU.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (stdout_to_stderr) ::dup2(STDERR_FILENO, STDOUT_FILENO);
  ::execvp(arguments[0], arguments.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(report_fd, &error, sizeof error);
  ::_exit(127);
}

/// The shell that waits for us must see that its job has stopped; its fg wakes the whole group, and us. Without a witness
/// we would sleep on when the program runs again.
void stop_as_well(Witness& witness, pid_t program) {
  if (!witness.begin_watch(program)) return;
  sigset_t pending;
  ::sigpending(&pending);
  if (::sigismember(&pending, SIGCONT) == 0) ::raise(SIGSTOP);
  witness.end_watch();
}

/// Until the program's end, which is written to `end`.
void accompany(const Signals& signals, Witness& witness, ChildEnd& end) {
  for (;;) {
    const siginfo_t info = signals.next();
    if (info.si_signo != SIGCHLD) {
      const bool is_from_program = info.si_code == SI_USER && info.si_pid == end.pid;  // to its parent, not to itself
      const bool is_ours = is_from_program || witness.sent(info);
      if (!witness.was_sent_to_all(info) && !is_ours) ::kill(end.pid, info.si_signo);
      continue;
    }
    int status = 0;
    const pid_t changed = ::waitpid(end.pid, &status, WNOHANG | WUNTRACED);
    if (changed < 0 && errno != EINTR) return;
    if (changed <= 0) continue;
    if (WIFSTOPPED(status)) {
      stop_as_well(witness, end.pid);
      continue;
    }
    end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    end.status = end.signal != 0 ? 128 + end.signal : WEXITSTATUS(status);
    return;
  }
}

}  // namespace

ChildEnd run_child(const std::vector<std::string>& command, bool stdout_to_stderr) {
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) throw Error(fmt::format("cannot start {}: {}", command[0], std::strerror(errno)));
  const Signals signals;
  std::fflush(nullptr);
  Witness witness;
  ChildEnd end;
  end.pid = ::fork();
  if (end.pid == 0) {
    signals.restore_in_child();
    become(command, stdout_to_stderr, report[1]);
  }
  if (end.pid < 0) end.exec_error = errno;
  ::close(report[1]);
  ssize_t got = 0;
  int error = 0;
  while ((got = ::read(report[0], &error, sizeof error)) < 0 && errno == EINTR) {}
  if (got > 0) end.exec_error = error;
  ::close(report[0]);
  if (end.pid > 0) accompany(signals, witness, end);
  return end;
}

void die_by(int signal) {
  std::fflush(nullptr);
  const rlimit no_core{0, 0};  // the program has left its own
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::signal(signal, SIG_DFL);
  const sigset_t one = set_of(signal);
  ::sigprocmask(SIG_UNBLOCK, &one, nullptr);
  ::raise(signal);
}

}  // namespace cuheap
