// No place for the answer: the driver's refusal, pooled or not.
#include "program.h"

int main() {
  start_cuda();
  SAY(cuMemFree(allocate(20120)));
  SAY(cuMemAlloc(nullptr, 20121));
  SAY(cuMemFree(allocate(20122)));
}
