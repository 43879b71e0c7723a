#include "simgpu/event.h"

#include <sys/mman.h>
#include <unistd.h>

namespace cuheap::sim {
namespace {
constexpr size_t kPageBytes = 4096;
}

bool Event::make_shared_page() {
  const int fd = ::memfd_create("simgpu-event", MFD_CLOEXEC);
  return fd >= 0 && ::ftruncate(fd, kPageBytes) == 0 && open_shared_page(fd);
}

bool Event::open_shared_page(int fd) {
  void* at = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return false;
  shared = static_cast<SharedEvent*>(at);
  shared_fd = fd;
  return true;
}

Event::~Event() {
  if (shared != nullptr) ::munmap(shared, kPageBytes);
  if (shared_fd >= 0) ::close(shared_fd);
}

}  // namespace cuheap::sim
