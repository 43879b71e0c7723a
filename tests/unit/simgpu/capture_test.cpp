#include <atomic>
#include <thread>

#include "fixture.h"

namespace cuheap::sim::test {

class CaptureRules : public Device {
 protected:
  static CUstreamCaptureStatus status(CUstream s) {
    CUstreamCaptureStatus result{};
    EXPECT_CU(cuStreamIsCapturing(s, &result));
    return result;
  }

  static void begin(CUstream s, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) { ASSERT_CU(cuStreamBeginCapture_v2(s, mode)); }

  static size_t node_count(CUgraph graph) {
    size_t count = 0;
    EXPECT_CU(cuGraphGetNodes(graph, nullptr, &count));
    return count;
  }

  static CUgraph end(CUstream s) {
    CUgraph graph = nullptr;
    EXPECT_CU(cuStreamEndCapture(s, &graph));
    return graph;
  }
};

TEST_F(CaptureRules, CapturedWorkRunsAtLaunchOnly) {
  const CUstream s = stream();
  const CUdeviceptr block = allocate(4096), copy = allocate(4096);
  ASSERT_CU(cuMemsetD8(block, 0, 4096));
  std::atomic<int> calls{0};

  begin(s);
  ASSERT_CU(cuMemsetD8Async(block, 'c', 4096, s));
  ASSERT_CU(cuMemcpyDtoDAsync(copy, block, 4096, s));
  ASSERT_CU(cuLaunchHostFunc(s, [](void* p) { ++*static_cast<std::atomic<int>*>(p); }, &calls));
  EXPECT_EQ(status(s), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  const CUgraph graph = end(s);
  EXPECT_EQ(node_count(graph), 3u);
  EXPECT_EQ(read(copy, 1)[0], 0);

  CUgraphExec exec = nullptr;
  ASSERT_CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
  ASSERT_CU(cuGraphLaunch(exec, s));
  ASSERT_CU(cuGraphLaunch(exec, s));
  ASSERT_CU(cuStreamSynchronize(s));
  EXPECT_EQ(read(copy, 4096), filled(4096, 'c'));
  EXPECT_EQ(calls.load(), 2);
  EXPECT_CU(cuGraphExecDestroy(exec));
  EXPECT_CU(cuGraphDestroy(graph));
}

TEST_F(CaptureRules, SpreadsByEventsAndMustBeJoined) {
  const CUstream origin = stream(), side = stream();
  const CUevent fork = event(), join = event();
  const CUdeviceptr block = allocate(4096);

  begin(origin);
  ASSERT_CU(cuEventRecord(fork, origin));
  ASSERT_CU(cuStreamWaitEvent(side, fork, 0));
  EXPECT_EQ(status(side), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  ASSERT_CU(cuMemsetD8Async(block, 1, 100, side));
  CUgraph graph = nullptr;
  EXPECT_CU_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(side, &graph));
  EXPECT_CU_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(origin, &graph));
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(status(side), CU_STREAM_CAPTURE_STATUS_NONE);

  begin(origin);
  ASSERT_CU(cuEventRecord(fork, origin));
  ASSERT_CU(cuStreamWaitEvent(side, fork, 0));
  ASSERT_CU(cuMemsetD8Async(block, 1, 100, side));
  ASSERT_CU(cuEventRecord(join, side));
  ASSERT_CU(cuStreamWaitEvent(origin, join, 0));
  graph = end(origin);
  EXPECT_EQ(node_count(graph), 1u);
}

TEST_F(CaptureRules, AnUnsafeCallFailsAndEndsTheCapture) {
  const CUstream s = stream();
  const CUdeviceptr before = allocate(4096);
  begin(s);
  CUdeviceptr block = 0;

  EXPECT_CU_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&block, 4096));
  EXPECT_EQ(status(s), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  EXPECT_CU_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuMemsetD8Async(before, 0, 1, s));
  CUgraph graph = nullptr;
  EXPECT_CU_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(s, &graph));
  EXPECT_EQ(status(s), CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(CaptureRules, RelaxedModeAllowsAllocations) {
  const CUstream s = stream();
  begin(s);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  ASSERT_CU(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);

  CUdeviceptr block = 0;
  EXPECT_CU(cuMemAlloc(&block, 4096));
  EXPECT_CU_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(s)) << "waiting for a captured stream is never allowed";

  ASSERT_CU(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
}

TEST_F(CaptureRules, ThreadsForbidEachOtherByMode) {
  const CUstream s = stream();
  CUresult in_thread_local{}, in_global{};
  const auto other_thread = [&](CUresult& result) {
    std::thread([&] {
      cuCtxSetCurrent(context_);
      CUdeviceptr block = 0;
      result = cuMemAlloc(&block, 4096);
    }).join();
  };

  begin(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  other_thread(in_thread_local);
  end(s);
  begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
  other_thread(in_global);

  EXPECT_CU(in_thread_local);
  EXPECT_CU_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, in_global);
}

TEST_F(CaptureRules, TheLegacyStreamIsOutOfBounds) {
  const CUstream blocking = stream(CU_STREAM_DEFAULT);
  const CUdeviceptr block = allocate(4096);
  EXPECT_CU_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture_v2(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL));

  begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_CU_ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemsetD8Async(block, 0, 100, nullptr));
  EXPECT_EQ(status(blocking), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
}

