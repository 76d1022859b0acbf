// Samples of ops/cross_entropy.h and ops/linear_cross_entropy.h. The losses of ops/losses.h are composed:
// losses_test.cpp checks their gradients.
#include <capstan/autograd/create.h>
#include <capstan/ops/cross_entropy.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/embedding.h>
#include <capstan/ops/linear_cross_entropy.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/select.h>

#include "support/sample.h"

namespace capstan::test {
namespace {

using List = std::vector<Tensor>;

Tensor draw(const Shape& shape) { return normal(Key{.seed = 41}, shape, 0, 1, DType::f64); }
Tensor ids(const std::vector<std::int32_t>& list, const Shape& shape) { return tensor(list, shape); }

/// True in one row of [rows, columns].
Tensor row_of(Index rows, Index columns, Index row) {
  Buffer buffer(Shape{rows, columns}, DType::boolean);
  for (Index i = 0; i < rows * columns; ++i) buffer.data<bool>()[static_cast<std::size_t>(i)] = i / columns == row;
  return buffer;
}

void cross_entropies(Samples& samples) {
  const auto reduced = [](const CrossEntropyOptions& options) {
    return [=](const List& x) { return List{cross_entropy(x[0], x[1], options)}; };
  };
  const auto add = [&](const char* label, const Tensor& logits, const Tensor& targets,
                       const CrossEntropyOptions& options = {}) {
    CrossEntropyOptions each = options;
    each.reduction = Reduction::none;
    samples.push_back({"cross_entropy", label, {logits, targets}, reduced(each)});
  };
  add("[3,4]", draw({3, 4}), ids({1, 3, 0}, {3}));
  add("[2,2,3]", draw({2, 2, 3}), ids({1, 2, 0, 0}, {2, 2}));
  add("one row", draw({4}), ids({2}, {}));
  add("one class", draw({2, 1}), ids({0, 0}, {2}));
  add("a row longer than a vector", draw({1, 19}), ids({18}, {1}));
  add("no rows", draw({0, 3}), ids({}, {0}));
  add("transposed logits", transpose(draw({3, 2})), ids({1, 2}, {2}));
  add("every second class", slice(draw({2, 6}), 1, 0, 6, 2), ids({1, 2}, {2}));
  add("every second target", draw({2, 3}), slice(ids({1, 9, 2, 9}, {4}), 0, 0, 4, 2));
  add("smoothing", draw({3, 4}), ids({1, 3, 0}, {3}), {.label_smoothing = 0.1});
  add("smoothing 1", draw({2, 3}), ids({1, 2}, {2}), {.label_smoothing = 1});
  const auto add_weighted = [&](const char* label, const Tensor& targets, const Tensor& weights,
                                const CrossEntropyOptions& options = {}, const Tensor& zero = Tensor()) {
    samples.push_back({"cross_entropy",
                       label,
                       {draw({3, 4}), targets},
                       [=](const List& x) {
                         CrossEntropyOptions with = options;
                         with.weights = cast(weights, x[0].dtype());
                         return List{cross_entropy(x[0], x[1], with)};
                       },
                       {zero, Tensor()}});
  };
  const Tensor weights = uniform(Key{.seed = 42}, {4}, 0.5, 2, DType::f64);
  add_weighted("weights", ids({1, 3, 0}, {3}), weights, {.reduction = Reduction::none});
  add_weighted("weights, smoothing", ids({1, 3, 0}, {3}), weights,
               {.label_smoothing = 0.3, .reduction = Reduction::none});
  add_weighted("weights, smoothing 1", ids({1, 3, 0}, {3}), weights, {.label_smoothing = 1});
  add_weighted("weights, mean, an ignored row", ids({1, -1, 0}, {3}), weights,
               {.ignore_index = -1, .label_smoothing = 0.1}, row_of(3, 4, 1));
  add_weighted("every second weight", ids({1, 3, 0}, {3}),
               slice(uniform(Key{.seed = 43}, {7}, 0.5, 2, DType::f64), 0, 0, 7, 2),
               {.label_smoothing = 0.3, .reduction = Reduction::none});
  add_weighted("a weight of 0", ids({1, 3, 0}, {3}), tensor({1, 0, 2, 0.5}, DType::f64), {.label_smoothing = 0.2});
  const CrossEntropyOptions ignoring{.ignore_index = -1, .label_smoothing = 0.2, .reduction = Reduction::none};
  samples.push_back({"cross_entropy",
                     "an ignored row, smoothing",
                     {draw({3, 3}), ids({1, -1, 0}, {3})},
                     reduced(ignoring),
                     {row_of(3, 3, 1), Tensor()}});
  samples.push_back({"cross_entropy",
                     "ignored id inside the classes",
                     {draw({3, 3}), ids({1, 2, 0}, {3})},
                     reduced({.ignore_index = 2, .reduction = Reduction::none}),
                     {row_of(3, 3, 1), Tensor()}});
  samples.push_back({"cross_entropy",
                     "mean, an ignored row",
                     {draw({3, 3}), ids({1, -1, 0}, {3})},
                     reduced({.ignore_index = -1}),
                     {row_of(3, 3, 1), Tensor()}});
  samples.push_back({"cross_entropy",
                     "mean, all ignored",
                     {draw({2, 3}), ids({-1, -1}, {2})},
                     reduced({.ignore_index = -1}),
                     {full({2, 3}, 1, DType::boolean), Tensor()}});
  samples.push_back(
      {"cross_entropy", "logits that nobody else holds", {draw({3, 4}), ids({1, -1, 0}, {3})}, [=](const List& x) {
         return List{cross_entropy(x[0] * x[0], x[1], ignoring)};
       }});
  samples.push_back(
      {"cross_entropy", "logits that another op reads", {draw({3, 4}), ids({1, 3, 0}, {3})}, [](const List& x) {
         const Tensor logits = x[0] * 2.0;
         return List{logits * logits, cross_entropy(logits, x[1])};
       }});
  samples.push_back(
      {"cross_entropy", "sum", {draw({3, 3}), ids({1, 2, 0}, {3})}, reduced({.reduction = Reduction::sum})});
  samples.push_back(
      {"cross_entropy", "none", {draw({3, 3}), ids({1, 2, 0}, {3})}, reduced({.reduction = Reduction::none})});
}

void linear_cross_entropies(Samples& samples) {
  const auto table = [](const Shape& shape) { return normal(Key{.seed = 44}, shape, 0, 1, DType::f64); };
  const auto outputs = [](const List& x, const CrossEntropyOptions& options = {}) {
    const LinearCrossEntropyOutputs all = linear_cross_entropy_outputs(x[0], x[1], x[2], options);
    return List{all.loss, all.dx, all.dtable};
  };
  const auto add = [&](const char* label, const Tensor& x, const Tensor& w, const Tensor& targets,
                       const CrossEntropyOptions& options = {}, const Tensor& zero = Tensor()) {
    samples.push_back({"linear_cross_entropy",
                       label,
                       {x, w, targets},
                       [=](const List& in) {
                         CrossEntropyOptions with = options;
                         if (options.weights.defined()) with.weights = cast(options.weights, in[0].dtype());
                         return List{linear_cross_entropy(in[0], in[1], in[2], with)};
                       },
                       {zero, Tensor(), Tensor()}});
  };
  add("[3,2], V = 4", draw({3, 2}), table({4, 2}), ids({1, 3, 0}, {3}));
  add("[2,2,3], V = 3", draw({2, 2, 3}), table({3, 3}), ids({1, 2, 0, 0}, {2, 2}));
  add("one row", draw({4}), table({3, 4}), ids({2}, {}));
  add("one class", draw({2, 3}), table({1, 3}), ids({0, 0}, {2}));
  add("C = 0", draw({2, 0}), table({3, 0}), ids({0, 2}, {2}));
  add("no rows", draw({0, 2}), table({3, 2}), ids({}, {0}));
  add("transposed x and table", transpose(draw({3, 2})), transpose(table({3, 4})), ids({1, 2}, {2}));
  add("every second target", draw({2, 3}), table({3, 3}), slice(ids({1, 9, 2, 9}, {4}), 0, 0, 4, 2));
  add("sum", draw({3, 2}), table({4, 2}), ids({1, 3, 0}, {3}), {.reduction = Reduction::sum});
  add("an ignored row, smoothing", draw({3, 2}), table({4, 2}), ids({1, -1, 0}, {3}),
      {.ignore_index = -1, .label_smoothing = 0.2}, row_of(3, 2, 1));
  add("all ignored", draw({2, 2}), table({3, 2}), ids({-1, -1}, {2}), {.ignore_index = -1},
      full({2, 2}, 1, DType::boolean));
  add("weights", draw({3, 2}), table({4, 2}), ids({1, 3, 0}, {3}),
      {.label_smoothing = 0.1, .weights = uniform(Key{.seed = 42}, {4}, 0.5, 2, DType::f64)});
  samples.push_back({"linear_cross_entropy",
                     "its gradients as outputs",
                     {draw({2, 2}), table({3, 2}), ids({1, 2}, {2})},
                     [=](const List& in) { return outputs(in); }});
  samples.push_back({"linear_cross_entropy",
                     "its gradients as outputs, an ignored row",
                     {draw({2, 2}), table({3, 2}), ids({1, -1}, {2})},
                     [=](const List& in) { return outputs(in, {.ignore_index = -1, .label_smoothing = 0.1}); },
                     {row_of(2, 2, 1), Tensor(), Tensor()}});
  samples.push_back({"linear_cross_entropy", "only the table", {table({4, 2})}, [x = draw({3, 2})](const List& w) {
                       return List{linear_cross_entropy(cast(x, w[0].dtype()), w[0], ids({1, 3, 0}, {3}))};
                     }});
  samples.push_back({"linear_cross_entropy", "only x, scaled", {draw({3, 2})}, [w = table({4, 2})](const List& x) {
                       return List{linear_cross_entropy(x[0], cast(w, x[0].dtype()), ids({1, 3, 0}, {3})) * 3.0};
                     }});
  samples.push_back(
      {"linear_cross_entropy", "x = a function of the table", {table({4, 2}), ids({1, 3, 0}, {3})}, [](const List& in) {
         return List{linear_cross_entropy(embedding(in[0], in[1]), in[0], in[1])};
       }});
}

}  // namespace

Samples losses_samples() {
  Samples samples;
  cross_entropies(samples);
  linear_cross_entropies(samples);
  return samples;
}

}  // namespace capstan::test
