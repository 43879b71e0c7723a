#include "tools/analysis/short_name.h"

#include <gtest/gtest.h>

#include "tests/unit/analysis/trace_builder.h"

namespace cuheap {
namespace {

using test::TraceBuilder;

Frame python(const std::string& function, const std::string& file, std::uint32_t line) {
  return {function, file, line, "", FrameLanguage::Python};
}
Frame native(const std::string& function, const std::string& module, const std::string& file = "", std::uint32_t line = 0) {
  return {function, file, line, module, FrameLanguage::Native};
}

TEST(ShortName, IsTheDeepestFrameOfTheUsersOwnCode) {
  TraceBuilder b;
  SiteId s = b.push(0, native("_start", "python3.11"));
  s = b.push(s, python("train", "/home/me/train.py", 12));
  s = b.push(s, python("forward", "/home/me/model.py", 40));
  s = b.push(s, python("linear", "/usr/lib/python3/site-packages/torch/nn/functional.py", 99));
  s = b.push(s, native("at::empty_cuda(c10::ArrayRef<long>)", "libtorch_cuda.so"));
  s = b.push(s, native("c10::cuda::CUDACachingAllocator::malloc(unsigned long)", "libc10_cuda.so"));
  s = b.push(s, native("cuMemAlloc_v2", "libcuda.so.1"));
  EXPECT_EQ(short_name(b.build(), s), "forward (model.py:40)");
}

TEST(ShortName, SkipsCudaInCppPrograms) {
  TraceBuilder b;
  SiteId s = b.push(0, native("main", "server", "/src/server.cpp", 5));
  s = b.push(s, native("Cache<int>::remember(std::string const&)", "server", "/src/cache.cpp", 77));
  s = b.push(s, native("cudaMalloc", "libcudart.so.13"));
  EXPECT_EQ(short_name(b.build(), s), "Cache::remember (cache.cpp:77)");
}

TEST(ShortName, ALibraryWithoutLinesIsNamedAndSoIsItsCaller) {
  TraceBuilder b;
  const SiteId main = b.push(0, native("main", "server", "/src/server.cpp", 5));
  const SiteId one = b.push(b.push(main, native("load(int)", "server", "/src/server.cpp", 11)), native("fw_open", "libfastwarp.so"));
  const SiteId s = b.push(b.push(one, native("fw_resize(int)", "/opt/libfastwarp.so")), native("cudaMalloc", "libcudart.so.13"));
  EXPECT_EQ(short_name(b.build(), s), "fw_resize (libfastwarp.so), called by load (server.cpp:11)");
  EXPECT_EQ(long_name(b.build(), s, 2), "fw_resize (libfastwarp.so), called by load (server.cpp:11), by main");

  // Where that is not enough to tell sites apart, its callers follow.
  SiteId t = b.push(b.push(0, native("serve", "server", "/src/server.cpp", 9)), native("load(int)", "server", "/src/server.cpp", 11));
  t = b.push(t, native("fw_resize(int)", "/opt/libfastwarp.so"));
  const SiteId sites[] = {s, t};
  const std::vector<std::string> names = short_names(b.build(), sites);
  EXPECT_EQ(names[0], "fw_resize (libfastwarp.so), called by load (server.cpp:11), by main");
  EXPECT_EQ(names[1], "fw_resize (libfastwarp.so), called by load (server.cpp:11), by serve");
}

TEST(ShortName, AnOffsetIsNoNameWhereThereIsOne) {
  TraceBuilder b;
  const SiteId s = b.push(b.push(0, native("main", "server", "/src/server.cpp", 5)), native("libworker.so+0x1a2b", "libworker.so"));
  EXPECT_EQ(short_name(b.build(), s), "main (server.cpp:5)");
  EXPECT_EQ(short_name(b.build(), b.push(0, native("libworker.so+0x1a2b", "libworker.so"))), "libworker.so+0x1a2b (libworker.so)");
}

TEST(ShortName, ALibraryWithoutAnyCallerWithALineStandsAlone) {
  TraceBuilder b;
  const SiteId s = b.push(b.push(0, native("main", "server")), native("fw_resize", "libfastwarp.so"));
  EXPECT_EQ(short_name(b.build(), s), "fw_resize (libfastwarp.so)");
}

TEST(ShortName, WhatStandsBetweenPythonAndALibraryIsNobodysCode) {
  TraceBuilder b;
  SiteId s = b.push(0, python("step", "/me/train.py", 12));
  s = b.push(s, native("builtin_exec", "/usr/bin/python3.11"));
  s = b.push(s, native("_ctypes_callproc", "_ctypes.cpython-311-x86_64-linux-gnu.so"));
  s = b.push(s, native("ffi_call", "libffi.so.8"));
  s = b.push(s, native("inner", "/usr/lib/python3/site-packages/cupy/memory.so"));
  EXPECT_EQ(short_name(b.build(), s), "step (train.py:12)");
}

TEST(ShortName, FallsBackToTheInnermostFrame) {
  TraceBuilder b;
  const SiteId s = b.push(0, native("cublasCreate_v2", "/usr/lib/libcublas.so.13"));
  EXPECT_EQ(short_name(b.build(), s), "cublasCreate_v2 (libcublas.so.13)");
  EXPECT_EQ(short_name(b.build(), 0), "no stack");
}

TEST(ShortName, AnonymousNamespacesAndOperatorsAreReadable) {
  TraceBuilder b;
  const SiteId s = b.push(0, native("(anonymous namespace)::grow(int)", "app", "/a.cpp", 3));
  const SiteId t = b.push(0, native("Pool::operator()(unsigned long) const", "app", "/a.cpp", 4));
  EXPECT_EQ(short_name(b.build(), s), "grow (a.cpp:3)");
  EXPECT_EQ(short_name(b.build(), t), "Pool::operator() (a.cpp:4)");
}

TEST(ShortName, ParametersAndTemplateArgumentsAreLeftOut) {
  const std::pair<const char*, const char*> names[] = {
      {"at::empty_cuda(c10::IntArrayRef, bool)", "at::empty_cuda"},
      {"std::vector<int, std::allocator<int> >::push_back(int&&)", "std::vector::push_back"},
      {"(anonymous namespace)::grow(unsigned long)", "grow"},
      {"void cuheap::f<int>(int)", "cuheap::f"},
      {"operator new(unsigned long)", "operator new"},
  };
  for (const auto& [whole, bare] : names) EXPECT_EQ(function_name(native(whole, "app")), bare);
  for (const char* name : {"<module>", "Decoder.forward", "f.<locals>.<lambda>"}) EXPECT_EQ(function_name(python(name, "a.py", 1)), name);
}

TEST(ShortName, StrippedInterpretersAndReturnTypesDoNotMislead) {
  TraceBuilder b;
  SiteId s = b.push(0, python("softmax", "/home/me/nn_utils.py", 6));
  s = b.push(s, native("PyCMethod_New", ""));
  s = b.push(
      s, native("_object* torch::autograd::TypeError_to_NotImplemented_<&(torch::autograd::THPVariable_mul(_object*, "
                "_object*))>(_object*)",
                "", "x.cpp"));
  s = b.push(s, native("at::_ops::exp::call(at::Tensor const&)", ""));
  EXPECT_EQ(short_name(b.build(), s), "softmax (nn_utils.py:6)");
}

TEST(ShortName, OwnWrappersOfAllocatorsGiveWayToTheirCallers) {
  for (const char* wrapper : {"(anonymous namespace)::device_alloc(unsigned long)", "gpuMalloc(int)",
                              "Memory::allocate(unsigned long)", "allocate_gpu"}) {
    TraceBuilder b;
    SiteId s = b.push(0, native("main", "server", "/src/server.cpp", 5));
    s = b.push(s, native("Session::store_response(unsigned long)", "server", "/src/server.cpp", 61));
    s = b.push(s, native(wrapper, "server", "/src/server.cpp", 26));
    EXPECT_EQ(short_name(b.build(), s), "Session::store_response (server.cpp:61)") << wrapper;
  }
  TraceBuilder b;
  const SiteId alone = b.push(0, native("device_alloc(int)", "a", "/a.cpp", 1));
  EXPECT_EQ(short_name(b.build(), alone), "device_alloc (a.cpp:1)");
  SiteId s = b.push(0, native("main", "server", "/src/server.cpp", 5));
  s = b.push(s, native("allocate_kv_cache(int)", "server", "/src/server.cpp", 7));
  EXPECT_EQ(short_name(b.build(), s), "allocate_kv_cache (server.cpp:7)");
}

TEST(ShortName, TwoCallsInOneFunctionAreToldApartByTheirLines) {
  TraceBuilder b;
  const SiteId start = b.push(0, native("start", "a", "/a.cpp", 1));
  const SiteId one = b.push(b.push(start, native("main", "a", "/a.cpp", 4)), native("grab(int)", "a", "/a.cpp", 2));
  const SiteId two = b.push(b.push(start, native("main", "a", "/a.cpp", 5)), native("grab(int)", "a", "/a.cpp", 2));
  const SiteId other = b.push(b.push(start, native("load", "a", "/a.cpp", 9)), native("grab(int)", "a", "/a.cpp", 2));
  const SiteId sites[] = {one, two, other};

  const std::vector<std::string> names = short_names(b.build(), sites);

  EXPECT_EQ(names[0], "grab (a.cpp:2), called by main:4");
  EXPECT_EQ(names[1], "grab (a.cpp:2), called by main:5");
  EXPECT_EQ(names[2], "grab (a.cpp:2), called by load");
}

TEST(ShortName, LinesDoNotReplaceTheCallersThatTellOthersApart) {
  TraceBuilder b;
  const auto push = [&](const std::string& outer, std::uint32_t line) {
    const SiteId take = b.push(b.push(0, native(outer, "a", "/a.cpp", 1)), native("take", "a", "/a.cpp", 30));
    return b.push(b.push(take, native("allocate", "a", "/a.cpp", line)), native("carve", "a", "/a.cpp", 66));
  };
  const SiteId sites[] = {push("forward", 33), push("forward", 37), push("remember", 37)};

  const std::vector<std::string> names = short_names(b.build(), sites);

  EXPECT_EQ(names[0], "carve (a.cpp:66), called by allocate:33, by take, by forward");
  EXPECT_EQ(names[1], "carve (a.cpp:66), called by allocate:37, by take, by forward");
  EXPECT_EQ(names[2], "carve (a.cpp:66), called by allocate, by take, by remember");
}

TEST(ShortName, SitesOfOneNameAreToldApartByTheirCallers) {
  TraceBuilder b;
  const SiteId main = b.push(0, native("main", "a", "/a.cpp", 1));
  SiteId one = b.push(main, native("forward(int)", "a", "/a.cpp", 10));
  SiteId two = b.push(main, native("remember(int)", "a", "/a.cpp", 20));
  one = b.push(b.push(one, native("take(int)", "a", "/a.cpp", 30)), native("carve(int)", "a", "/a.cpp", 40));
  two = b.push(b.push(two, native("take(int)", "a", "/a.cpp", 30)), native("carve(int)", "a", "/a.cpp", 40));
  const SiteId other = b.push(main, native("load(int)", "a", "/a.cpp", 50));

  const SiteId sites[] = {one, two, other};
  const std::vector<std::string> names = short_names(b.build(), sites);

  EXPECT_EQ(names[0], "carve (a.cpp:40), called by take, by forward");
  EXPECT_EQ(names[1], "carve (a.cpp:40), called by take, by remember");
  EXPECT_EQ(names[2], "load (a.cpp:50)");
  EXPECT_EQ(long_name(b.build(), two, 2), "carve (a.cpp:40), called by take, by remember");
}

TEST(ShortName, CallersThatTellNothingApartAreLeftOut) {
  TraceBuilder b;
  SiteId own = b.push(0, python("<module>", "/me/train.py", 1));
  own = b.push(own, python("step", "/me/train.py", 12));
  const SiteId conv = b.push(own, native("at::native::conv2d(at::Tensor const&)", "libtorch_cuda.so"));
  const SiteId mm = b.push(own, native("at::native::mm(at::Tensor const&)", "libtorch_cuda.so"));
  const SiteId sites[] = {conv, mm};
  const std::vector<std::string> names = short_names(b.build(), sites);
  EXPECT_EQ(names[0], "step (train.py:12)");
  EXPECT_EQ(names[1], "step (train.py:12)");
}

TEST(ShortName, BackwardPassesAreNamedByTheirStep) {
  TraceBuilder b;
  SiteId s = b.push(0, native("clone3", "libc.so.6"));
  s = b.push(s, native("torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)", "libtorch_cpu.so"));
  s = b.push(s, native("torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)", "libtorch_cpu.so"));
  s = b.push(s, native("at::native::mm(at::Tensor const&)", "libtorch_cuda.so"));
  s = b.push(s, native("c10::cuda::CUDACachingAllocator::malloc(unsigned long)", "libc10_cuda.so"));
  EXPECT_EQ(short_name(b.build(), s), "torch::autograd::generated::MmBackward0::apply (libtorch_cpu.so)");
}

TEST(ShortName, RuntimesAndAllocatorsDoNotNameAFrameworksStack) {
  TraceBuilder b;
  SiteId s = b.push(0, native("at::native::copy_kernel(at::Tensor&)", "libtorch_cuda.so"));
  const SiteId c10 =
      b.push(s, native("c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(unsigned long)",
                       "libc10_cuda.so"));
  const SiteId inlined = b.push(c10, native("alloc_found_block", "libc10_cuda.so"));
  const SiteId runtime = b.push(c10, native("(anonymous class)::operator()", "libcudart.so.13", "/src/memory.cpp", 49));
  const SiteId sim = b.push(c10, native("cuheap::sim::runtime::with_context<cuheap::sim::runtime::cudaMalloc(void**, size_t)::<lambda()> >",
                                        "server", "/src/runtime.h", 56));
  for (const SiteId site : {c10, inlined, runtime, sim})
    EXPECT_EQ(short_name(b.build(), site), "at::native::copy_kernel (libtorch_cuda.so)");
}

TEST(ShortName, LibcAndCuheapNameAStackLast) {
  TraceBuilder b;
  SiteId s = b.push(0, native("start_thread", "libc.so.6"));
  s = b.push(s, native("c10::cuda::CUDACachingAllocator::malloc(unsigned long)", "libc10_cuda.so"));
  s = b.push(s, native("?", "libunknown.so"));
  const SiteId hook = b.push(s, native("cuheap::hook(unsigned long)", "libcuheap.so"));
  EXPECT_EQ(short_name(b.build(), hook), "? (libunknown.so)");  // the nearest that is neither
  const SiteId nothing_else = b.push(b.push(0, native("start_thread", "libc.so.6")), native("memalign", "libc.so.6"));
  EXPECT_EQ(short_name(b.build(), nothing_else), "memalign (libc.so.6)");
}

TEST(ShortName, StandInsLinkedIntoAProgramAreNotItsOwnCode) {
  TraceBuilder b;
  SiteId s = b.push(0, native("main", "server", "/src/server.cpp", 5));
  s = b.push(s, native("cuheap::sim::runtime::cudaMalloc", "server", "/src/memory.cpp", 46));
  EXPECT_EQ(short_name(b.build(), s), "main (server.cpp:5)");
}

TEST(ShortName, FramesHaveAColour) {
  EXPECT_EQ(classify(python("f", "/me/x.py", 1)), FrameClass::Python);
  EXPECT_EQ(classify(native("gemm", "libcublasLt.so.13")), FrameClass::CudaLibrary);
  EXPECT_EQ(classify(native("_PyEval_EvalFrameDefault", "python3.11")), FrameClass::Runtime);
  EXPECT_EQ(classify(native("main", "server")), FrameClass::Native);
}

}  // namespace
}  // namespace cuheap
