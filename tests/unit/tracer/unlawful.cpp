// What no code in a host may do; the imports test must refuse it.
#include <vector>

std::vector<int> grow(int count);
std::vector<int> grow(int count) { return std::vector<int>(static_cast<std::size_t>(count)); }
