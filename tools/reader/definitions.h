// Definitions: what the records of one file define, as the file numbers it; and the numbering of a merged trace that
// they are mapped to. The reader fills the first from chunks and the second from all files.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "tools/model/trace.h"
#include "tools/reader/symbols.h"
#include "tracer/format/codec.h"

namespace cuheap {

/// Ids of a file -> numbers of the trace. Dense where ids are small; a damaged file with an id of four billion costs an
/// entry, not gigabytes.
class IdMap {
 public:
  void set(std::uint32_t id, std::uint32_t value);
  std::uint32_t operator[](std::uint32_t id) const {  // 0: unknown
    if (id < dense_.size()) return dense_[id];
    if (sparse_.empty()) return 0;
    const auto found = sparse_.find(id);
    return found == sparse_.end() ? 0 : found->second;
  }

 private:
  std::vector<std::uint32_t> dense_;
  std::unordered_map<std::uint32_t, std::uint32_t> sparse_;
};

struct FileDefinitions {
  struct Code {
    Language language = Language::Python;
    std::uint32_t first_line = 0;
    std::string function, file;
  };
  std::map<std::uint32_t, SiteNode> nodes;
  std::map<std::uint32_t, ModuleIdentity> modules;
  std::map<std::uint32_t, Code> codes;
  std::map<std::uint32_t, std::string> names;
  std::map<std::string, std::string> meta;
  std::vector<TraceDevice> devices;

  /// Takes one decoded definition; other kinds are none of its business.
  void take(Decoded kind, const Record& record);
};

/// How the ids of one file read in the trace.
struct FileNumbering {
  IdMap sites;
  IdMap names;
  std::vector<std::int16_t> devices;  // by ordinal
  void set_device(std::int16_t ordinal, std::int16_t number);
  std::int16_t device(std::int16_t ordinal) const {  // as it is where nothing was defined; the host stays the host
    return ordinal >= 0 && static_cast<std::size_t>(ordinal) < devices.size() ? devices[static_cast<std::size_t>(ordinal)] : ordinal;
  }
};

/// Puts the definitions of one file after another into a trace, equal stacks and names under one number.
class TraceNumbering {
 public:
  explicit TraceNumbering(Trace& trace);
  FileNumbering add(const FileDefinitions& definitions, std::uint16_t process);
  const std::vector<std::string>& notes() const { return symbols_.notes(); }

 private:
  using NamedNodes = std::unordered_map<std::uint32_t, Symbols::Frames>;
  NamedNodes name_nodes(const FileDefinitions& definitions);
  SiteId site_of(SiteId parent, const Symbols::Frames& frames);
  std::uint32_t frame_of(const Frame& frame);
  NameId name_of(const std::string& name);
  std::int16_t number_of(const TraceDevice& device) const;
  void number_sites(const FileDefinitions& definitions, FileNumbering& numbering);

  Trace& trace_;
  Symbols symbols_;
  std::map<std::string, NameId> names_;
  std::map<std::tuple<std::string, std::string, std::uint32_t, std::string>, std::uint32_t> frame_ids_;
  std::map<std::pair<SiteId, std::vector<std::uint32_t>>, SiteId> sites_;
};

}  // namespace cuheap
