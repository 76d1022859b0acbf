// An upstream of the pool that counts, remembers and refuses: what allocations cost, and what happens when there is no
// memory. Not for: programs (a replaced upstream is process-wide).
#pragma once

#include <capstan/autograd/pool.h>

#include <atomic>
#include <limits>
#include <new>

namespace capstan::test {

/// Forwards to the upstream that it replaces while it lives.
class CountingUpstream final : public std::pmr::memory_resource {
 public:
  CountingUpstream() : previous_(set_pool_upstream(this)) {}
  ~CountingUpstream() override {
    pool_trim();
    set_pool_upstream(previous_);
  }
  std::size_t allocations() const { return allocations_; }
  std::size_t deallocations() const { return deallocations_; }
  std::size_t last_bytes() const { return last_bytes_; }
  std::size_t last_alignment() const { return last_alignment_; }
  /// Bytes that are out now, and the most that ever were.
  std::size_t bytes() const { return bytes_; }
  std::size_t peak_bytes() const { return peak_bytes_; }
  /// Blocks above a size get std::bad_alloc.
  void refuse_above(std::size_t bytes) { refuse_above_ = bytes; }
  /// So does every request after the next `count`.
  void refuse_after(std::size_t count) { refuse_at_ = allocations_ + count; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (bytes > refuse_above_ || allocations_ >= refuse_at_) throw std::bad_alloc();
    ++allocations_;
    const std::size_t now = bytes_ += bytes;
    for (std::size_t peak = peak_bytes_; now > peak && !peak_bytes_.compare_exchange_weak(peak, now);) {}
    last_bytes_ = bytes;
    last_alignment_ = alignment;
    return previous_->allocate(bytes, alignment);
  }
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override {
    ++deallocations_;
    bytes_ -= bytes;  // what came from the one before wraps around, and is not what is asked for
    previous_->deallocate(block, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  std::pmr::memory_resource* previous_;
  std::atomic<std::size_t> allocations_{0}, deallocations_{0}, last_bytes_{0}, last_alignment_{0}, bytes_{0},
      peak_bytes_{0};
  std::atomic<std::size_t> refuse_above_{std::numeric_limits<std::size_t>::max()}, refuse_at_{refuse_above_.load()};
};

}  // namespace capstan::test
