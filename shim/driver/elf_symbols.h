// Looks up symbols of loaded objects by reading their dynamic symbol tables, under dl_iterate_phdr. dlsym and dladdr wait
// for the loader's lock, which another thread may hold inside a constructor while we stand under the host's locks;
// dl_iterate_phdr does not (tests/programs/constructor_blocks).
#pragma once
#include <cstddef>
#include <cstdint>

namespace cuheap {

struct LoadedObject {
  std::uintptr_t base = 0;         // load bias
  std::uintptr_t begin = 0;        // first mapped byte
  std::uintptr_t end = 0;          // behind the last
  const char* path = nullptr;      // as the loader has it; valid while the object is loaded
  const char* soname = nullptr;    // null if it has none
  const void* symbols = nullptr;   // dynamic symbol table
  const char* strings = nullptr;
  const std::uint32_t* gnu_hash = nullptr;
  const std::uint32_t* sysv_hash = nullptr;

  /// The address of a function or object that this object defines; null if it does not (indirect functions too).
  void* find(const char* symbol) const;
  /// Calls visit(name, context) for every function that the object defines.
  void for_each_function(void (*visit)(const char* name, void* context), void* context) const;
};

/// Called for every loaded object in load order until it returns true.
using ObjectVisitor = bool (*)(const LoadedObject& object, void* context);
/// True if some visit returned true. No allocation. Do not load or unload inside the visitor.
bool visit_objects(ObjectVisitor visitor, void* context);

/// The object with this SONAME; false if it is not loaded.
bool find_object(const char* soname, LoadedObject* out);

/// The symbol in the first object that defines it, in load order, skipping the object that holds `not_here`.
void* find_symbol(const char* symbol, const void* not_here);

/// How many objects have been loaded and unloaded so far: changes whenever the answer of a look-up may.
std::uint64_t loads_and_unloads();

}  // namespace cuheap
