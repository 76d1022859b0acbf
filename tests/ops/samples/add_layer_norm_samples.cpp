// Samples of add_layer_norm (ops/layer_norm.h).
#include <capstan/autograd/create.h>
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

}  // namespace

Samples add_layer_norm_samples() {
  const auto x = [](const Shape& shape) { return draw(55, shape, -2, 2); };
  const auto r = [](const Shape& shape) { return draw(56, shape, -1, 1); };
  const auto weight = [](Index channels) { return draw(57, {channels}, 0.5, 1.5); };
  const auto bias = [](Index channels) { return draw(58, {channels}, -1, 1); };
  const auto outputs = [](const Tensor& a, const Tensor& b, const Tensor& w, const Tensor& c, double eps = 1e-5) {
    const AddLayerNormOutputs all = add_layer_norm(a, b, w, c, eps);
    return List{all.sum, all.y, all.mean, all.rstd};
  };

  Samples samples;
  const auto add = [&](const char* label, const List& in, std::function<List(const List&)> call) {
    samples.push_back({"add_layer_norm", label, in, std::move(call)});
  };
  const auto full = [=](const List& in) { return outputs(in[0], in[1], in[2], in[3]); };
  add("[3,4]", {x({3, 4}), r({3, 4}), weight(4), bias(4)}, full);
  add("[2,2,3]", {x({2, 2, 3}), r({2, 2, 3}), weight(3), bias(3)}, full);
  add("one row [5]", {x({5}), r({5}), weight(5), bias(5)}, full);
  add("a row longer than a vector", {x({1, 19}), r({1, 19}), weight(19), bias(19)}, full);
  add("no rows", {x({0, 3}), r({0, 3}), weight(3), bias(3)}, full);
  add("transposed x, every second channel of r",
      {transpose(x({4, 2})), slice(r({2, 7}), 1, 0, 7, 2), weight(4), bias(4)}, full);
  add("no weight, no bias", {x({3, 4}), r({3, 4})},
      [=](const List& in) { return outputs(in[0], in[1], Tensor(), Tensor()); });
  add("weight alone", {x({3, 4}), r({3, 4}), weight(4)},
      [=](const List& in) { return outputs(in[0], in[1], in[2], Tensor()); });
  add("bias alone, eps 0.5", {x({3, 4}), r({3, 4}), bias(4)},
      [=](const List& in) { return outputs(in[0], in[1], Tensor(), in[2], 0.5); });
  add("only x is differentiated", {x({3, 4})}, [=, b = r({3, 4}), w = weight(4)](const List& in) {
    return outputs(in[0], cast(b, in[0].dtype()), cast(w, in[0].dtype()), Tensor());
  });
  add("only r is differentiated", {r({3, 4})}, [=, a = x({3, 4}), w = weight(4)](const List& in) {
    return outputs(cast(a, in[0].dtype()), in[0], cast(w, in[0].dtype()), Tensor());
  });
  add("only the weight is differentiated", {weight(4)}, [=, a = x({3, 4}), b = r({3, 4})](const List& in) {
    return outputs(cast(a, in[0].dtype()), cast(b, in[0].dtype()), in[0], Tensor());
  });
  add("only the bias is differentiated", {bias(4)}, [=, a = x({3, 4}), b = r({3, 4})](const List& in) {
    return outputs(cast(a, in[0].dtype()), cast(b, in[0].dtype()), Tensor(), in[0]);
  });
  add("x and r are one tensor", {x({3, 4}), weight(4), bias(4)},
      [=](const List& in) { return outputs(in[0], in[0], in[1], in[2]); });
  add("only y is used", {x({2, 3}), r({2, 3}), weight(3), bias(3)},
      [](const List& in) { return List{add_layer_norm(in[0], in[1], in[2], in[3]).y}; });
  add("only the sum is used", {x({2, 3}), r({2, 3}), weight(3), bias(3)},
      [](const List& in) { return List{add_layer_norm(in[0], in[1], in[2], in[3]).sum}; });
  add("two layers of a residual stream", {x({3, 4}), r({3, 4}), weight(4), bias(4)}, [](const List& in) {
    const AddLayerNormOutputs first = add_layer_norm(in[0], in[1], in[2], in[3]);
    const AddLayerNormOutputs second = add_layer_norm(first.sum, tanh(first.y), in[2], in[3]);
    return List{second.sum + second.y};
  });
  return samples;
}

}  // namespace capstan::test
