// Two libraries of the same shape and other frames, by FRAME_BYTES: for tests that unload one and load the other in its place.
extern "C" [[gnu::visibility("default"), gnu::noinline]] int call_through(int (*call)(void*), void* argument) {
  volatile char room[FRAME_BYTES];
  room[0] = 1;
  const int result = call(argument) + room[0];
  asm volatile("" ::"r"(&room) : "memory");
  return result;
}
