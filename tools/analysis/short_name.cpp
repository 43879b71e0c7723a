#include "tools/analysis/short_name.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace cuheap {
namespace {

using std::string_view;

// Where a pattern is looked for. `Prefix` also matches whole words: the function itself without its arguments.
enum class Field : std::uint8_t { Module, FilePart, FunctionPrefix, FunctionPart };

struct Pattern {
  Field field;
  string_view text;
};

// Libraries of the vendor: colour only, and plumbing.
constexpr Pattern kCudaLibraries[] = {
    {Field::Module, "libcuda.so"},   {Field::Module, "libcudart"},  {Field::Module, "libcublas"},  {Field::Module, "libcudnn"},
    {Field::Module, "libnccl"},      {Field::Module, "libcufft"},   {Field::Module, "libcusolver"}, {Field::Module, "libcusparse"},
    {Field::Module, "libcurand"},    {Field::Module, "libnvrtc"},   {Field::Module, "libnvJitLink"}, {Field::Module, "libnvidia"},
    {Field::Module, "libnvshmem"},   {Field::Module, "libcupti"},
};

// Starts programs, interprets code, wraps calls: never what a person looks for.
constexpr Pattern kRuntime[] = {
    {Field::Module, "libc.so"},      {Field::Module, "libc-"},      {Field::Module, "libpthread"}, {Field::Module, "ld-linux"},
    {Field::Module, "libstdc++"},    {Field::Module, "libgcc_s"},   {Field::Module, "libcuheap"},  {Field::Module, "libpython"},
    {Field::Module, "python3"},      {Field::Module, "libffi"},     {Field::Module, "_ctypes"},    {Field::Module, "_cffi_backend"},
    {Field::FunctionPrefix, "_start"},        {Field::FunctionPrefix, "__libc_"},      {Field::FunctionPrefix, "start_thread"},
    {Field::FunctionPrefix, "clone"},         {Field::FunctionPrefix, "__clone"},       {Field::FunctionPrefix, "execute_native_thread"},
    {Field::FunctionPrefix, "pthread_"},     {Field::FunctionPrefix, "thread_start"},
    {Field::FunctionPrefix, "pymain_"},       {Field::FunctionPrefix, "cfunction_"},   {Field::FunctionPrefix, "method_vectorcall"},
    {Field::FunctionPrefix, "vectorcall_"},   {Field::FunctionPrefix, "slot_tp_"},     {Field::FunctionPrefix, "type_call"},
    {Field::FunctionPrefix, "object_vacall"}, {Field::FunctionPrefix, "std::"},        {Field::FunctionPrefix, "__gnu_cxx::"},
    {Field::FunctionPrefix, "unwind::"},      {Field::FunctionPrefix, "torch::unwind::"}, {Field::FunctionPrefix, "_Py_"},
    {Field::FunctionPart, "CapturedTraceback::gather"}, {Field::FunctionPart, "gather_with_cpp"},
    {Field::FilePart, "core/boxing/"},        {Field::FilePart, "pythonrun.c"},        {Field::FilePart, "Modules/main.c"},
    {Field::FilePart, "Objects/call.c"},      {Field::FilePart, "methodobject.c"},     {Field::FilePart, "ceval.c"},
    {Field::FilePart, "pycore_"},             {Field::FilePart, "<frozen "},           {Field::FilePart, "/contextlib.py"},
    {Field::FilePart, "/runpy.py"},           {Field::FilePart, "/threading.py"},      {Field::FilePart, "/concurrent/futures/"},
};

// Frameworks and allocators: real code, but not the user's.
constexpr Pattern kFrameworks[] = {
    {Field::Module, "libc10"},        {Field::Module, "libtorch"},        {Field::Module, "libcaffe2"},   {Field::Module, "libshm"},
    {Field::Module, "libtriton"},     {Field::Module, "librmm"},          {Field::Module, "libjax"},      {Field::Module, "xla_extension"},
    {Field::Module, "libtensorflow"}, {Field::Module, "_C.cpython"},
    {Field::FilePart, "/site-packages/torch/"},   {Field::FilePart, "/dist-packages/torch/"},   {Field::FilePart, "/torch/nn/"},
    {Field::FilePart, "/torch/_ops"},             {Field::FilePart, "/torch/autograd/"},        {Field::FilePart, "/torch/optim/"},
    {Field::FilePart, "/torch/utils/"},           {Field::FilePart, "/torch/cuda/"},            {Field::FilePart, "/torch/_"},
    {Field::FilePart, "/torch/csrc/"},            {Field::FilePart, "/aten/src/"},              {Field::FilePart, "/c10/"},
    {Field::FilePart, "/site-packages/triton/"},  {Field::FilePart, "/site-packages/cupy/"},    {Field::FilePart, "/site-packages/rmm/"},
    {Field::FilePart, "/site-packages/jax/"},     {Field::FilePart, "/site-packages/numpy/"},   {Field::FilePart, "/site-packages/einops/"},
    {Field::FilePart, "/functools.py"},           {Field::FilePart, "/site-packages/cuheap/"},
    {Field::FunctionPrefix, "c10::"},  {Field::FunctionPrefix, "at::"},     {Field::FunctionPrefix, "torch::"},
    {Field::FunctionPrefix, "caffe2::"}, {Field::FunctionPrefix, "THPVariable_"}, {Field::FunctionPrefix, "THPFunction_"},
    {Field::FunctionPrefix, "pybind11::"}, {Field::FunctionPrefix, "rmm::"}, {Field::FunctionPrefix, "thrust::"},
    {Field::FunctionPrefix, "cub::"},  {Field::FunctionPrefix, "cuMem"},    {Field::FunctionPrefix, "cudaMalloc"},
    {Field::FunctionPrefix, "cudaHost"}, {Field::FunctionPrefix, "cudaFree"}, {Field::FunctionPrefix, "__cudart"},
    {Field::FunctionPrefix, "cudart::"}, {Field::FunctionPrefix, "cuArray"}, {Field::FunctionPrefix, "ncclMem"},
    {Field::FunctionPrefix, "cuheap::sim::"},
};

// Only says how memory was obtained: what names a stack that is plumbing all through is the innermost frame outside these.
constexpr Pattern kAllocators[] = {
    {Field::FunctionPrefix, "c10::"},             {Field::FunctionPrefix, "at::detail::"},   {Field::FunctionPart, "::empty_strided"},
    {Field::FunctionPart, "::empty_cuda"},        {Field::FunctionPart, "::empty_memory_format"}, {Field::FunctionPart, "::create_out("},
    {Field::FunctionPart, "set_output_raw_strided"}, {Field::FunctionPart, "TensorIteratorBase::"}, {Field::FunctionPrefix, "cuMem"},
    {Field::FunctionPrefix, "cudaMalloc"},        {Field::FunctionPrefix, "rmm::"},         {Field::Module, "libc10"},
    {Field::FunctionPart, "CachingAllocator"},    {Field::FunctionPart, "caching_allocator"},
    // The driver and the runtime, the stand-ins of both included.
    {Field::Module, "libcuda.so"},                {Field::Module, "libcudart"},             {Field::FunctionPrefix, "cudart::"},
    {Field::FunctionPrefix, "cuheap::sim::"},     {Field::FunctionPrefix, "__cudart"},
};

// The step of a backward pass: there is no Python on its thread.
constexpr Pattern kBackward[] = {{Field::FunctionPart, "Backward"}, {Field::FunctionPart, "AccumulateGrad"}};

std::string bare_function(string_view name);

// PyObject_Call, _PyEval_...: the interpreter, and what the nearest exported name of a stripped one happens to be.
bool is_interpreter(const Frame& frame) {
  if (frame.language != FrameLanguage::Native) return false;
  string_view name = frame.function;
  if (name.starts_with("_")) name.remove_prefix(1);
  return name.size() > 2 && name.starts_with("Py") && name[2] >= 'A' && name[2] <= 'Z' && name.find("::") == string_view::npos;
}

// A function whose name is made of nothing but these, one of them an allocation, wraps an allocator: its caller says more.
constexpr string_view kAllocationWords[] = {"alloc", "allocate", "malloc", "calloc", "allocation", "new"};
constexpr string_view kWrapperWords[] = {
    "device",  "gpu",   "cuda", "mem",    "memory", "do",  "checked", "check", "safe",  "raw", "try",
    "aligned", "async", "host", "pinned", "my",     "get", "buffer",  "bytes", "block", "x",   "operator"};

bool is_wrapper(const Frame& frame) {
  std::string name = bare_function(frame.function);
  if (const std::size_t colon = name.rfind("::"); colon != std::string::npos) name.erase(0, colon + 2);
  bool allocates = false;
  std::string word;
  const auto known = [&] {  // of the word just read; an empty one is fine
    const auto is = [&](string_view w) { return w == word; };
    const bool allocation = std::any_of(std::begin(kAllocationWords), std::end(kAllocationWords), is);
    allocates |= allocation;
    const bool ok = word.empty() || allocation || std::any_of(std::begin(kWrapperWords), std::end(kWrapperWords), is);
    word.clear();
    return ok;
  };
  for (const char c : name) {
    const bool upper = c >= 'A' && c <= 'Z', letter = upper || (c >= 'a' && c <= 'z');
    if ((upper || !letter) && !known()) return false;
    if (letter) word += static_cast<char>(upper ? c - 'A' + 'a' : c);
  }
  return known() && allocates;
}

bool matches(const Pattern& pattern, const Frame& frame) {
  switch (pattern.field) {
    case Field::Module: {
      const std::size_t slash = frame.module.rfind('/');
      return string_view(frame.module).substr(slash == std::string::npos ? 0 : slash + 1).find(pattern.text) != string_view::npos;
    }
    case Field::FilePart:  // a library without debug information has no file but its own
      return (frame.file.empty() ? frame.module : frame.file).find(pattern.text) != std::string::npos;
    case Field::FunctionPrefix: {  // demangled names may begin with their type
      if (frame.function.starts_with(pattern.text)) return true;
      return frame.language == FrameLanguage::Native && frame.function.find(pattern.text) != std::string::npos &&
             bare_function(frame.function).starts_with(pattern.text);
    }
    case Field::FunctionPart: return frame.function.find(pattern.text) != std::string::npos;
  }
  return false;
}

template <std::size_t N>
bool any(const Pattern (&patterns)[N], const Frame& frame) {
  return std::any_of(std::begin(patterns), std::end(patterns), [&](const Pattern& p) { return matches(p, frame); });
}

string_view last_part(string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == string_view::npos ? path : path.substr(slash + 1);
}

// Arguments and return types make a name unreadable; templates too.
std::string bare_function(string_view name) {
  std::string result;
  int angle = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (c == '<' && i != 0 && name.substr(0, i).find("operator") == string_view::npos) { ++angle; continue; }
    if (c == '>' && angle > 0) { --angle; continue; }
    if (angle > 0) continue;
    if (c == '(' && name.substr(i).starts_with("(anonymous namespace)")) {
      i += string_view("(anonymous namespace)").size() - 1;
      if (name.substr(i + 1).starts_with("::")) i += 2;
      continue;
    }
    if (c == '(' && !result.ends_with("operator")) break;
    result += c;
  }
  const std::size_t space = result.rfind(' ');
  if (space != std::string::npos && result.find("operator") == std::string::npos) result.erase(0, space + 1);
  return result.empty() ? std::string(name) : result;
}

}  // namespace

