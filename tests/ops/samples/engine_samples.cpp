// Samples of the engine's own op: accumulate.
#include <capstan/autograd/accumulate.h>
#include <capstan/autograd/create.h>

#include "support/sample.h"

namespace capstan::test {

namespace {

Tensor random(std::uint64_t seed, const Shape& shape) { return normal(Key{.seed = seed}, shape, 0, 1, DType::f64); }

std::vector<Tensor> sum_of_all(const std::vector<Tensor>& terms) { return {accumulate(terms)}; }

Tensor transposed(const Tensor& x) { return detail::Access::alias(x, x.layout().transposed(0, 1)); }

}  // namespace

Samples engine_samples() {
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

}  // namespace capstan::test
