// The tape's overhead: chains of 1 000 ops, forward + backward. Counter per_op: the time of one of them. The 8×8 layers
// multiply by an orthogonal matrix: any other would sink the chain into denormals. Attention of 8 tokens of width 8:
// nearly all of it is overhead. tape/ten_million takes seconds and most of a GB, so it runs only if it is named:
// --benchmark_filter=tape/ten_million.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/ops.h>

#include "bench.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>

namespace capstan::bench {
namespace {

constexpr int chain = 1000;

void report(benchmark::State& state) {
  state.counters["per_op"] =
      benchmark::Counter(chain, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// y = y · x, both gradients.
void scalar_mul(benchmark::State& state) {
  const Tensor x0 = tensor(1.001, DType::f64), y0 = tensor(1, DType::f64);
  const auto run = [&] {
    Tape tape;
    const Tensor x = tape.watch(x0);
    Tensor y = tape.watch(y0);
    for (int i = 0; i < chain; ++i) y = y * x;
    return tape.backward(y).of(x);
  };
  verify("tape/scalar_mul", run(), {chain * std::pow(1.001, chain - 1)}, 1e-11);
  for (auto _ : state) benchmark::DoNotOptimize(run());
  report(state);
}

/// y = y · c with a constant c.
void scalar_mul_constant(benchmark::State& state) {
  const Tensor c = tensor(1.001, DType::f64), y0 = tensor(1, DType::f64);
  const auto run = [&] {
    Tape tape;
    const Tensor start = tape.watch(y0);
    Tensor y = start;
    for (int i = 0; i < chain; ++i) y = y * c;
    return tape.backward(y).of(start);
  };
  verify("tape/scalar_mul_constant", run(), {std::pow(1.001, chain)}, 1e-11);
  for (auto _ : state) benchmark::DoNotOptimize(run());
  report(state);
}

/// y = y · x without a tape.
void scalar_mul_no_tape(benchmark::State& state) {
  const Tensor x = tensor(1.001, DType::f64), y0 = tensor(1, DType::f64);
  const auto run = [&] {
    Tensor y = y0;
    for (int i = 0; i < chain; ++i) y = y * x;
    return y;
  };
  verify("tape/scalar_mul_no_tape", run(), {std::pow(1.001, chain)}, 1e-11);
  for (auto _ : state) benchmark::DoNotOptimize(run());
  report(state);
}

/// A reflection I − 2uuᵀ: orthogonal.
Tensor reflection(DType dtype) {
  const Tensor u = reshape(normal({.seed = 5}, {8}, 0, 1, DType::f64), Shape{8, 1});
  return cast(eye(8, DType::f64) - 2.0 * matmul(u, transpose(u)) / sum(u * u), dtype);
}

void matmul_tanh(benchmark::State& state, DType dtype) {
  const Tensor weight = reflection(dtype), start = normal({.seed = 6}, {8, 8}, 0, 0.01, dtype),
               up = ones({8, 8}, dtype);
  const auto run = [&](int layers) {
    Tape tape;
    const Tensor w = tape.watch(weight);
    Tensor y = tape.watch(start);
    for (int i = 0; i < layers; ++i) y = tanh(matmul(y, w));
    return tape.backward(y, up).of(w);
  };
  const Tensor layer = tanh(matmul(start, weight));
  verify("tape/matmul_tanh_8x8", run(1), matmul(transpose(start), 1.0 - layer * layer).to_doubles(), 1e-6);
  for (auto _ : state) benchmark::DoNotOptimize(run(chain));
  report(state);
}

using Attend = Tensor (*)(const Tensor&, const Tensor&, const Tensor&);
Tensor composed(const Tensor& q, const Tensor& k, const Tensor& v) {
  return attention_reference(q, k, v, {.mask = Mask::causal()}).output;
}
Tensor fused(const Tensor& q, const Tensor& k, const Tensor& v) {
  return attention(q, k, v, {.mask = Mask::causal()}).output;
}

/// Causal attention of one head, all three gradients.
void attention_8x8(benchmark::State& state, Attend attend) {
  const Shape shape{1, 1, 8, 8};
  const Tensor q0 = normal({.seed = 1}, shape), k0 = normal({.seed = 2}, shape), v0 = normal({.seed = 3}, shape),
               up = normal({.seed = 4}, shape);
  const auto run = [&](Attend path) {
    Tape tape;
    const Tensor q = tape.watch(q0), k = tape.watch(k0), v = tape.watch(v0);
    const Gradients g = tape.backward(path(q, k, v), up);
    return g.of(q) + g.of(k) + g.of(v);
  };
  verify("tape/attention_8x8", run(attend), run(attend == fused ? composed : fused).to_doubles(), 1e-5);
  for (auto _ : state) {
    Tape tape;
    const Tensor q = tape.watch(q0), k = tape.watch(k0), v = tape.watch(v0);
    benchmark::DoNotOptimize(tape.backward(attend(q, k, v), up));
  }
}

double seconds_of(FunctionRef<void()> work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Bars the calling thread from a core. A new thread may start on its parent's, and stay there for milliseconds.
void avoid_core(int core) {
  cpu_set_t cores;
  if (pthread_getaffinity_np(pthread_self(), sizeof(cores), &cores) != 0 || CPU_COUNT(&cores) < 2) return;
  CPU_CLR(static_cast<std::size_t>(core), &cores);
  pthread_setaffinity_np(pthread_self(), sizeof(cores), &cores);
}

/// A chain with a constant on each of two threads, a tape each, against one thread. Counter speedup: 2 at best.
void two_threads(benchmark::State& state) {
  constexpr int rounds = 200;
  const Tensor c = tensor(1.001, DType::f64), y0 = tensor(1, DType::f64);
  const auto run = [&] {
    Tape tape;
    const Tensor start = tape.watch(y0);
    Tensor y = start;
    for (int i = 0; i < chain; ++i) y = y * c;
    return tape.backward(y).of(start);
  };
  verify("tape/two_threads", run(), {std::pow(1.001, chain)}, 1e-11);
  const auto work = [&] {
    for (int i = 0; i < rounds; ++i) benchmark::DoNotOptimize(run());
  };
  std::thread([] {}).join();  // one against two in the same process: counting references takes locks from here on
  double alone = 0, together = 0;
  for (auto _ : state) {
    alone += seconds_of(work);
    const double both = seconds_of([&] {
      std::thread other([&work, core = sched_getcpu()] {
        avoid_core(core);
        work();
      });
      work();
      other.join();
    });
    together += both;
    state.SetIterationTime(both);
  }
  state.counters["speedup"] = 2 * alone / together;
}

/// Ten million x · c on a stack of 256 KB: seconds to build, to run backward, to let go, and the peak of memory. Twice: what
/// the first one takes longer to build (first_build) goes into page faults, which a tape that finds its memory in the pool
/// does not have.
void ten_million(benchmark::State& state) {
  constexpr int nodes = 10'000'000;
  struct Result {
    double build, backward, drop, slope;
  };
  const auto run = [](void* memory) -> void* {
    const Tensor c = tensor(1 + 1e-8, DType::f64);
    Result& result = *static_cast<Result*>(memory);
    std::optional<Tape> tape(std::in_place);
    const Tensor x = tape->watch(tensor(1, DType::f64));
    Tensor y = x;
    result.build = seconds_of([&] {
      for (int i = 0; i < nodes; ++i) y = y * c;
    });
    result.backward = seconds_of([&] { result.slope = tape->backward(y).of(x).item(); });
    result.drop = seconds_of([&] { tape.reset(); });
    return nullptr;
  };
  Result result{};
  double first_build = 0;
  for (auto _ : state) {
    pthread_attr_t small;
    pthread_t thread;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 * 1024);
    pthread_create(&thread, &small, run, &result);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&small);
    if (first_build == 0) first_build = result.build;
  }
  verify("tape/ten_million", tensor(result.slope, DType::f64), {std::exp(nodes * std::log1p(1e-8))}, 1e-9);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["first_build"] = first_build;
  state.counters["build"] = result.build;
  state.counters["backward"] = result.backward;
  state.counters["drop"] = result.drop;
  state.counters["peak_MB"] = static_cast<double>(usage.ru_maxrss) * 1024e-6;
}

}  // namespace
}  // namespace capstan::bench

int main(int count, char** arguments) {
  using namespace capstan;
  using namespace capstan::bench;
  benchmark::RegisterBenchmark("tape/scalar_mul", scalar_mul)->UseRealTime();
  benchmark::RegisterBenchmark("tape/scalar_mul_constant", scalar_mul_constant)->UseRealTime();
  benchmark::RegisterBenchmark("tape/scalar_mul_no_tape", scalar_mul_no_tape)->UseRealTime();
  for (const DType dtype : {DType::f32, DType::f64})
    benchmark::RegisterBenchmark(dtype == DType::f32 ? "tape/matmul_tanh_8x8" : "tape/matmul_tanh_8x8_f64",
                                 [dtype](benchmark::State& state) { matmul_tanh(state, dtype); })
        ->UseRealTime();
  for (const auto attend : {composed, fused})
    benchmark::RegisterBenchmark(attend == fused ? "tape/attention_8x8_fused" : "tape/attention_8x8_composed",
                                 [attend](benchmark::State& state) { attention_8x8(state, attend); })
        ->UseRealTime();
  benchmark::RegisterBenchmark("tape/two_threads", two_threads)->UseManualTime();
  for (int i = 1; i < count; ++i)
    if (std::string_view(arguments[i]).find("ten_million") != std::string_view::npos)
      benchmark::RegisterBenchmark("tape/ten_million", ten_million)->Iterations(2);
  return capstan::bench::main(count, arguments);
}
