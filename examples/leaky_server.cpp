// leaky_server: a request loop as many services have one. It warms up, keeps a bounded cache, allocates and frees scratch
// for each request, and has one real leak, slow and three calls deep: a session that is closed while its last response is
// still pending leaves the response's buffer behind.
//
//   leaky_server [REQUESTS]     default 20000
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "leaky_server: %s: %s\n", what, cudaGetErrorString(result));
  std::exit(1);
}

void* device_alloc(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return memory;
}

void device_free(void* memory) { check(cudaFree(memory), "cudaFree"); }

/// Tokenised prompts, least recently used first out: bounded, and no leak.
class PromptCache {
 public:
  void remember(unsigned prompt) {
    if (entries_.contains(prompt)) return;
    if (order_.size() == kCapacity) {
      device_free(entries_.extract(order_.front()).mapped());
      order_.pop_front();
    }
    entries_.emplace(prompt, device_alloc(64 * 1024));
    order_.push_back(prompt);
  }
  void clear() {
    for (auto& [prompt, memory] : entries_) device_free(memory);
    entries_.clear();
  }

 private:
  static constexpr std::size_t kCapacity = 256;
  std::unordered_map<unsigned, void*> entries_;
  std::deque<unsigned> order_;
};

class Session {
 public:
  /// Keeps the last response until the client has fetched it.
  void store_response(std::size_t bytes) { pending_.push_back(device_alloc(bytes)); }
  void fetch_response() {
    device_free(pending_.back());
    pending_.pop_back();
  }
  /// The leak: a response that was never fetched is forgotten with the session.
  void close() { pending_.clear(); }

 private:
  std::vector<void*> pending_;
};

class Server {
 public:
  Server() {
    // Warm-up: weights and workspaces, taken once and kept.
    for (int layer = 0; layer < 24; ++layer) weights_.push_back(device_alloc(4 * 1024 * 1024));
    workspace_ = device_alloc(32 * 1024 * 1024);
  }
  ~Server() {
    for (void* memory : weights_) device_free(memory);
    device_free(workspace_);
    cache_.clear();
  }

  void handle_request(unsigned prompt, bool client_leaves) {
    cache_.remember(prompt);
    void* const scratch = device_alloc(256 * 1024 + prompt % 64 * 1024);
    check(cudaMemsetAsync(scratch, 0, 4096, nullptr), "cudaMemsetAsync");
    Session session;
    generate(session, prompt);
    if (!client_leaves) session.fetch_response();
    session.close();
    device_free(scratch);
  }

 private:
  void generate(Session& session, unsigned prompt) { session.store_response(12 * 1024 + prompt % 8 * 512); }

  std::vector<void*> weights_;
  void* workspace_ = nullptr;
  PromptCache cache_;
};

}  // namespace

int main(int argc, char** argv) {
  const long requests = argc > 1 ? std::atol(argv[1]) : 20000;
  if (requests <= 0) {
    std::fprintf(stderr, "usage: leaky_server [REQUESTS]\n");
    return 2;
  }
  std::mt19937 random(42);
  Server server;
  long left_early = 0;
  for (long request = 0; request < requests; ++request) {
    const unsigned prompt = static_cast<unsigned>(random() % 1000);
    const bool client_leaves = random() % 50 == 0;
    left_early += client_leaves ? 1 : 0;
    server.handle_request(prompt, client_leaves);
  }
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  std::printf("%ld requests served, %ld clients left early\n", requests, left_early);
  return 0;
}
