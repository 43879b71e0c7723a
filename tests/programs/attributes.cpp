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
  SAY(cuMemFree(small));
  SAY(cuMemFree(large));
  ask("freed", large, large);
  ask("foreign", 0x123456789000, 0);
  ask_together("foreign", 0x123456789000, 0);
}
