// A vector with room for N elements inside it: lists of tensors and types on the hot path, no heap while short.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace capstan {

/// Grows to the heap beyond N. Built from its elements by forwarding, so `return {a, f(b)}` moves what can be moved.
template <class T, int N>
class Small {
 public:
  Small() noexcept {}  // `= default` would let `{}` fill the room with zeros first
  template <class... U>
  requires(sizeof...(U) > 0 && (std::is_convertible_v<U&&, T> && ...) &&
           !(sizeof...(U) == 1 && (std::is_same_v<std::remove_cvref_t<U>, Small> && ...))) Small(U&&... elements) {
    reserve(static_cast<int>(sizeof...(U)));
    (emplace_back(std::forward<U>(elements)), ...);
  }
  Small(const Small& other) {
    reserve(other.size_);
    for (const T& element : other) push_back(element);
  }
  Small(Small&& other) noexcept { take(std::move(other)); }
  Small& operator=(Small other) noexcept {
    clear();
    take(std::move(other));
    return *this;
  }
  ~Small() { clear(); }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](int i) { return data_[i]; }
  const T& operator[](int i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  const T* data() const { return data_; }

  template <class... U>
  T& emplace_back(U&&... arguments) {
    if (size_ == capacity_) reserve(capacity_ * 2);
    return *::new (static_cast<void*>(data_ + size_++)) T(std::forward<U>(arguments)...);
  }
  /// The new element is what `make` returns, built in its place.
  template <class F>
  T& emplace_made(const F& make) {
    if (size_ == capacity_) reserve(capacity_ * 2);
    T* made = ::new (static_cast<void*>(data_ + size_)) T(make());
    ++size_;  // not if it threw
    return *made;
  }
  void push_back(T element) { emplace_back(std::move(element)); }
  void resize(int size) {
    reserve(size);
    while (size_ < size) emplace_back();
    while (size_ > size) data_[--size_].~T();
  }
  void clear() {
    for (int i = size_; i > 0;) data_[--i].~T();
    release();
    data_ = inline_data();
    size_ = 0;
    capacity_ = N;
  }
  void reserve(int capacity) {
    if (capacity <= capacity_) return;
    T* grown = std::allocator<T>().allocate(static_cast<std::size_t>(capacity));
    move_elements(data_, grown, size_);
    release();
    data_ = grown;
    capacity_ = capacity;
  }

 private:
  T* inline_data() { return reinterpret_cast<T*>(inline_); }
  static void move_elements(T* from, T* to, int count) noexcept {
    for (int i = 0; i < count; ++i) {
      ::new (static_cast<void*>(to + i)) T(std::move(from[i]));
      from[i].~T();
    }
  }
  void release() {
    if (data_ != inline_data()) std::allocator<T>().deallocate(data_, static_cast<std::size_t>(capacity_));
  }
  void take(Small&& other) noexcept {
    if (other.data_ == other.inline_data()) {
      move_elements(other.data_, data_, other.size_);
    } else {
      data_ = std::exchange(other.data_, other.inline_data());
      capacity_ = std::exchange(other.capacity_, N);
    }
    size_ = std::exchange(other.size_, 0);
  }

  alignas(T) std::byte inline_[N * sizeof(T)];
  T* data_ = reinterpret_cast<T*>(inline_);
  int size_ = 0;
  int capacity_ = N;
};

}  // namespace capstan
