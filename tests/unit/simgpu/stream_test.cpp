#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "fixture.h"

namespace cuheap::sim::test {

class Streams : public Device {
 protected:
  /// Work that holds a stream until it is let go.
  struct Gate {
    std::atomic<bool> open{false};
    std::atomic<bool> reached{false};
    ~Gate() { open = true; }
    static void wait(void* self) {
      auto* gate = static_cast<Gate*>(self);
      gate->reached = true;
      while (!gate->open) std::this_thread::yield();
    }
  };
};

TEST_F(Streams, RunAsynchronously) {
  const CUstream s = stream();
  Gate gate;
  ASSERT_CU(cuLaunchHostFunc(s, Gate::wait, &gate));

  EXPECT_CU_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
  gate.open = true;
  EXPECT_CU(cuStreamSynchronize(s));
  EXPECT_CU(cuStreamQuery(s));
}

TEST_F(Streams, ReuseOfHostMemoryTooEarlyCorruptsBytes) {
  const CUstream s = stream();
  const CUdeviceptr block = allocate(4096);
  Pinned host(4096);
  std::memset(host.data(), 'o', 4096);
  ASSERT_EQ(simgpu_delay_stream(s, 50'000'000), 0);

  ASSERT_CU(cuMemcpyHtoDAsync(block, host.data(), 4096, s));
  std::memset(host.data(), 'n', 4096);
  ASSERT_CU(cuStreamSynchronize(s));

  EXPECT_EQ(read(block, 4096), filled(4096, 'n'));
}

TEST_F(Streams, ReuseOfDeviceMemoryTooEarlyCorruptsBytes) {
  const CUstream producer = stream(), consumer = stream();
  const CUdeviceptr block = allocate(4096), result = allocate(4096);
  ASSERT_CU(cuMemsetD8(block, 'o', 4096));
  ASSERT_CU(cuCtxSynchronize());
  ASSERT_EQ(simgpu_delay_stream(consumer, 50'000'000), 0);

  ASSERT_CU(cuMemcpyDtoDAsync(result, block, 4096, consumer));
  ASSERT_CU(cuMemsetD8Async(block, 'n', 4096, producer));  // nobody waited for the consumer
  ASSERT_CU(cuCtxSynchronize());

  EXPECT_EQ(read(result, 4096), filled(4096, 'n'));
}

TEST_F(Streams, AnEventOrdersThem) {
  const CUstream producer = stream(), consumer = stream();
  const CUevent ready = event();
  const CUdeviceptr block = allocate(4096), result = allocate(4096);
  ASSERT_EQ(simgpu_delay_stream(producer, 30'000'000), 0);

  ASSERT_CU(cuMemsetD8Async(block, 'n', 4096, producer));
  ASSERT_CU(cuEventRecord(ready, producer));
  ASSERT_CU(cuStreamWaitEvent(consumer, ready, 0));
  ASSERT_CU(cuMemcpyDtoDAsync(result, block, 4096, consumer));
  EXPECT_CU_ERROR(CUDA_ERROR_NOT_READY, cuEventQuery(ready));
  ASSERT_CU(cuStreamSynchronize(consumer));

  EXPECT_EQ(read(result, 4096), filled(4096, 'n'));
  EXPECT_CU(cuEventQuery(ready));
}

TEST_F(Streams, PageableSourcesMayChangeAfterTheCall) {
  const CUstream s = stream();
  const CUdeviceptr block = allocate(1 << 20);
  ASSERT_EQ(simgpu_delay_stream(s, 20'000'000), 0);
  for (const size_t bytes : {size_t{1000}, size_t{1} << 20}) {
    auto data = filled(bytes, 'o');
    ASSERT_CU(cuMemcpyHtoDAsync(block, data.data(), bytes, s));
    std::memset(data.data(), 'n', bytes);
    ASSERT_CU(cuStreamSynchronize(s));
    EXPECT_EQ(read(block, bytes), filled(bytes, 'o'));
  }
}

TEST_F(Streams, TheLegacyStreamWaitsForBlockingStreamsAndTheyForIt) {
  const CUstream blocking = stream(CU_STREAM_DEFAULT), free = stream(CU_STREAM_NON_BLOCKING);
  Gate gate;
  ASSERT_CU(cuLaunchHostFunc(blocking, Gate::wait, &gate));
  const CUdeviceptr block = allocate(4096);
  ASSERT_CU(cuMemsetD8Async(block, 'l', 4096, nullptr));

  EXPECT_CU_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(nullptr));
  EXPECT_CU(cuStreamSynchronize(free)) << "a non-blocking stream is not held up";
  EXPECT_EQ(read(block, 1)[0], 0);
  gate.open = true;
  EXPECT_CU(cuStreamSynchronize(nullptr));
  EXPECT_EQ(read(block, 1)[0], 'l');

