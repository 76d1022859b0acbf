// Samples of ops/dropout.h.
#include <capstan/autograd/create.h>
#include <capstan/ops/dropout.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/rearrange.h>

#include <limits>

#include "support/sample.h"

namespace capstan::test {
namespace {

using List = std::vector<Tensor>;

constexpr Key key{.seed = 5, .stream = 3};

Tensor draw(const Shape& shape) { return uniform(Key{.seed = 83}, shape, -2, 2, DType::f64); }

}  // namespace

Samples dropout_samples() {
  Samples samples;
  const auto add = [&](const char* label, const Tensor& x, double p = 0.4) {
    samples.push_back({"dropout", label, {x}, [p](const List& in) { return List{dropout(in[0], p, key)}; }});
  };
  add("[3,5]", draw({3, 5}));
  add("a scalar, kept", tensor(0.7, DType::f64), 0.01);
  add("a scalar, dropped", tensor(0.7, DType::f64), 0.999);
  add("empty", draw({3, 0}));
  add("transposed", transpose(draw({5, 3})));
  add("every second", slice(draw({4, 9}), 1, 0, 9, 2));
  add("stretched", broadcast_to(draw({3, 1}), Shape{3, 7}));
  add("one number for all", broadcast_to(draw({1}), Shape{2, 9}));
  add("rarely kept", draw({40}), 0.95);
  samples.push_back({"dropout", "twice, other keys", {draw({2, 6})}, [](const List& in) {
                       return List{dropout(dropout(in[0], 0.3, key), 0.3, key.derive(1))};
                     }});
  samples.push_back({"dropout", "x used twice, one mask", {draw({2, 6})}, [](const List& in) {
                       return List{dropout(in[0], 0.3, key) * dropout(in[0], 0.3, key)};
                     }});
  return samples;
}

}  // namespace capstan::test