FrameClass classify(const Frame& frame) {
  if (is_interpreter(frame) || any(kRuntime, frame)) return FrameClass::Runtime;
  if (frame.language == FrameLanguage::Python) return FrameClass::Python;
  return any(kCudaLibraries, frame) ? FrameClass::CudaLibrary : FrameClass::Native;
}

bool is_plumbing(const Frame& frame) {
  if (frame.function.empty() || frame.function == "?") return true;
  return is_interpreter(frame) || any(kRuntime, frame) || any(kCudaLibraries, frame) || any(kFrameworks, frame);
}

bool is_how_not_why(const Frame& frame) { return is_plumbing(frame) || is_wrapper(frame); }

unsigned name_rank(const Frame& frame) {
  const bool is_nameless = frame.language == FrameLanguage::Native && frame.function.find("+0x") != std::string::npos;
  if (!is_plumbing(frame)) return is_wrapper(frame) || is_nameless ? 1 : 0;
  if (any(kBackward, frame)) return 2;
  if (classify(frame) == FrameClass::Runtime) return 5;
  return frame.function.empty() || frame.function == "?" || any(kAllocators, frame) ? 4 : 3;
}

bool is_placed(const Frame& frame) { return frame.line != 0 && name_rank(frame) == 0; }

bool needs_caller(const Frame& own) { return own.line == 0 && name_rank(own) == 0; }

