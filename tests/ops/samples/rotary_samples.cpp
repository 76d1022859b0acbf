// Samples of ops/rotary.h.
#include <capstan/autograd/create.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/rotary.h>

#include "support/sample.h"

namespace capstan::test {
namespace {

using List = std::vector<Tensor>;

Tensor draw(const Shape& shape) { return uniform(Key{.seed = 84}, shape, -2, 2, DType::f64); }

using Counting = Tensor (*)(const Tensor&, const RotaryOptions&);
using Placing = Tensor (*)(const Tensor&, const Tensor&, double);

void layout(Samples& samples, const std::string& name, Counting counting, Placing placing) {
  const auto add = [&](const std::string& label, const Tensor& x, const RotaryOptions& options = {}) {
    samples.push_back({"rotary", name + label, {x}, [=](const List& in) { return List{counting(in[0], options)}; }});
  };
  add("[2,3,4]", draw({2, 3, 4}));
  add("[2,2,3,6] from 5", draw({2, 2, 3, 6}), {.start = 5});
  add("one row of one pair", draw({1, 2}), {.start = 1});
  add("a row longer than a vector", draw({2, 38}), {.start = 3});
  add("far, other base", draw({2, 4}), {.start = 4096, .base = 500000});
  add("before the start", draw({3, 4}), {.start = -1});
  add("no rows", draw({2, 0, 4}));
  add("no pairs", draw({2, 0}));
  add("permuted", permute(draw({2, 3, 2, 4}), {0, 2, 1, 3}));
  add("columns first", transpose(draw({4, 3})));
  add("every second column", slice(draw({3, 8}), 1, 0, 8, 2));
  add("stretched", broadcast_to(draw({1, 4}), Shape{3, 4}), {.start = 2});
  samples.push_back(
      {"rotary", name + "positions", {draw({2, 3, 4}), tensor({7, 0, 7}, DType::i32)}, [=](const List& in) {
         return List{placing(in[0], in[1], 100)};
       }});
  samples.push_back({"rotary", name + "of itself, used twice", {draw({2, 4})}, [=](const List& in) {
                       const Tensor once = counting(in[0], {.start = 1});
                       return List{counting(once, {.start = 2}) * once};
                     }});
}

}  // namespace

Samples rotary_samples() {
  Samples samples;
  layout(samples, "half split ", rotary_half_split, rotary_half_split);
  layout(samples, "adjacent pairs ", rotary_adjacent_pairs, rotary_adjacent_pairs);
  return samples;
}

}  // namespace capstan::test
