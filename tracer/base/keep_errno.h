// KeepErrno: the host reads errno after its call, not after ours. Around our own work, never around a forwarded call.
#pragma once
#include <cerrno>

namespace cuheap {

class KeepErrno {
 public:
  KeepErrno() : saved_(errno) {}
  ~KeepErrno() { errno = saved_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  int saved_;
};

}  // namespace cuheap
