// Samples of the engine's own ops: accumulate and checkpoint.
#include <capstan/autograd/accumulate.h>
#include <capstan/autograd/checkpoint.h>
#include <capstan/autograd/create.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/matmul.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/select.h>
#include <capstan/ops/softmax.h>

#include "support/makers.h"
#include "support/sample.h"

namespace capstan::test {

namespace {

std::vector<Tensor> sum_of_all(const std::vector<Tensor>& terms) { return {accumulate(terms)}; }

Tensor transposed(const Tensor& x) { return detail::Access::alias(x, x.layout().transposed(0, 1)); }

using List = std::vector<Tensor>;

Samples accumulate_samples() {
  std::vector<Tensor> many;
  for (std::uint64_t i = 0; i < 70; ++i) many.push_back(random(100 + i, {2}));
  return {
      {.op = "accumulate", .label = "one term", .inputs = {random(1, {2, 3})}, .f = sum_of_all},
      {.op = "accumulate",
       .label = "three terms",
       .inputs = {random(1, {2, 3}), random(2, {2, 3}), random(3, {2, 3})},
       .f = sum_of_all},
      {.op = "accumulate", .label = "scalars", .inputs = {random(1, {}), random(2, {})}, .f = sum_of_all},
      {.op = "accumulate", .label = "more than 64 terms", .inputs = many, .f = sum_of_all},
      {.op = "accumulate", .label = "empty", .inputs = {random(1, {0, 3}), random(2, {0, 3})}, .f = sum_of_all},
      {.op = "accumulate",
       .label = "one tensor twice",
       .inputs = {random(1, {3})},
       .f =
           [](const std::vector<Tensor>& x) {
             return sum_of_all({x[0], x[0]});
           }},
      {.op = "accumulate",
       .label = "strided terms",
       .inputs = {random(1, {2, 3}), transposed(random(2, {3, 2}))},
       .f = sum_of_all},
  };
}

/// A layer whose dropout is drawn from a key: the same in both runs.
Tensor layer(const List& x) {
  const Tensor drawn = uniform(Key{.seed = 7}, {x[0].size(0), x[1].size(1)});
  std::vector<double> kept = drawn.to_doubles();
  for (double& element : kept) element = element < 0.25 ? 0 : 1 / 0.75;
  return tanh(matmul(x[0], x[1])) * cast(tensor(kept, drawn.shape()), x[0].dtype());
}

Samples checkpoint_samples() {
  const auto one = [](const List& x) { return List{checkpoint(x[0], [](const Tensor& v) { return exp(v) * v; })}; };
  const auto layers = [](const List& x) { return List{checkpoint(x, layer)}; };
  return {
      {.op = "checkpoint", .label = "a function of one tensor", .inputs = {random(1, {2, 3})}, .f = one},
      {.op = "checkpoint", .label = "scalar", .inputs = {random(2, {})}, .f = one},
      {.op = "checkpoint", .label = "empty", .inputs = {random(1, {0, 3})}, .f = one},
      {.op = "checkpoint", .label = "strided", .inputs = {transposed(random(3, {3, 2}))}, .f = one},
      {.op = "checkpoint", .label = "keyed dropout", .inputs = {random(1, {2, 3}), random(2, {3, 2})}, .f = layers},
      {.op = "checkpoint",
       .label = "one tensor twice",
       .inputs = {random(4, {2, 2})},
       .f =
           [](const List& x) {
             return List{checkpoint(List{x[0], x[0]}, layer)};
           }},
      {.op = "checkpoint",
       .label = "two outputs, of which one is an input and a view",
       .inputs = {random(1, {2, 3}), random(2, {3})},
       .f =
           [](const List& x) {
             return checkpoint(x, [](const List& v) { return List{transpose(v[0]), softmax(v[0], 1) * v[1]}; });
           }},
      {.op = "checkpoint",
       .label = "nested",
       .inputs = {random(1, {2, 3}), random(2, {3, 2})},
       .f =
           [](const List& x) {
             return List{checkpoint(x, [](const List& v) {
               const Tensor inner = checkpoint(v, layer);
               return inner * checkpoint(inner, [](const Tensor& u) { return exp(u); });
             })};
           }},
  };
}

}  // namespace

Samples engine_samples() {
  Samples samples = accumulate_samples();
  for (Sample& sample : checkpoint_samples()) samples.push_back(std::move(sample));
  return samples;
}

}  // namespace capstan::test
