// A driver that does nothing, with doors for tests: no cost (benches), and a call-back in the middle of an allocation, so
// that an exception, a cancellation or a longjmp can pass through it.
#pragma once

extern "C" {
/// Called inside cuMemAlloc_v2, if set.
void odd_driver_during_allocation(void (*call)());
}
