#include "tools/reader/definitions.h"

#include <algorithm>

namespace cuheap {
namespace {

constexpr std::uint32_t kDenseIds = 1u << 22;

std::string text(Bytes bytes) {
  return bytes.size == 0 ? std::string() : std::string(bytes.data, bytes.size);
}

Frame source_frame(const FileDefinitions& definitions, const SiteNode& node) {
  Frame frame;
  frame.function = "?";
  frame.line = static_cast<std::uint32_t>(std::min<std::uint64_t>(node.b, 0xffffffffu));
  frame.language = FrameLanguage::Python;
  const auto code = definitions.codes.find(static_cast<std::uint32_t>(node.a));
  if (code == definitions.codes.end()) return frame;
  if (!code->second.function.empty()) frame.function = code->second.function;
  frame.file = code->second.file;
  if (code->second.language == Language::Native) frame.language = FrameLanguage::Native;
  return frame;
}

}  // namespace

void IdMap::set(std::uint32_t id, std::uint32_t value) {
  if (id >= kDenseIds) {
    sparse_[id] = value;
    return;
  }
  if (id >= dense_.size()) dense_.resize(std::max<std::size_t>(id + 1, dense_.size() * 2));
  dense_[id] = value;
}

void FileNumbering::set_device(std::int16_t ordinal, std::int16_t number) {
  if (ordinal < 0) return;
  const std::size_t known = devices.size(), index = static_cast<std::size_t>(ordinal);
  if (index >= known) devices.resize(index + 1);
  for (std::size_t i = known; i < devices.size(); ++i) devices[i] = static_cast<std::int16_t>(i);
  devices[index] = number;
}

void FileDefinitions::take(Decoded kind, const Record& record) {
  switch (kind) {
    case Decoded::SiteNode:
      if (record.site_node.id != 0) nodes.emplace(record.site_node.id, record.site_node);
      break;
    case Decoded::Module:
      modules.emplace(record.module.id,
                      ModuleIdentity{text(record.module.path), text(record.module.build_id), record.module.base});
      break;
    case Decoded::Code:
      codes.emplace(record.code.id, Code{record.code.language, record.code.first_line, text(record.code.function),
                                         text(record.code.file)});
      break;
    case Decoded::Name:
      if (record.name.id != 0) names.emplace(record.name.id, text(record.name.text));
      break;
    case Decoded::Meta:
      meta[text(record.meta.key)] = text(record.meta.value);
      break;
    case Decoded::Device: {
      TraceDevice device;
      device.ordinal = device.seen_as = static_cast<std::int16_t>(record.device.ordinal);
      device.uuid = text(record.device.uuid);
      if (device.uuid.find_first_not_of('\0') == std::string::npos) device.uuid.clear();  // the driver gave none
      device.name = text(record.device.name);
      device.total_bytes = record.device.total_bytes;
      device.major = record.device.major;
      device.minor = record.device.minor;
      device.multiprocessors = record.device.multiprocessors;
      devices.push_back(std::move(device));
      break;
    }
    default:
      break;
  }
}

TraceNumbering::TraceNumbering(Trace& trace) : trace_(trace) {
  trace_.sites.assign(1, Site{});
  trace_.names.assign(1, std::string());
}

FileNumbering TraceNumbering::add(const FileDefinitions& definitions, std::uint16_t process) {
  FileNumbering numbering;
  for (const auto& [id, name] : definitions.names) numbering.names.set(id, name_of(name));
  number_sites(definitions, numbering);
  for (TraceDevice device : definitions.devices) {
    device.process = process;
    device.ordinal = number_of(device);
    numbering.set_device(device.seen_as, device.ordinal);
    trace_.devices.push_back(std::move(device));
  }
  return numbering;
}

/// By the GPU's own name where it is known. Else one ordinal is one device, unless name or size say that it cannot be.
std::int16_t TraceNumbering::number_of(const TraceDevice& device) const {
  const auto same_uuid = [&](const TraceDevice& d) { return !d.uuid.empty() && d.uuid == device.uuid; };
  const auto known = std::find_if(trace_.devices.begin(), trace_.devices.end(), same_uuid);
  if (known != trace_.devices.end()) return known->ordinal;
  const auto differs = [&](const TraceDevice& d) {
    const auto both = [](const auto& a, const auto& b, const auto& none) { return a != none && b != none && a != b; };
    return both(d.uuid, device.uuid, std::string()) || both(d.name, device.name, std::string()) ||
           both(d.total_bytes, device.total_bytes, std::uint64_t{0});
  };
  const auto is_free = [&](std::int16_t number) {
    return std::none_of(trace_.devices.begin(), trace_.devices.end(),
                        [&](const TraceDevice& d) { return d.ordinal == number && differs(d); });
  };
  const auto is_taken = [&](std::int16_t number) {
    return std::any_of(trace_.devices.begin(), trace_.devices.end(), [&](const TraceDevice& d) { return d.ordinal == number; });
  };
  if (is_free(device.seen_as)) return device.seen_as;
  std::int16_t number = 0;
  while (is_taken(number)) ++number;
  return number;
}

NameId TraceNumbering::name_of(const std::string& name) {
  const auto [at, is_new] = names_.emplace(name, static_cast<NameId>(trace_.names.size()));
  if (is_new) trace_.names.push_back(name);
  return at->second;
}

TraceNumbering::NamedNodes TraceNumbering::name_nodes(const FileDefinitions& definitions) {
  NamedNodes named;
  std::map<std::uint32_t, std::vector<const SiteNode*>> by_module;
  for (const auto& [id, node] : definitions.nodes) {
    if (node.kind == FrameKind::Native) {
      by_module[static_cast<std::uint32_t>(node.a)].push_back(&node);
    } else {
      named[id] = {source_frame(definitions, node)};
    }
  }
  for (const auto& [module, nodes] : by_module) {
    const auto found = definitions.modules.find(module);
    const ModuleIdentity identity = found != definitions.modules.end() ? found->second : ModuleIdentity{};
    std::vector<std::uint64_t> offsets;
    for (const SiteNode* node : nodes) offsets.push_back(node->b);
    std::vector<Symbols::Frames> frames = symbols_.resolve(identity, offsets);
    for (std::size_t i = 0; i < nodes.size(); ++i) named[nodes[i]->id] = std::move(frames[i]);
  }
  return named;
}

/// Numbers the nodes parents first. Ids tell nothing of the order, and a damaged file may hold a ring: a node whose
/// parents cannot be followed becomes an outermost one.
void TraceNumbering::number_sites(const FileDefinitions& definitions, FileNumbering& numbering) {
  const NamedNodes named = name_nodes(definitions);
  std::vector<const SiteNode*> path;
  for (const auto& [id, start] : definitions.nodes) {
    path.clear();
    SiteId parent = 0;
    std::map<std::uint32_t, bool> on_path;
    for (std::uint32_t at = id; at != 0;) {
      parent = numbering.sites[at];
      if (parent != 0 || on_path.contains(at)) break;
      const auto node = definitions.nodes.find(at);
      if (node == definitions.nodes.end()) break;
      on_path[at] = true;
      path.push_back(&node->second);
      at = node->second.parent;
    }
    for (auto node = path.rbegin(); node != path.rend(); ++node) {
      parent = site_of(parent, named.at((*node)->id));
      numbering.sites.set((*node)->id, parent);
    }
  }
}

SiteId TraceNumbering::site_of(SiteId parent, const Symbols::Frames& frames) {
  std::vector<std::uint32_t> key;
  for (const Frame& frame : frames) key.push_back(frame_of(frame));
  const auto [at, is_new] = sites_.emplace(std::pair(parent, std::move(key)), static_cast<SiteId>(trace_.sites.size()));
  if (is_new) {
    Site site;
    site.parent = parent;
    site.first_frame = static_cast<std::uint32_t>(trace_.frames.size());
    site.frame_count = static_cast<std::uint32_t>(frames.size());
    trace_.sites.push_back(site);
    trace_.frames.insert(trace_.frames.end(), frames.begin(), frames.end());
  }
  return at->second;
}

std::uint32_t TraceNumbering::frame_of(const Frame& frame) {
  const auto key = std::tuple(frame.function, frame.file, frame.line, frame.module);
  return frame_ids_.emplace(key, static_cast<std::uint32_t>(frame_ids_.size())).first->second;
}

}  // namespace cuheap
