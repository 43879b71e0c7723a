// What the documentation says that the runtime does above the driver. Built against libcudart.so.12, .13 and the static
// archive.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

// What the compiler would call for a program with kernels (crt/host_runtime.h, crt/device_functions.h).
extern "C" {
void** __cudaRegisterFatBinary(void* wrapper);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaUnregisterFatBinary(void** handle);
void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name, int, uint3*, uint3*, dim3*,
                            dim3*, int*);
void __cudaRegisterVar(void** handle, char* host, char* device, const char* name, int, size_t bytes, int, int);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream);
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared,
                               cudaStream_t stream);
}

namespace {

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;

// A program with one kernel and one variable, as the compiler would have registered it.
void host_stub() {}
int host_variable[4];
struct Image {
  int words[4] = {0x12345678, 0, 0, 0};
};
struct Wrapper {
  int magic = 0x466243b1;
  int version = 1;
  const void* image;
  void* more = nullptr;
};

class Runtime : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    static Image image;
    static Wrapper wrapper{0x466243b1, 1, &image, nullptr};
    handle_ = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(handle_, reinterpret_cast<const char*>(&host_stub), nullptr, "stub_kernel", -1, nullptr,
                           nullptr, nullptr, nullptr, nullptr);
    __cudaRegisterVar(handle_, reinterpret_cast<char*>(host_variable), nullptr, "device_variable", 0,
                      sizeof host_variable, 0, 0);
    __cudaRegisterFatBinaryEnd(handle_);
  }

  void SetUp() override {
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    cudaGetLastError();
  }

  static const void* kernel() { return reinterpret_cast<const void*>(&host_stub); }

  static void** handle_;
};

void** Runtime::handle_ = nullptr;

std::vector<int> numbers(size_t count) {
  std::vector<int> result(count);
  std::iota(result.begin(), result.end(), 1);
  return result;
}

template <typename Function>
Function driver_entry(const char* name, unsigned int version) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  EXPECT_EQ(cudaGetDriverEntryPointByVersion(name, &entry, version, cudaEnableDefault, &found), cudaSuccess);
  EXPECT_EQ(found, cudaDriverEntryPointSuccess) << name;
  return reinterpret_cast<Function>(entry);
}

TEST_F(Runtime, ReportsTheVersionOfItsHeaders) {
  int version = 0;
  EXPECT_EQ(cudaRuntimeGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, CUDART_VERSION);
  EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
  EXPECT_GE(version, 13000);
}

TEST_F(Runtime, AllocatingNothingIsSuccessAndNull) {
  void* pointer = &pointer;
  EXPECT_EQ(cudaMalloc(&pointer, 0), cudaSuccess);
  EXPECT_EQ(pointer, nullptr);
  pointer = &pointer;
  EXPECT_EQ(cudaMallocAsync(&pointer, 0, nullptr), cudaSuccess);
  EXPECT_EQ(pointer, nullptr);
}

TEST_F(Runtime, FreeingNullStartsTheRuntime) {
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  auto* state = driver_entry<CUresult (*)(CUdevice, unsigned int*, int*)>("cuDevicePrimaryCtxGetState", 7000);
  unsigned int flags = 0;
  int active = 1;
  EXPECT_EQ(state(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(state(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 1);
}

TEST_F(Runtime, KeepsTheLastErrorPerThreadUntilItIsRead) {
  EXPECT_EQ(cudaMalloc(nullptr, 1), cudaErrorInvalidValue);
  cudaError_t elsewhere = cudaErrorUnknown;
  std::thread([&] { elsewhere = cudaPeekAtLastError(); }).join();
  EXPECT_EQ(elsewhere, cudaSuccess);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidValue);
  void* pointer = nullptr;
  EXPECT_EQ(cudaMalloc(&pointer, kKiB), cudaSuccess);  // success does not clear it
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(Runtime, RefusesWhatDoesNotFit) {
  void* pointer = nullptr;
  EXPECT_EQ(cudaMalloc(&pointer, size_t{1} << 50), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code");
  EXPECT_EQ(cudaMalloc(&pointer, kMiB), cudaSuccess);  // the error does not stick
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
}

TEST_F(Runtime, FillsThePropertiesOfEveryDevice) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  ASSERT_EQ(count, 2);
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp prop;
    ASSERT_EQ(cudaGetDeviceProperties(&prop, device), cudaSuccess);
    int value = 0;
    EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, device), cudaSuccess);
    EXPECT_EQ(value, prop.multiProcessorCount);
    EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, device), cudaSuccess);
    EXPECT_EQ(value, prop.major);
    EXPECT_EQ(prop.totalGlobalMem, size_t{24} << 30);
    EXPECT_EQ(prop.warpSize, 32);
    EXPECT_NE(std::string(prop.name), "");
    ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
    size_t free = 0;
    size_t total = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    EXPECT_EQ(total, prop.totalGlobalMem);
    EXPECT_LT(free, total);  // the context takes its share
  }
  cudaDeviceProp prop;
  EXPECT_EQ(cudaGetDeviceProperties(&prop, 2), cudaErrorInvalidDevice);
}