TEST_F(CaptureRules, ACapturedEventCannotBeAsked) {
  const CUstream s = stream();
  const CUevent e = event();
  begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
  ASSERT_CU(cuEventRecord(e, s));

  EXPECT_CU_ERROR(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(e));
  EXPECT_EQ(status(s), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
}

TEST_F(CaptureRules, OutsideWorkAndOtherCapturesMayNotComeIn) {
  const CUstream one = stream(), two = stream();
  const CUevent outside = event(), inside = event();
  ASSERT_CU(cuEventRecord(outside, two));
  begin(one, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_CU_ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(one, outside, 0));
  CUgraph graph = nullptr;
  EXPECT_CU_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(one, &graph));

  begin(one, CU_STREAM_CAPTURE_MODE_RELAXED);
  begin(two, CU_STREAM_CAPTURE_MODE_RELAXED);
  ASSERT_CU(cuEventRecord(inside, one));
  EXPECT_CU_ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(two, inside, 0));
}

TEST_F(CaptureRules, EveryCaptureHasItsOwnId) {
  const CUstream s = stream();
  cuuint64_t first = 0, second = 0;
  CUstreamCaptureStatus now{};
  begin(s);
  ASSERT_CU(cuStreamGetCaptureInfo(s, &now, &first, nullptr, nullptr, nullptr, nullptr));
  end(s);
  begin(s);
  ASSERT_CU(cuStreamGetCaptureInfo(s, &now, &second, nullptr, nullptr, nullptr, nullptr));
  end(s);

  EXPECT_NE(first, 0u);
  EXPECT_NE(first, second);
}

TEST_F(CaptureRules, AnAllocationNodeHasItsAddressAtOnceAndItsBytesAtLaunch) {
  const CUstream s = stream();
  const size_t before = free_bytes();
  CUdeviceptr block = 0;
  begin(s);
  ASSERT_CU(cuMemAllocAsync(&block, 5 * kMiB, s));
  ASSERT_CU(cuMemsetD8Async(block, 'n', 100, s));
  ASSERT_CU(cuMemFreeAsync(block, s));
  const CUgraph graph = end(s);
  EXPECT_NE(block, 0u);
  EXPECT_EQ(free_bytes(), before);

  CUgraphExec exec = nullptr;
  ASSERT_CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
  ASSERT_CU(cuGraphLaunch(exec, s));
  ASSERT_CU(cuStreamSynchronize(s));
  EXPECT_EQ(before - free_bytes(), 6 * kMiB);
  cuuint64_t used = 1, high = 0;
  ASSERT_CU(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
  ASSERT_CU(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &high));
  EXPECT_EQ(used, 0u);
  EXPECT_EQ(high, 6 * kMiB);
  ASSERT_CU(cuDeviceGraphMemTrim(0));
  EXPECT_EQ(free_bytes(), before);
  ASSERT_CU(cuGraphExecDestroy(exec));
  ASSERT_CU(cuGraphDestroy(graph));
}

