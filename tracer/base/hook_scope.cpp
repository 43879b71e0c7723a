#include "tracer/base/hook_scope.h"

namespace cuheap::detail {

constinit thread_local bool inside_hook = false;

}  // namespace cuheap::detail