TEST_F(Runtime, EveryThreadHasItsOwnDevice) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  int elsewhere = -1;
  std::thread([&] { cudaGetDevice(&elsewhere); }).join();
  EXPECT_EQ(elsewhere, 0);
  int here = -1;
  EXPECT_EQ(cudaGetDevice(&here), cudaSuccess);
  EXPECT_EQ(here, 1);
  EXPECT_EQ(cudaSetDevice(7), cudaErrorInvalidDevice);
}

TEST_F(Runtime, TellsWhatAPointerIs) {
  void* device = nullptr;
  void* pinned = nullptr;
  void* managed = nullptr;
  std::vector<char> plain(64 * kKiB);
  ASSERT_EQ(cudaMalloc(&device, kMiB), cudaSuccess);
  ASSERT_EQ(cudaHostAlloc(&pinned, kMiB, cudaHostAllocDefault), cudaSuccess);
  ASSERT_EQ(cudaMallocManaged(&managed, kMiB, cudaMemAttachGlobal), cudaSuccess);
  cudaPointerAttributes attributes;
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, device), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 0);
  EXPECT_EQ(attributes.devicePointer, device);
  EXPECT_EQ(attributes.hostPointer, nullptr);
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, pinned), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(attributes.hostPointer, pinned);
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, managed), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeManaged);
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, plain.data()), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(cudaFree(managed), cudaSuccess);
}

