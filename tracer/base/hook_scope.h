// HookScope: the reentrancy guard, and the proof that it is held. It covers our own work only, never a call forwarded for
// the host: an exception, a longjmp or a cancellation that passes through the driver must leave nothing of ours behind.
#pragma once

namespace cuheap {

namespace detail {
extern constinit thread_local bool inside_hook __attribute__((tls_model("initial-exec")));
}

class HookScope {
 public:
  HookScope() : entered_(!detail::inside_hook) { detail::inside_hook = true; }
  ~HookScope() {
    if (entered_) detail::inside_hook = false;
  }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

  /// False if this thread was inside our own work already: then account nothing.
  explicit operator bool() const { return entered_; }

 private:
  bool entered_;
};

}  // namespace cuheap
