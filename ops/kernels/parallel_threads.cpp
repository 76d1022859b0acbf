// Parallel regions on std::thread: for ThreadSanitizer, which does not see libgomp's synchronisation, and for clang,
// whose OpenMP is a package of its own. Not compiled with CAPSTAN_OPENMP=1.
#if !CAPSTAN_OPENMP

#include <capstan/ops/kernels/parallel_backend.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace capstan::kernels {
namespace {

/// Workers that sleep between regions. One region at a time; a second one, from another thread, runs inline.
class Workers {
 public:
  bool run(int team, Index blocks, FunctionRef<void(Index)> body) {
    const std::unique_lock region(region_mutex_, std::try_to_lock);
    if (!region.owns_lock()) return false;
    {
      const std::lock_guard lock(mutex_);
      while (started_ < team - 1) {
        std::thread([this, place = started_] { work(place); }).detach();
        ++started_;
      }
      body_ = &body;
      blocks_ = blocks;
      next_.store(0, std::memory_order_relaxed);
      helpers_ = team - 1;
      busy_ = helpers_;
      ++generation_;
    }
    wake_.notify_all();
    take_blocks(body, blocks);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
    return true;
  }

 private:
  void take_blocks(const FunctionRef<void(Index)>& body, Index blocks) {
    for (Index block = next_.fetch_add(1, std::memory_order_relaxed); block < blocks;
         block = next_.fetch_add(1, std::memory_order_relaxed))
      body(block);
  }

  void work(int place) {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return generation_ != seen; });
      seen = generation_;
      if (place >= helpers_) continue;
      const FunctionRef<void(Index)>& body = *body_;
      const Index blocks = blocks_;
      lock.unlock();
      take_blocks(body, blocks);
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex region_mutex_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::atomic<Index> next_ = 0;
  const FunctionRef<void(Index)>* body_ = nullptr;
  Index blocks_ = 0;
  int started_ = 0, helpers_ = 0, busy_ = 0;
  std::uint64_t generation_ = 0;
};

}  // namespace

const char* backend_name() { return "std::thread"; }

bool run_on_threads(int team, Index blocks, FunctionRef<void(Index)> body) {
  // Never destroyed: the detached workers may still wait on it while static objects are destroyed.
  static Workers* const workers = new Workers;
  if (workers->run(team, blocks, body)) return true;
  for (Index block = 0; block < blocks; ++block) body(block);
  return false;
}

}  // namespace capstan::kernels

#endif
