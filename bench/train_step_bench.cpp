// Whole training steps (forward, backward, AdamW) of GPT-2-shaped models on random tokens, f32; threads by
// OMP_NUM_THREADS.
//   train_step/nano    V 65, 4 blocks, 4 heads, C 128, B 12, T 64
//   train_step/baby    V 65, 6 blocks, 6 heads, C 384, B 16, T 256
//   train_step/gpt2s   GPT-2 124M, B 4, T 64
//   train_step/gpt2    GPT-2 124M, B 1, T 1024
// The last two take seconds a step and run only where --benchmark_filter names gpt2. Counters: tokens/s; peak_MB, the
// most that the process ever had in memory (run one model alone to read it), and pool_MB, what its tensors took of that;
// upstream and faults: requests of memory that went past the pool, and page faults, in a step.
#include <capstan/autograd/pool.h>
#include <capstan/nn/nn.h>

#include "bench.h"

#include <sys/resource.h>

namespace capstan::bench {
namespace {

Tensor random_ids(Key key, const Shape& shape, Index vocab) {
  std::vector<std::int32_t> ids;
  for (Index i = 0; i < shape.elements(); ++i)
    ids.push_back(static_cast<std::int32_t>(key.bits32(i) % static_cast<std::uint32_t>(vocab)));
  return tensor(ids, shape);
}

rusage usage() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used;
}

/// `settling`: steps that are not measured, of which the last must have a smaller loss than the first.
void train_step(benchmark::State& state, const nn::Gpt::Config& config, Index batch, int settling) {
  nn::Init init{.seed = 1};
  nn::Gpt model(init, config);
  nn::AdamW optimizer{.lr = 1e-4};
  const Tensor ids = random_ids({.seed = 2}, {batch, config.context}, config.vocab);
  const Tensor targets = random_ids({.seed = 3}, {batch, config.context}, config.vocab);
  const auto step = [&] {
    auto [loss, gradients] = value_and_grad(model, [&](const nn::Gpt& m) { return m.loss(ids, targets); });
    optimizer.step(model, gradients);
    return loss.item();
  };
  // Verified: a fresh model knows nothing (log V), and steps on one batch bring its loss down.
  const double first = step();
  verify("train_step", tensor(first, DType::f64), {std::log(static_cast<double>(config.vocab))}, 0.05);
  double last = first;
  for (int i = 0; i < settling; ++i) last = step();
  if (!(last < first)) verify("train_step", tensor(last, DType::f64), {first - 1}, 0);

  const rusage before = usage();
  const PoolStatistics pool_before = pool_statistics();
  for (auto _ : state) benchmark::DoNotOptimize(step());
  const rusage after = usage();
  const PoolStatistics pool_after = pool_statistics();
  const auto per_step = [](auto count) {
    return benchmark::Counter(static_cast<double>(count), benchmark::Counter::kAvgIterations);
  };
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(batch * config.context), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["peak_MB"] = static_cast<double>(after.ru_maxrss) / 1024;
  state.counters["pool_MB"] = static_cast<double>(pool_after.peak_bytes) / (1024 * 1024);
  state.counters["upstream"] = per_step(pool_after.upstream_allocations - pool_before.upstream_allocations);
  state.counters["faults"] = per_step(after.ru_minflt - before.ru_minflt);
  state.counters["threads"] = benchmark::Counter(kernels::thread_count());
}

void add(const char* name, const nn::Gpt::Config& config, Index batch, int settling) {
  benchmark::RegisterBenchmark(name, [=](benchmark::State& state) { train_step(state, config, batch, settling); })
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

/// True if an argument, such as --benchmark_filter=…, has this text.
bool asked_for(int count, char** arguments, std::string_view text) {
  return std::any_of(arguments + 1, arguments + count,
                     [&](std::string_view argument) { return argument.find(text) != argument.npos; });
}

}  // namespace
}  // namespace capstan::bench

int main(int count, char** arguments) {
  using namespace capstan::bench;
  add("train_step/nano", {.vocab = 65, .context = 64, .width = 128, .heads = 4, .blocks = 4}, 12, 3);
  add("train_step/baby", {.vocab = 65, .context = 256, .width = 384, .heads = 6, .blocks = 6}, 16, 1);
  if (asked_for(count, arguments, "gpt2")) {
    add("train_step/gpt2s", {.vocab = 50257, .context = 64, .width = 768, .heads = 12, .blocks = 12}, 4, 2);
    add("train_step/gpt2", {.vocab = 50257, .context = 1024, .width = 768, .heads = 12, .blocks = 12}, 1, 2);
  }
  return capstan::bench::main(count, arguments);
}