std::string function_name(const Frame& frame) {
  return frame.language == FrameLanguage::Python ? frame.function : bare_function(frame.function);
}

std::string place_name(const Frame& frame) {
  if (frame.line != 0) return std::string(last_part(frame.file)) + ":" + std::to_string(frame.line);
  return std::string(last_part(frame.module.empty() ? frame.file : frame.module));
}

const Frame* own_frame(const Trace& trace, SiteId site) {
  const Frame* best[kNameRanks] = {};
  for (; site != 0 && site < trace.sites.size(); site = trace.sites[site].parent) {
    const Site& node = trace.sites[site];
    for (std::uint32_t i = 0; i < node.frame_count && node.first_frame + i < trace.frames.size(); ++i) {
      const Frame& frame = trace.frames[node.first_frame + i];
      const unsigned rank = name_rank(frame);
      if (rank == 0) return &frame;
      if (best[rank] == nullptr) best[rank] = &frame;
    }
    if (node.parent >= site) break;  // a parent is older than its children; anything else is damage
  }
  for (const Frame* frame : best) if (frame != nullptr) return frame;
  return nullptr;
}

namespace {

std::string with_place(const Frame& frame) {
  const std::string place = place_name(frame);
  return place.empty() ? function_name(frame) : function_name(frame) + " (" + place + ")";
}

/// A stack's own frame, and the user's own functions outside it, innermost first.
struct Naming {
  struct Caller {
    std::string name;
    std::uint32_t line = 0;  // 0: unknown, or a part of the name
    bool says_line = false;
  };
  std::string own = "no stack";
  std::vector<Caller> callers;
  std::size_t always = 0;  // so many callers belong to the short name

