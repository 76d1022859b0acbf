// Samples of ops/attention.h.
#include <capstan/autograd/create.h>
#include <capstan/ops/attention.h>
#include <capstan/ops/compare.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/select.h>

#include <limits>

#include "support/sample.h"

namespace capstan::test {
namespace {

using List = std::vector<Tensor>;

Tensor draw(std::uint64_t seed, const Shape& shape) { return normal(Key{.seed = seed}, shape, 0, 1, DType::f64); }
Tensor boolean(const NestedList& list) { return tensor(list, DType::boolean); }

/// Both outputs; the −∞ of queries without keys has no differences and is taken out.
List outputs(const FusedAttentionResult& result) {
  const double lowest = -std::numeric_limits<double>::infinity();
  return {result.output, where(equal(result.logsumexp, lowest), 0.0, result.logsumexp)};
}

}  // namespace

Samples attention_samples() {
  Samples samples;
  const auto add = [&](const char* label, List inputs, const AttentionOptions& options = {}) {
    samples.push_back({"attention", label, std::move(inputs), [options](const List& in) {
                         AttentionOptions all = options;
                         if (in.size() > 3) all.bias = {in[3]};
                         return outputs(attention(in[0], in[1], in[2], all));
                       }});
  };
  const Tensor q = draw(1, {1, 2, 3, 2}), k = draw(2, {1, 2, 4, 2}), v = draw(3, {1, 2, 4, 3});
  const Tensor bias = draw(4, {2, 3, 4});
  const Dropout drop{.p = 0.4, .key = {.seed = 6, .stream = 1}};
  add("no mask", {q, k, v});
  add("one of all", {draw(1, {1, 1, 1, 1}), draw(2, {1, 1, 1, 1}), draw(3, {1, 1, 1, 1})});
  add("causal", {q, slice(k, 2, 0, 3), slice(v, 2, 0, 3)}, {.mask = Mask::causal()});
  add("causal, bottom right, scale", {q, k, v}, {.mask = Mask::causal(Align::bottom_right), .scale = 0.3});
  add("window", {q, k, v}, {.mask = Mask::window(1, 1, Align::top_left)});
  add("queries without keys", {draw(1, {1, 1, 4, 2}), draw(2, {1, 1, 2, 2}), draw(3, {1, 1, 2, 2})},
      {.mask = Mask::causal(Align::bottom_right)});
  add("padded, one of them empty", {draw(1, {2, 1, 2, 2}), draw(2, {2, 1, 3, 2}), draw(3, {2, 1, 3, 1})},
      {.mask = Mask::padding({2, 0})});
  add("grouped heads", {draw(1, {1, 4, 2, 2}), slice(k, 2, 0, 3), slice(v, 2, 0, 3)});
  add("keep", {q, k, v}, {.mask = Mask::keep(boolean({{1, 1, 0, 1}, {0, 0, 0, 0}, {1, 1, 0, 1}}))});
  add("bias", {q, k, v, bias}, {.mask = Mask::causal(Align::top_left)});
  add("bias, broadcast", {q, k, v, draw(5, {1, 4})}, {.mask = Mask::keep(boolean({{1}, {0}, {1}}))});
  add("dropout", {q, k, v}, {.dropout = drop});
  add("everything", {q, k, v, bias},
      {.mask = Mask::causal(Align::bottom_right) & Mask::padding({3}) & Mask::keep(boolean({{1, 0, 1, 1}})),
       .scale = 0.7,
       .dropout = drop});
  add("heads behind positions", {transpose(draw(1, {1, 3, 2, 2}), 1, 2), transpose(draw(2, {1, 4, 2, 2}), 1, 2),
                                 transpose(draw(3, {1, 4, 2, 3}), 1, 2)});
  add("sliced", {slice(draw(1, {1, 2, 3, 4}), 3, 0, 4, 2), slice(draw(2, {1, 2, 8, 2}), 2, 0, 8, 2), v});
  add("large scores", {q * 4.0, k * 4.0, v});
  add("no keys", {q, slice(k, 2, 0, 0), slice(v, 2, 0, 0)});
  add("no batch", {slice(q, 0, 0, 0), slice(k, 0, 0, 0), slice(v, 0, 0, 0)});
  samples.push_back({"attention", "x used three times", {draw(7, {1, 1, 4, 2})}, [](const List& in) {
                       return outputs(attention(in[0], in[0], in[0], {.mask = Mask::causal()}));
                     }});
  return samples;
}

}  // namespace capstan::test
