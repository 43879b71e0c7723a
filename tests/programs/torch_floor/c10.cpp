#include "c10.h"

static int reports = 0;

void c10::reportMemoryUsageToProfiler(void*, std::int64_t, std::size_t, std::size_t, Device) { ++reports; }
void c10::reportOutOfMemoryToProfiler(std::int64_t, std::size_t, std::size_t, Device) { ++reports; }
void c10::reportMemoryUsageToProfiler(void*, std::int64_t, std::int64_t, std::int64_t, Device) { ++reports; }
void c10::reportOutOfMemoryToProfiler(std::int64_t, std::int64_t, std::int64_t, Device) { ++reports; }

extern "C" int c10_reports() { return reports; }