  std::string with_callers(std::size_t count) const {
    std::string name = own;
    for (std::size_t i = 0; i < std::min(count, callers.size()); ++i) {
      name += (i == 0 ? ", called by " : ", by ") + callers[i].name;
      if (callers[i].says_line) name += ":" + std::to_string(callers[i].line);
    }
    return name;
  }
  std::string name() const { return with_callers(always); }
};

Naming naming_of(const Trace& trace, SiteId site, std::size_t most_callers) {
  Naming naming;
  const Frame* const own = own_frame(trace, site);
  if (own == nullptr) return naming;
  naming.own = with_place(*own);
  std::vector<Frame> outside;
  bool is_outside = false;
  for (const Frame& frame : trace.stack(site)) {
    if (is_outside && !is_plumbing(frame)) outside.push_back(frame);
    is_outside = is_outside || frame == *own;
  }
  auto caller = outside.begin();
  if (needs_caller(*own)) {
    const auto placed = std::find_if(outside.begin(), outside.end(), is_placed);
    if (placed != outside.end()) {
      naming.callers.push_back({with_place(*placed)});
      naming.always = 1;
      caller = placed + 1;
    }
  }
  for (; caller != outside.end() && naming.callers.size() < most_callers; ++caller) {
    naming.callers.push_back({function_name(*caller), caller->line});
  }
  return naming;
}

using Groups = std::unordered_map<std::string, std::vector<std::size_t>>;

Groups by_name(const std::vector<std::string>& names) {
  Groups groups;
  for (std::size_t i = 0; i < names.size(); ++i) groups[names[i]].push_back(i);
  return groups;
}

/// Callers whose lines differ among sites of the same callers say them; so many callers does the first of these take (0: none).
std::size_t say_lines_that_differ(const std::vector<std::size_t>& members, std::vector<Naming>& namings) {
  std::size_t needed = 0;
  for (std::size_t k = 0; k < namings[members[0]].callers.size(); ++k) {
    const std::uint32_t line = namings[members[0]].callers[k].line;
    const auto differs = [&](std::size_t i) { return k < namings[i].callers.size() && namings[i].callers[k].line != line; };
    if (std::none_of(members.begin(), members.end(), differs)) continue;
    for (const std::size_t i : members) {
      if (k < namings[i].callers.size() && namings[i].callers[k].line != 0) namings[i].callers[k].says_line = true;
    }
    if (needed == 0) needed = k + 1;
  }
  return needed;
}

/// Two calls in one function are told apart by their lines, behind the callers that tell both from all others.
void add_lines(const std::vector<std::string>& shorts, std::vector<Naming>& namings, std::vector<std::string>& names) {
  const Groups same_short = by_name(shorts);
  const std::vector<Naming> plain = namings;
  const std::vector<std::string> before = names;
  for (const auto& [name, members] : by_name(before)) {
    if (members.size() < 2) continue;
    const std::size_t most = namings[members[0]].callers.size();
    std::size_t callers = 1;
    const auto is_of_others = [&](std::size_t i) {
      return before[i] != name && plain[i].with_callers(callers) == plain[members[0]].with_callers(callers);
    };
    const std::vector<std::size_t>& all = same_short.at(shorts[members[0]]);
    while (callers < most && std::any_of(all.begin(), all.end(), is_of_others)) ++callers;
    const std::size_t needed = say_lines_that_differ(members, namings);
    if (needed == 0) continue;
    for (callers = std::max(callers, needed); callers < most; ++callers) {  // the first line need not tell all of them apart
      std::vector<std::string> now, whole;
      for (const std::size_t i : members) {
        now.push_back(namings[i].with_callers(callers));
        whole.push_back(namings[i].with_callers(most));
      }
      if (by_name(now).size() == by_name(whole).size()) break;
    }
    for (const std::size_t i : members) names[i] = namings[i].with_callers(std::max(callers, namings[i].always));
  }
}

}  // namespace

