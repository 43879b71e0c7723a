// After a run: gives back the disk space that recorded processes had reserved and did not use. Those that ended in order
// did it themselves; a killed one, or one that left by _exit, could not.
#pragma once
#include <string>

namespace cuheap {

/// Every trace of the directory whose writer is gone; the others stay as they are. Never fails: it is only space.
void trim_traces(const std::string& directory);

/// Whether nobody can write that file any more.
bool is_writer_gone(const std::string& path);

}  // namespace cuheap
