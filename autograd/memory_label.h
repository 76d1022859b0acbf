// How a storage learns whom a MemoryProfile counts it for. Internal to autograd/*.cpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace capstan::detail {

/// True while a MemoryProfile lives: all that storages and ops look at otherwise.
inline constinit std::atomic<bool> memory_is_profiled{false};

/// Counts a new storage of this thread; the result goes to count_freed. 0: not counted.
std::uint32_t count_made(std::size_t bytes) noexcept;
void count_freed(std::uint32_t counted_as, std::size_t bytes) noexcept;

/// While it lives, what this thread makes counts for `op`, or for its rule, unless an outer label says otherwise.
class MemoryLabel {
 public:
  MemoryLabel(std::string_view op, bool backward) {
    if (memory_is_profiled.load(std::memory_order_relaxed)) [[unlikely]]
      begin(op, backward);
  }
  ~MemoryLabel() {
    if (begun_) [[unlikely]]
      end();
  }
  MemoryLabel(const MemoryLabel&) = delete;
  MemoryLabel& operator=(const MemoryLabel&) = delete;

 private:
  void begin(std::string_view op, bool backward) noexcept;
  void end() noexcept;
  bool begun_ = false;
};

}  // namespace capstan::detail
