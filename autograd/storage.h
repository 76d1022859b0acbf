// Reference-counted bytes. Written once, by whoever holds them as a Buffer; then shared by tensors and never written again.
// Not for: shapes and dtypes (see tensor.h).
#pragma once

#include <atomic>
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif
#include <cstddef>
#include <cstdint>
#include <utility>

namespace capstan {

/// True only while this process has one thread: no locked instruction is needed then. False where the system does not tell.
inline bool single_threaded() noexcept {
#if __has_include(<sys/single_threaded.h>)
  return __libc_single_threaded;
#else
  return false;
#endif
}

/// A block of bytes from the pool, 64-byte aligned above 32 bytes; smaller ones lie inside the header (16-byte aligned).
class Storage {
 public:
  /// Count 1, contents not initialised.
  static Storage* create(std::size_t bytes);

  // Locked instructions cost as much as a small op's arithmetic.
  void retain() noexcept {
    if (single_threaded()) return set_count(count() + 1);
    count_.fetch_add(1, std::memory_order_relaxed);
  }
  void release() noexcept {
    // A sole owner needs none either: nobody else holds a handle to copy from.
    const std::int32_t before = count_.load(std::memory_order_acquire);
    if (before == 1) return destroy();
    if (single_threaded()) return set_count(before - 1);
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy();
  }
  bool unique() const noexcept { return count_.load(std::memory_order_acquire) == 1; }

  void* data() noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  static constexpr std::size_t inline_bytes = 32;
  void destroy() noexcept;
  std::int32_t count() const noexcept { return count_.load(std::memory_order_relaxed); }
  void set_count(std::int32_t count) noexcept { count_.store(count, std::memory_order_relaxed); }

  std::atomic<std::int32_t> count_{1};
  std::uint32_t counted_as_ = 0;  // by a MemoryProfile
  std::size_t bytes_ = 0;
  void* data_ = nullptr;
  alignas(16) std::byte inline_[inline_bytes];
};

/// Owns one count of a Storage.
class StorageHandle {
 public:
  StorageHandle() = default;
  /// Takes over a count that the caller holds.
  static StorageHandle adopt(Storage* storage) {
    StorageHandle handle;
    handle.storage_ = storage;
    return handle;
  }
  StorageHandle(const StorageHandle& other) noexcept : storage_(other.storage_) {
    if (storage_) storage_->retain();
  }
  StorageHandle(StorageHandle&& other) noexcept : storage_(std::exchange(other.storage_, nullptr)) {}
  StorageHandle& operator=(StorageHandle other) noexcept {
    std::swap(storage_, other.storage_);
    return *this;
  }
  ~StorageHandle() {
    if (storage_) storage_->release();
  }
  Storage* get() const { return storage_; }
  /// Gives the count to the caller.
  Storage* release() { return std::exchange(storage_, nullptr); }

 private:
  Storage* storage_ = nullptr;
};

}  // namespace capstan
