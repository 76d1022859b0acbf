#include "ops/samples/large_samples.h"

#include <capstan/autograd/accumulate.h>
#include <capstan/autograd/checkpoint.h>
#include <capstan/autograd/create.h>
#include <capstan/ops/kernels/parallel.h>
#include <capstan/ops/ops.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ops/samples/check_sample.h"

namespace capstan::test {
namespace {

using List = std::vector<Tensor>;

Tensor draw(std::uint64_t seed, const Shape& shape) { return uniform(Key{.seed = seed}, shape, 0.5, 1.5, DType::f64); }
Tensor draw_ids(std::uint64_t seed, const Shape& shape, Index bound) {
  return cast(uniform(Key{.seed = seed}, shape, 0, static_cast<double>(bound), DType::f64), DType::i32);
}

/// Large samples by op, made when asked for: each holds some megabytes.
class LargeSamples {
 public:
  LargeSamples() {
    singles();
    pairs();
    reductions();
    moves();
    layers();
  }
  const std::function<Sample()>* find(std::string_view op) const {
    const auto found = samples_.find(op);
    return found == samples_.end() ? nullptr : &found->second;
  }

 private:
  template <class F>
  void add(const char* op, std::vector<Shape> shapes, F f) {
    samples_[op] = [=] {
      List inputs;
      for (const Shape& shape : shapes) inputs.push_back(draw(inputs.size() + 1, shape));
      return Sample{op, "large", std::move(inputs), [=](const List& x) { return List{f(x)}; }};
    };
  }
  /// f(x, ids): one input of floats, one of ids in [0, bound).
  template <class F>
  void add_ids(const char* op, Shape shape, Shape ids, Index bound, F f) {
    samples_[op] = [=] {
      return Sample{
          op, "large", {draw(1, shape), draw_ids(2, ids, bound)}, [=](const List& x) { return List{f(x[0], x[1])}; }};
    };
  }

  void singles() {
    const auto one = [this](const char* op, Tensor (*f)(const Tensor&)) {
      add(op, {Shape{400, 500}}, [f](const List& x) { return f(x[0]); });
    };
    one("neg", neg), one("exp", exp), one("log", log), one("tanh", tanh), one("sqrt", sqrt), one("sin", sin);
    one("cos", cos), one("erf", erf), one("erfc", erfc), one("relu", relu), one("gelu_tanh", gelu_tanh);
    one("gelu_erf", gelu_erf), one("silu", silu), one("softplus", softplus), one("sigmoid", sigmoid), one("abs", abs);
    one("rsqrt", rsqrt);
    one("pow", [](const Tensor& x) { return pow(x, 2.5); });
    one("checkpoint", [](const Tensor& x) { return checkpoint(x, [](const Tensor& y) { return exp(y); }); });
    one("scale", [](const Tensor& x) { return scale(x, -1.5, 0.25); });
    one("clamp", [](const Tensor& x) { return clamp(x, 0.75, 1.25); });
    one("cast", [](const Tensor& x) { return cast(x, DType::f32); });
    one("logical_not", [](const Tensor& x) { return logical_not(x > 1.0); });
  }
  void pairs() {
    const auto two = [this](const char* op, Tensor (*f)(const Tensor&, const Tensor&)) {
      add(op, {Shape{400, 500}, Shape{400, 500}}, [f](const List& x) { return f(x[0], x[1]); });
    };
    two("add", add_), two("sub", sub), two("mul", mul), two("div", div);
    two("minimum", minimum), two("maximum", maximum);
    two("equal", equal), two("not_equal", not_equal), two("less", less), two("less_equal", less_equal);
    two("greater", greater), two("greater_equal", greater_equal);
    two("logical_and", [](const Tensor& a, const Tensor& b) { return logical_and(a > 1.0, b > 1.0); });
    two("logical_or", [](const Tensor& a, const Tensor& b) { return logical_or(a > 1.0, b > 1.0); });
    two("where", [](const Tensor& a, const Tensor& b) { return where(a > 1.0, a, b); });
    two("accumulate", [](const Tensor& a, const Tensor& b) { return accumulate(List{a, b, a}); });
  }
  void reductions() {
    const auto reduce = [this](const char* op, auto f) {
      add(op, {Shape{3, 300, 400}}, [f](const List& x) { return f(x[0]); });
    };
    reduce("sum", [](const Tensor& x) { return sum(x, Axes{0, 2}); });
    reduce("mean", [](const Tensor& x) { return mean(x, Axes{0, 2}); });
    reduce("max", [](const Tensor& x) { return max(x, Axes{0, 2}); });
    reduce("min", [](const Tensor& x) { return min(x, Axes{0, 2}); });
    reduce("argmax", [](const Tensor& x) { return argmax(x, -1); });
    reduce("argmin", [](const Tensor& x) { return argmin(x, 1); });
    reduce("cumsum", [](const Tensor& x) { return cumsum(x, -1); });
    reduce("logsumexp", [](const Tensor& x) { return logsumexp(x, -1); });
    reduce("softmax", [](const Tensor& x) { return softmax(x, -1); });
    reduce("masked_softmax", [](const Tensor& x) { return masked_softmax(x, x > 1.0); });
    reduce("log_softmax", [](const Tensor& x) { return log_softmax(x, 1); });
  }
  void moves() {
    const auto move = [this](const char* op, auto f) {
      add(op, {Shape{400, 500}}, [f](const List& x) { return f(x[0]); });
    };
    move("reshape", [](const Tensor& x) { return reshape(x, {500, 400}); });
    move("transpose", [](const Tensor& x) { return transpose(x); });
    move("permute", [](const Tensor& x) { return permute(x, {1, 0}); });
    move("broadcast_to", [](const Tensor& x) { return broadcast_to(x, Shape{3, 400, 500}); });
    move("slice", [](const Tensor& x) { return slice(x, 1, 1, to_end, 2); });
    move("pad", [](const Tensor& x) { return pad(x, 0, 1, 2); });
    move("concat", [](const Tensor& x) { return concat({x, x}, 1); });
    move("flip", [](const Tensor& x) { return flip(x, Axes{0, 1}); });
    add_ids("gather", {400, 500}, {400, 600}, 500,
            [](const Tensor& x, const Tensor& ids) { return gather(x, 1, ids); });
    add_ids("scatter_add", {400, 500}, {400, 500}, 300,
            [](const Tensor& x, const Tensor& ids) { return scatter_add(x, 1, ids, 300); });
    add_ids("one_hot", {1}, {3000}, 50, [](const Tensor&, const Tensor& ids) { return one_hot(ids, 50, DType::f64); });
  }
  void layers() {
    add("matmul", {Shape{3, 150, 200}, Shape{200, 170}}, [](const List& x) { return matmul(x[0], x[1]); });
    add("matmul_nt", {Shape{3, 150, 200}, Shape{3, 170, 200}}, [](const List& x) { return matmul_nt(x[0], x[1]); });
    add("linear", {Shape{3, 150, 200}, Shape{170, 200}, Shape{170}},
        [](const List& x) { return linear(x[0], x[1], x[2]); });
    add("gelu_linear", {Shape{3, 150, 200}, Shape{170, 200}, Shape{170}},
        [](const List& x) { return gelu_linear(x[0], x[1], x[2]); });
    add("layer_norm", {Shape{900, 200}, Shape{200}, Shape{200}},
        [](const List& x) { return layer_norm(x[0], x[1], x[2]); });
    add("add_layer_norm", {Shape{900, 200}, Shape{900, 200}, Shape{200}, Shape{200}}, [](const List& x) {
      const AddLayerNormOutputs outputs = add_layer_norm(x[0], x[1], x[2], x[3]);
      return outputs.sum * outputs.y;
    });
    add("rms_norm", {Shape{900, 200}, Shape{200}}, [](const List& x) { return rms_norm(x[0], x[1]); });
    add("dropout", {Shape{400, 500}}, [](const List& x) { return dropout(x[0], 0.3, Key{.seed = 9}); });
    add("attention", {Shape{2, 4, 150, 16}, Shape{2, 2, 150, 16}, Shape{2, 2, 150, 16}},
        [](const List& x) { return attention(x[0], x[1], x[2], {.mask = Mask::causal()}).output; });
    add("rotary", {Shape{4, 300, 100}}, [](const List& x) { return rotary_half_split(x[0]); });
    add_ids("embedding", {300, 64}, {4000}, 300,
            [](const Tensor& table, const Tensor& ids) { return embedding(table, ids); });
    add_ids("embedding_transpose", {4000, 64}, {4000}, 300,
            [](const Tensor& x, const Tensor& ids) { return embedding_transpose(x, ids, 300); });
    add_ids("linear_cross_entropy", {1000, 60}, {1000}, 60,
            [](const Tensor& x, const Tensor& ids) { return linear_cross_entropy(x, slice(x, 0, 0, 60), ids); });
    add_ids("cross_entropy", {1000, 300}, {1000}, 300,
            [](const Tensor& logits, const Tensor& ids) { return cross_entropy(logits, ids); });
  }

