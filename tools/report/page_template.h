// The built page without data, embedded from tools/report/web (see CMakeLists.txt).
#pragma once
#include <string_view>

namespace cuheap {

std::string_view page_template();

}  // namespace cuheap
