// Samples of ops/rms_norm.h.
#include <capstan/autograd/create.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/rms_norm.h>
#include <capstan/ops/select.h>

#include "support/sample.h"

namespace capstan::test {
namespace {

using List = std::vector<Tensor>;

Tensor x_of(const Shape& shape) { return uniform(Key{.seed = 81}, shape, -2, 2, DType::f64); }
Tensor weight_of(Index channels) { return uniform(Key{.seed = 82}, {channels}, 0.5, 1.5, DType::f64); }

List outputs(const Tensor& in, const Tensor& weight, double eps = 1e-5) {
  const RmsNormOutputs all = rms_norm_outputs(in, weight, eps);
  return {all.y, all.rstd};
}

}  // namespace

Samples rms_norm_samples() {
  Samples samples;
  const auto add = [&](const char* label, const Tensor& in, const Tensor& weight) {
    samples.push_back({"rms_norm", label, {in, weight}, [](const List& x) { return outputs(x[0], x[1]); }});
  };
  add("[3,4]", x_of({3, 4}), weight_of(4));
  add("[2,2,3]", x_of({2, 2, 3}), weight_of(3));
  add("one row [5]", x_of({5}), weight_of(5));
  add("a row longer than a vector", x_of({1, 19}), weight_of(19));
  add("no rows", x_of({0, 3}), weight_of(3));
  add("transposed x", transpose(x_of({4, 2})), weight_of(4));
  add("every second channel", slice(x_of({2, 7}), 1, 0, 7, 2), slice(weight_of(7), 0, 0, 7, 2));
  add("stretched x", broadcast_to(x_of({1, 4}), Shape{3, 4}), weight_of(4));
  const auto call = [&](const char* label, const List& in, std::vector<Tensor> (*f)(const List&)) {
    samples.push_back({"rms_norm", label, in, f});
  };
  call("no weight", {x_of({3, 4})}, [](const List& x) { return outputs(x[0], Tensor()); });
  call("only the weight is differentiated", {weight_of(4)}, [](const List& w) {
    return outputs(cast(x_of({3, 4}), w[0].dtype()), w[0]);
  });
  call("only y is used", {x_of({2, 3}), weight_of(3)}, [](const List& x) { return List{rms_norm(x[0], x[1])}; });
  call("only rstd is used", {x_of({2, 3}), weight_of(3)},
       [](const List& x) { return List{rms_norm_outputs(x[0], x[1]).rstd}; });
  call("beside a residual", {x_of({3, 4}), weight_of(4)},
       [](const List& x) { return List{x[0] * 2.0 + rms_norm(x[0], x[1])}; });
  call("one channel, eps 0.5", {x_of({3, 1}), weight_of(1)}, [](const List& x) { return outputs(x[0], x[1], 0.5); });
  call("a row of zeros, eps 0.5", {zeros({2, 3}, DType::f64)},
       [](const List& x) { return outputs(x[0], Tensor(), 0.5); });
  // The factor is inside, so that differences are taken with small steps.
  call("large rows", {x_of({2, 4}), weight_of(4)}, [](const List& x) { return outputs(x[0] * 1e6, x[1]); });
  call("of itself", {x_of({2, 4}), weight_of(4)}, [](const List& x) { return outputs(rms_norm(x[0], x[1]), x[1]); });
  call("x is its own weight", {x_of({4})}, [](const List& x) { return outputs(x[0], x[0]); });
  return samples;
}

}  // namespace capstan::test
