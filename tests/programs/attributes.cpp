// What a program may ask about a pointer: base, interior, freed, foreign; one by one and many at once.
#include "program.h"

static void ask(const char* what, CUdeviceptr address, CUdeviceptr base) {
  CUcontext current = nullptr, owner = nullptr;
  cuCtxGetCurrent(&current);
  std::printf("%s context %d", what, cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, address));
  std::printf(" own %d\n", owner == current);
  unsigned type = 99;
  std::printf("%s type %d", what, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
  std::printf(" %u\n", type);
  CUdeviceptr device_pointer = 0, start = 0;
  std::printf("%s device pointer %d", what, cuPointerGetAttribute(&device_pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address));
  std::printf(" same %d\n", device_pointer == address);
  size_t size = 0;
  std::printf("%s start %d", what, cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address));
  std::printf(" base %d\n", start == base);
  std::printf("%s size %d", what, cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address));
  std::printf(" %zu\n", size);
  int ordinal = -1;
  bool managed = true, mapped = false;
  std::printf("%s ordinal %d", what, cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
  std::printf(" %d\n", ordinal);
  std::printf("%s managed %d", what, cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address));
  std::printf(" %d\n", managed);
  std::printf("%s mapped %d", what, cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, address));
  std::printf(" %d\n", mapped);
  start = 0;
  size = 0;
  std::printf("%s range %d", what, cuMemGetAddressRange(&start, &size, address));
  std::printf(" base %d size %zu\n", start == base, size);
}

static void ask_together(const char* what, CUdeviceptr address, CUdeviceptr base) {
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                 CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  unsigned type = 99;
  CUdeviceptr start = 1;
  size_t size = 1;
  int ordinal = 77;
  void* data[] = {&type, &start, &size, &ordinal};
  std::printf("%s together %d:", what, cuPointerGetAttributes(4, which, data, address));
  std::printf(" type %u base %d size %zu ordinal %d\n", type, start == base, size, ordinal);
}

static unsigned long long buffer_id(CUdeviceptr address) {
  unsigned long long id = 0;
  std::printf("buffer id %d", cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address));
  std::printf(" set %d\n", id != 0);
  return id;
}

// Memory of cuMemAlloc is not mapped memory: what is meant for that is refused, and the block is what it was.
static void treat_as_mapped(const char* what, CUdeviceptr address, size_t size) {
  std::printf("%s\n", what);
  CUmemGenericAllocationHandle handle = 0, own = 0;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  unsigned long long flags = 77;
  SAY(cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(address)));
  SAY(cuMemGetAccess(&flags, &access.location, address));
  std::printf("untouched %d %d\n", handle == 0, flags == 77);
  SAY(cuMemSetAccess(address, size, &access, 1));
  SAY(cuMemUnmap(address, size));
  SAY(cuMemAddressFree(address, size));
  SAY(cuMemCreate(&own, size, &properties, 0));
  SAY(cuMemMap(address, size, 0, own, 0));
  SAY(cuMemMap(address + (64 << 20), size, 0, own, 0));  // nothing is there
  SAY(cuMemRelease(own));
  SAY(cuMemsetD8(address, 1, size));
  SAY(cuCtxSynchronize());
}

static void synchronise(const char* what, CUdeviceptr address) {
  std::printf("%s\n", what);
  unsigned on = 1, off = 0, now = 77;
  const auto ask = [&] {
    std::printf("get %d", cuPointerGetAttribute(&now, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
    std::printf(" is %u\n", now);
  };
  ask();
  SAY(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
  ask();
  SAY(cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
  ask();
  SAY(cuPointerSetAttribute(nullptr, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
  SAY(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_BUFFER_ID, address));
}

int main() {
  start_cuda();
  const CUdeviceptr small = allocate(20160), large = allocate((3 << 20) + 512);
  ask("base", small, small);
  ask("interior", small + 1000, small);
  ask("large", large, large);
  ask("large interior", large + (2 << 20) + 4096, large);
  ask_together("interior", large + 512, large);
  const unsigned long long first = buffer_id(small), second = buffer_id(large);
  std::printf("buffer ids differ %d\n", first != second);
  const CUdeviceptr whole = allocate(4 << 20);
  treat_as_mapped("mapped?", whole, 4 << 20);
  treat_as_mapped("a part of it?", whole, 2 << 20);
  SAY(cuMemFree(whole));
  synchronise("memory operations", large);
  synchronise("of its inside", large + 4096);
  SAY(cuMemFree(small));
  SAY(cuMemFree(large));
  synchronise("of what is freed", large);
  ask("freed", large, large);
  ask("foreign", 0x123456789000, 0);
  ask_together("foreign", 0x123456789000, 0);
  synchronise("of a new one", allocate((3 << 20) + 512));
}
