#include <atomic>
#include <chrono>
#include <thread>

extern "C" {
extern std::atomic<int> inside_constructor;
extern std::atomic<int> other_is_done;
}

__attribute__((constructor)) static void wait_for_the_other() {
  inside_constructor.store(1);
  for (int i = 0; i < 2000 && other_is_done.load() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}
