// Load, arming, fork, exit: the only file that acts without having been called by the host.
extern "C" __attribute__((visibility("default"))) const char* cuheap_version() { return CUHEAP_VERSION; }
