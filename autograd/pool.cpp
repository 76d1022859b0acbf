// The pool: size classes, per-thread lists, the centre behind them, and the calls to the upstream.
#include <capstan/autograd/pool.h>
#include <capstan/autograd/pool_bypass.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define CAPSTAN_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CAPSTAN_ADDRESS_SANITIZER 1
#endif
#endif

namespace capstan {
namespace {

// ---- size classes -------------------------------------------------------------------------------------------------

constexpr std::size_t fine_limit = 1024;         // up to here the classes are the multiples of 64
constexpr std::size_t thread_limit = 64 * 1024;  // bigger blocks are kept by the centre only
constexpr std::size_t largest = std::size_t{1} << 47;
constexpr unsigned fine_classes = fine_limit / pool_alignment;

// Above 1 KiB with 2^e < n ≤ 2^(e+1): the smallest of 2^e · {9, 10, … 16}/8 that is ≥ n. With quarters, 9 MiB, of which
// GPT-2's matrices are, took 10.
constexpr unsigned class_of(std::size_t bytes) {
  const std::size_t last = bytes - (bytes != 0);
  if (bytes <= fine_limit) return static_cast<unsigned>(last / pool_alignment);
  const auto exponent = static_cast<unsigned>(std::bit_width(last)) - 1;
  return fine_classes + (exponent - 10) * 8 + static_cast<unsigned>(last >> (exponent - 3)) - 8;
}

constexpr std::size_t bytes_of(unsigned index) {
  if (index < fine_classes) return (index + 1) * pool_alignment;
  const unsigned step = index - fine_classes;
  return (std::size_t{9} + step % 8) << (step / 8 + 7);
}

constexpr unsigned thread_classes = class_of(thread_limit) + 1;
constexpr unsigned all_classes = class_of(largest) + 1;
static_assert(bytes_of(class_of(1025)) == 1152 && bytes_of(class_of(1153)) == 1280 &&
              bytes_of(class_of(largest)) == largest);

// ---- the upstream -------------------------------------------------------------------------------------------------

bool exact_mode() {
  static const bool exact = [] {
    if (const char* setting = std::getenv("CAPSTAN_EXACT_POOL"); setting != nullptr && *setting != '\0')
      return std::strcmp(setting, "0") != 0;
#ifdef CAPSTAN_ADDRESS_SANITIZER
    return true;
#else
    return false;
#endif
  }();
  return exact;
}

constinit std::atomic<std::pmr::memory_resource*> upstream_resource{nullptr};
constinit std::atomic<std::size_t> held_bytes{0};
constinit std::atomic<std::size_t> peak_held_bytes{0};
constinit std::atomic<std::uint64_t> upstream_calls{0};

std::pmr::memory_resource* upstream() {
  std::pmr::memory_resource* resource = upstream_resource.load(std::memory_order_acquire);
  return resource != nullptr ? resource : std::pmr::new_delete_resource();
}

// Blocks of some megabytes ask for huge pages, where the system gives them to those who ask: one fault instead of 512,
// and big weights are read with fewer misses of the TLB.
constexpr std::size_t huge_page = 2 * 1024 * 1024, worth_huge_pages = 4 * 1024 * 1024;

std::size_t alignment_of(std::size_t bytes) {
  return bytes >= worth_huge_pages && !exact_mode() ? huge_page : pool_alignment;
}

void* upstream_allocate(std::size_t bytes, std::size_t alignment) {
  void* block = nullptr;
  try {
    block = upstream()->allocate(bytes, alignment);
  } catch (const std::bad_alloc&) {
    pool_trim();
    block = upstream()->allocate(bytes, alignment);
  }
#ifdef MADV_HUGEPAGE
  if (alignment >= huge_page) madvise(block, bytes / huge_page * huge_page, MADV_HUGEPAGE);  // a refusal does not matter
#endif
  upstream_calls.fetch_add(1, std::memory_order_relaxed);
  const std::size_t now = held_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::size_t peak = peak_held_bytes.load(std::memory_order_relaxed);
  while (peak < now && !peak_held_bytes.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {}
  return block;
}

void upstream_deallocate(void* block, std::size_t bytes, std::size_t alignment) noexcept {
  upstream()->deallocate(block, bytes, alignment);
  held_bytes.fetch_sub(bytes, std::memory_order_relaxed);
}

// ---- the centre ---------------------------------------------------------------------------------------------------

// A free block's own memory links it. Blocks travel between threads and centre in whole batches: the first block of a
// batch carries its length and the link to the next batch, so a hand-over costs one lock and no walk.
struct Block {
  Block* next;
  Block* next_batch;
  std::size_t batch_count;
};
static_assert(sizeof(Block) <= pool_alignment);

struct alignas(64) Shelf {
  std::mutex mutex;
  Block* batches = nullptr;

  void give(Block* batch, std::size_t count) noexcept {
    batch->batch_count = count;
    const std::lock_guard lock(mutex);
    batch->next_batch = batches;
    batches = batch;
  }
  Block* take() {
    const std::lock_guard lock(mutex);
    Block* batch = batches;
    if (batch != nullptr) batches = batch->next_batch;
    return batch;
  }
  Block* take_all() {
    const std::lock_guard lock(mutex);
    return std::exchange(batches, nullptr);
  }
};

using Centre = std::array<Shelf, all_classes>;

// Never destroyed: destructors of static objects may still free blocks. In static memory: freeing must not allocate.
Centre& centre() {
  alignas(Centre) static std::byte memory[sizeof(Centre)];
  static Centre& shelves = *::new (memory) Centre;
  return shelves;
}

// ---- the lists of a thread ----------------------------------------------------------------------------------------

// `limit` is 0 before the thread's first slow call, after its exit and in exact mode, so the fast paths need no other
// test than "is a block there" and "is there room".
struct List {
  Block* head;
  Block* spare;  // a full batch in reserve: alternating around a batch's edge does not lock
  std::uint32_t count;
  std::uint32_t limit;
};

enum class ThreadState : std::uint8_t { fresh, live, ended };

// Trivially destructible, so still usable by destructors that run after ThreadEnd's.
struct ThreadLists {
  std::array<List, thread_classes> lists;
  ThreadState state;
};
constinit thread_local ThreadLists mine{};

void flush_thread_lists() noexcept {
  for (unsigned index = 0; index < thread_classes; ++index) {
    List& list = mine.lists[index];
    if (list.head != nullptr) centre()[index].give(list.head, list.count);
    if (list.spare != nullptr) centre()[index].give(list.spare, list.limit);
    list.head = list.spare = nullptr;
    list.count = 0;
  }
}

struct ThreadEnd {
  ~ThreadEnd() {
    flush_thread_lists();
    for (List& list : mine.lists) list.limit = 0;
    mine.state = ThreadState::ended;
  }
  void arm() const {}
};
thread_local ThreadEnd thread_end;

constinit thread_local bool bypassed = false;

void set_limits() {
  for (unsigned index = 0; index < thread_classes; ++index)
    mine.lists[index].limit =
        bypassed ? 0 : static_cast<std::uint32_t>(std::clamp<std::size_t>(64 * 1024 / bytes_of(index), 2, 512));
}

// True if the thread may keep blocks.
bool thread_is_live() {
  if (mine.state == ThreadState::live) return true;
  if (mine.state == ThreadState::ended) return false;
  thread_end.arm();  // the first use registers the destructor
  mine.state = ThreadState::live;
  set_limits();
  return true;
}

void* allocate_slowly(unsigned index) {
  if (bypassed) return upstream_allocate(bytes_of(index), alignment_of(bytes_of(index)));
  const bool in_thread = index < thread_classes && thread_is_live();
  if (in_thread && mine.lists[index].spare != nullptr) {
    List& list = mine.lists[index];
    Block* block = std::exchange(list.spare, nullptr);
    list.head = block->next;
    list.count = list.limit - 1;
    return block;
  }
  if (Block* block = centre()[index].take()) {
    if (block->batch_count > 1) {
      Block* rest = block->next;
      const std::size_t count = block->batch_count - 1;
      if (in_thread) {
        mine.lists[index].head = rest;
        mine.lists[index].count = static_cast<std::uint32_t>(count);
      } else {
        centre()[index].give(rest, count);
      }
    }
    return block;
  }
  return upstream_allocate(bytes_of(index), alignment_of(bytes_of(index)));
}

void deallocate_slowly(Block* block, unsigned index) noexcept {
  if (bypassed) return upstream_deallocate(block, bytes_of(index), alignment_of(bytes_of(index)));
  if (index < thread_classes && thread_is_live()) {
    List& list = mine.lists[index];
    if (list.count == list.limit) {
      if (list.spare != nullptr) centre()[index].give(list.spare, list.limit);
      list.spare = std::exchange(list.head, nullptr);
      list.count = 0;
    }
    block->next = list.head;
    list.head = block;
    ++list.count;
  } else {
    block->next = nullptr;
    centre()[index].give(block, 1);
  }
}

class Pool final : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    return alignment <= pool_alignment ? pool_allocate(bytes) : upstream_allocate(bytes, alignment);
  }
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override {
    if (alignment <= pool_alignment) return pool_deallocate(block, bytes);
    upstream_deallocate(block, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }
};

}  // namespace

void* pool_allocate(std::size_t bytes) {
  if (bytes <= thread_limit) {
    List& list = mine.lists[class_of(bytes)];
    if (Block* block = list.head) {
      list.head = block->next;
      --list.count;
      return block;
    }
  }
  if (bytes > largest) throw std::bad_alloc();
  if (exact_mode()) return upstream_allocate(std::max<std::size_t>(bytes, 1), pool_alignment);
  return allocate_slowly(class_of(bytes));
}

void pool_deallocate(void* memory, std::size_t bytes) noexcept {
  if (memory == nullptr) return;
  if (bytes <= thread_limit) {
    List& list = mine.lists[class_of(bytes)];
    if (list.count < list.limit) {
      Block* block = ::new (memory) Block;
      block->next = list.head;
      list.head = block;
      ++list.count;
      return;
    }
  }
  if (exact_mode()) return upstream_deallocate(memory, std::max<std::size_t>(bytes, 1), pool_alignment);
  deallocate_slowly(::new (memory) Block, class_of(bytes));
}

// With empty lists that may not grow, every call is a slow one.
PoolBypass::PoolBypass() : before_(std::exchange(bypassed, true)) {
  flush_thread_lists();
  if (mine.state == ThreadState::live) set_limits();
}
PoolBypass::~PoolBypass() {
  bypassed = before_;
  if (mine.state == ThreadState::live) set_limits();
}

std::pmr::memory_resource& pool() {
  alignas(Pool) static std::byte memory[sizeof(Pool)];
  static Pool& instance = *::new (memory) Pool;
  return instance;
}

std::pmr::memory_resource* set_pool_upstream(std::pmr::memory_resource* replacement) {
  std::pmr::memory_resource* previous = upstream_resource.exchange(replacement, std::memory_order_acq_rel);
  return previous != nullptr ? previous : std::pmr::new_delete_resource();
}

void pool_trim() {
  flush_thread_lists();
  for (unsigned index = 0; index < all_classes; ++index) {
    Block* batch = centre()[index].take_all();
    while (batch != nullptr) {
      Block* next_batch = batch->next_batch;
      for (Block* block = batch; block != nullptr;) {
        Block* next = block->next;
        upstream_deallocate(block, bytes_of(index), alignment_of(bytes_of(index)));
        block = next;
      }
      batch = next_batch;
    }
  }
}

PoolStatistics pool_statistics() {
  return {held_bytes.load(std::memory_order_relaxed), peak_held_bytes.load(std::memory_order_relaxed),
          upstream_calls.load(std::memory_order_relaxed)};
}

std::size_t pool_block_bytes(std::size_t bytes) {
  return exact_mode() ? std::max<std::size_t>(bytes, 1) : bytes_of(class_of(bytes));
}

bool pool_is_exact() { return exact_mode(); }

}  // namespace capstan
