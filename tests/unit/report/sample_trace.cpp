#include "tests/unit/report/sample_trace.h"

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <random>
#include <utility>

#include "tools/reader/trace_file_writer.h"

namespace cuheap::sample {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20;
constexpr std::uint64_t kSecond = 1000000000ULL;

class VectorSource : public EventSource {
 public:
  explicit VectorSource(std::vector<Event> events) : events_(std::move(events)) {}
  void for_each(const Sink& sink) const override {
    constexpr std::size_t kBatch = 4096;
    for (std::size_t at = 0; at < events_.size(); at += kBatch) {
      sink(std::span(events_).subspan(at, std::min(kBatch, events_.size() - at)));
    }
  }

 private:
  std::vector<Event> events_;
};

/// Builds sites from outermost to innermost frames.
class Stacks {
 public:
  explicit Stacks(Trace& trace) : trace_(trace) { trace_.sites.emplace_back(); }

  SiteId add(std::initializer_list<Frame> outermost_first) {
    SiteId node = 0;
    for (const Frame& frame : outermost_first) node = child(node, frame);
    return node;
  }

 private:
  SiteId child(SiteId parent, const Frame& frame) {
    for (SiteId id = 1; id < trace_.sites.size(); ++id) {
      if (trace_.sites[id].parent == parent && trace_.frames[trace_.sites[id].first_frame] == frame) return id;
    }
    trace_.sites.push_back({parent, static_cast<std::uint32_t>(trace_.frames.size()), 1});
    trace_.frames.push_back(frame);
    return static_cast<SiteId>(trace_.sites.size() - 1);
  }

  Trace& trace_;
};

Frame python(const char* function, const char* file, std::uint32_t line) {
  return {function, file, line, "", FrameLanguage::Python};
}
Frame native(const char* function, const char* file, std::uint32_t line, const char* module) {
  return {function, file, line, module, FrameLanguage::Native};
}

struct Sites {
  SiteId weights, activations, attention, workspace, kv_cache, cache, leak, segment, staging, logits, context;
};

Sites make_sites(Trace& trace) {
  Stacks stacks(trace);
  const Frame start = native("_start", "", 0, "python3.11");
  const Frame interpreter = native("_PyEval_EvalFrameDefault", "Python/ceval.c", 4210, "libpython3.11.so.1.0");
  const Frame main = python("<module>", "/srv/app/serve.py", 212);
  const Frame loop = python("serve_forever", "/srv/app/serve.py", 180);
  const Frame step = python("step", "/srv/app/engine.py", 94);
  const Frame call = python("Module._call_impl", "/usr/lib/python3/site-packages/torch/nn/modules/module.py", 1751);
  const Frame forward = python("Decoder.forward", "/srv/app/model.py", 61);
  const Frame empty = native("at::empty_cuda", "aten/src/ATen/native/cuda/TensorFactories.cu", 88, "libtorch_cuda.so");
  const Frame caching = native("c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc",
                               "c10/cuda/CUDACachingAllocator.cpp", 1411, "libc10_cuda.so");
  const Frame cuda_malloc = native("cudaMalloc", "", 0, "libcudart.so.12");
  const Frame gemm = native("cublasGemmEx", "", 0, "libcublas.so.12");
  Sites sites{};
  sites.weights = stacks.add({start, interpreter, main, python("load", "/srv/app/model.py", 22),
      python("Parameter.to", "/usr/lib/python3/site-packages/torch/nn/parameter.py", 40), empty, caching});
  sites.activations = stacks.add({start, interpreter, main, loop, step, call, forward,
      python("MLP.forward", "/srv/app/model.py", 38), empty, caching});
  sites.attention = stacks.add({start, interpreter, main, loop, step, call, forward,
      python("Attention.forward", "/srv/app/model.py", 49), empty, caching});
  sites.workspace = stacks.add({start, interpreter, main, loop, step, call, forward,
      python("MLP.forward", "/srv/app/model.py", 36), gemm, cuda_malloc});
  sites.kv_cache = stacks.add({start, interpreter, main, python("Engine.__init__", "/srv/app/engine.py", 31), empty,
      caching});
  sites.cache = stacks.add({start, interpreter, main, loop, step,
      python("PromptCache.put", "/srv/app/cache.py", 17), empty, caching});
  sites.leak = stacks.add({start, interpreter, main, loop, step,
      python("Session.remember", "/srv/app/session.py", 73), python("Embedder.__call__", "/srv/app/session.py", 29),
      empty, caching});
  sites.segment = stacks.add({start, interpreter, main, loop, step, call, forward, empty, caching,
      native("c10::cuda::cudaMallocMaybeCapturing", "c10/cuda/CUDACachingAllocator.cpp", 812, "libc10_cuda.so"),
      cuda_malloc});
  sites.staging = stacks.add({start, interpreter, main, loop,
      native("ext::StagingBuffer::grow(unsigned long)", "/srv/app/ext/staging.cpp", 55, "ext.cpython-311-x86_64-linux-gnu.so"),
      native("cudaHostAlloc", "", 0, "libcudart.so.12")});
  sites.logits = stacks.add({start, interpreter, main, loop, step, python("sample", "/srv/app/sampler.py", 12),
      empty, caching});
  sites.context = stacks.add({start, interpreter, main, native("cuDevicePrimaryCtxRetain", "", 0, "libcuda.so.1")});
  return sites;
}

class Recording {
 public:
  void at(std::uint64_t time_ns) { now_ = time_ns; }
  std::size_t size() const { return events_.size(); }

