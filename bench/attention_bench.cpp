// Attention forward, and forward + backward, through the tape, f32:
// attention/{fused,composed}/{fwd,fwd_bwd}/BxHxTxD[/variant]. Without a variant it is causal. full: no mask; padded: half
// of the keys; windowN: causal, the last N keys; grouped: causal, four query heads a key head; sweep: causal, T and D at a
// fixed total. Threads by OMP_NUM_THREADS.
//
// GFLOP/s counts the pairs that see each other, causal as the half T²/2: 4·D operations a pair forward, 3.5 times that
// with backward. attention/memory/… runs only if the filter says `memory`: it takes seconds, and ends the program above
// its bound.
#include <capstan/autograd/pool.h>
#include <capstan/autograd/tape.h>

#include "attention_by_loops.h"
#include "bench.h"

#include <sys/resource.h>

namespace capstan::bench {
namespace {

struct Case {
  Index batch, heads, length, width;
  const char* variant = "";
  Index key_heads = heads;
  Index window = 0;  // 0: none
  bool causal = true, padded = false;

  std::string name() const { return fmt::format("{}x{}x{}x{}{}", batch, heads, length, width, variant); }
  Shape shape() const { return {batch, heads, length, width}; }
  Shape key_shape() const { return {batch, key_heads, length, width}; }
  Mask mask() const {
    Mask mask = causal ? Mask::causal() : Mask::all();
    if (window > 0) mask = mask & Mask::window(window - 1);
    if (padded) mask = mask & Mask::padding(std::vector<Index>(static_cast<std::size_t>(batch), length / 2));
    return mask;
  }
  Sight sight() const {
    return {window > 0 ? 1 - window : 1 - length, causal ? 0 : length - 1, padded ? length / 2 : length};
  }
  double operations() const {
    const double t = static_cast<double>(length);
    const double pairs = window > 0 ? t * static_cast<double>(window) : causal || padded ? t * t / 2 : t * t;
    return 4.0 * static_cast<double>(batch * heads * width) * pairs;
  }
  double bytes() const { return 2.0 * static_cast<double>(shape().elements() + key_shape().elements()) * 4; }
};

std::vector<Case> cases() {
  std::vector<Case> all = {{1, 1, 8, 8},     {1, 1, 64, 64},    {4, 4, 64, 16},   {8, 8, 128, 64},   {4, 12, 256, 64},
                           {1, 12, 512, 64}, {1, 12, 1024, 64}, {1, 8, 2048, 64}, {1, 8, 2048, 128}, {1, 4, 4096, 64},
                           {1, 2, 8192, 64}, {8, 8, 128, 32},   {8, 8, 128, 128}, {1, 1, 256, 64},   {1, 4, 256, 64}};
  for (const Case& s : {Case{1, 12, 512, 64}, Case{1, 12, 1024, 64}, Case{1, 4, 4096, 64}}) {
    const auto variant = [&](const char* name) {
      Case& c = all.emplace_back(s);
      c.variant = name;
      return &c;
    };
    variant("/full")->causal = false;
    Case* padded = variant("/padded");
    padded->causal = false;
    padded->padded = true;
    variant("/window256")->window = 256;
    variant("/grouped")->key_heads = s.heads / 4;
  }
  for (Index length = 64; length <= 16384; length *= 4)
    all.push_back({.batch = 1, .heads = 16384 / length, .length = length, .width = 64, .variant = "/sweep"});
  for (Index width = 16; width <= 128; width *= 2)
    all.push_back({.batch = 1, .heads = 512 / width, .length = 1024, .width = width, .variant = "/sweep"});
  return all;
}

struct Operands {
  Tensor q, k, v, up;
  Mask mask;
  explicit Operands(const Case& s)
      : q(normal({.seed = 1}, s.shape())),
        k(normal({.seed = 2}, s.key_shape())),
        v(normal({.seed = 3}, s.key_shape())),
        up(normal({.seed = 4}, s.shape())),
        mask(s.mask()) {}
};

using Attend = Tensor (*)(const Tensor& q, const Tensor& k, const Tensor& v, const Mask& mask);
Tensor fused(const Tensor& q, const Tensor& k, const Tensor& v, const Mask& mask) {
  return attention(q, k, v, {.mask = mask}).output;
}
Tensor composed(const Tensor& q, const Tensor& k, const Tensor& v, const Mask& mask) {
  return attention_reference(q, k, v, {.mask = mask}).output;
}

struct Gradient {
  Tensor q, k, v;
};
Gradient gradient(Attend attend, const Operands& in, const Tensor& up) {
  Tape tape;
  const Tensor q = tape.watch(in.q), k = tape.watch(in.k), v = tape.watch(in.v);
  const Gradients g = tape.backward(attend(q, k, v, in.mask), up);
  return {g.of(q), g.of(k), g.of(v)};
}

/// Against the loops, at sampled rows of one head.
void check(const std::string& name, Attend attend, const Case& s, const Operands& in, bool backward) {
  const Tensor up = only_sampled_rows(in.up);
  const ByLoops want(s.sight(), in.q, in.k, in.v, up);
  const Tensor out = last_head(attend(in.q, in.k, in.v, in.mask));
  std::vector<Tensor> rows;
  for (const Index i : sampled_rows(s.length)) rows.push_back(slice(out, 0, i, i + 1));
  verify(name, concat(rows, 0), want.out, 2e-5);
  if (!backward) return;
  const Gradient got = gradient(attend, in, up);
  verify(name + " dq", last_head(got.q), want.dq, 5e-5);
  verify(name + " dk", last_head(got.k), want.dk, 5e-5);
  verify(name + " dv", last_head(got.v), want.dv, 5e-5);
}

void forward(benchmark::State& state, const std::string& name, Attend attend, const Case& s) {
  const Operands in(s);
  check(name, attend, s, in, false);
  for (auto _ : state) benchmark::DoNotOptimize(attend(in.q, in.k, in.v, in.mask));
  count_work(state, s.operations(), s.bytes());
}

void forward_backward(benchmark::State& state, const std::string& name, Attend attend, const Case& s) {
  const Operands in(s);
  check(name, attend, s, in, true);
  for (auto _ : state) benchmark::DoNotOptimize(gradient(attend, in, in.up));
  count_work(state, 3.5 * s.operations(), 2 * s.bytes());
}

// ---- memory ---------------------------------------------------------------------------------------------------------

double resident_peak() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

/// What a call takes beyond its operands, as the pool and as the system counts it; the latter means something in the
/// first benchmark of a process only.
struct ExtraMemory {
  std::size_t held = pool_statistics().bytes;
  double resident = resident_peak();
  double pool() const { return static_cast<double>(pool_statistics().peak_bytes - held); }
  void report(benchmark::State& state) const {
    state.counters["pool_extra"] = benchmark::Counter(pool());
    state.counters["resident_extra"] = benchmark::Counter(resident_peak() - resident);
  }
};

void memory(benchmark::State& state, const std::string& name, const Case& s, bool backward, double bound) {
  const Operands in(s);
  const ExtraMemory extra;
  for (auto _ : state) {
    if (backward) {
      benchmark::DoNotOptimize(gradient(fused, in, in.up));
    } else {
      benchmark::DoNotOptimize(fused(in.q, in.k, in.v, in.mask));
    }
  }
  count_work(state, (backward ? 3.5 : 1) * s.operations(), s.bytes());
  extra.report(state);
  if (extra.pool() > bound) {
    fmt::print(stderr, "{}: extra memory must be within {:.0f} MB; got {:.0f}\n", name, bound / 1e6,
               extra.pool() / 1e6);
    std::exit(1);
  }
  check(name, fused, s, in, backward);
}

template <class Run>
void add(const std::string& name, Run&& run) {
  benchmark::RegisterBenchmark(name.c_str(), [name, run](benchmark::State& state) { run(state, name); })->UseRealTime();
}

void add_all() {
  struct Path {
    const char* name;
    Attend attend;
  };
  for (const Path& path : {Path{"fused", fused}, Path{"composed", composed}})
    for (const Case& s : cases()) {
      if (path.attend == composed && (s.length > 2048 || s.variant != std::string_view())) continue;
      const auto name = [&](const char* what) { return fmt::format("attention/{}/{}/{}", path.name, what, s.name()); };
      add(name("fwd"), [=](benchmark::State& state, const std::string& as) { forward(state, as, path.attend, s); });
      add(name("fwd_bwd"),
          [=](benchmark::State& state, const std::string& as) { forward_backward(state, as, path.attend, s); });
    }
  if (benchmark::GetBenchmarkFilter().find("memory") == std::string::npos) return;
  const Case longer{1, 1, 32768, 64}, longest{1, 1, 131072, 64};
  add("attention/memory/fwd_bwd/" + longer.name(),
      [=](benchmark::State& state, const std::string& as) { memory(state, as, longer, true, 200e6); });
  add("attention/memory/fwd/" + longest.name(),
      [=](benchmark::State& state, const std::string& as) { memory(state, as, longest, false, 200e6); });
}

}  // namespace
}  // namespace capstan::bench

int main(int count, char** arguments) {
  benchmark::Initialize(&count, arguments);
  capstan::bench::add_all();
  return capstan::bench::main(count, arguments);
}