  Gate second;
  ASSERT_CU(cuLaunchHostFunc(nullptr, Gate::wait, &second));
  ASSERT_CU(cuMemsetD8Async(block, 'b', 4096, blocking));
  EXPECT_CU_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(blocking));
  second.open = true;
  EXPECT_CU(cuStreamSynchronize(blocking));
}

TEST_F(Streams, FreeWaitsForWorkThatUsesTheBlock) {
  const CUstream s = stream();
  const CUdeviceptr block = allocate(4 * kMiB), copy = allocate(4 * kMiB);
  ASSERT_CU(cuMemsetD8(block, 'f', 4 * kMiB));
  ASSERT_CU(cuCtxSynchronize());
  ASSERT_EQ(simgpu_delay_stream(s, 20'000'000), 0);

  ASSERT_CU(cuMemcpyDtoDAsync(copy, block, 4 * kMiB, s));
  ASSERT_CU(cuMemFree(block));

  EXPECT_EQ(read(copy + 4 * kMiB - 1, 1)[0], 'f');
  EXPECT_CU(cuCtxSynchronize());
}

TEST_F(Streams, UnmappingUnderQueuedWorkIsAnIllegalAccess) {
  const CUstream s = stream();
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  ASSERT_CU(cuMemCreate(&handle, kGranuleBytes, &properties, 0));
  ASSERT_CU(cuMemAddressReserve(&address, kGranuleBytes, 0, 0, 0));
  ASSERT_CU(cuMemMap(address, kGranuleBytes, 0, handle, 0));
  const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_CU(cuMemSetAccess(address, kGranuleBytes, &access, 1));
  ASSERT_EQ(simgpu_delay_stream(s, 20'000'000), 0);

  ASSERT_CU(cuMemsetD8Async(address, 1, 100, s));
  ASSERT_CU(cuMemUnmap(address, kGranuleBytes));

  EXPECT_CU_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(s));
  CUdeviceptr more = 0;
  EXPECT_CU_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc(&more, 100));
}

TEST_F(Streams, KernelsTakeVirtualTime) {
  const CUstream s = stream();
  const CUevent start = event(), end = event();
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  ASSERT_CU(cuModuleLoadData(&module, "any image"));
  ASSERT_CU(cuModuleGetFunction(&kernel, module, "any_name"));

  ASSERT_CU(cuEventRecord(start, s));
  for (int i = 0; i < 1000; ++i) ASSERT_CU(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, s, nullptr, nullptr));
  ASSERT_CU(cuEventRecord(end, s));
  ASSERT_CU(cuEventSynchronize(end));

  float milliseconds = 0;
  ASSERT_CU(cuEventElapsedTime_v2(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 4.9F);
}

