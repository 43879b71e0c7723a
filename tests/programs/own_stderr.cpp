// A program that closes stderr and gets its number for a file of its own: nobody else may write into that.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program.h"

int main() {
  close(2);
  const int file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
  std::printf("file %d\n", file);
  start_cuda();
  SAY(cuMemFree(allocate(20280)));
  struct stat status;
  std::printf("size known %d\n", fstat(file, &status) == 0);
  std::printf("size %ld\n", static_cast<long>(status.st_size));
}
