#include "tools/report/page_names.h"

#include <gtest/gtest.h>

#include "tests/unit/analysis/trace_builder.h"
#include "tests/unit/report/sample_trace.h"
#include "tools/analysis/short_name.h"

namespace cuheap {
namespace {

void expect_the_names_of_the_cli(const Trace& trace) {
  PageNames names(trace);
  std::vector<SiteId> sites;
  for (SiteId site = 1; site < trace.sites.size(); ++site) {
    sites.push_back(site);
    names.node(site);
  }
  const std::vector<std::string> given = names.names(), wanted = short_names(trace, sites);
  for (std::size_t i = 0; i < sites.size(); ++i) EXPECT_EQ(given[names.node(sites[i])], wanted[i]) << sites[i];
  EXPECT_EQ(given[0], short_name(trace, 0));
}

TEST(PageNames, AreThoseOfTheCli) {
  test::TraceBuilder b;
  const auto native = [](const std::string& function, const std::string& module, std::uint32_t line) {
    return Frame{function, line == 0 ? "" : "/src/" + module + ".cpp", line, "/opt/" + module, FrameLanguage::Native};
  };
  SiteId s = b.push(0, native("main", "app", 5));
  s = b.push(s, native("device_alloc(int)", "app", 7));
  s = b.push(s, native("fw_open(int)", "libfastwarp.so", 0));
  s = b.push(s, native("fw_resize(int)", "libfastwarp.so", 0));
  s = b.push(s, native("c10::cuda::malloc(unsigned long)", "libc10_cuda.so", 30));
  b.push(s, native("cuMemAlloc_v2", "libcuda.so.1", 0));
  SiteId t = b.push(0, native("start_thread", "libc.so.6", 0));
  t = b.push(t, native("at::native::copy(at::Tensor&)", "libtorch_cuda.so", 0));
  t = b.push(t, native("at::native::copy_impl(at::Tensor&)", "libtorch_cuda.so", 0));
  t = b.push(t, native("c10::cuda::malloc(unsigned long)", "libc10_cuda.so", 30));
  b.push(t, native("?", "libcuda.so.1", 0));
  const Trace trace = b.build();
  ASSERT_EQ(short_name(trace, s), "fw_resize (libfastwarp.so), called by main (app.cpp:5)");  // else this asks too little

  expect_the_names_of_the_cli(trace);
  expect_the_names_of_the_cli(sample::serving_trace(2000));
}

TEST(PageNames, TellSitesOfOneFunctionApartByTheirCallers) {
  test::TraceBuilder b;
  const auto native = [](const std::string& function, std::uint32_t line) {
    return Frame{function, "/src/leak.cu.cpp", line, "/opt/leak", FrameLanguage::Native};
  };
  const SiteId main = b.push(0, native("main", 20));
  const SiteId track = b.push(b.push(main, native("track()", 9)), native("grab(unsigned long)", 7));
  const SiteId detect = b.push(b.push(main, native("detect()", 11)), native("grab(unsigned long)", 7));
  const Trace trace = b.build();
  PageNames names(trace);
  const PageNode first = names.node(track), second = names.node(detect);

  EXPECT_EQ(names.names()[first], "grab (leak.cu.cpp:7), called by track");
  EXPECT_EQ(names.names()[second], "grab (leak.cu.cpp:7), called by detect");
}

}  // namespace
}  // namespace cuheap
