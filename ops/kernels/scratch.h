// Working memory of one kernel call, from the process-wide pool. Not for: results (those are storages).
#pragma once

#include <capstan/autograd/pool.h>
#include <capstan/autograd/shape.h>

#include <cstddef>
#include <span>
#include <type_traits>

namespace capstan::kernels {

/// `count` uninitialised elements, 64-byte aligned, returned to the pool at the end of the scope.
template <class T>
class Scratch {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit Scratch(Index count)
      : count_(static_cast<std::size_t>(count)),
        data_(count > 0 ? static_cast<T*>(pool_allocate(count_ * sizeof(T))) : nullptr) {}
  ~Scratch() {
    if (data_ != nullptr) pool_deallocate(data_, count_ * sizeof(T));
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](Index i) { return data_[i]; }
  const T& operator[](Index i) const { return data_[i]; }
  std::span<T> span() { return {data_, count_}; }

 private:
  std::size_t count_;
  T* data_;
};

}  // namespace capstan::kernels
