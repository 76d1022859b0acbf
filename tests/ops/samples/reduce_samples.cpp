// Samples of ops/reduce.h, ops/arg.h and ops/scan.h.
#include <capstan/autograd/create.h>
#include <capstan/ops/arg.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/scan.h>

#include <algorithm>
#include <string_view>

#include "support/sample.h"

namespace capstan::test {
namespace {

using List = std::vector<Tensor>;
using Reduce = Tensor (*)(const Tensor&, const Axes&, bool);

/// Distinct values, 0.3 apart: no ties, and differences do not change which one is the largest.
Tensor spread(const Shape& shape) {
  const Index count = shape.elements();
  std::vector<double> values;
  for (Index i = 0; i < count; ++i) values.push_back(0.3 * static_cast<double>(i * 37 % std::max(count, Index{1})) - 2);
  return tensor(values, shape);
}

void reductions(Samples& samples, const char* op, Reduce f, Tensor (*all)(const Tensor&)) {
  const auto over = [f](const Axes& axes, bool keep = false) {
    return [=](const List& x) { return List{f(x[0], axes, keep)}; };
  };
  const auto everything = [all](const List& x) { return List{all(x[0])}; };
  samples.push_back({op, "all of [2,3,4]", {spread({2, 3, 4})}, everything});
  samples.push_back({op, "all of a scalar", {spread({})}, everything});
  samples.push_back({op, "all of [7]", {spread({7})}, everything});
  samples.push_back({op, "all of a transpose", {transpose(spread({5, 4}))}, everything});
  samples.push_back({op, "axis 0 of [3,4]", {spread({3, 4})}, over(0)});
  samples.push_back({op, "axis 1 of [3,4]", {spread({3, 4})}, over(1)});
  samples.push_back({op, "the middle axis", {spread({2, 3, 4})}, over(1)});
  samples.push_back({op, "axes 0 and -1", {spread({2, 3, 4})}, over({0, -1})});
  samples.push_back({op, "axes 0 and -1, kept", {spread({2, 3, 4})}, over({0, -1}, keep_axes)});
  samples.push_back({op, "axis 1, kept, of a transpose", {transpose(spread({4, 3}))}, over(1, keep_axes)});
  samples.push_back({op, "alternate axes of rank 5", {spread({2, 3, 2, 1, 2})}, over({4, 0, 2})});
  samples.push_back({op, "every second column", {slice(spread({3, 7}), 1, 0, 7, 2)}, over(1)});
  samples.push_back({op, "an axis of size 1", {spread({3, 1})}, over(1)});
  samples.push_back({op, "no axes", {spread({2, 3})}, over({})});
  samples.push_back({op, "empty result", {spread({0, 3})}, over(1)});
  samples.push_back(
      {op, "normalised by it", {spread({2, 3})}, [f](const List& x) { return List{x[0] * f(x[0], -1, keep_axes)}; }});
}

void variances(Samples& samples) {
  const auto over = [](const Axes& axes, int correction, bool keep = false) {
    return [=](const List& x) { return List{variance(x[0], axes, {.correction = correction}, keep)}; };
  };
  samples.push_back({"mean", "variance of all", {spread({2, 3})}, [](const List& x) { return List{variance(x[0])}; }});
  samples.push_back({"mean", "variance, corrected, over axis 1", {spread({3, 4})}, over(1, 1)});
  samples.push_back({"mean", "variance over axes 0 and 2, kept", {spread({2, 3, 2})}, over({0, 2}, 0, keep_axes)});
  samples.push_back({"mean", "variance of a transpose", {transpose(spread({4, 3}))}, over(0, 1)});
  samples.push_back({"mean", "variance of single elements", {spread({3, 1})}, over(1, 0)});
  samples.push_back({"mean", "variance of no rows", {spread({0, 3})}, over(1, 1)});
}

void places(Samples& samples) {
  for (const char* op : {"argmax", "argmin"}) {
    const auto f = op == std::string_view("argmax") ? argmax : argmin;
    const auto along = [f](int axis, bool keep = false) {
      return [=](const List& x) { return List{f(x[0], axis, keep)}; };
    };
    samples.push_back({op, "[5]", {spread({5})}, along(0)});
    samples.push_back({op, "the middle axis", {spread({2, 3, 4})}, along(1)});
    samples.push_back({op, "of a transpose, kept", {transpose(spread({4, 3}))}, along(1, keep_axes)});
    samples.push_back({op, "every second column", {slice(spread({3, 7}), 1, 0, 7, 2)}, along(-1)});
    samples.push_back({op, "an axis of size 1", {spread({3, 1})}, along(1)});
    samples.push_back({op, "no rows", {spread({0, 3})}, along(1)});
    samples.push_back({op, "more rows than one task has", {spread({3000, 9})}, along(1)});
  }
}

void running_sums(Samples& samples) {
  const auto along = [](int axis, bool reverse = false) {
    return [=](const List& x) { return List{cumsum(x[0], axis, {.reverse = reverse})}; };
  };
  samples.push_back({"cumsum", "[5]", {spread({5})}, along(0)});
  samples.push_back({"cumsum", "[5] in reverse", {spread({5})}, along(0, true)});
  samples.push_back({"cumsum", "the middle axis", {spread({2, 3, 2})}, along(1)});
  samples.push_back({"cumsum", "axis 0 in reverse", {spread({4, 3})}, along(0, true)});
  samples.push_back({"cumsum", "of a transpose", {transpose(spread({4, 3}))}, along(-1)});
  samples.push_back({"cumsum", "every second column", {slice(spread({2, 7}), 1, 0, 7, 2)}, along(1)});
  samples.push_back({"cumsum", "of a stretched view", {spread({2, 1})}, [](const List& x) {
                       return List{cumsum(broadcast_to(x[0], Shape{2, 3}), 1)};
                     }});
  samples.push_back({"cumsum", "an axis of size 1", {spread({3, 1})}, along(1)});
  samples.push_back({"cumsum", "an empty axis", {spread({3, 0})}, along(1)});
  samples.push_back({"cumsum", "no rows", {spread({0, 3})}, along(1)});
  samples.push_back({"cumsum", "x cumsum(x)", {spread({4})}, [](const List& x) {
                       return List{x[0] * cumsum(x[0], 0)};
                     }});
  samples.push_back({"cumsum", "both ways", {spread({2, 3})}, [](const List& x) {
                       return List{cumsum(cumsum(x[0] * x[0], 1), 0, {.reverse = true})};
                     }});
}

}  // namespace

Samples reduce_samples() {
  Samples samples;
  reductions(samples, "sum", sum, sum);
  reductions(samples, "mean", mean, mean);
  reductions(samples, "max", max, max);
  reductions(samples, "min", min, min);
  const auto to = [](const Shape& shape) { return [=](const List& x) { return List{sum_to(x[0], shape)}; }; };
  samples.push_back({"sum", "sum_to [2,3,4] → [3,1]", {spread({2, 3, 4})}, to({3, 1})});
  samples.push_back({"sum", "sum_to [2,3,4] → []", {spread({2, 3, 4})}, to({})});
  samples.push_back({"sum", "sum_to [2,3] → [1,1]", {spread({2, 3})}, to({1, 1})});
  samples.push_back({"sum", "sum_to of a transpose", {transpose(spread({2, 3}))}, to({2})});
  samples.push_back({"sum", "sum of nothing", {spread({4, 0})}, [](const List& x) { return List{sum(x[0], 1)}; }});
  samples.push_back({"sum", "of a stretched view", {spread({3})}, [](const List& x) {
                       return List{sum(broadcast_to(x[0], Shape{2, 3}), 0), sum(broadcast_to(x[0], Shape{2, 3}))};
                     }});
  samples.push_back({"mean", "squares", {spread({3, 2})}, [](const List& x) {
                       return List{mean(x[0] * x[0], {0}), mean(x[0] * x[0])};
                     }});
  variances(samples);
  places(samples);
  running_sums(samples);
  return samples;
}

}  // namespace capstan::test
