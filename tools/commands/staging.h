// Where a run is recorded that shall lie on a network file system: into a local folder, moved at the end. A trace is
// written through shared mappings, and those are safe only where this machine's kernel owns the pages.
#pragma once
#include <optional>
#include <string>

namespace cuheap {

/// A new folder below TMPDIR, /tmp or /var/tmp, if `directory` is on a network file system or `is_wanted`, and says so.
/// None: `directory` itself will do, or there is no better place.
std::optional<std::string> make_staging_folder(const std::string& directory, bool is_wanted);

/// Moves what processes that have ended recorded; says what stays behind, and where.
void move_traces(const std::string& from, const std::string& to);

}  // namespace cuheap
