// Who answers a dlsym call: the next dlsym of the process, or our look-up of a hooked name.
#pragma once

namespace cuheap {

using DlsymFunction = void* (*)(void* handle, const char* name);

/// The dlsym behind ours: another interposer's if there is one, else libc's.
DlsymFunction next_dlsym();

/// dlsym of a hooked name through a real handle: the real answer, or our hook if that is a function of the loaded libcuda.
void* look_up_hooked(void* handle, const char* name);

}  // namespace cuheap