  std::uint64_t allocate(Floor floor, Family family, std::uint64_t size, SiteId site, std::uint64_t address) {
    Event event = base(EventKind::Allocate, floor);
    event.family = family;
    event.address = address;
    event.size = size;
    event.site = site;
    if (family == Family::Pinned) event.device = -1;
    events_.push_back(event);
    return address;
  }
  void free(Floor floor, Family family, std::uint64_t address) {
    Event event = base(EventKind::Free, floor);
    event.family = family;
    event.address = address;
    events_.push_back(event);
  }
  void phase(EventKind kind, PhaseId phase) {
    Event event = base(kind, Floor::None);
    event.phase = phase;
    events_.push_back(event);
  }
  void mark(NameId name) {
    Event event = base(EventKind::Mark, Floor::None);
    event.extra0 = name;
    events_.push_back(event);
  }
  void out_of_memory(std::uint64_t request, std::uint64_t live, std::uint64_t held) {
    Event event = base(EventKind::OutOfMemory, Floor::Framework);
    event.size = request;
    event.extra0 = live;
    event.extra1 = held;
    events_.push_back(event);
  }
  std::vector<Event> take() { return std::move(events_); }

 private:
  Event base(EventKind kind, Floor floor) {
    Event event;
    event.time_ns = now_ += 1700;
    event.kind = kind;
    event.floor = floor;
    event.thread = 4242;
    return event;
  }

  std::uint64_t now_ = 0;
  std::vector<Event> events_;
};

/// A small first-fit caching allocator, so that tensors lie in segments and leave holes as PyTorch's do.
class Segments {
 public:
  Segments(Recording& recording, SiteId site) : recording_(recording), site_(site) {}

  std::uint64_t allocate(std::uint64_t size, SiteId site) {
    size = (size + 511) / 512 * 512;
    for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
      if (hole->second < size) continue;
      const std::uint64_t address = hole->first, rest = hole->second - size;
      holes_.erase(hole);
      if (rest > 0) holes_[address + size] = rest;
      return take(address, size, site);
    }
    const std::uint64_t segment = std::max<std::uint64_t>(20 * kMiB, (size + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB));
    const std::uint64_t address = next_;
    next_ += segment + 2 * kMiB;
    held_ += segment;
    recording_.allocate(Floor::Allocation, Family::Device, segment, site_, address);
    if (segment > size) holes_[address + size] = segment - size;
    return take(address, size, site);
  }
  void free(std::uint64_t address) {
    recording_.free(Floor::Framework, Family::Tensor, address);
    const std::uint64_t size = sizes_[address];
    live_ -= size;
    sizes_.erase(address);
    auto hole = holes_.emplace(address, size).first;
    if (const auto next = std::next(hole); next != holes_.end() && hole->first + hole->second == next->first) {
      hole->second += next->second;
      holes_.erase(next);
    }
    if (hole != holes_.begin()) {
      if (const auto previous = std::prev(hole); previous->first + previous->second == hole->first) {
        previous->second += hole->second;
        holes_.erase(hole);
      }
    }
  }
  std::uint64_t live() const { return live_; }
  std::uint64_t held() const { return held_; }

 private:
  std::uint64_t take(std::uint64_t address, std::uint64_t size, SiteId site) {
    sizes_[address] = size;
    live_ += size;
    return recording_.allocate(Floor::Framework, Family::Tensor, size, site, address);
  }

  Recording& recording_;
  SiteId site_;
  std::map<std::uint64_t, std::uint64_t> holes_, sizes_;
  std::uint64_t next_ = 0x7f4000000000ULL, live_ = 0, held_ = 0;
};

void describe(Trace& trace) {
  trace.path = "sample";
  trace.ground = Ground::Simulated;
  trace.names = {"", "load", "warm-up", "serve", "checkpoint"};
  Process process;
  process.file = "sample/4242.cuheap";
  process.pid = 4242;
  process.start_wall_ns = 1790000000ULL * kSecond;
  process.ended_orderly = true;
  process.meta = {{"command", "python serve.py --model small --sessions 64 </script><b>"}, {"torch", "2.11.0"}, {"python", "3.11.9"},
                  {"driver", "13.0"}, {"host", "node-17"}, {"ground", "simulated"}};
  trace.processes.push_back(process);
  trace.devices.push_back({0, 0, "Simulated RTX 4090", 24 * 1024 * kMiB, 8, 9, 128, 0, ""});
}

}  // namespace

