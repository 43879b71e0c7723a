#include <unistd.h>

#include "fixture.h"

namespace cuheap::sim::test {

class Vmm : public Device {
 protected:
  static CUmemAllocationProp properties(CUmemAllocationHandleType types = CU_MEM_HANDLE_TYPE_NONE) {
    CUmemAllocationProp result{};
    result.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    result.requestedHandleTypes = types;
    result.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    return result;
  }

  static CUmemGenericAllocationHandle create(size_t bytes) {
    const auto wanted = properties();
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_CU(cuMemCreate(&handle, bytes, &wanted, 0));
    return handle;
  }

  static CUdeviceptr reserve(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_CU(cuMemAddressReserve(&address, bytes, 0, 0, 0));
    return address;
  }

  static CUresult allow(CUdeviceptr address, size_t bytes, CUmemAccess_flags right = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    const CUmemAccessDesc description{{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, right};
    return cuMemSetAccess(address, bytes, &description, 1);
  }
};

TEST_F(Vmm, CountsAHandleWhenItIsMadeAndNotWhenItIsMapped) {
  const size_t before = free_bytes();
  const auto handle = create(4 * kMiB);
  EXPECT_EQ(before - free_bytes(), 4 * kMiB);

  const CUdeviceptr address = reserve(4 * kMiB);
  ASSERT_CU(cuMemMap(address, 4 * kMiB, 0, handle, 0));
  EXPECT_EQ(before - free_bytes(), 4 * kMiB);

  ASSERT_CU(cuMemRelease(handle));
  EXPECT_EQ(before - free_bytes(), 4 * kMiB) << "a mapping keeps the memory";
  ASSERT_CU(cuMemUnmap(address, 4 * kMiB));
  EXPECT_EQ(free_bytes(), before);
  EXPECT_CU(cuMemAddressFree(address, 4 * kMiB));
}

TEST_F(Vmm, MovesBytesWithTheirGranule) {
  const auto handle = create(kGranuleBytes);
  const CUdeviceptr address = reserve(4 * kMiB);
  ASSERT_CU(cuMemMap(address, kGranuleBytes, 0, handle, 0));
  ASSERT_CU(allow(address, kGranuleBytes));
  const auto data = filled(1000, 'g');
  ASSERT_CU(cuMemcpyHtoD(address + 7, data.data(), data.size()));

  ASSERT_CU(cuMemUnmap(address, kGranuleBytes));
  ASSERT_CU(cuMemMap(address + kGranuleBytes, kGranuleBytes, 0, handle, 0));
  ASSERT_CU(allow(address + kGranuleBytes, kGranuleBytes));

  EXPECT_EQ(read(address + kGranuleBytes + 7, 1000), data);
}

TEST_F(Vmm, HasNoAccessBeforeItIsGiven) {
  const auto handle = create(kGranuleBytes);
  const CUdeviceptr address = reserve(kGranuleBytes);
  ASSERT_CU(cuMemMap(address, kGranuleBytes, 0, handle, 0));
  CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  unsigned long long right = 99;
  ASSERT_CU(cuMemGetAccess(&right, &here, address));
  EXPECT_EQ(right, 0u);

  char byte = 'x';
  EXPECT_CU_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemcpyHtoD(address, &byte, 1));
  EXPECT_CU_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize()) << "the error sticks";
}

TEST_F(Vmm, ReadOnlyAccessForbidsWriting) {
  const auto handle = create(kGranuleBytes);
  const CUdeviceptr address = reserve(kGranuleBytes);
  ASSERT_CU(cuMemMap(address, kGranuleBytes, 0, handle, 0));
  ASSERT_CU(allow(address, kGranuleBytes, CU_MEM_ACCESS_FLAGS_PROT_READ));

  char byte = 'x';
  EXPECT_CU(cuMemcpyDtoH(&byte, address, 1));
  EXPECT_CU_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemcpyHtoD(address, &byte, 1));
}

TEST_F(Vmm, UnmapsOnlyWholeMappings) {
  const auto handle = create(4 * kMiB);
  const auto second = create(kGranuleBytes);
  const CUdeviceptr address = reserve(8 * kMiB);
  ASSERT_CU(cuMemMap(address, 4 * kMiB, 0, handle, 0));
  ASSERT_CU(cuMemMap(address + 4 * kMiB, kGranuleBytes, 0, second, 0));

  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(address, kGranuleBytes));
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(address + kGranuleBytes, kGranuleBytes));
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(address, 8 * kMiB));
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(address, 8 * kMiB)) << "something is mapped there";
  EXPECT_CU(cuMemUnmap(address, 6 * kMiB)) << "two whole mappings at once";
}

TEST_F(Vmm, ChecksEveryArgumentOfMap) {
  const auto handle = create(kGranuleBytes);
  const CUdeviceptr address = reserve(4 * kMiB);

  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, kGranuleBytes, kGranuleBytes, handle, 0));
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, 4 * kMiB, 0, handle, 0)) << "larger than the handle";
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemMap(address + 4096, kGranuleBytes, 0, handle, 0));
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemMap(address + 4 * kMiB, kGranuleBytes, 0, handle, 0)) << "not reserved";
  ASSERT_CU(cuMemMap(address, kGranuleBytes, 0, handle, 0));
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, kGranuleBytes, 0, handle, 0)) << "already mapped";
  EXPECT_CU(cuMemMap(address + kGranuleBytes, kGranuleBytes, 0, handle, 0)) << "one handle may show in two places";
}

