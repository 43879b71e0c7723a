// exits now|quick|kill|return|static: every way to end without a word, with memory alive.
#include <csignal>
#include <cstring>
#include <unistd.h>

#include "program.h"

namespace {

struct FreedLate {
  CUdeviceptr address = 0;
  ~FreedLate() {
    if (address != 0) cuMemFree(address);
  }
};
FreedLate late;

}  // namespace

int main(int argc, char** argv) {
  const char* const how = argc > 1 ? argv[1] : "return";
  start_cuda();
  allocate(20040);
  if (std::strcmp(how, "static") == 0) late.address = allocate(20041);
  if (std::strcmp(how, "now") == 0) _exit(3);
  if (std::strcmp(how, "quick") == 0) std::quick_exit(4);
  if (std::strcmp(how, "kill") == 0) raise(SIGKILL);
  return 5;
}
