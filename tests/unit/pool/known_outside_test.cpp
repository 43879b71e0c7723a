// Memory that somebody outside the pool still knows after its free: graphs that saw its address, holders of a name of it.
#include "pool_host.h"

namespace cuheap {
namespace {

class KnownOutside : public PoolTest {
 protected:
  /// A block handed out under a capture that became `graph`, and freed.
  CUdeviceptr captured_and_freed(CUgraph captured) {
    get(1000);  // a device is not pooled from within a capture
    gpu.begin_capture();
    pool->capture_begun(gpu.context_of(0), nullptr);
    Caller capturing = caller_on(0);
    capturing.capture.open = true;
    const CUdeviceptr block = get(5 * kMiB, capturing);
    pool->capture_ended(nullptr, captured);
    gpu.end_capture();
    EXPECT_EQ(free(block), CUDA_SUCCESS);
    return block;
  }
  bool is_kept(CUdeviceptr block) {
    static_cast<void>(free_bytes());
    const CUdeviceptr next = get(5 * kMiB);
    EXPECT_EQ(free(next), CUDA_SUCCESS);
    return next != block;
  }

  const CUgraph graph = reinterpret_cast<CUgraph>(1);
  const CUgraph parent = reinterpret_cast<CUgraph>(2);
  const CUgraphExec exec = reinterpret_cast<CUgraphExec>(3);
};

TEST_F(KnownOutside, AParentKnowsWhatItsChildSaw) {
  start(1 * kGiB);
  const CUdeviceptr block = captured_and_freed(graph);
  pool->graph_child_added(parent, graph);

  end_graph(graph);
  EXPECT_TRUE(is_kept(block));
  end_graph(parent);

  EXPECT_FALSE(is_kept(block));
}

TEST_F(KnownOutside, AnExecutableKnowsWhatItWasUpdatedFrom) {
  start(1 * kGiB);
  const CUdeviceptr block = captured_and_freed(graph);
  pool->graph_exec_updated(exec, graph);

  end_graph(graph);
  EXPECT_TRUE(is_kept(block));
  end_graph(exec);

  EXPECT_FALSE(is_kept(block));
}

TEST_F(KnownOutside, AGraphThatSawNothingKeepsNothing) {
  start(1 * kGiB);
  pool->graph_child_added(parent, reinterpret_cast<CUgraph>(77));
  pool->graph_exec_updated(exec, reinterpret_cast<CUgraph>(77));
  const CUdeviceptr block = captured_and_freed(graph);

  end_graph(graph);

  EXPECT_FALSE(is_kept(block));
}

// ---- names of physical memory

TEST_F(KnownOutside, WhateverNamesABlocksMemorySendsItBackToTheDriver) {
  unsigned long long id = 0;
  int on = 1;
  CUpointer_attribute bulk[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_BUFFER_ID};
  CUmemorytype type{};
  void* data[] = {&type, &id};
  CUipcMemHandle ipc;
  const std::map<std::string, std::function<void(CUdeviceptr)>> names = {
      {"attribute", [&](CUdeviceptr at) { pool->pointer_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, at); }},
      {"attributes", [&](CUdeviceptr at) { pool->pointer_attributes(2, bulk, data, at); }},
      {"set", [&](CUdeviceptr at) { pool->set_pointer_attribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at); }},
      {"ipc", [&](CUdeviceptr at) { pool->ipc_handle(&ipc, at); }},
      {"range", [&](CUdeviceptr at) { pool->range_handle(&on, at, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0); }}};
  for (const auto& [name, tell] : names) {
    start(1 * kGiB);
    const CUdeviceptr block = get(8 * kMiB);
    tell(block);

    ASSERT_EQ(free(block), CUDA_SUCCESS);

    EXPECT_EQ(gpu.used(), 0u) << name;
  }
}

TEST_F(KnownOutside, AskingWhatABlockIsDoesNotSendItBack) {
  start(1 * kGiB);
  const CUdeviceptr block = get(8 * kMiB);
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT};
  CUmemorytype type{};
  CUcontext context = nullptr;
  void* data[] = {&type, &context};
  ASSERT_EQ(pool->pointer_attribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, block), CUDA_SUCCESS);
  ASSERT_EQ(pool->pointer_attributes(2, which, data, block), CUDA_SUCCESS);

  ASSERT_EQ(free(block), CUDA_SUCCESS);

  EXPECT_EQ(gpu.used(), 8 * kMiB);
}

}  // namespace
}  // namespace cuheap
