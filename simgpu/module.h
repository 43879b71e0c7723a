// Modules and functions: any image loads, any name is a function. Nothing is computed, unless a host function was registered
// for the name (control.h); it then runs in stream order.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace cuheap::sim {

using KernelDouble = void (*)(void** arguments, void* user);

struct Function {
  std::string name;
  Module* module = nullptr;
  std::map<int, int> attributes;   // set by the program
  KernelDouble call = nullptr;
  void* user = nullptr;
};

struct Module {
  std::mutex lock;
  std::map<std::string, Function*> functions;
  std::map<std::string, std::pair<uint64_t, size_t>> globals;
  uint64_t context_id = 0;         // 0: a library, loaded into every context
};

/// The double registered for a kernel name, or null.
KernelDouble find_kernel_double(const std::string& name, void** user);
void register_kernel_double(const std::string& name, KernelDouble call, void* user);

/// How a kernel's time is guessed: a launch costs at least this much of the stream's virtual clock.
inline constexpr uint64_t kKernelCostNs = 5000;

}  // namespace cuheap::sim
