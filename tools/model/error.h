// Error: the one exception of the desk. Its text is one clear line for a person: the file, the place in it, the remedy.
// Thrown where the knowledge is, caught once, in main.cpp, which ends with exit code 2.
#pragma once
#include <stdexcept>
#include <string>

namespace cuheap {

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& line) : std::runtime_error(line) {}
};

}  // namespace cuheap
