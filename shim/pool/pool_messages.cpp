#include "shim/pool/pool_messages.h"

#include "tracer/base/message.h"

namespace cuheap::message {

void pool_self_test_failed(int device) {
  static constinit std::atomic<bool> said{false};
  if (!first_time(said)) return;
  MessageLine()
      .text("pool is off on device ").number(static_cast<std::uint64_t>(device))
      .text(": its self-test (create, map, open, move, unmap) failed; allocations go to the driver and are traced as usual")
      .send();
}

void pool_not_proved_here(const char* device_name, int driver_version) {
  static constinit std::atomic<bool> said{false};
  if (!first_time(said)) return;
  MessageLine()
      .text("tracing only: the pool has not been proved on ").text(device_name).text(" with driver ")
      .number(static_cast<std::uint64_t>(driver_version / 1000))
      .text(".x; run with --pool on (CUHEAP_POOL=on) to use it all the same")
      .send();
}

void pool_disarmed(int driver_code) {
  static constinit std::atomic<bool> said{false};
  if (!first_time(said)) return;
  MessageLine()
      .text("pool is off from here on: the driver answered with error ").number(static_cast<std::uint64_t>(driver_code))
      .text(", which stays; memory handed out so far stays where it is, tracing goes on")
      .send();
}

void pool_peer_failed(int from_device, int to_device) {
  static constinit std::atomic<bool> said{false};
  if (!first_time(said)) return;
  MessageLine()
      .text("the pool's memory on device ").number(static_cast<std::uint64_t>(to_device))
      .text(" could not be opened to device ").number(static_cast<std::uint64_t>(from_device))
      .text("; new allocations there go to the driver. Run with --pool off if peer copies fail")
      .send();
}

void pool_ipc_asked() {
  static constinit std::atomic<bool> said{false};
  if (!first_time(said)) return;
  MessageLine()
      .text("the program asked for a legacy IPC handle of pooled memory, which the driver does not give;")
      .text(" run it with --pool off (CUHEAP_POOL=off)")
      .send();
}

void pool_sync_memops_asked() {
  static constinit std::atomic<bool> said{false};
  if (!first_time(said)) return;
  MessageLine()
      .text("the program asked for synchronous memory operations (GPUDirect RDMA?) on pooled memory, where the driver has none;")
      .text(" copies on streams must be waited for there, or run it with --pool off (CUHEAP_POOL=off)")
      .send();
}

void pool_books_wrong(int device) {
  static constinit std::atomic<bool> said{false};
  if (!first_time(said)) return;
  MessageLine()
      .text("CUHEAP_CHECK: the pool's books of device ").number(static_cast<std::uint64_t>(device))
      .text(" are wrong; this is a bug of cuheap, please report it with the trace")
      .send();
}

}  // namespace cuheap::message