Trace serving_trace(std::size_t events) {
  Trace trace;
  describe(trace);
  const Sites sites = make_sites(trace);
  Recording recording;
  Segments segments(recording, sites.segment);
  std::mt19937_64 random(7);
  const auto between = [&](std::uint64_t low, std::uint64_t high) { return low + random() % (high - low); };

  recording.at(kSecond / 2);
  recording.phase(EventKind::PhaseBegin, 1);
  recording.allocate(Floor::Physical, Family::Handle, 396 * kMiB, sites.context, 0x1000);
  recording.allocate(Floor::Allocation, Family::Pinned, 256 * kMiB, sites.staging, 0x600000000000ULL);
  for (int i = 0; i < 64; ++i) {
    recording.at(kSecond + static_cast<std::uint64_t>(i) * kSecond / 20);
    segments.allocate(96 * kMiB + static_cast<std::uint64_t>(i % 4) * 4 * kMiB, sites.weights);
  }
  const std::uint64_t kv_cache = segments.allocate(6 * 1024 * kMiB, sites.kv_cache);
  recording.phase(EventKind::PhaseEnd, 1);

  std::deque<std::uint64_t> cached;
  std::size_t request = 0;
  const std::size_t spike = std::max<std::size_t>(events / 3, 1);
  bool spiked = false;
  recording.phase(EventKind::PhaseBegin, 2);
  for (; recording.size() < events; ++request) {
    recording.at(5 * kSecond + request * 37 * kSecond / 1000);
    if (request == 40) {
      recording.phase(EventKind::PhaseEnd, 2);
      recording.phase(EventKind::PhaseBegin, 3);
    }
    std::vector<std::uint64_t> scratch;
    for (int layer = 0; layer < 6; ++layer) {
      scratch.push_back(segments.allocate(between(kMiB, 24 * kMiB), sites.activations));
      scratch.push_back(segments.allocate(between(kMiB, 40 * kMiB), sites.attention));
    }
    const std::uint64_t workspace = 0x7f8000000000ULL;
    recording.allocate(Floor::Allocation, Family::Device, 32 * kMiB, sites.workspace, workspace);
    if (!spiked && recording.size() > spike) {
      spiked = true;
      scratch.push_back(segments.allocate(3 * 1024 * kMiB, sites.logits));
    }
    scratch.push_back(segments.allocate(between(kMiB, 64 * kMiB), sites.logits));
    cached.push_back(segments.allocate(between(8 * kMiB, 12 * kMiB), sites.cache));
    segments.allocate(38912, sites.leak);
    recording.free(Floor::Allocation, Family::Device, workspace);
    for (const std::uint64_t address : scratch) segments.free(address);
    if (cached.size() > 64) {
      segments.free(cached.front());
      cached.pop_front();
    }
    if (request % 200 == 199) recording.mark(4);
  }
  recording.out_of_memory(9 * 1024 * kMiB, segments.live(), segments.held());
  recording.phase(EventKind::PhaseEnd, 3);
  segments.free(kv_cache);

  std::vector<Event> list = recording.take();
  trace.event_count = list.size();
  trace.end_ns = list.back().time_ns + kSecond;
  trace.processes.front().end_ns = trace.end_ns;
  trace.events = std::make_shared<VectorSource>(std::move(list));
  return trace;
}

Trace empty_trace() {
  Trace trace;
  describe(trace);
  trace.sites.emplace_back();
  trace.end_ns = kSecond;
  trace.events = std::make_shared<VectorSource>(std::vector<Event>());
  return trace;
}

void write_trace(const Trace& trace, const std::string& path) {
  const Process& process = trace.processes.front();
  TraceFileWriter::Options options;
  options.pid = process.pid;
  options.start_ns = trace.start_ns;
  options.start_wall_ns = process.start_wall_ns;
  TraceFileWriter writer(path, options);
  for (const auto& [key, value] : process.meta) writer.define_meta(key, value);
  for (const TraceDevice& device : trace.devices) {
    writer.define_device(static_cast<std::uint32_t>(device.ordinal), device.name, device.total_bytes);
  }
  std::vector<NameId> names{0};
  for (std::size_t i = 1; i < trace.names.size(); ++i) names.push_back(writer.define_name(trace.names[i]));
  std::vector<SiteId> sites{0};
  for (std::size_t i = 1; i < trace.sites.size(); ++i) {
    const Frame& frame = trace.frames[trace.sites[i].first_frame];
    const Language language = frame.language == FrameLanguage::Python ? Language::Python : Language::Native;
    const std::uint32_t code = writer.define_code(language, frame.function, frame.file);
    sites.push_back(writer.define_source_site(sites[trace.sites[i].parent], code, frame.line));
  }
  trace.events->for_each([&](std::span<const Event> events) {
    for (Event event : events) {
      event.site = sites[event.site];
      event.phase = names[event.phase];
      if (event.kind == EventKind::Mark) event.extra0 = names[event.extra0];
      writer.write(event);
    }
  });
  writer.finish(trace.end_ns);
}

}  // namespace cuheap::sample
