/* The control API of the make-believe GPU: what tests and rehearsals may do to it. Plain C functions exported by simgpu's
 * libcuda.so.1; a program finds them with dlsym, so that it also runs on a real driver, where they are absent.
 * Functions return 0, or a CUresult. Device ordinals are those of SIMGPU_DEVICES. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 1. Tells simgpu from a real driver. */
int simgpu_version(void);

/* Total memory of a device from now on; memory already out stays. */
int simgpu_set_capacity(int device, uint64_t bytes);
/* Bytes of a device that somebody else is said to use. */
int simgpu_set_foreign_bytes(int device, uint64_t bytes);
/* Bytes used on a device by all processes of the session. */
uint64_t simgpu_used_bytes(int device);

/* The nth call of NAME from now on (1 is the next; 0: every call) returns CODE; CODE -1: it never returns.
 * "cuMemAlloc" also names cuMemAlloc_v2; a _ptsz twin is counted under its base name. */
int simgpu_fail_call(const char* name, uint64_t nth, int code);
/* Faults in the language of SIMGPU_FAULT, e.g. "cuMemCreate:every=2:code=2". */
int simgpu_fault(const char* faults);
int simgpu_clear_faults(void);
/* Calls of NAME so far. */
uint64_t simgpu_calls(const char* name);
int simgpu_reset_calls(void);

/* Every piece of work of the stream (a CUstream; null: all streams) waits this long before it runs. */
int simgpu_delay_stream(void* stream, uint64_t ns);
/* While held, nothing queued on the stream runs, and nothing runs at once. */
int simgpu_hold_stream(void* stream, int held);

/* Bytes of device memory, without any stream: what is there now. */
int simgpu_read(uint64_t address, void* out, size_t bytes);
int simgpu_write(uint64_t address, const void* data, size_t bytes);
/* Forgets the bytes: they read as zeros, and cost no host memory. Any alignment. */
int simgpu_clear(uint64_t address, size_t bytes);

/* A host function that a kernel of that name runs, in stream order. ARGUMENTS is the kernelParams of the launch: what it points
 * to must live until the kernel ran. */
typedef void (*simgpu_kernel)(void** arguments, void* user);
int simgpu_register_kernel(const char* name, simgpu_kernel call, void* user);
/* A variable of that name and size is found in every module. */
int simgpu_declare_global(const char* name, size_t bytes);

/* The error a faulting access would leave in the current context (0: cleared). */
int simgpu_set_sticky_error(int code);

/* For simgpu's libnvidia-ml: the descriptor of the shared state of this process, -1 if there is none. */
int simgpu_state_descriptor(void);

#ifdef __cplusplus
}
#endif
