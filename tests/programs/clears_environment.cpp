// clears_environment HOW: before CUDA starts the environment is cleared, or written over as setproctitle does.
#include <unistd.h>

#include <cstring>
#include <string>

#include "program.h"

int main(int, char** argv) {
  if (argv[1] == std::string("cleared")) clearenv();
  else
    for (char** variable = environ; *variable != nullptr; ++variable) std::memset(*variable, 'x', std::strlen(*variable));
  start_cuda();
  SAY(cuMemFree(allocate(20300)));
}
