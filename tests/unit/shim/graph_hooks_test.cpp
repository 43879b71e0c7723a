// What the allocator hears of graphs that get other children. simgpu has no such calls, so the driver is a stand-in here.
#include "shim/driver/driver.h"
#include "tests/unit/shim/host.h"

namespace cuheap {
namespace {

struct Told {
  const char* what;
  const void* exec;
  const void* child;
  bool operator==(const Told& other) const { return std::string(what) == other.what && exec == other.exec && child == other.child; }
};

class ListensToGraphs final : public test::AllocatorWithIdleMemory {
 public:
  void graph_child_set(CUgraph child) override { told.push_back({"child", nullptr, child}); }
  void graph_exec_child_set(CUgraphExec exec, CUgraph child) override { told.push_back({"child of", exec, child}); }
  void graph_exec_updated(CUgraphExec exec, CUgraph graph) override { told.push_back({"updated", exec, graph}); }
  std::vector<Told> told;
};

class GraphHooks : public test::HostTest {
 protected:
  static inline CUresult answer = CUDA_SUCCESS;

  void SetUp() override {
    HostTest::SetUp();
    answer = CUDA_SUCCESS;
    detail::driver_table.cuGraphNodeSetParams = [](CUgraphNode, CUgraphNodeParams*) { return answer; };
    detail::driver_table.cuGraphExecNodeSetParams = [](CUgraphExec, CUgraphNode, CUgraphNodeParams*) { return answer; };
    detail::driver_table.cuGraphExecChildGraphNodeSetParams = [](CUgraphExec, CUgraphNode, CUgraph) { return answer; };
    detail::driver_table.cuGraphExecUpdate_v2 = [](CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo*) { return answer; };
    use(listener);
    parameters.type = CU_GRAPH_NODE_TYPE_GRAPH;
    parameters.graph.graph = child;
  }
  void TearDown() override {
    detail::driver_table = before;
    HostTest::TearDown();
  }

  const DriverTable before = detail::driver_table;
  ListensToGraphs listener;
  CUgraphNodeParams parameters = {};
  CUgraphNode node = reinterpret_cast<CUgraphNode>(1);
  CUgraph child = reinterpret_cast<CUgraph>(2);
  CUgraphExec exec = reinterpret_cast<CUgraphExec>(3);
};

TEST_F(GraphHooks, TellOfEachChildThatIsSet) {
  EXPECT_EQ(cuGraphNodeSetParams(node, &parameters), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecNodeSetParams(exec, node, &parameters), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecChildGraphNodeSetParams(exec, node, child), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecUpdate_v2(exec, child, nullptr), CUDA_SUCCESS);

  EXPECT_EQ(listener.told, (std::vector<Told>{{"child", nullptr, child}, {"child of", exec, child}, {"child of", exec, child},
                                              {"updated", exec, child}}));
}

TEST_F(GraphHooks, TellNothingOfOtherNodes) {
  parameters.type = CU_GRAPH_NODE_TYPE_KERNEL;
  EXPECT_EQ(cuGraphNodeSetParams(node, &parameters), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecNodeSetParams(exec, node, &parameters), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphNodeSetParams(node, nullptr), CUDA_SUCCESS);

  EXPECT_TRUE(listener.told.empty());
}

TEST_F(GraphHooks, TellNothingOfWhatTheDriverRefuses) {
  answer = CUDA_ERROR_INVALID_VALUE;
  EXPECT_EQ(cuGraphNodeSetParams(node, &parameters), answer);
  EXPECT_EQ(cuGraphExecNodeSetParams(exec, node, &parameters), answer);
  EXPECT_EQ(cuGraphExecChildGraphNodeSetParams(exec, node, child), answer);
  EXPECT_EQ(cuGraphExecUpdate_v2(exec, child, nullptr), answer);

  EXPECT_TRUE(listener.told.empty());
}

}  // namespace
}  // namespace cuheap
