// Samples of ops/softmax.h.
#include <capstan/autograd/create.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/select.h>
#include <capstan/ops/softmax.h>

#include <limits>

#include "support/sample.h"

namespace capstan::test {
namespace {

using List = std::vector<Tensor>;
using Softmax = Tensor (*)(const Tensor&, int);

Tensor draw(const Shape& shape) { return uniform(Key{.seed = 31}, shape, -2, 2, DType::f64); }

void family(Samples& samples, const char* op, Softmax f) {
  const auto over = [f](int axis) { return [=](const List& x) { return List{f(x[0], axis)}; }; };
  const auto add = [&](const char* label, const Tensor& x, int axis) {
    samples.push_back({op, label, {x}, over(axis)});
  };
  add("[2,3], last axis", draw({2, 3}), -1);
  add("[2,3], first axis", draw({2, 3}), 0);
  add("[2,3,2], middle axis", draw({2, 3, 2}), 1);
  add("[2,1,2,3], axis 3", draw({2, 1, 2, 3}), 3);
  add("[5]", draw({5}), 0);
  add("a row longer than a vector", draw({1, 19}), 1);
  add("axis of length 1", draw({4, 1, 2}), 1);
  add("empty axis", draw({3, 0}), 1);
  add("no rows", draw({0, 3}), 1);
  add("transposed", transpose(draw({3, 2})), 1);
  add("transposed, first axis", transpose(draw({3, 2})), 0);
  add("every second column", slice(draw({2, 8}), 1, 1, 8, 2), 1);
  add("stretched", broadcast_to(draw({3, 1}), Shape{3, 2}), 1);
  // The shift is inside, so that differences are taken with small steps.
  samples.push_back({op, "large logits", {draw({2, 4})}, [f](const List& x) { return List{f(x[0] + 1000.0, 1)}; }});
  samples.back().largest_inside = 1000;
  add("one entry far above", tensor({{8, 0, 1, -1}, {0, 2, 7, 1}}, DType::f64), 1);
  samples.push_back({op, "of itself", {draw({2, 3})}, [f](const List& x) { return List{f(f(x[0], 1), 0)}; }});
  samples.push_back({op, "views made inside", {draw({4, 3})}, [f](const List& x) {
                       return List{f(transpose(slice(x[0], 0, 0, 4, 2)), 1)};
                     }});
}

void log_sums(Samples& samples) {
  const auto over = [](int axis, bool keep = false) {
    return [=](const List& x) { return List{logsumexp(x[0], axis, keep)}; };
  };
  const auto add = [&](const char* label, const Tensor& x, int axis, bool keep = false) {
    samples.push_back({"logsumexp", label, {x}, over(axis, keep)});
  };
  add("[2,3], last axis", draw({2, 3}), -1);
  add("[2,3], last axis, kept", draw({2, 3}), -1, true);
  add("[2,3,2], middle axis", draw({2, 3, 2}), 1);
  add("[2,3,2], middle axis, kept", draw({2, 3, 2}), 1, true);
  add("[5] → []", draw({5}), 0);
  add("a row longer than a vector", draw({1, 19}), 1);
  add("axis of length 1", draw({4, 1, 2}), 1);
  add("no rows", draw({0, 3}), 1);
  add("transposed", transpose(draw({3, 2})), 1);
  add("more rows than are gathered together", transpose(draw({2, 18})), 1);
  add("every second column", slice(draw({2, 8}), 1, 1, 8, 2), 1);
  add("stretched", broadcast_to(draw({3, 1}), Shape{3, 2}), 1);
  add("one entry far above", tensor({{8, 0, 1, -1}, {0, 2, 7, 1}}, DType::f64), 1);
  // The shift is inside, so that differences are taken with small steps.
  samples.push_back(
      {"logsumexp", "large logits", {draw({2, 4})}, [](const List& x) { return List{logsumexp(x[0] + 1000.0, 1)}; }});
  samples.back().largest_inside = 1000;
  samples.push_back({"logsumexp", "taken off x", {draw({2, 3})}, [](const List& x) {
                       return List{x[0] - logsumexp(x[0], 1, true)};
                     }});
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Tensor keep = tensor({{0, 1, 1}, {1, 0, 0}}, DType::f64) > 0.0;
  samples.push_back({"logsumexp",
                     "entries of -inf",
                     {draw({2, 3})},
                     [=](const List& x) { return List{logsumexp(where(keep, x[0], -infinity), 1)}; },
                     {logical_not(keep)}});
}

void masked(Samples& samples) {
  const auto coins = [](const Shape& shape) { return uniform(Key{.seed = 32}, shape, -1, 1, DType::f64) > -0.2; };
  const auto add = [&](const char* label, const Tensor& x, const Tensor& keep, int axis = -1) {
    samples.push_back({"masked_softmax",
                       label,
                       {x},
                       [=](const List& in) { return List{masked_softmax(in[0], keep, axis)}; },
                       {logical_not(broadcast_to(keep, x.shape()).dense())}});
  };
  add("[2,3]", draw({2, 3}), coins({2, 3}));
  add("first axis", draw({3, 2}), coins({3, 2}), 0);
  add("middle axis", draw({2, 3, 2}), coins({2, 3, 2}), 1);
  add("one mask for all rows", draw({3, 4}), coins({4}));
  add("one answer a row, one of them no", draw({3, 4}), tensor({{1}, {0}, {1}}, DType::f64) > 0.0);
  add("stretched along heads", draw({2, 2, 3, 3}), coins({1, 1, 3, 3}));
  add("a row longer than a vector", draw({2, 19}), coins({2, 19}));
  add("transposed x and mask", transpose(draw({3, 2})), transpose(coins({3, 2})));
  add("nothing kept", draw({2, 3}), zeros({2, 3}) > 0.0);
  add("all kept", draw({2, 3}), zeros({2, 3}) < 1.0);
  add("empty axis", draw({3, 0}), zeros({3, 0}) > 0.0);
}

}  // namespace

Samples softmax_samples() {
  Samples samples;
  family(samples, "softmax", softmax);
  family(samples, "log_softmax", log_softmax);
  log_sums(samples);
  masked(samples);
  return samples;
}

}  // namespace capstan::test
