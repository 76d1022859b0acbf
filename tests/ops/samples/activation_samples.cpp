// Samples of ops/activation.h and ops/layer_norm.h.
#include <capstan/autograd/create.h>
#include <capstan/ops/activation.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/layer_norm.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/select.h>

#include "support/sample.h"

namespace capstan::test {
namespace {

using List = std::vector<Tensor>;

Tensor draw(std::uint64_t seed, const Shape& shape, double low, double high) {
  return uniform(Key{.seed = seed}, shape, low, high, DType::f64);
}

/// At least 0.3 away from 0, both signs: no difference crosses relu's kink.
Tensor away_from_zero(const Shape& shape) {
  const Tensor x = draw(51, shape, -1, 1);
  std::vector<double> values = x.to_doubles();
  for (double& value : values) value = value < 0 ? 2 * value - 0.3 : 2 * value + 0.3;
  return tensor(values, shape);
}

void activations(Samples& samples, const char* op, Tensor (*f)(const Tensor&)) {
  const auto call = [f](const List& x) { return List{f(x[0])}; };
  const auto add = [&](const char* label, const Tensor& x) { samples.push_back({op, label, {x}, call}); };
  add("[2,3]", away_from_zero({2, 3}));
  add("a scalar", tensor(-0.7, DType::f64));
  add("a row longer than a vector", away_from_zero({19}));
  add("empty", away_from_zero({3, 0}));
  add("transposed", transpose(away_from_zero({3, 2})));
  add("every second", slice(away_from_zero({9}), 0, 0, 9, 2));
  add("stretched", broadcast_to(away_from_zero({1}), Shape{3}));
  add("tails", tensor({-30, -12, -6, -3, 3, 6, 12, 30}, DType::f64));
  samples.push_back({op, "of itself", {away_from_zero({4})}, [f](const List& x) { return List{f(f(x[0]))}; }});
}

void norms(Samples& samples) {
  const auto x = [](const Shape& shape) { return draw(52, shape, -2, 2); };
  const auto weight = [](Index channels) { return draw(53, {channels}, 0.5, 1.5); };
  const auto bias = [](Index channels) { return draw(54, {channels}, -1, 1); };
  const auto outputs = [](const Tensor& in, const Tensor& w, const Tensor& b, double eps = 1e-5) {
    const LayerNormOutputs all = layer_norm_outputs(in, w, b, eps);
    return List{all.y, all.mean, all.rstd};
  };
  const auto full_call = [=](const List& in) { return outputs(in[0], in[1], in[2]); };
  const auto add = [&](const char* label, const Tensor& in, const Tensor& w, const Tensor& b) {
    samples.push_back({"layer_norm", label, {in, w, b}, full_call});
  };
  add("[3,4]", x({3, 4}), weight(4), bias(4));
  add("[2,2,3]", x({2, 2, 3}), weight(3), bias(3));
  add("one row [5]", x({5}), weight(5), bias(5));
  add("a row longer than a vector", x({1, 19}), weight(19), bias(19));
  add("no rows", x({0, 3}), weight(3), bias(3));
  add("transposed x", transpose(x({4, 2})), weight(4), bias(4));
  add("every second channel", slice(x({2, 7}), 1, 0, 7, 2), slice(weight(7), 0, 0, 7, 2), slice(bias(7), 0, 0, 7, 2));
  samples.push_back({"layer_norm", "no weight, no bias", {x({3, 4})}, [=](const List& in) {
                       return outputs(in[0], Tensor(), Tensor());
                     }});
  samples.push_back({"layer_norm", "weight alone", {x({3, 4}), weight(4)}, [=](const List& in) {
                       return outputs(in[0], in[1], Tensor());
                     }});
  samples.push_back({"layer_norm", "bias alone", {x({3, 4}), bias(4)}, [=](const List& in) {
                       return outputs(in[0], Tensor(), in[1]);
                     }});
  samples.push_back(
      {"layer_norm", "only the weight is differentiated", {weight(4)}, [=, in = x({3, 4})](const List& w) {
         return outputs(cast(in, w[0].dtype()), w[0], Tensor());
       }});
  samples.push_back({"layer_norm", "only the bias is differentiated", {bias(4)}, [=, in = x({3, 4})](const List& b) {
                       return outputs(cast(in, b[0].dtype()), cast(weight(4), b[0].dtype()), b[0]);
                     }});
  samples.push_back({"layer_norm", "only y is used", {x({2, 3}), weight(3), bias(3)}, [](const List& in) {
                       return List{layer_norm(in[0], in[1], in[2])};
                     }});
  samples.push_back({"layer_norm", "beside a residual", {x({3, 4}), weight(4), bias(4)}, [](const List& in) {
                       return List{in[0] * 2.0 + layer_norm(in[0], in[1], in[2])};
                     }});
  samples.push_back({"layer_norm", "one channel, eps 0.5", {x({3, 1}), weight(1), bias(1)}, [=](const List& in) {
                       return outputs(in[0], in[1], in[2], 0.5);
                     }});
  samples.push_back({"layer_norm", "constant row, eps 0.5", {full({2, 3}, 0.75, DType::f64)}, [=](const List& in) {
                       return outputs(in[0], Tensor(), Tensor(), 0.5);
                     }});
}

}  // namespace

Samples activation_samples() {
  Samples samples;
  activations(samples, "relu", relu);
  activations(samples, "gelu_tanh", gelu_tanh);
  activations(samples, "gelu_erf", gelu_erf);
  activations(samples, "silu", silu);
  activations(samples, "softplus", softplus);
  norms(samples);
  return samples;
}

}  // namespace capstan::test
