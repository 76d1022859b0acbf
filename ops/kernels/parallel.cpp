// Counting, nesting and exceptions of parallel regions; the threads themselves are in parallel_workers.cpp.
#include <capstan/ops/kernels/parallel.h>
#include <capstan/ops/kernels/parallel_workers.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>

#include <sched.h>

namespace capstan::kernels {
namespace {

thread_local bool inside_region = false;

/// Marks the thread for the time of a block, so that regions within it run inline.
class Inside {
 public:
  Inside() : before_(inside_region) { inside_region = true; }
  ~Inside() { inside_region = before_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  bool before_;
};

/// The exception of the smallest block that threw.
class FirstError {
 public:
  void record(Index block, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error_ && block_ <= block) return;
    block_ = block;
    error_ = std::move(error);
    failed_.store(true, std::memory_order_relaxed);
  }
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  void rethrow() {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> failed_ = false;
  Index block_ = 0;
  std::exception_ptr error_;
};

/// OMP_NUM_THREADS is a list, one number for each level of nesting; only the first one matters here.
int threads_of_environment() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  const long threads = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  if (threads >= 1) return static_cast<int>(std::min(threads, 1024L));
  if (cpu_set_t allowed; sched_getaffinity(0, sizeof(allowed), &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

std::atomic<int>& threads() {
  static std::atomic<int> count = threads_of_environment();
  return count;
}

std::array<std::atomic<std::uint64_t>, region_kinds> regions_run{};

}  // namespace

const char* name_of(Region region) {
  constexpr std::array<const char*, region_kinds> names = {"gemm",      "elementwise", "copy",          "reduce",
                                                           "softmax",   "layer_norm",  "cross_entropy", "embedding",
                                                           "optimizer", "random",      "attention",     "other"};
  return names[static_cast<std::size_t>(region)];
}

int thread_count() { return threads().load(std::memory_order_relaxed); }

void set_thread_count(int count) { threads().store(std::max(1, count), std::memory_order_relaxed); }

void parallel_for(Region region, Index blocks, FunctionRef<void(Index)> body) {
  if (blocks <= 0) return;
  const int team = thread_count();
  if (blocks == 1 || team == 1 || inside_region) {
    for (Index block = 0; block < blocks; ++block) body(block);
    return;
  }
  FirstError error;
  const auto guarded = [&](Index block) {
    if (error.failed()) return;
    const Inside inside;
    try {
      body(block);
    } catch (...) { error.record(block, std::current_exception()); }
  };
  if (run_on_workers(team, blocks, guarded))
    regions_run[static_cast<std::size_t>(region)].fetch_add(1, std::memory_order_relaxed);
  error.rethrow();
}

std::uint64_t parallel_regions(Region region) {
  return regions_run[static_cast<std::size_t>(region)].load(std::memory_order_relaxed);
}

}  // namespace capstan::kernels
