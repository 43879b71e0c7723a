/* Names the functions that are exported but not simulated, in the call log (SIMGPU_LOG). */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((visibility("hidden"))) void simgpu_stub_called(const char* name);

void simgpu_stub_called(const char* name) {
  const char* path = getenv("SIMGPU_LOG");
  if (path == NULL || *path == '\0') return;
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return;
  char line[256];
  const int length = snprintf(line, sizeof line, "%d %s NOT_SUPPORTED\n", (int)getpid(), name);
  if (length > 0 && write(file, line, (size_t)length) < 0) { /* a log that cannot be written is no reason to fail a call */
  }
  close(file);
}
