// A plug-in that is linked against libcuda: its calls are bound when it is loaded.
#include <cuda.h>

extern "C" int end_context() { return cuCtxDestroy(nullptr); }
extern "C" int start_driver() { return cuInit(0); }