TEST_F(CaptureRules, LiveGraphMemoryOutlivesItsGraph) {
  const CUstream s = stream();
  const size_t before = free_bytes();
  CUdeviceptr block = 0;
  begin(s);
  ASSERT_CU(cuMemAllocAsync(&block, kGranuleBytes, s));
  ASSERT_CU(cuMemsetD8Async(block, 'l', 100, s));
  const CUgraph graph = end(s);
  CUgraphExec exec = nullptr;
  ASSERT_CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
  ASSERT_CU(cuGraphLaunch(exec, s));
  ASSERT_CU(cuStreamSynchronize(s));

  ASSERT_CU(cuGraphExecDestroy(exec));
  ASSERT_CU(cuGraphDestroy(graph));
  EXPECT_EQ(read(block, 100), filled(100, 'l'));
  ASSERT_CU(cuMemFreeAsync(block, s));
  ASSERT_CU(cuStreamSynchronize(s));
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(CaptureRules, ALaunchOnAFullDeviceFailsAndTheContextLives) {
  const CUstream s = stream();
  CUdeviceptr block = 0;
  begin(s);
  ASSERT_CU(cuMemAllocAsync(&block, free_bytes() / 2, s));
  const CUgraph graph = end(s);
  CUgraphExec exec = nullptr;
  ASSERT_CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
  const CUdeviceptr hog = allocate(free_bytes() / 4 * 3);

  EXPECT_CU_ERROR(CUDA_ERROR_OUT_OF_MEMORY, cuGraphLaunch(exec, s));
  ASSERT_CU(cuMemFree(hog));
  EXPECT_CU(cuGraphLaunch(exec, s));
  EXPECT_CU(cuMemFreeAsync(block, s));
  EXPECT_CU(cuStreamSynchronize(s));
  EXPECT_CU(cuGraphExecDestroy(exec));
  EXPECT_CU(cuGraphDestroy(graph));
}

TEST_F(CaptureRules, GraphsCanBeBuiltByHandAndCloned) {
  const CUdeviceptr block = allocate(4096);
  CUgraph graph = nullptr, copy = nullptr, parent = nullptr;
  CUgraphNode first = nullptr, second = nullptr, child = nullptr;
  ASSERT_CU(cuGraphCreate(&graph, 0));
  CUDA_MEMSET_NODE_PARAMS parameters{};
  parameters.dst = block, parameters.value = 'g', parameters.elementSize = 1, parameters.width = 4096, parameters.height = 1;
  ASSERT_CU(cuGraphAddMemsetNode(&first, graph, nullptr, 0, &parameters, context_));
  ASSERT_CU(cuGraphAddEmptyNode(&second, graph, &first, 1));
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies_v2(graph, &first, &second, nullptr, 1)) << "already there";

  ASSERT_CU(cuGraphClone(&copy, graph));
  CUgraphNode twin = nullptr;
  ASSERT_CU(cuGraphNodeFindInClone(&twin, first, copy));
  CUDA_MEMSET_NODE_PARAMS read_back{};
  ASSERT_CU(cuGraphMemsetNodeGetParams(twin, &read_back));
  EXPECT_EQ(read_back.dst, block);

  ASSERT_CU(cuGraphCreate(&parent, 0));
  ASSERT_CU(cuGraphAddChildGraphNode(&child, parent, nullptr, 0, copy));
  CUgraphExec exec = nullptr;
  ASSERT_CU(cuGraphInstantiateWithFlags(&exec, parent, 0));
  const CUstream s = stream();
  ASSERT_CU(cuGraphLaunch(exec, s));
  ASSERT_CU(cuStreamSynchronize(s));
  EXPECT_EQ(read(block, 1)[0], 'g');
  CUgraphNodeType type{};
  ASSERT_CU(cuGraphNodeGetType(child, &type));
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_GRAPH);
  ASSERT_CU(cuGraphDestroy(graph));
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuGraphNodeGetType(first, &type));
}

