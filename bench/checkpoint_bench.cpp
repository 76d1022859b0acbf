// Memory against time: one training step's forward and backward of a Gpt, with its blocks kept and with Config::checkpoint;
// checkpoint/{off,on}/<blocks>x<B>x<T>x<C>, f32. Counters: saved, what the tape keeps after forward, and peak, the most that the
// step takes from the system, both in bytes. Threads by OMP_NUM_THREADS.
#include <capstan/autograd/pool.h>
#include <capstan/nn/nn.h>

#include <atomic>

#include "bench.h"

namespace capstan::bench {
namespace {

/// Counts what the pool takes while it lives.
class Meter final : public std::pmr::memory_resource {
 public:
  Meter() {
    pool_trim();
    previous_ = set_pool_upstream(this);
  }
  ~Meter() override {
    pool_trim();
    set_pool_upstream(previous_);
  }
  std::int64_t peak() const { return peak_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    const std::int64_t now = now_ += static_cast<std::int64_t>(bytes);
    for (std::int64_t peak = peak_; now > peak && !peak_.compare_exchange_weak(peak, now);) {}
    return previous_->allocate(bytes, alignment);
  }
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override {
    now_ -= static_cast<std::int64_t>(bytes);
    previous_->deallocate(block, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  std::pmr::memory_resource* previous_ = nullptr;
  std::atomic<std::int64_t> now_{0}, peak_{0};
};

Tensor random_ids(Key key, const Shape& shape, Index vocab) {
  std::vector<std::int32_t> ids;
  for (Index i = 0; i < shape.elements(); ++i)
    ids.push_back(static_cast<std::int32_t>(key.bits32(i) % static_cast<std::uint32_t>(vocab)));
  return tensor(ids, shape);
}

std::vector<double> gradients_of(const nn::Gpt& model, const Tensor& ids, const Tensor& targets) {
  std::vector<double> all;
  const nn::Gpt gradients = grad(model, [&](const nn::Gpt& m) { return cross_entropy(m(ids), targets); });
  for_each_tensor(gradients, [&](const Tensor& x) {
    const std::vector<double> elements = x.to_doubles();
    all.insert(all.end(), elements.begin(), elements.end());
  });
  return all;
}

void run(benchmark::State& state, nn::Gpt::Config config, bool checkpoint, Index batch) {
  const auto make = [&](bool recompute) {
    nn::Init init{.seed = 1};
    config.checkpoint = recompute;
    return nn::Gpt(init, config);
  };
  const nn::Gpt model = make(checkpoint);
  const Tensor ids = random_ids({.seed = 2}, {batch, config.context}, config.vocab);
  const Tensor targets = random_ids({.seed = 3}, {batch, config.context}, config.vocab);
  // Verified: the same bits as the other way.
  const std::vector<double> got = gradients_of(model, ids, targets);
  verify("checkpoint", tensor(got, {static_cast<Index>(got.size())}), gradients_of(make(!checkpoint), ids, targets), 0);

  Index saved = 0;
  const auto step = [&] {
    Tape tape;
    const nn::Gpt watched = nn::watch(tape, model);
    const Tensor loss = cross_entropy(watched(ids), targets);
    saved = tape.saved_bytes();
    benchmark::DoNotOptimize(tape.backward(loss).unreached());
  };
  {
    const Meter meter;
    step();
    state.counters["peak"] = static_cast<double>(meter.peak());
  }
  for (auto _ : state) step();
  state.counters["saved"] = static_cast<double>(saved);
  state.counters["threads"] = kernels::thread_count();
}

}  // namespace
}  // namespace capstan::bench

int main(int count, char** arguments) {
  using namespace capstan::bench;
  for (const bool checkpoint : {false, true})
    benchmark::RegisterBenchmark(
        checkpoint ? "checkpoint/on/6x4x64x64" : "checkpoint/off/6x4x64x64",
        [checkpoint](benchmark::State& state) {
          run(state, {.vocab = 65, .context = 64, .width = 64, .heads = 4, .blocks = 6}, checkpoint, 4);
        })
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  return capstan::bench::main(count, arguments);
}