std::string short_name(const Trace& trace, SiteId site) { return naming_of(trace, site, 0).name(); }

std::string long_name(const Trace& trace, SiteId site, std::size_t callers) {
  const Naming naming = naming_of(trace, site, callers);
  return naming.with_callers(std::max(callers, naming.always));
}

std::vector<std::string> short_names(const Trace& trace, std::span<const SiteId> sites) {
  constexpr std::size_t kMostCallers = 4;
  std::vector<Naming> namings;
  std::vector<std::string> shorts;
  for (const SiteId site : sites) {
    namings.push_back(naming_of(trace, site, kMostCallers));
    shorts.push_back(namings.back().name());
  }
  std::vector<std::string> names = shorts;
  for (std::size_t callers = 1; callers <= kMostCallers; ++callers) {
    for (const auto& [name, members] : by_name(names)) {
      if (members.size() < 2) continue;
      for (const std::size_t i : members) names[i] = namings[i].with_callers(std::max(callers, namings[i].always));
    }
  }
  add_lines(shorts, namings, names);
  // Callers that all sites of a name share tell nothing.
  for (const auto& [name, members] : by_name(shorts)) {
    const auto is_first = [&](std::size_t i) { return names[i] == names[members[0]]; };
    if (!std::all_of(members.begin(), members.end(), is_first)) continue;
    for (const std::size_t i : members) names[i] = shorts[i];
  }
  return names;
}

}  // namespace cuheap
