#include "tools/report/page_template.h"

extern "C" const char cuheap_page_template_begin[];
extern "C" const char cuheap_page_template_end[];

namespace cuheap {

std::string_view page_template() {
  return {cuheap_page_template_begin, static_cast<std::size_t>(cuheap_page_template_end - cuheap_page_template_begin)};
}

}  // namespace cuheap
