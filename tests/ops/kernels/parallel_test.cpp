#include <capstan/ops/kernels/parallel.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace capstan::kernels {
namespace {

class Parallel : public testing::TestWithParam<int> {
 protected:
  Parallel() : before_(thread_count()) { set_thread_count(GetParam()); }
  ~Parallel() override { set_thread_count(before_); }

 private:
  int before_;
};
INSTANTIATE_TEST_SUITE_P(Threads, Parallel, testing::Values(1, 2, 4));

TEST_P(Parallel, RunsEachBlockOnce) {
  for (const Index blocks : {0, 1, 2, 3, 17, 1000}) {
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(blocks));
    parallel_for(Region::other, blocks, [&](Index block) { ++runs[static_cast<std::size_t>(block)]; });
    for (const auto& run : runs) EXPECT_EQ(run.load(), 1);
  }
}

TEST_P(Parallel, CountsRegionsOnlyIfSeveralThreadsMayRun) {
  const std::uint64_t before = parallel_regions(Region::random);
  parallel_for(Region::random, 1, [](Index) {});
  EXPECT_EQ(parallel_regions(Region::random), before) << "one block";
  parallel_for(Region::random, 8, [](Index) {});
  EXPECT_EQ(parallel_regions(Region::random), before + (GetParam() > 1 ? 1 : 0));
}

TEST_P(Parallel, RethrowsAndLeavesTheRegionWhole) {
  for (int i = 0; i < 20; ++i) {
    std::atomic<int> inside = 0;
    try {
      parallel_for(Region::other, 64, [&](Index block) {
        ++inside;
        if (block == 3) {
          --inside;
          throw std::runtime_error("block 3");
        }
        --inside;
      });
      FAIL() << "no exception";
    } catch (const std::runtime_error& error) { EXPECT_STREQ(error.what(), "block 3"); }
    EXPECT_EQ(inside.load(), 0);
  }
  std::atomic<int> after = 0;
  parallel_for(Region::other, 64, [&](Index) { ++after; });
  EXPECT_EQ(after.load(), 64);
}

/// Blocks that wait for each other: they end if each has a thread of its own.
void meet(int blocks) {
  std::atomic<int> arrived = 0;
  parallel_for(Region::other, blocks, [&](Index) {
    ++arrived;
    while (arrived.load() < blocks) std::this_thread::yield();
  });
  EXPECT_EQ(arrived.load(), blocks);
}

TEST_P(Parallel, EveryWorkerIsAskedAwakeOrAsleep) {
  for (int i = 0; i < 100; ++i) meet(GetParam());
  for (const int rest : {1, 5, 20}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(rest));
    meet(GetParam());
  }
}

// Not under sanitizers: ThreadSanitizer ends a child process that starts threads, and a thread of the parent's may have been
// inside AddressSanitizer's allocator at the fork, which then stays locked in the child.
#ifndef CAPSTAN_SANITIZED
TEST(ParallelFork, AChildMakesWorkersOfItsOwn) {
  const int before = thread_count();
  set_thread_count(8);
  parallel_for(Region::other, 64, [](Index) {});
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    std::thread([] {}).join();
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::atomic<int> runs = 0;
      parallel_for(Region::other, 64, [&](Index) { ++runs; });
      if (runs != 64) _exit(1);
      std::this_thread::sleep_for(std::chrono::microseconds(200));  // workers fall asleep and are woken
    }
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  set_thread_count(before);
}
#endif

TEST_P(Parallel, NestedRegionsRunInline) {
  std::atomic<int> runs = 0;
  const std::uint64_t before = parallel_regions(Region::other);
  parallel_for(Region::other, 8, [&](Index) {
    const auto self = std::this_thread::get_id();
    parallel_for(Region::other, 8, [&](Index) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      ++runs;
    });
  });
  EXPECT_EQ(runs.load(), 64);
  EXPECT_LE(parallel_regions(Region::other), before + 1);
}

TEST_P(Parallel, RegionsFromSeveralThreadsDoNotMix) {
  std::vector<std::thread> callers;
  std::vector<std::int64_t> sums(4);
  for (std::size_t caller = 0; caller < sums.size(); ++caller)
    callers.emplace_back([&, caller] {
      for (int repeat = 0; repeat < 50; ++repeat) {
        std::atomic<std::int64_t> sum = 0;
        parallel_for(Region::other, 100, [&](Index block) { sum += block; });
        sums[caller] += sum.load();
      }
    });
  for (std::thread& caller : callers) caller.join();
  for (const std::int64_t sum : sums) EXPECT_EQ(sum, 50 * 4950);
}

TEST_P(Parallel, BlocksCoverTheRangeWithTheSamePieces) {
  for (const Index count : {0, 1, 9, 10, 11, 95}) {
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
    parallel_blocks(Region::other, count, 10, [&](Index begin, Index end) {
      EXPECT_EQ(begin % 10, 0);
      EXPECT_LE(end - begin, 10);
      for (Index i = begin; i < end; ++i) ++runs[static_cast<std::size_t>(i)];
    });
    for (const auto& run : runs) EXPECT_EQ(run.load(), 1);
  }
}

TEST(ParallelSettings, ThreadCountIsAtLeastOne) {
  const int before = thread_count();
  EXPECT_GE(before, 1);
  set_thread_count(0);
  EXPECT_EQ(thread_count(), 1);
  set_thread_count(3);
  EXPECT_EQ(thread_count(), 3);
  set_thread_count(before);
  EXPECT_STREQ(name_of(Region::optimizer), "optimizer");
  EXPECT_STREQ(name_of(Region::other), "other");
}

}  // namespace
}  // namespace capstan::kernels
