// What the sanitizers are told in every test program of the asan and tsan presets; part of the program, so that it holds by
// hand, too. *_OPTIONS in the environment still win.
extern "C" {

// A stack frame must lie on the stack: the walk reads it there.
__attribute__((visibility("default"))) const char* __asan_default_options() { return "detect_stack_use_after_return=0"; }

__attribute__((visibility("default"))) const char* __ubsan_default_options() { return "halt_on_error=1:print_stacktrace=1"; }

// Fork children of threaded programs are what many tests are about.
__attribute__((visibility("default"))) const char* __tsan_default_options() {
  return "die_after_fork=0:second_deadlock_stack=1:report_signal_unsafe=0";
}

}
