// page_sample KIND EVENTS DIR: writes DIR/4242.cuheap, a sample trace, and DIR/page.html, the report of what the reader gives
// back of it: what the page's browser tests and its bench are fed with, so that they and the command line read one file.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "tests/unit/report/sample_trace.h"
#include "tools/reader/trace_reader.h"
#include "tools/report/html.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: page_sample serving|empty EVENTS DIR\n";
    return 2;
  }
  const auto events = static_cast<std::size_t>(std::strtoull(argv[2], nullptr, 10));
  const std::filesystem::path folder = argv[3];
  std::filesystem::create_directories(folder);
  const bool is_empty = std::strcmp(argv[1], "empty") == 0;
  cuheap::sample::write_trace(is_empty ? cuheap::sample::empty_trace() : cuheap::sample::serving_trace(events),
                              (folder / "4242.cuheap").string());

  const auto begin = std::chrono::steady_clock::now();
  std::ofstream out(folder / "page.html", std::ios::binary);
  cuheap::write_report(cuheap::open_trace(folder.string()), out);
  out.close();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::cout << "{\"write_seconds\": " << took.count() << ", \"bytes\": " << std::filesystem::file_size(folder / "page.html") << "}\n";
  return out.good() ? 0 : 1;
}
