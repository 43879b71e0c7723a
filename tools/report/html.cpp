#include "tools/report/html.h"

#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tools/report/page_data.h"
#include "tools/report/page_template.h"

namespace cuheap {
namespace {

constexpr std::string_view kPlaceholder = "<!--cuheap:data-->";

/// JSON that cannot end its script element, whatever a program's command line holds.
std::string script_safe(const nlohmann::json& json) {
  const std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<') safe += "\\u003c";
    else safe.push_back(c);
  }
  return safe;
}

}  // namespace

void write_report(const Trace& trace, std::ostream& out, const ReportOptions& options) {
  PageData data = build_page_data(trace, options);
  const std::string_view page = page_template();
  const std::size_t place = page.find(kPlaceholder);
  if (place == page.npos) throw std::logic_error("the page template has no place for the data");

  nlohmann::json sections = nlohmann::json::object();
  for (const PageSection& section : data.sections) sections[section.name()] = section.description();
  data.head["sections"] = std::move(sections);

  out << page.substr(0, place) << "<script type=\"application/json\" id=\"cuheap-head\">" << script_safe(data.head) << "</script>\n";
  for (const PageSection& section : data.sections) {
    out << "<script type=\"application/octet-stream\" id=\"cuheap-" << section.name() << "\">" << section.packed_base64() << "</script>\n";
  }
  out << page.substr(place + kPlaceholder.size());
}

}  // namespace cuheap
