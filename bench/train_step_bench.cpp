// Whole training steps (forward, backward, AdamW) on random tokens: train_step/nano is V 65, T 64, 4 blocks, 4 heads, C 128,
// B 12; f32. Counter tokens/s. Threads by OMP_NUM_THREADS.
#include <capstan/nn/nn.h>

#include "bench.h"

namespace capstan::bench {
namespace {

Tensor random_ids(Key key, const Shape& shape, Index vocab) {
  std::vector<std::int32_t> ids;
  for (Index i = 0; i < shape.elements(); ++i)
    ids.push_back(static_cast<std::int32_t>(key.bits32(i) % static_cast<std::uint32_t>(vocab)));
  return tensor(ids, shape);
}

void train_step(benchmark::State& state, const nn::Gpt::Config& config, Index batch) {
  nn::Init init{.seed = 1};
  nn::Gpt model(init, config);
  nn::AdamW optimizer{.lr = 1e-3};
  const Tensor ids = random_ids({.seed = 2}, {batch, config.context}, config.vocab);
  const Tensor targets = random_ids({.seed = 3}, {batch, config.context}, config.vocab);
  const auto step = [&] {
    auto [loss, gradients] = value_and_grad(model, [&](const nn::Gpt& m) { return cross_entropy(m(ids), targets); });
    optimizer.step(model, gradients);
    return loss.item();
  };
  // Verified: a fresh model knows nothing (log V), and steps on one batch bring its loss down.
  const double first = step();
  verify("train_step", tensor(first, DType::f64), {std::log(static_cast<double>(config.vocab))}, 0.05);
  double last = first;
  for (int i = 0; i < 3; ++i) last = step();
  if (!(last < first)) verify("train_step", tensor(last, DType::f64), {first - 1}, 0);
  for (auto _ : state) benchmark::DoNotOptimize(step());
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(batch * config.context), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["threads"] = benchmark::Counter(kernels::thread_count());
}

}  // namespace
}  // namespace capstan::bench

int main(int count, char** arguments) {
  using namespace capstan::bench;
  benchmark::RegisterBenchmark("train_step/nano", [](benchmark::State& state) {
    train_step(state, {.vocab = 65, .context = 64, .width = 128, .heads = 4, .blocks = 4}, 12);
  })->UseRealTime();
  return capstan::bench::main(count, arguments);
}
