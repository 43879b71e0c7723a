// PageData: everything the page shows, aggregated: a small JSON head that can be drawn at once, and sections of packed
// columns that the page unpacks when it needs them. Made from a Trace by the analyses; html.cpp writes it.
#pragma once
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/report/columns.h"
#include "tools/report/html.h"

namespace cuheap {

struct PageData {
  nlohmann::json head;
  std::vector<PageSection> sections;
};

PageData build_page_data(const Trace& trace, const ReportOptions& options);

}  // namespace cuheap
