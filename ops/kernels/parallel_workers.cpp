// Worker threads for parallel regions. Between regions a worker watches for the next one for a moment, then sleeps.
//
// A region is open to those who come in time: the caller starts on the blocks at once, workers join while there are
// blocks left, and the caller waits for nobody but them. So a worker that sleeps, or whose core another program has, can
// make a region no slower than the caller alone would be. (OpenMP's barriers wait for every thread: milliseconds after a
// rest, when the scheduler has put both on one core.)
#include <capstan/ops/kernels/parallel_workers.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>

namespace capstan::kernels {
namespace {

/// Watching spares the microseconds of a system call and of a core's waking; a training step's regions are closer than this.
constexpr std::chrono::microseconds watch_time{100};

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spins until `done()`; false if it is not within the watch time.
template <class F>
bool watch(F done) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point end{};
  while (true) {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      pause();
    }
    const Clock::time_point now = Clock::now();
    if (end == Clock::time_point{}) end = now + watch_time;
    if (now > end) return false;
  }
}

/// The region's number, how many workers may still join it, and how many are at work, in one word: to join is one
/// compare-and-swap, to close it to others one exchange.
struct Gate {
  std::uint32_t region;
  std::uint16_t places, active;

  std::uint64_t word() const { return std::uint64_t{region} << 32 | std::uint64_t{places} << 16 | active; }
  static Gate of(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word >> 32), static_cast<std::uint16_t>(word >> 16),
            static_cast<std::uint16_t>(word)};
  }
};

/// A thread's share of a region's blocks, [next, end). What is left of it others take when they are done with theirs.
struct alignas(64) Share {
  std::atomic<Index> next = 0;
  Index end = 0;
};

struct alignas(64) Worker {
  Share share;
  std::atomic<std::uint32_t> asleep = 1;
  pthread_t thread{};
  std::size_t number = 0;  // its share's; the caller has 0
  int barred_from = -1;    // a core
};

class Workers {
 public:
  /// False if no worker could be had: nothing has been run then.
  bool run(int team, Index blocks, FunctionRef<void(Index)> body) {
    const std::unique_lock one_region(region_mutex_, std::try_to_lock);
    if (!one_region.owns_lock()) return false;
    if (forked_.exchange(false)) forget();
    const auto wanted = static_cast<std::size_t>(std::min<Index>(std::min(team, most_threads) - 1, blocks - 1));
    start(wanted);
    const std::size_t helpers = std::min(wanted, workers_.size());
    if (helpers == 0) return false;
    body_ = &body;
    share_out(blocks, helpers + 1);
    const std::uint32_t region = Gate::of(gate_.load(std::memory_order_relaxed)).region + 1;
    // Sequentially consistent, as is the worker's check after it has said that it sleeps: one of the two sees the other.
    gate_.store(Gate{region, static_cast<std::uint16_t>(helpers), 0}.word());
    for (std::size_t i = 0; i < helpers; ++i)
      if (workers_[i]->asleep.load() != 0) wake(*workers_[i]);
    take_blocks(0);
    close();
    return true;
  }
  /// Called in a child process, which has none of its parent's threads.
  void note_fork() { forked_.store(true); }

 private:
  static constexpr int most_threads = 1025;

  void forget() {
    workers_.clear();
    gate_.store(0);
  }

  /// As many workers as asked for, or as the system grants: a region does with fewer.
  void start(std::size_t count) {
    try {
      while (workers_.size() < count) {
        auto worker = std::make_unique<Worker>();
        worker->number = workers_.size() + 1;
        workers_.reserve(workers_.size() + 1);
        std::thread thread([this, at = worker.get()] { work(*at); });
        worker->thread = thread.native_handle();
        workers_.push_back(worker.release());
        thread.detach();
      }
    } catch (const std::system_error&) {
    } catch (const std::bad_alloc&) {}
  }

