// What the pool says to people: one line each, at most once a process.
#pragma once

namespace cuheap::message {

void pool_self_test_failed(int device);
void pool_not_proved_here(const char* device_name, int driver_version);
void pool_disarmed(int driver_code);
void pool_peer_failed(int from_device, int to_device);
void pool_ipc_asked();
void pool_sync_memops_asked();
void pool_books_wrong(int device);

}  // namespace cuheap::message
