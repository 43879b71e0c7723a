# Two dialects: code that runs inside somebody else's process, and ordinary offline C++.
option(CUHEAP_CHECKS "Debug checks: assertions, invariants, the self-audit" ON)
option(CUHEAP_WERROR "A warning fails the build, as in CI; off for users, whose compiler may warn where ours does not" OFF)
set(CUHEAP_SANITIZE "" CACHE STRING "Sanitizers for tools, unit tests and the host code that they link, e.g. address,undefined")

add_library(cuheap_warnings INTERFACE)
target_compile_options(cuheap_warnings INTERFACE
  -Wall -Wextra -Wundef -Wshadow $<$<COMPILE_LANGUAGE:CXX>:-Wconversion -Wno-sign-conversion>
  $<$<BOOL:${CUHEAP_WERROR}>:-Werror>
  # GCC 12 and 13 report an overlap in std::string's operator+ that is not there (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
if(CUHEAP_CHECKS)
  target_compile_definitions(cuheap_warnings INTERFACE CUHEAP_CHECKS=1)
  # RelWithDebInfo defines NDEBUG; a checked build keeps its assertions.
  target_compile_options(cuheap_warnings INTERFACE -UNDEBUG)
else()
  target_compile_definitions(cuheap_warnings INTERFACE CUHEAP_CHECKS=0)
endif()

# In the host: nothing throws, nothing is visible, no C++ runtime (style 4.2, H1, H2, H4).
# -fno-threadsafe-statics: a guarded static would import __cxa_guard_acquire from libstdc++.
add_library(cuheap_host_flags INTERFACE)
target_link_libraries(cuheap_host_flags INTERFACE cuheap_warnings)
target_compile_options(cuheap_host_flags INTERFACE
  -fvisibility=hidden -fno-plt -ftls-model=initial-exec -fno-stack-protector
  $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti -fno-threadsafe-statics -fvisibility-inlines-hidden>)
target_include_directories(cuheap_host_flags INTERFACE ${CMAKE_SOURCE_DIR})

# What runs under a sanitizer when the preset asks for one: tools, tests, and the archives of host code that unit tests link.
# Programs, simgpu and libcuheap.so itself stay plain: a preloaded library cannot bring a sanitizer's runtime, which must come
# first in a process; shim/CMakeLists.txt builds libcuheap.so from plain objects of its own then.
add_library(cuheap_sanitized INTERFACE)
if(CUHEAP_SANITIZE)
  # vptr: the host code has no type information (-fno-rtti) to check against.
  set(sanitize_flags -fsanitize=${CUHEAP_SANITIZE} -fno-sanitize=vptr -fno-omit-frame-pointer)
  target_compile_options(cuheap_sanitized INTERFACE ${sanitize_flags})
  target_link_options(cuheap_sanitized INTERFACE ${sanitize_flags})
  target_compile_definitions(cuheap_sanitized INTERFACE CUHEAP_SANITIZED=1)
endif()

add_library(cuheap_tool_flags INTERFACE)
target_link_libraries(cuheap_tool_flags INTERFACE cuheap_warnings cuheap_sanitized)
target_include_directories(cuheap_tool_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(cuheap_tool_flags INTERFACE CUHEAP_VERSION="${PROJECT_VERSION}")