  // The scheduler may wake a thread on the caller's own core (in virtual machines it nearly always does), where it would
  // wait for milliseconds. So it is barred from that core, until another core calls.
  static void wake(Worker& worker) {
    const int here = sched_getcpu();
    if (cpu_set_t cores; here != worker.barred_from && here >= 0 &&
                         pthread_getaffinity_np(pthread_self(), sizeof(cores), &cores) == 0 && CPU_COUNT(&cores) > 1) {
      CPU_CLR(static_cast<std::size_t>(here), &cores);
      pthread_setaffinity_np(worker.thread, sizeof(cores), &cores);
      worker.barred_from = here;
    }
    worker.asleep.store(0);
    worker.asleep.notify_one();
  }

  void work(Worker& self) {
    std::uint32_t seen = 0;
    while (true) {
      self.asleep.wait(1);
      do {
        if (!join(seen)) continue;
        take_blocks(self.number);
        if (Gate::of(gate_.fetch_sub(1, std::memory_order_acq_rel)).active == 1) gate_.notify_one();
      } while (watch([&] { return Gate::of(gate_.load(std::memory_order_acquire)).region != seen; }));
      self.asleep.store(1);
      if (Gate::of(gate_.load()).region != seen) self.asleep.store(0);
    }
  }

  /// Enters the region that is open, if it has a place left. `seen` becomes its number either way.
  bool join(std::uint32_t& seen) {
    std::uint64_t word = gate_.load(std::memory_order_acquire);
    while (true) {
      Gate gate = Gate::of(word);
      seen = gate.region;
      if (gate.places == 0) return false;
      --gate.places;
      ++gate.active;
      if (gate_.compare_exchange_weak(word, gate.word(), std::memory_order_acq_rel, std::memory_order_acquire))
        return true;
    }
  }

  Share& share(std::size_t number) { return number == 0 ? callers_share_ : workers_[number - 1]->share; }

  // Blocks mostly follow memory, so a thread that has the same share of each region finds in its own cache what it wrote
  // in the one before.
  void share_out(Index blocks, std::size_t shares) {
    shares_ = shares;
    const auto count = static_cast<Index>(shares);
    for (Index i = 0; i < count; ++i) {
      Share& s = share(static_cast<std::size_t>(i));
      s.next.store(blocks * i / count, std::memory_order_relaxed);
      s.end = blocks * (i + 1) / count;
    }
  }

  /// Those of one's own share first.
  void take_blocks(std::size_t number) {
    const FunctionRef<void(Index)>& body = *body_;
    const std::size_t shares = shares_;
    for (std::size_t i = 0; i < shares; ++i) {
      Share& from = share((number + i) % shares);
      for (Index block = from.next.fetch_add(1, std::memory_order_relaxed); block < from.end;
           block = from.next.fetch_add(1, std::memory_order_relaxed))
        body(block);
    }
  }

  void close() {
    gate_.fetch_and(~(std::uint64_t{0xffff} << 16), std::memory_order_acq_rel);
    const auto idle = [this] { return Gate::of(gate_.load(std::memory_order_acquire)).active == 0; };
    if (watch(idle)) return;
    for (std::uint64_t word = gate_.load(std::memory_order_acquire); Gate::of(word).active != 0;
         word = gate_.load(std::memory_order_acquire))
      gate_.wait(word, std::memory_order_acquire);
  }

  std::mutex region_mutex_;
  std::atomic<bool> forked_ = false;
  std::vector<Worker*> workers_;  // never destroyed: they may still wait while static objects are destroyed
  const FunctionRef<void(Index)>* body_ = nullptr;
  std::size_t shares_ = 0;
  alignas(64) std::atomic<std::uint64_t> gate_ = 0;
  Share callers_share_;
};

}  // namespace

bool run_on_workers(int team, Index blocks, FunctionRef<void(Index)> body) {
  static Workers* const workers = [] {
    static Workers* const made = new Workers;  // never destroyed, as its threads are not
    pthread_atfork(nullptr, nullptr, [] { made->note_fork(); });
    return made;
  }();
  if (workers->run(team, blocks, body)) return true;
  for (Index block = 0; block < blocks; ++block) body(block);
  return false;
}

}  // namespace capstan::kernels