TEST_F(CaptureRules, AChildCanBeChangedForOneOfItsShape) {
  const CUstream s = stream();
  const CUdeviceptr block = allocate(4096);
  CUgraph parent = nullptr, child = nullptr, next = nullptr, other_shape = nullptr;
  CUgraphNode node = nullptr, inner = nullptr;
  CUgraphExec exec = nullptr;
  CUDA_MEMSET_NODE_PARAMS parameters{};
  parameters.dst = block, parameters.value = '1', parameters.elementSize = 1, parameters.width = 1, parameters.height = 1;
  for (CUgraph* graph : {&parent, &child, &next, &other_shape}) ASSERT_CU(cuGraphCreate(graph, 0));
  ASSERT_CU(cuGraphAddMemsetNode(&inner, child, nullptr, 0, &parameters, context_));
  parameters.value = '2';
  ASSERT_CU(cuGraphAddMemsetNode(&inner, next, nullptr, 0, &parameters, context_));
  ASSERT_CU(cuGraphAddEmptyNode(&inner, other_shape, nullptr, 0));
  ASSERT_CU(cuGraphAddChildGraphNode(&node, parent, nullptr, 0, child));
  ASSERT_CU(cuGraphInstantiateWithFlags(&exec, parent, 0));

  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuGraphExecChildGraphNodeSetParams(exec, node, other_shape));
  ASSERT_CU(cuGraphExecChildGraphNodeSetParams(exec, node, next));
  ASSERT_CU(cuGraphLaunch(exec, s));
  ASSERT_CU(cuStreamSynchronize(s));
  EXPECT_EQ(read(block, 1)[0], '2');
  ASSERT_CU(cuGraphChildGraphNodeGetGraph(node, &child));
  CUgraphNodeParams again{};
  again.type = CU_GRAPH_NODE_TYPE_MEMSET;
  again.memset.dst = block, again.memset.value = '3', again.memset.elementSize = 1, again.memset.width = again.memset.height = 1;
  CUgraphNode of_child = nullptr;
  size_t one = 1;
  ASSERT_CU(cuGraphGetNodes(child, &of_child, &one));
  ASSERT_CU(cuGraphNodeSetParams(of_child, &again));
  again = {};
  again.type = CU_GRAPH_NODE_TYPE_GRAPH;
  again.graph.graph = child;
  ASSERT_CU(cuGraphExecNodeSetParams(exec, node, &again));
  ASSERT_CU(cuGraphLaunch(exec, s));
  ASSERT_CU(cuStreamSynchronize(s));
  EXPECT_EQ(read(block, 1)[0], '3');
}

TEST_F(CaptureRules, AChangedNodeDoesNotReachALaunchUnderWay) {
  const CUstream s = stream();
  const CUdeviceptr block = allocate(4096);
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  CUDA_MEMSET_NODE_PARAMS parameters{};
  parameters.dst = block, parameters.value = '1', parameters.elementSize = 1, parameters.width = 1, parameters.height = 1;
  ASSERT_CU(cuGraphCreate(&graph, 0));
  ASSERT_CU(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &parameters, context_));
  ASSERT_CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
  ASSERT_EQ(simgpu_delay_stream(s, 20'000'000), 0);

  ASSERT_CU(cuGraphLaunch(exec, s));
  parameters.value = '2', parameters.dst = block + 1;
  ASSERT_CU(cuGraphExecMemsetNodeSetParams(exec, node, &parameters, context_));
  ASSERT_CU(cuStreamSynchronize(s));
  EXPECT_EQ(read(block, 2), (std::vector<char>{'1', 0}));

  ASSERT_CU(cuGraphLaunch(exec, s));
  ASSERT_CU(cuStreamSynchronize(s));
  EXPECT_EQ(read(block, 2), (std::vector<char>{'1', '2'}));
}

}  // namespace cuheap::sim::test
