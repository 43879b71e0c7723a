// short_threads COUNT: a thread a request, four at a time, one allocation and one free each.
#include <atomic>
#include <thread>
#include <vector>

#include "program.h"

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 1000;
  const CUdevice device = start_cuda();
  CUcontext context = nullptr;
  SAY(cuDevicePrimaryCtxRetain(&context, device));
  std::atomic<int> failures{0}, left{count};
  const auto request = [&] {
    CUdeviceptr address = 0;
    if (cuCtxSetCurrent(context) != CUDA_SUCCESS || cuMemAlloc(&address, 20160) != CUDA_SUCCESS) ++failures;
    if (cuMemFree(address) != CUDA_SUCCESS) ++failures;
  };
  std::vector<std::thread> servers;
  for (int server = 0; server < 4; ++server) {
    servers.emplace_back([&] {
      while (left.fetch_sub(1) > 0) std::thread(request).join();
    });
  }
  for (std::thread& server : servers) server.join();
  std::printf("failures %d\n", failures.load());
}
