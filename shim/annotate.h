/* cuheap's annotation calls: name the phases of a program, mark moments. A program may call them whether or not it runs
 * under cuheap: the symbols are weak, and the inline guards do nothing when the library is absent. Plain C; no link needed. */
#ifndef CUHEAP_ANNOTATE_H
#define CUHEAP_ANNOTATE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Opens a phase on the calling thread, inside the one it is in. Until some thread sets one of its own, threads count as
 * being in the phase that was opened last by any thread. */
void cuheap_phase_begin(const char* name) __attribute__((weak));
/* Closes the innermost open phase of the calling thread; without one it does nothing. */
void cuheap_phase_end(void) __attribute__((weak));
/* Marks a moment: a step, a request, an epoch. */
void cuheap_mark(const char* name) __attribute__((weak));
/* For a program with an allocator of its own between CUDA and the code that uses the memory: tells what it hands out and takes
 * back, so that its blocks are counted on the framework floor, and its segments' holes can be named. `device` is the ordinal;
 * call the free before the memory can be handed out again. Never both for one block and PyTorch's own report. */
void cuheap_block_alloc(const void* block, unsigned long bytes, int device) __attribute__((weak));
void cuheap_block_free(const void* block, int device) __attribute__((weak));
/* "0.1.0". */
const char* cuheap_version(void) __attribute__((weak));
/* 1 if this process is being recorded, else 0 (no CUDA yet, a fork child, recording off). */
int cuheap_is_recording(void) __attribute__((weak));

#define CUHEAP_PHASE_BEGIN(name) (cuheap_phase_begin ? cuheap_phase_begin(name) : (void)0)
#define CUHEAP_PHASE_END() (cuheap_phase_end ? cuheap_phase_end() : (void)0)
#define CUHEAP_MARK(name) (cuheap_mark ? cuheap_mark(name) : (void)0)
#define CUHEAP_BLOCK_ALLOC(block, bytes, device) (cuheap_block_alloc ? cuheap_block_alloc(block, bytes, device) : (void)0)
#define CUHEAP_BLOCK_FREE(block, device) (cuheap_block_free ? cuheap_block_free(block, device) : (void)0)

#ifdef __cplusplus
}
#endif

#endif
