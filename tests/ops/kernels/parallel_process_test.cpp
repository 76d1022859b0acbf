// What parallel.h promises of a whole process: it keeps to the processors that it may run on, and does without threads that the
// system refuses. Each statement runs in a process of its own, started afresh (GoogleTest's "threadsafe" death tests), for
// the number of threads is read once and workers stay.
#include <capstan/ops/kernels/parallel.h>
#include <gtest/gtest.h>

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <thread>

namespace capstan::kernels {
namespace {

class ParallelProcess : public testing::Test {
 protected:
  ParallelProcess() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

/// Ends the child process, as a failure if `good` is false.
void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::_Exit(1);
}

/// Allows this process one processor, and returns its number.
int keep_to_one_processor() {
  cpu_set_t allowed;
  require(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "the mask can be read");
  std::size_t first = 0;
  while (!CPU_ISSET(first, &allowed)) ++first;
  CPU_ZERO(&allowed);
  CPU_SET(first, &allowed);
  require(sched_setaffinity(0, sizeof allowed, &allowed) == 0, "the mask can be set");
  return static_cast<int>(first);
}

TEST_F(ParallelProcess, AsManyThreadsAsProcessorsItMayRunOn) {
  const auto one = [] {
    unsetenv("OMP_NUM_THREADS");
    keep_to_one_processor();
    require(thread_count() == 1, "one thread for one processor");
    std::_Exit(0);
  };
  EXPECT_EXIT(one(), testing::ExitedWithCode(0), "");
  const auto all = [] {
    unsetenv("OMP_NUM_THREADS");
    cpu_set_t allowed;
    require(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "the mask can be read");
    require(thread_count() == CPU_COUNT(&allowed), "a thread for each processor");
    std::_Exit(0);
  };
  EXPECT_EXIT(all(), testing::ExitedWithCode(0), "");
}

TEST_F(ParallelProcess, TheEnvironmentsNumberOverridesTheProcessors) {
  const auto child = [] {
    setenv("OMP_NUM_THREADS", "3,2", 1);
    keep_to_one_processor();
    require(thread_count() == 3, "the first number of the list");
    std::_Exit(0);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

TEST_F(ParallelProcess, WorkersKeepToTheProcessorsOfTheProcess) {
  const auto child = [] {
    const int only = keep_to_one_processor();
    set_thread_count(4);
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::atomic<int> elsewhere = 0, arrived = 0;
      parallel_for(Region::other, 4, [&](Index) {
        ++arrived;
        while (arrived.load() < 4) std::this_thread::yield();  // so each of the four threads has a block
        elsewhere += sched_getcpu() != only;
      });
      require(elsewhere == 0, "all blocks ran on the only processor");
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

/// From now on the system refuses new threads: no address space holds their stacks.
void refuse_threads() {
  pthread_attr_t huge;
  pthread_attr_init(&huge);
  pthread_attr_setstacksize(&huge, std::size_t{1} << 52);
  require(pthread_setattr_default_np(&huge) == 0, "the default stack can be set");
  bool refused = false;
  try {
    std::thread([] {}).join();
  } catch (const std::system_error&) { refused = true; }
  require(refused, "a thread is refused");
}

void require_right_results(bool in_parallel) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    const std::uint64_t before = parallel_regions(Region::other);
    std::atomic<Index> sum = 0;
    parallel_for(Region::other, 64, [&](Index block) { sum += block + 1; });
    require(sum == 64 * 65 / 2, "each block ran once");
    require(parallel_regions(Region::other) == before + (in_parallel ? 1 : 0), "parallel with workers, and only then");
  }
}

TEST_F(ParallelProcess, RunsAloneIfEveryThreadIsRefused) {
  const auto child = [] {
    refuse_threads();
    set_thread_count(4);
    require_right_results(false);
    std::_Exit(0);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

TEST_F(ParallelProcess, RunsWithTheWorkersThatItGotBeforeOthersWereRefused) {
  const auto child = [] {
    set_thread_count(2);
    require_right_results(true);
    refuse_threads();
    set_thread_count(8);
    require_right_results(true);
    std::_Exit(0);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace capstan::kernels