TEST_F(Streams, ARegisteredDoubleRunsInOrder) {
  const CUstream s = stream();
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  ASSERT_CU(cuModuleLoadData(&module, "any image"));
  ASSERT_CU(cuModuleGetFunction(&kernel, module, "increment"));
  const auto increment = [](void** arguments, void*) {
    const CUdeviceptr at = *static_cast<CUdeviceptr*>(arguments[0]);
    int value = 0;
    simgpu_read(at, &value, sizeof value);
    ++value;
    simgpu_write(at, &value, sizeof value);
  };
  ASSERT_EQ(simgpu_register_kernel("increment", increment, nullptr), 0);
  CUdeviceptr block = allocate(4096);
  void* arguments[] = {&block};

  ASSERT_CU(cuMemsetD32Async(block, 40, 1, s));
  ASSERT_CU(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, s, arguments, nullptr));
  ASSERT_CU(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, s, arguments, nullptr));
  int value = 0;
  ASSERT_CU(cuMemcpyDtoHAsync(&value, block, sizeof value, s));

  EXPECT_EQ(value, 42);
}

TEST_F(Streams, WaitForAValueWrittenByAnother) {
  const CUstream waiter = stream(), writer = stream();
  const CUdeviceptr word = allocate(4096);
  ASSERT_CU(cuMemsetD8(word, 0, 4096));
  ASSERT_CU(cuStreamWaitValue32_v2(waiter, word, 7, CU_STREAM_WAIT_VALUE_GEQ));

  EXPECT_CU_ERROR(CUDA_ERROR_NOT_READY, cuStreamQuery(waiter));
  ASSERT_CU(cuStreamWriteValue32_v2(writer, word, 8, 0));
  EXPECT_CU(cuStreamSynchronize(waiter));
}

TEST_F(Streams, AContextEventCoversAllStreams) {
  const CUstream s = stream();
  const CUevent all = event();
  Gate gate;
  ASSERT_CU(cuLaunchHostFunc(s, Gate::wait, &gate));
  ASSERT_CU(cuCtxRecordEvent(context_, all));

  EXPECT_CU_ERROR(CUDA_ERROR_NOT_READY, cuEventQuery(all));
  gate.open = true;
  EXPECT_CU(cuEventSynchronize(all));
}

TEST_F(Streams, DestroyingAStreamLetsItsWorkFinish) {
  const CUstream s = stream();
  const CUdeviceptr block = allocate(4096);
  ASSERT_EQ(simgpu_delay_stream(s, 10'000'000), 0);
  ASSERT_CU(cuMemsetD8Async(block, 'd', 4096, s));

  ASSERT_CU(cuStreamDestroy(s));
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(s));
  ASSERT_CU(cuCtxSynchronize());

  EXPECT_EQ(read(block, 1)[0], 'd');
}

TEST_F(Streams, ThePerThreadStreamIsOneForEachThread) {
  unsigned long long here = 0, there = 0, again = 0;
  ASSERT_CU(cuStreamGetId(CU_STREAM_PER_THREAD, &here));
  ASSERT_CU(cuStreamGetId(CU_STREAM_PER_THREAD, &again));
  std::thread([&] {
    cuCtxSetCurrent(context_);
    EXPECT_CU(cuStreamGetId(CU_STREAM_PER_THREAD, &there));
  }).join();

  EXPECT_EQ(here, again);
  EXPECT_NE(here, there);
}

TEST_F(Streams, ManyThreadsOnOneStreamKeepEveryOperation) {
  const CUstream s = stream();
  const CUdeviceptr counters = allocate(4096);
  std::atomic<int> calls{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      cuCtxSetCurrent(context_);
      for (int i = 0; i < 500; ++i) {
        if (i % 10 == 0) cuLaunchHostFunc(s, [](void* p) { ++*static_cast<std::atomic<int>*>(p); }, &calls);
        else cuMemsetD8Async(counters, static_cast<unsigned char>(i), 4096, s);
      }
    });
  for (auto& thread : threads) thread.join();

  ASSERT_CU(cuStreamSynchronize(s));
  EXPECT_EQ(calls.load(), 200);
}

}  // namespace cuheap::sim::test