TEST_F(Runtime, CopiesInEveryDirection) {
  const std::vector<int> in = numbers(1000);
  const size_t bytes = in.size() * sizeof(int);
  std::vector<int> out(in.size());
  void* a = nullptr;
  void* b = nullptr;
  ASSERT_EQ(cudaMalloc(&a, bytes), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&b, bytes), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(a, in.data(), bytes, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(b, a, bytes, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(out.data(), b, bytes, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(out, in);
  EXPECT_EQ(cudaMemset(b, 0, bytes / 2), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(out.data(), b, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(out[499], 0);
  EXPECT_EQ(out[500], 501);
  EXPECT_EQ(cudaMemcpy(out.data(), b, bytes, static_cast<cudaMemcpyKind>(7)), cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaFree(a), cudaSuccess);
  EXPECT_EQ(cudaFree(b), cudaSuccess);
}

TEST_F(Runtime, CopiesPlanesAndVolumes) {
  constexpr size_t kWidth = 7 * sizeof(int);
  constexpr size_t kHeight = 5;
  const std::vector<int> in = numbers(7 * kHeight);
  std::vector<int> out(in.size());
  void* plane = nullptr;
  size_t pitch = 0;
  ASSERT_EQ(cudaMallocPitch(&plane, &pitch, kWidth, kHeight), cudaSuccess);
  EXPECT_GE(pitch, kWidth);
  EXPECT_EQ(cudaMemcpy2D(plane, pitch, in.data(), kWidth, kWidth, kHeight, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy2D(out.data(), kWidth, plane, pitch, kWidth, kHeight, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(out, in);
  std::fill(out.begin(), out.end(), 0);
  cudaMemcpy3DParms params{};
  params.srcPtr = {plane, pitch, kWidth, kHeight};
  params.dstPtr = {out.data(), kWidth, kWidth, kHeight};
  params.extent = {kWidth, kHeight, 1};
  params.kind = cudaMemcpyDeviceToHost;
  EXPECT_EQ(cudaMemcpy3D(&params), cudaSuccess);
  EXPECT_EQ(out, in);
  EXPECT_EQ(cudaFree(plane), cudaSuccess);
}

TEST_F(Runtime, ArraysKeepWhatWasCopiedIn) {
  const cudaChannelFormatDesc desc = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindSigned);
  cudaArray_t array = nullptr;
  ASSERT_EQ(cudaMallocArray(&array, &desc, 8, 4, 0), cudaSuccess);
  const std::vector<int> in = numbers(32);
  std::vector<int> out(32);
  EXPECT_EQ(cudaMemcpy2DToArray(array, 0, 0, in.data(), 32, 32, 4, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy2DFromArray(out.data(), 32, array, 0, 0, 32, 4, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(out, in);
  cudaChannelFormatDesc read{};
  cudaExtent extent{};
  unsigned int flags = 1;
  EXPECT_EQ(cudaArrayGetInfo(&read, &extent, &flags, array), cudaSuccess);
  EXPECT_EQ(read.x, 32);
  EXPECT_EQ(read.f, cudaChannelFormatKindSigned);
  EXPECT_EQ(extent.width, 8u);
  EXPECT_EQ(extent.height, 4u);
  EXPECT_EQ(cudaFreeArray(array), cudaSuccess);
}

TEST_F(Runtime, StreamsRunInOrderAndEventsMeasureThem) {
  cudaStream_t stream = nullptr;
  cudaEvent_t start = nullptr;
  cudaEvent_t stop = nullptr;
  void* pointer = nullptr;
  int last = 0;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&start), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&stop), cudaSuccess);
  ASSERT_EQ(cudaMallocAsync(&pointer, kMiB, stream), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(start, stream), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(pointer, 1, kMiB, stream), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(pointer, 2, kMiB, stream), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(&last, pointer, sizeof last, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(stop, stream), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(stop), cudaSuccess);
  EXPECT_EQ(last, 0x02020202);
  float ms = -1;
  EXPECT_EQ(cudaEventElapsedTime(&ms, start, stop), cudaSuccess);
  EXPECT_GE(ms, 0.0f);
  EXPECT_EQ(cudaFreeAsync(pointer, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(start), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(stop), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(Runtime, ACapturedGraphHasItsNodesAndReplays) {
  cudaStream_t stream = nullptr;
  void* pointer = nullptr;
  int value = 0;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&pointer, kKiB), cudaSuccess);
  ASSERT_EQ(cudaMemset(pointer, 0, kKiB), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  cudaStreamCaptureStatus status{};
  EXPECT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_EQ(cudaMemsetAsync(pointer, 7, kKiB, stream), cudaSuccess);
  EXPECT_EQ(cudaLaunchKernel(kernel(), dim3(1), dim3(32), nullptr, 0, stream), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  size_t count = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &count), cudaSuccess);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(cudaMemcpy(&value, pointer, sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(value, 0);  // captured, not run
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiateWithFlags(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(&value, pointer, sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(value, 0x07070707);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(Runtime, BuildsAGraphByHand) {
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t copy = nullptr;
  cudaGraphNode_t launch = nullptr;
  int from = 42;
  int to = 0;
  ASSERT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphAddMemcpyNode1D(&copy, graph, nullptr, 0, &to, &from, sizeof to, cudaMemcpyHostToHost),
            cudaSuccess);
  cudaKernelNodeParams params{};
  params.func = const_cast<void*>(kernel());
  params.gridDim = dim3(3, 2, 1);
  params.blockDim = dim3(64);
  ASSERT_EQ(cudaGraphAddKernelNode(&launch, graph, &copy, 1, &params), cudaSuccess);
  cudaKernelNodeParams read{};
  EXPECT_EQ(cudaGraphKernelNodeGetParams(launch, &read), cudaSuccess);
  EXPECT_EQ(read.func, kernel());  // the host function again, not the driver's handle
  EXPECT_EQ(read.gridDim.x, 3u);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiateWithFlags(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, nullptr), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(to, 42);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(Runtime, LaunchesRegisteredKernelsOnly) {
  EXPECT_EQ(cudaLaunchKernel(kernel(), dim3(4), dim3(128), nullptr, 0, nullptr), cudaSuccess);
  EXPECT_EQ(cudaLaunchKernel(kernel(), dim3(0), dim3(128), nullptr, 0, nullptr), cudaErrorInvalidConfiguration);
  static int unknown;
  EXPECT_EQ(cudaLaunchKernel(&unknown, dim3(1), dim3(1), nullptr, 0, nullptr), cudaErrorInvalidDeviceFunction);
  cudaKernel_t handle = nullptr;
  ASSERT_EQ(__cudaGetKernel(&handle, kernel()), cudaSuccess);
  EXPECT_EQ(__cudaLaunchKernel(handle, dim3(1), dim3(32), nullptr, 0, nullptr), cudaSuccess);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(2);
  config.blockDim = dim3(64);
  EXPECT_EQ(cudaLaunchKernelExC(&config, kernel(), nullptr), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(Runtime, AnswersAboutKernels) {
  cudaFuncAttributes attributes;
  EXPECT_EQ(cudaFuncGetAttributes(&attributes, kernel()), cudaSuccess);
  EXPECT_EQ(attributes.maxThreadsPerBlock, 1024);
  EXPECT_EQ(cudaFuncSetAttribute(kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize, 65536), cudaSuccess);
  EXPECT_EQ(cudaFuncGetAttributes(&attributes, kernel()), cudaSuccess);
  EXPECT_EQ(attributes.maxDynamicSharedSizeBytes, 65536);
  int blocks = 0;
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel(), 256, 0), cudaSuccess);
  EXPECT_GT(blocks, 0);
}

TEST_F(Runtime, ConfigurationsOfLaunchesNest) {
  dim3 grid;
  dim3 block;
  size_t shared = 0;
  cudaStream_t stream = nullptr;
  EXPECT_EQ(__cudaPushCallConfiguration(dim3(1), dim3(2), 3, nullptr), 0u);
  EXPECT_EQ(__cudaPushCallConfiguration(dim3(4), dim3(5), 6, nullptr), 0u);
  EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaSuccess);
  EXPECT_EQ(grid.x, 4u);
  EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaSuccess);
  EXPECT_EQ(grid.x, 1u);
  EXPECT_EQ(shared, 3u);
  EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaErrorMissingConfiguration);
}

TEST_F(Runtime, RegisteredVariablesLiveOnTheDevice) {
  const std::array<int, 4> in{1, 2, 3, 4};
  std::array<int, 2> out{};
  EXPECT_EQ(cudaMemcpyToSymbol(host_variable, in.data(), sizeof in, 0, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpyFromSymbol(out.data(), host_variable, sizeof out, 2 * sizeof(int), cudaMemcpyDeviceToHost),
            cudaSuccess);
  EXPECT_EQ(out[0], 3);
  EXPECT_EQ(out[1], 4);
  void* address = nullptr;
  size_t bytes = 0;
  EXPECT_EQ(cudaGetSymbolAddress(&address, host_variable), cudaSuccess);
  EXPECT_EQ(cudaGetSymbolSize(&bytes, host_variable), cudaSuccess);
  EXPECT_EQ(bytes, sizeof host_variable);
  cudaPointerAttributes attributes;
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, address), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(cudaMemcpyToSymbol(host_variable, in.data(), sizeof in, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetSymbolAddress(&address, &address), cudaErrorInvalidSymbol);
}

TEST_F(Runtime, ResetGivesTheMemoryBack) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  size_t before = 0;
  size_t after = 0;
  size_t total = 0;
  void* pointer = nullptr;
  ASSERT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&pointer, 256 * kMiB), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
  EXPECT_LE(after + 256 * kMiB, before);
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);  // starts the device anew
  EXPECT_EQ(after, before);
  EXPECT_NE(cudaFree(pointer), cudaSuccess);
  cudaGetLastError();
}

TEST_F(Runtime, HandsOutEntryPointsOfTheDriverByVersion) {
  auto* count = driver_entry<CUresult (*)(int*)>("cuDeviceGetCount", 2000);
  int devices = 0;
  ASSERT_NE(count, nullptr);
  EXPECT_EQ(count(&devices), CUDA_SUCCESS);
  EXPECT_EQ(devices, 2);
  void* entry = &entry;
  cudaDriverEntryPointQueryResult found{};
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuNoSuchCall", &entry, 12000, cudaEnableDefault, &found), cudaSuccess);
  EXPECT_EQ(found, cudaDriverEntryPointSymbolNotFound);
  EXPECT_EQ(entry, nullptr);
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuMemAllocAsync", &entry, 9000, cudaEnableDefault, &found), cudaSuccess);
  EXPECT_EQ(found, cudaDriverEntryPointVersionNotSufficent);
  EXPECT_EQ(entry, nullptr);
}

TEST_F(Runtime, WhatIsNotSimulatedSaysSo) {
  cudaTextureObject_t texture = 0;
  EXPECT_EQ(cudaCreateTextureObject(&texture, nullptr, nullptr, nullptr), cudaErrorNotSupported);
}

}  // namespace
