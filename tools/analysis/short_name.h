// short_name: the one line that stands for a stack: the deepest frame of the user's own code. What is not the user's own
// (allocators, runtimes, interpreters, frameworks) is data in short_name.cpp.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "tools/analysis/flame.h"
#include "tools/model/trace.h"

namespace cuheap {

FrameClass classify(const Frame& frame);

/// True for frames that say how memory was asked for, not why: allocators, runtimes, framework internals.
bool is_plumbing(const Frame& frame);

/// True for frames that say how memory was asked for and not why: plumbing, and mere wrappers of an allocator.
bool is_how_not_why(const Frame& frame);

/// How well a frame names its stack, the best first: 0 own code, 1 an own wrapper of an allocator ("device_alloc") or code
/// whose name is not known, 2 a step of a backward pass, 3 what is no allocator, 4 an allocator or a frame without a name,
/// 5 the runtime: libc, interpreters, cuheap itself.
unsigned name_rank(const Frame& frame);
constexpr unsigned kNameRanks = 6;

/// The frame that names a stack: the innermost of the best rank. Null for the empty stack.
const Frame* own_frame(const Trace& trace, SiteId site);

/// A name without its parameters and template arguments.
std::string function_name(const Frame& frame);
/// "file:line"; the module where no line is known.
std::string place_name(const Frame& frame);

/// Own code without a line, such as a library's: its name needs the nearest caller that is_placed.
bool needs_caller(const Frame& own);
bool is_placed(const Frame& frame);

/// "function (file:line)"; where no line is known "function (module), called by function (file:line)"; "no stack" for the
/// empty one.
std::string short_name(const Trace& trace, SiteId site);

/// The name and the user's own callers outside it, up to `callers`: "carve (pool.cpp:66), called by take, by remember". For
/// lists whose rows may all come through one allocator of the program's own.
std::string long_name(const Trace& trace, SiteId site, std::size_t callers);

/// The same for a list that is read together: where two sites would carry one name, both also name their callers ("carve,
/// called by take, by remember_metrics"), as many as it takes to tell them apart, up to four; with their lines ("called by
/// main:4") where those alone differ; none where callers cannot.
std::vector<std::string> short_names(const Trace& trace, std::span<const SiteId> sites);

}  // namespace cuheap
