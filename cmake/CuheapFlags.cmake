# Two dialects: code that runs inside somebody else's process, and ordinary offline C++.
option(CUHEAP_CHECKS "Debug checks: assertions, invariants, the self-audit" ON)
option(CUHEAP_WERROR "A warning fails the build, as in CI; off for users, whose compiler may warn where ours does not" OFF)
set(CUHEAP_SANITIZE "" CACHE STRING "Sanitizers for tools and unit tests, e.g. address,undefined")

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

add_library(cuheap_tool_flags INTERFACE)
target_link_libraries(cuheap_tool_flags INTERFACE cuheap_warnings)
target_include_directories(cuheap_tool_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(cuheap_tool_flags INTERFACE CUHEAP_VERSION="${PROJECT_VERSION}")

if(CUHEAP_SANITIZE)
  # The preload library itself is never sanitized: the sanitizer's runtime must come first in a process.
  # Unit tests link the host code statically, so there it is checked like everything else.
  set(CUHEAP_SANITIZE_FLAGS -fsanitize=${CUHEAP_SANITIZE} -fno-omit-frame-pointer)
  target_compile_options(cuheap_tool_flags INTERFACE ${CUHEAP_SANITIZE_FLAGS})
  target_link_options(cuheap_tool_flags INTERFACE ${CUHEAP_SANITIZE_FLAGS})
endif()
