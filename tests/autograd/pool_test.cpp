// The pool: alignment, size classes, reuse without upstream calls, threads, trimming, failure, and exact mode.
#include <capstan/autograd/pool.h>
#include <capstan/autograd/pool_bypass.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "support/upstream.h"

namespace capstan {
namespace {

using test::CountingUpstream;

using Bytes = std::vector<std::size_t>;

bool aligned(const void* block) { return reinterpret_cast<std::uintptr_t>(block) % pool_alignment == 0; }

// Fills a block with a byte that its owner can recognise.
void stamp(void* block, std::size_t bytes, int value) { std::memset(block, value, bytes); }
bool stamped(const void* block, std::size_t bytes, int value) {
  const auto* first = static_cast<const unsigned char*>(block);
  for (std::size_t i = 0; i < bytes; ++i)
    if (first[i] != static_cast<unsigned char>(value)) return false;
  return true;
}

TEST(Pool, BlocksAreAlignedDistinctAndWritable) {
  std::vector<std::pair<void*, std::size_t>> blocks;
  int value = 0;
  for (const std::size_t bytes : Bytes{0, 1, 4, 63, 64, 65, 1000, 1024, 1025, 4097, 65536, 65537, 1 << 20, 8 << 20}) {
    blocks.emplace_back(pool_allocate(bytes), bytes);
    EXPECT_TRUE(aligned(blocks.back().first)) << bytes;
    stamp(blocks.back().first, bytes, ++value);
  }
  value = 0;
  for (const auto& [block, bytes] : blocks) EXPECT_TRUE(stamped(block, bytes, ++value)) << bytes;
  for (const auto& [block, bytes] : blocks) pool_deallocate(block, bytes);
  pool_deallocate(nullptr, 64);
}

TEST(Pool, BlocksFrom4MiBAreAlignedToHugePages) {
  CountingUpstream upstream;
  const auto alignment_for = [&](std::size_t bytes) {
    pool_trim();
    void* block = pool_allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % upstream.last_alignment(), 0u);
    pool_deallocate(block, bytes);
    return upstream.last_alignment();
  };
  EXPECT_EQ(alignment_for(3 << 20), pool_alignment);
  for (const std::size_t bytes : Bytes{4 << 20, 9 << 20}) {
    EXPECT_EQ(alignment_for(bytes), pool_is_exact() ? pool_alignment : std::size_t{2} << 20) << bytes;
    pool_trim();  // gives it back with the alignment that it came with, or operator delete would not fit
  }
}

TEST(Pool, SizeClassesAreMultiplesOf64ThenEightStepsADoubling) {
  if (pool_is_exact()) {
    for (const std::size_t bytes : Bytes{1, 63, 64, 65, 1025, 5000, (8 << 20) + 1})
      EXPECT_EQ(pool_block_bytes(bytes), bytes);
    return;
  }
  const std::map<std::size_t, std::size_t> documented = {
      {0, 64},        {1, 64},        {64, 64},           {65, 128},
      {960, 960},     {961, 1024},    {1024, 1024},       {1025, 1152},
      {1152, 1152},   {1153, 1280},   {1921, 2048},       {2049, 2304},
      {65536, 65536}, {65537, 73728}, {8 << 20, 8 << 20}, {(8 << 20) + 1, 9 << 20}};
  for (const auto& [bytes, block] : documented) EXPECT_EQ(pool_block_bytes(bytes), block) << bytes;

  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const std::size_t bytes = 1 + (random() >> (17 + random() % 46));  // every magnitude up to 2^47
    const std::size_t block = pool_block_bytes(bytes);
    ASSERT_GE(block, bytes);
    ASSERT_EQ(block % 64, 0u);
    ASSERT_LT(block - bytes, 64 + bytes / 8) << bytes;
    ASSERT_EQ(pool_block_bytes(block), block);
  }
}

