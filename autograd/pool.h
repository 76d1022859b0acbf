// Where the memory of tensors, tapes and kernel scratch comes from: one process-wide caching resource.
// Not for: ownership (see storage.h), or memory that must be returned to the system at once.
//
// A freed block is kept for the next request of its size class, first by the thread that freed it (a bounded number, no
// lock), then in a shared centre, so a training step that repeats asks the upstream for nothing. Size classes are the
// multiples of 64 bytes up to 1 KiB, then eight steps a doubling (1152, 1280, 1408, …, 2048, 2304, …) without an upper end,
// so a block of 8 MiB comes back with its pages (huge ones, where the system has them). Any thread may free any block.
//
// Under AddressSanitizer, or with the environment variable CAPSTAN_EXACT_POOL=1, nothing is cached and every request
// reaches the upstream with its exact size, so that a write one element past the end is caught. CAPSTAN_EXACT_POOL=0
// turns the cache on under AddressSanitizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>

namespace capstan {

/// Alignment of every block, in bytes: a cache line, and the widest vector register.
inline constexpr std::size_t pool_alignment = 64;

/// A block of at least `bytes` bytes (0 is legal and gives a block too), aligned to 64. Throws std::bad_alloc if the
/// upstream cannot serve it even after the cache was given back, or if `bytes` is beyond 2^47, the address space.
void* pool_allocate(std::size_t bytes);

/// Takes a block back; `bytes` is the size that was asked for. Legal on any thread, also from destructors of static and
/// thread-local objects. A null pointer is ignored.
void pool_deallocate(void* block, std::size_t bytes) noexcept;

/// The same memory for std::pmr containers. Never destroyed. An alignment above 64 goes straight to the upstream.
std::pmr::memory_resource& pool();

/// Replaces the resource that blocks come from (at first std::pmr::new_delete_resource()) and returns the previous one.
/// Blocks that are cached or in use stay as they are and will be given to the upstream of *that* time: a replacement
/// must forward to the resource it replaces, or be able to free what came from it. It must be thread-safe and outlive
/// its use. Null stands for the first one.
std::pmr::memory_resource* set_pool_upstream(std::pmr::memory_resource* upstream);

/// Gives the cached blocks of the calling thread and of the centre back to the upstream. (Lists of other threads reach
/// the centre when they overflow or their thread ends.)
void pool_trim();

/// Counted at upstream calls only: what the pool holds, in use or cached.
struct PoolStatistics {
  std::size_t bytes = 0;                   ///< held from the upstream now
  std::size_t peak_bytes = 0;              ///< the most that was ever held
  std::uint64_t upstream_allocations = 0;  ///< requests that reached the upstream
};
PoolStatistics pool_statistics();

/// The bytes that a request of `bytes` takes from the upstream: its size class, or `bytes` itself if the pool is exact.
std::size_t pool_block_bytes(std::size_t bytes);

/// True under AddressSanitizer or CAPSTAN_EXACT_POOL=1: nothing is cached.
bool pool_is_exact();

}  // namespace capstan
