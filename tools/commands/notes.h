// Notes of a trace for people: what is no loss but good to know, such as why names are offsets. They go to stderr, as
// what a list says is the same with and without them.
#pragma once
#include "tools/model/trace.h"

namespace cuheap {

/// The first one, and how many more there are. print_losses calls it.
void print_notes(const Trace& trace);

}  // namespace cuheap