  static Tensor add_(const Tensor& a, const Tensor& b) { return a + b; }
  std::map<std::string, std::function<Sample()>, std::less<>> samples_;
};

std::uint64_t regions(bool random) {
  std::uint64_t count = 0;
  for (int kind = 0; kind < kernels::region_kinds; ++kind) {
    const auto region = static_cast<kernels::Region>(kind);
    if ((region == kernels::Region::random) == random) count += kernels::parallel_regions(region);
  }
  return count;
}

bool is_view(std::string_view op) {
  constexpr std::string_view views[] = {"reshape", "transpose", "permute"};
  return std::ranges::find(views, op) != std::end(views);
}

}  // namespace

ThreadsOutcome same_on_any_threads_when_large(std::string_view op) {
  static const LargeSamples samples;
  const std::function<Sample()>* make = samples.find(op);
  if (make == nullptr) return {"FAILED", "no large sample in tests/ops/samples/large_samples.cpp"};
  const Sample sample = (*make)();
  // Random numbers count where the op draws them, not where the cotangents are drawn.
  std::uint64_t before = regions(true);
  sample.f(sample.inputs);
  std::uint64_t parallel = regions(true) - before;
  before = regions(false);
  const std::string wrong = same_on_any_threads(sample);
  parallel += regions(false) - before;
  if (!wrong.empty()) return {"FAILED", wrong};
  if (is_view(op)) return {"n/a 2", parallel == 0 ? "" : "is in the list of views, but a region ran"};
  if (op == "accumulate") return {"n/a 3", parallel == 0 ? "" : "is said to be serial, but a region ran"};
  if (parallel == 0) return {"FAILED", "no region ran in parallel"};
  return {fmt::format("{}", parallel), ""};
}

bool has_no_gradient(std::string_view op) {
  constexpr std::string_view list[] = {"equal",       "not_equal",     "less",        "less_equal",
                                       "greater",     "greater_equal", "logical_and", "logical_or",
                                       "logical_not", "one_hot",       "argmax",      "argmin"};
  return std::ranges::find(list, op) != std::end(list);
}

}  // namespace capstan::test
