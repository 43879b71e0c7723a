// Handles given to the program: the address of the object, valid as long as the table knows it. A stale or foreign handle is
// an error code, not a crash.
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace cuheap::sim {

template <class T>
class Table {
 public:
  T* add(std::shared_ptr<T> object) {
    T* handle = object.get();
    std::unique_lock guard(lock_);
    objects_[handle] = std::move(object);
    return handle;
  }

  [[nodiscard]] std::shared_ptr<T> find(const void* handle) const {
    std::shared_lock guard(lock_);
    const auto at = objects_.find(handle);
    return at == objects_.end() ? nullptr : at->second;
  }

  /// The object, which the table no longer knows; null if it never did.
  std::shared_ptr<T> take(const void* handle) {
    std::unique_lock guard(lock_);
    const auto at = objects_.find(handle);
    if (at == objects_.end()) return nullptr;
    auto object = std::move(at->second);
    objects_.erase(at);
    return object;
  }

  [[nodiscard]] std::vector<std::shared_ptr<T>> all() const {
    std::shared_lock guard(lock_);
    std::vector<std::shared_ptr<T>> result;
    for (const auto& [handle, object] : objects_) result.push_back(object);
    return result;
  }

 private:
  mutable std::shared_mutex lock_;
  std::unordered_map<const void*, std::shared_ptr<T>> objects_;
};

}  // namespace cuheap::sim