TEST_F(Vmm, ReservesHostPagesAndMapsWholeGranulesOfThem) {
  const CUdeviceptr page = reserve(64 << 10), more = reserve(kGranuleBytes + 4096);
  const auto handle = create(kGranuleBytes);

  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemMap(page, kGranuleBytes, 0, handle, 0)) << "no granule of it was reserved";
  EXPECT_CU(cuMemMap(more, kGranuleBytes, 0, handle, 0));
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemMap(more + kGranuleBytes, kGranuleBytes, 0, handle, 0));
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(page, kGranuleBytes)) << "not the size that was asked for";
  EXPECT_CU(cuMemAddressFree(page, 64 << 10));
}

TEST_F(Vmm, MapsOverNoPartOfAnotherMapping) {
  const auto long_one = create(4 * kMiB);
  const auto handle = create(kGranuleBytes);
  const CUdeviceptr address = reserve(8 * kMiB);
  ASSERT_CU(cuMemMap(address + kGranuleBytes, 4 * kMiB, 0, long_one, 0));

  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemMap(address + 4 * kMiB, kGranuleBytes, 0, handle, 0)) << "its second granule";
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, 4 * kMiB, 0, long_one, 0)) << "its first granule";
  EXPECT_CU(cuMemMap(address, kGranuleBytes, 0, handle, 0));
  EXPECT_CU(cuMemMap(address + 6 * kMiB, kGranuleBytes, 0, handle, 0));
}

TEST_F(Vmm, ACopyAsksForTheRightOfEveryGranule) {
  // Made one after the other and mapped side by side: only the rights tell the two apart.
  const auto first = create(kGranuleBytes), second = create(kGranuleBytes);
  const CUdeviceptr address = reserve(4 * kMiB), edge = address + kGranuleBytes;
  ASSERT_CU(cuMemMap(address, kGranuleBytes, 0, first, 0));
  ASSERT_CU(cuMemMap(edge, kGranuleBytes, 0, second, 0));
  ASSERT_CU(allow(address, kGranuleBytes));
  ASSERT_CU(allow(edge, kGranuleBytes, CU_MEM_ACCESS_FLAGS_PROT_READ));
  char two[2] = {'x', 'y'};

  EXPECT_CU(cuMemcpyDtoH(two, edge - 1, 2)) << "both may be read";
  EXPECT_CU_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemcpyHtoD(edge - 1, two, 2));
}

TEST_F(Vmm, ChecksTheProperties) {
  CUmemGenericAllocationHandle handle = 0;
  auto fabric = properties(CU_MEM_HANDLE_TYPE_FABRIC);
  EXPECT_CU_ERROR(CUDA_ERROR_NOT_SUPPORTED, cuMemCreate(&handle, kGranuleBytes, &fabric, 0));
  auto plain = properties();
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, 4096, &plain, 0));
  plain.location.id = 99;
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_DEVICE, cuMemCreate(&handle, kGranuleBytes, &plain, 0));
  plain = properties();
  plain.type = CU_MEM_ALLOCATION_TYPE_INVALID;
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, kGranuleBytes, &plain, 0));
  size_t granularity = 0;
  plain = properties();
  ASSERT_CU(cuMemGetAllocationGranularity(&granularity, &plain, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  EXPECT_EQ(granularity, kGranuleBytes);
}

TEST_F(Vmm, AnExportedDescriptorShowsTheSameBytes) {
  const auto wanted = properties(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CUmemGenericAllocationHandle handle = 0, imported = 0;
  ASSERT_CU(cuMemCreate(&handle, kGranuleBytes, &wanted, 0));
  const CUdeviceptr one = reserve(kGranuleBytes), two = reserve(kGranuleBytes);
  ASSERT_CU(cuMemMap(one, kGranuleBytes, 0, handle, 0));
  ASSERT_CU(allow(one, kGranuleBytes));
  const auto before = filled(100, 'b'), after = filled(100, 'a');
  ASSERT_CU(cuMemcpyHtoD(one, before.data(), 100));

  int fd = -1;
  ASSERT_CU(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  const size_t free_before = free_bytes();
  ASSERT_CU(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  ::close(fd);
  ASSERT_CU(cuMemMap(two, kGranuleBytes, 0, imported, 0));
  ASSERT_CU(allow(two, kGranuleBytes));

  EXPECT_EQ(free_bytes(), free_before) << "imported memory is counted where it was made";
  EXPECT_EQ(read(two, 100), before);
  ASSERT_CU(cuMemcpyHtoD(two, after.data(), 100));
  EXPECT_EQ(read(one, 100), after);
}

TEST_F(Vmm, ReleasingAnImportGivesNothingBack) {
  const auto wanted = properties(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  const size_t before = free_bytes();
  CUmemGenericAllocationHandle handle = 0, imported = 0;
  int fd = -1;
  ASSERT_CU(cuMemCreate(&handle, 4 * kMiB, &wanted, 0));
  ASSERT_CU(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  ASSERT_CU(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  ::close(fd);

  ASSERT_CU(cuMemRelease(imported));
  EXPECT_EQ(before - free_bytes(), 4 * kMiB) << "the memory is the exporter's";
  ASSERT_CU(cuMemRelease(handle));
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(Vmm, RetainsTheHandleBehindAnAddress) {
  const auto handle = create(kGranuleBytes);
  const CUdeviceptr address = reserve(kGranuleBytes);
  ASSERT_CU(cuMemMap(address, kGranuleBytes, 0, handle, 0));
  ASSERT_CU(cuMemRelease(handle));
  EXPECT_CU_ERROR(CUDA_ERROR_INVALID_VALUE, cuMemRelease(handle));

  CUmemGenericAllocationHandle again = 0;
  ASSERT_CU(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(address + 5)));
  EXPECT_EQ(again, handle);
  EXPECT_CU(cuMemRelease(again));
}

}  // namespace cuheap::sim::test