TEST(Pool, UpstreamSeesSizeClassOrExactSizeWithAlignment64) {
  CountingUpstream upstream;
  pool_trim();
  for (const std::size_t bytes : Bytes{1, 20, 100, 3000, 100'000}) {
    void* block = pool_allocate(bytes);
    EXPECT_EQ(upstream.last_bytes(), pool_block_bytes(bytes));
    EXPECT_EQ(upstream.last_alignment(), 64u);
    pool_deallocate(block, bytes);
  }
}

// What a training step does: many sizes, freed in another order, again and again.
TEST(Pool, ARepeatedPatternReachesTheUpstreamOnlyTheFirstTime) {
  CountingUpstream upstream;
  constexpr int blocks_per_step = 2000;
  const auto step = [&] {
    std::mt19937 random(7);
    std::vector<std::pair<void*, std::size_t>> blocks;
    for (int i = 0; i < blocks_per_step; ++i) {
      const std::size_t bytes = i % 100 == 0 ? 300'000 + random() % 1'000'000 : random() % 3000;
      blocks.emplace_back(pool_allocate(bytes), bytes);
    }
    std::shuffle(blocks.begin(), blocks.end(), random);
    for (const auto& [block, bytes] : blocks) pool_deallocate(block, bytes);
  };
  step();
  const std::size_t first = upstream.allocations();
  EXPECT_GT(first, 0u);
  for (int i = 0; i < 5; ++i) step();
  EXPECT_EQ(upstream.allocations(), pool_is_exact() ? first + 5 * blocks_per_step : first);
}

TEST(Pool, AHugeBlockComesBackItself) {
  void* first = pool_allocate(8 << 20);
  stamp(first, 8 << 20, 3);
  pool_deallocate(first, 8 << 20);
  const PoolStatistics before = pool_statistics();
  void* second = pool_allocate((8 << 20) - 1000);
  if (!pool_is_exact()) {
    EXPECT_EQ(second, first);
    EXPECT_EQ(pool_statistics().upstream_allocations, before.upstream_allocations);
  } else {
    EXPECT_EQ(pool_statistics().upstream_allocations, before.upstream_allocations + 1);
  }
  pool_deallocate(second, (8 << 20) - 1000);
}

TEST(Pool, ABypassLeavesTheCacheToOthers) {
  const std::size_t missed = pool_is_exact() ? 1 : 0;  // nothing is cached then
  CountingUpstream upstream;
  for (const std::size_t bytes : Bytes{64, 3000, 1 << 20}) {
    pool_deallocate(pool_allocate(bytes), bytes);
    const std::size_t before = upstream.allocations();
    void* stays = nullptr;
    {
      const PoolBypass bypass;
      stays = pool_allocate(bytes);
    }
    EXPECT_EQ(upstream.allocations(), before + 1) << bytes;
    void* again = pool_allocate(bytes);
    EXPECT_EQ(upstream.allocations(), before + 1 + missed) << bytes;
    pool_deallocate(again, bytes);
    pool_deallocate(stays, bytes);
  }
}

TEST(Pool, TrimGivesEverythingBackAndStatisticsFollow) {
  pool_trim();
  const PoolStatistics start = pool_statistics();
  std::vector<void*> blocks;
  for (int i = 0; i < 3000; ++i) blocks.push_back(pool_allocate(256));
  void* big = pool_allocate(1 << 20);
  const PoolStatistics full = pool_statistics();
  EXPECT_EQ(full.bytes - start.bytes, 3000u * 256 + (1u << 20));
  EXPECT_GE(full.peak_bytes, full.bytes);
  EXPECT_EQ(full.upstream_allocations - start.upstream_allocations, 3001u);

  for (void* block : blocks) pool_deallocate(block, 256);
  pool_deallocate(big, 1 << 20);
  EXPECT_EQ(pool_statistics().bytes, pool_is_exact() ? start.bytes : full.bytes);
  pool_trim();
  EXPECT_EQ(pool_statistics().bytes, start.bytes);
  EXPECT_EQ(pool_statistics().peak_bytes, full.peak_bytes);
}

TEST(Pool, SizesBeyondTheAddressSpaceAreBadAlloc) {
  const PoolStatistics before = pool_statistics();
  for (const std::size_t bytes :
       {(std::size_t{1} << 47) + 1, std::size_t{1} << 50, std::size_t{1} << 62, std::size_t{1} << 63,
        std::numeric_limits<std::size_t>::max() - 62, std::numeric_limits<std::size_t>::max()})
    EXPECT_THROW(static_cast<void>(pool_allocate(bytes)), std::bad_alloc) << bytes;
  EXPECT_EQ(pool_statistics().bytes, before.bytes);
}

TEST(Pool, ARefusalOfTheUpstreamGivesTheCacheBackOnceAndThenPropagates) {
  CountingUpstream upstream;
  pool_deallocate(pool_allocate(1 << 20), 1 << 20);
  upstream.refuse_above(2 << 20);
  EXPECT_THROW(static_cast<void>(pool_allocate(64 << 20)), std::bad_alloc);
  EXPECT_EQ(upstream.allocations(), upstream.deallocations());  // the cached megabyte was offered first
  pool_deallocate(pool_allocate(1 << 20), 1 << 20);             // and the pool still works
}

TEST(Pool, ABlockFreedElsewhereIsReusedAndStaysBounded) {
  CountingUpstream upstream;
  constexpr int rounds = 200, blocks_per_round = 500;
  std::vector<void*> blocks(blocks_per_round);
  for (int round = 0; round < rounds; ++round) {
    for (void*& block : blocks) stamp(block = pool_allocate(192), 192, 1);
    std::thread([&] {
      for (void* block : blocks) pool_deallocate(block, 192);
    }).join();
  }
  const std::size_t bound = pool_is_exact() ? std::size_t{rounds} * blocks_per_round : 2 * blocks_per_round;
  EXPECT_LE(upstream.allocations(), bound);
}

TEST(Pool, AThreadsEndFlushesItsLists) {
  CountingUpstream upstream;
  pool_trim();
  const std::size_t before = pool_statistics().bytes;
  std::thread([] {
    for (const std::size_t bytes : Bytes{64, 640, 5000, 50'000}) pool_deallocate(pool_allocate(bytes), bytes);
  }).join();
  pool_trim();  // reaches the centre, so all of it was there
  EXPECT_EQ(pool_statistics().bytes, before);
  EXPECT_EQ(upstream.deallocations(), upstream.allocations());
}

// Destroyed after the pool's own thread-local, because it is constructed before the thread's first pool call.
struct LateOwner {
  void* block = nullptr;
  ~LateOwner() {
    pool_deallocate(block, 320);
    void* again = pool_allocate(320);
    stamp(again, 320, 9);
    pool_deallocate(again, 320);
  }
};

TEST(Pool, MemoryFreedByAThreadLocalsDestructorAfterTheFlushStillWorks) {
  CountingUpstream upstream;
  pool_trim();
  const std::size_t before = pool_statistics().bytes;
  std::thread([] {
    thread_local LateOwner owner;
    owner.block = nullptr;             // constructed
    owner.block = pool_allocate(320);  // then the pool's lists
    pool_deallocate(pool_allocate(320), 320);
  }).join();
  pool_trim();
  EXPECT_EQ(pool_statistics().bytes, before);
}

TEST(Pool, ServesPmrContainersAndWiderAlignments) {
  const std::size_t before = (pool_trim(), pool_statistics().bytes);
  {
    std::pmr::vector<double> values(&pool());
    for (int i = 0; i < 10'000; ++i) values.push_back(i);
    EXPECT_TRUE(aligned(values.data()));
    EXPECT_EQ(values[9'999], 9'999.0);
    void* page = pool().allocate(100, 4096);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(page) % 4096, 0u);
    pool().deallocate(page, 100, 4096);
    EXPECT_TRUE(pool() == pool());
    EXPECT_FALSE(pool() == *std::pmr::new_delete_resource());
  }
  pool_trim();
  EXPECT_EQ(pool_statistics().bytes, before);
}

// Every thread allocates, checks and frees its own blocks and hands others to its neighbours through a mailbox.
TEST(Pool, ThreadsHammering) {
  constexpr int threads = 4, steps = 20'000;
  struct Parcel {
    void* block;
    std::size_t bytes;
    int value;
  };
  std::mutex mutex;
  std::vector<Parcel> mailbox;
  std::atomic<int> damaged{0};
  const auto check_and_free = [&](const Parcel& parcel) {
    if (!stamped(parcel.block, parcel.bytes, parcel.value)) ++damaged;
    pool_deallocate(parcel.block, parcel.bytes);
  };
  std::vector<std::thread> team;
  for (int t = 0; t < threads; ++t)
    team.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<Parcel> own;
      for (int i = 0; i < steps; ++i) {
        const std::size_t bytes = random() % 50 == 0 ? random() % 200'000 : random() % 700;
        own.push_back({pool_allocate(bytes), bytes, t * 50 + i % 50});
        stamp(own.back().block, bytes, own.back().value);
        if (own.size() > 40) {
          std::swap(own[random() % own.size()], own.back());
          check_and_free(own.back());
          own.pop_back();
        }
        if (i % 16 == 0) {
          const std::lock_guard lock(mutex);
          if (mailbox.size() < 100) {
            mailbox.push_back(own.back());
            own.pop_back();
          } else {
            own.push_back(mailbox[random() % mailbox.size()]);
            std::erase_if(mailbox, [&](const Parcel& parcel) { return parcel.block == own.back().block; });
          }
        }
        if (i % 5'000 == 4'999) pool_trim();
      }
      for (const Parcel& parcel : own) check_and_free(parcel);
    });
  for (std::thread& thread : team) thread.join();
  for (const Parcel& parcel : mailbox) check_and_free(parcel);
  EXPECT_EQ(damaged, 0);
}

// One element too far: under AddressSanitizer the exact sizes must catch it; elsewhere the block's end is the class's.
TEST(PoolDeathTest, AOneElementOverrunIsCaughtWhenExact) {
#ifdef CAPSTAN_ADDRESS_SANITIZED
  ASSERT_TRUE(pool_is_exact());
  for (const std::size_t count : Bytes{3, 16, 1000, 20'000}) {
    auto* values = static_cast<volatile float*>(pool_allocate(count * sizeof(float)));
    values[count - 1] = 1;
    EXPECT_DEATH(values[count] = 1, "heap-buffer-overflow") << count;
    pool_deallocate(const_cast<float*>(values), count * sizeof(float));
  }
#else
  if (pool_is_exact()) {
    EXPECT_EQ(pool_block_bytes(12), 12u);
    return;
  }
  // The whole block may be written, up to its class's end, without touching a neighbour.
  std::vector<void*> blocks(64);
  for (int i = 0; i < 64; ++i) stamp(blocks[static_cast<std::size_t>(i)] = pool_allocate(12), pool_block_bytes(12), i);
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(stamped(blocks[static_cast<std::size_t>(i)], pool_block_bytes(12), i));
  for (void* block : blocks) pool_deallocate(block, 12);
#endif
}

}  // namespace
}  // namespace capstan
