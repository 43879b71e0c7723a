// A process that never touches CUDA: no difference, no file, no thread. Not linked against libcuda.
#include <dirent.h>
#include <dlfcn.h>

#include <cstdio>

int main() {
  int threads = -2;  // "." and ".."
  DIR* const tasks = opendir("/proc/self/task");
  while (tasks != nullptr && readdir(tasks) != nullptr) ++threads;
  std::printf("threads %d\n", threads);
  std::printf("cuInit in the global scope %d\n", dlsym(RTLD_DEFAULT, "cuInit") != nullptr);
  std::printf("error told %d\n", dlerror() != nullptr);
  void* const self = dlopen(nullptr, RTLD_NOW);
  std::printf("cuMemAlloc_v2 in the program %d\n", dlsym(self, "cuMemAlloc_v2") != nullptr);
  std::printf("error told %d\n", dlerror() != nullptr);
  std::printf("no such driver %d\n", dlopen("libcuda_absent.so.1", RTLD_NOW) == nullptr);
}
