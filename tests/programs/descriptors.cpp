// A program that closes every descriptor it does not know, and gets their numbers for files of its own: nobody else may write
// into those, and the driver's API goes on.
#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "program.h"

int main() {
  start_cuda();
  const CUdeviceptr early = allocate(20210);
  for (int number = 3; number < 1024; ++number) close(number);
  std::vector<int> files;
  std::string path = "/tmp/cuheap-descriptors-XXXXXX";
  for (int i = 0; i < 900; ++i) {
    std::string name = path;
    const int file = mkstemp(name.data());
    unlink(name.c_str());
    if (file < 0 || write(file, "mine", 4) != 4) return 2;
    files.push_back(file);
  }
  std::printf("files from %d\n", files.front());
  int failures = 0;
  for (int i = 0; i < 50'000; ++i) {
    CUdeviceptr address = 0;
    failures += cuMemAlloc(&address, 20211) != CUDA_SUCCESS;
    failures += cuMemFree(address) != CUDA_SUCCESS;
  }
  std::printf("failures %d\n", failures);
  int touched = 0;
  for (const int file : files) {
    char text[8] = "";
    touched += pread(file, text, sizeof(text), 0) != 4 || std::string(text, 4) != "mine";
  }
  std::printf("touched %d\n", touched);
  SAY(cuMemFree(early));
}
