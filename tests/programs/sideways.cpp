// sideways throw|cancel|longjmp|signal: ways to leave a call in the middle. Nothing of ours may be pending then: the thread
// must still be heard afterwards.
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <pthread.h>
#include <sys/time.h>
#include <unistd.h>

#include "odd_driver/odd_driver.h"
#include "program.h"

static jmp_buf before;
static volatile int handled = 0;

static void leave_by_throw() { throw 42; }
static void leave_by_longjmp() { longjmp(before, 1); }
static void leave_by_cancel() {
  pthread_cancel(pthread_self());
  pthread_testcancel();
}

static void handler(int) {
  CUdeviceptr address = 0;
  cuMemAlloc(&address, 20133);
  cuMemFree(address);
  handled = handled + 1;
}

static void* cancelled(void*) {
  allocate(20131);
  return nullptr;
}

static void under_signals() {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval often = {{0, 200}, {0, 200}};
  setitimer(ITIMER_REAL, &often, nullptr);
  while (handled < 200) {
    CUdeviceptr address = 0;
    cuMemAlloc(&address, 20134);
    cuMemFree(address);
  }
  const itimerval never = {};
  setitimer(ITIMER_REAL, &never, nullptr);
}

int main(int argc, char** argv) {
  const char* const how = argc > 1 ? argv[1] : "throw";
  SAY(cuInit(0));
  if (std::strcmp(how, "signal") == 0) under_signals();
  if (std::strcmp(how, "throw") == 0) {
    odd_driver_during_allocation(leave_by_throw);
    try {
      allocate(20130);
    } catch (const int value) {
      std::printf("caught %d\n", value);
    }
  }
  if (std::strcmp(how, "longjmp") == 0) {
    odd_driver_during_allocation(leave_by_longjmp);
    if (setjmp(before) == 0) allocate(20132);
    else std::printf("jumped\n");
  }
  if (std::strcmp(how, "cancel") == 0) {
    odd_driver_during_allocation(leave_by_cancel);
    pthread_t thread;
    void* result = nullptr;
    pthread_create(&thread, nullptr, cancelled, nullptr);
    pthread_join(thread, &result);
    std::printf("cancelled %d\n", result == PTHREAD_CANCELED);
  }
  odd_driver_during_allocation(nullptr);
  SAY(cuMemFree(allocate(20135)));
}
