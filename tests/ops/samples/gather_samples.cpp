// Samples of ops/gather.h and ops/stack.h.
#include <capstan/autograd/create.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/gather.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/stack.h>

#include "support/sample.h"

namespace capstan::test {
namespace {

using List = std::vector<Tensor>;

Tensor draw(const Shape& shape, std::uint64_t seed = 51) {
  return uniform(Key{.seed = seed}, shape, -2, 2, DType::f64);
}
Tensor ids(const std::vector<std::int32_t>& list, const Shape& shape) { return tensor(list, shape); }

void by_ids(Samples& samples) {
  const auto take = [&](const char* label, const Tensor& x, int axis, const Tensor& places) {
    samples.push_back({"gather", label, {x, places}, [=](const List& in) { return List{gather(in[0], axis, in[1])}; }});
  };
  take("[4], ids [3], repeated", draw({4}), 0, ids({2, 0, 2}, {3}));
  take("columns of [2,3]", draw({2, 3}), 1, ids({2, 0, 0, 1}, {2, 2}));
  take("rows of [3,2]", draw({3, 2}), 0, ids({2, 0, 1, 1}, {2, 2}));
  take("the middle axis", draw({2, 3, 2}), 1, ids({2, 0, 1, 1, 0, 2, 0, 2}, {2, 2, 2}));
  take("one id a row", draw({3, 4}), -1, ids({3, 0, 2}, {3, 1}));
  take("length 1", draw({1}), 0, ids({0, 0}, {2}));
  take("no ids", draw({2, 3}), 1, ids({}, {2, 0}));
  take("no rows", draw({0, 3}), 1, ids({}, {0, 2}));
  take("an empty axis without ids", draw({2, 0}), 1, ids({}, {2, 0}));
  take("transposed x and ids", transpose(draw({3, 2})), 1, transpose(ids({2, 0, 0, 1}, {2, 2})));
  take("every second column", slice(draw({2, 6}), 1, 1, 6, 2), 1, ids({2, 0, 0, 1}, {2, 2}));
  take("stretched x", broadcast_to(draw({3}), Shape{2, 3}), 1, ids({2, 0, 0, 1}, {2, 2}));
  samples.push_back({"gather", "x times what it gathers", {draw({3}), ids({2, 2, 0}, {3})}, [](const List& in) {
                       return List{in[0] * gather(in[0], 0, in[1])};
                     }});

  const auto put = [&](const char* label, const Tensor& src, int axis, const Tensor& places, Index size) {
    samples.push_back({"scatter_add", label, {src, places}, [=](const List& in) {
                         return List{scatter_add(in[0], axis, in[1], size)};
                       }});
  };
  put("[4] into 3, repeated", draw({4}), 0, ids({2, 0, 2, 2}, {4}), 3);
  put("columns", draw({2, 2}), 1, ids({2, 0, 1, 1}, {2, 2}), 4);
  put("rows", draw({2, 3}), 0, ids({2, 0, 1, 1, 0, 1}, {2, 3}), 3);
  put("the middle axis", draw({2, 2, 2}), 1, ids({2, 0, 1, 1, 0, 2, 0, 2}, {2, 2, 2}), 3);
  put("more rows than are walked together", draw({2, 18}), 0, broadcast_to(ids({1, 1}, {2, 1}), Shape{2, 18}), 2);
  put("length 1", draw({1}), 0, ids({0}, {1}), 1);
  put("nothing into 2", draw({3, 0}), 1, ids({}, {3, 0}), 2);
  put("nothing into nothing", draw({3, 0}), 1, ids({}, {3, 0}), 0);
  put("no rows", draw({0, 2}), 1, ids({}, {0, 2}), 3);
  put("transposed", transpose(draw({3, 2})), 0, transpose(ids({2, 0, 0, 1, 1, 2}, {3, 2})), 3);
  put("stretched", broadcast_to(draw({2, 1}), Shape{2, 3}), 1, ids({2, 0, 0, 1, 1, 1}, {2, 3}), 3);
  samples.push_back({"scatter_add", "squared", {draw({3}), ids({1, 1, 0}, {3})}, [](const List& in) {
                       const Tensor y = scatter_add(in[0], 0, in[1], 2);
                       return List{y * y};
                     }});
}

void stacks(Samples& samples) {
  const auto along = [](int axis) { return [=](const List& x) { return List{stack(x, axis)}; }; };
  samples.push_back({"concat", "a stack of [2,3]", {draw({2, 3}), draw({2, 3}, 52)}, along(0)});
  samples.push_back({"concat", "a stack along the last axis", {draw({2, 3}), draw({2, 3}, 52)}, along(-1)});
  samples.push_back({"concat", "a stack of scalars", {draw({}), draw({}, 52), draw({}, 53)}, along(0)});
  samples.push_back({"concat", "a stack of transposes", {transpose(draw({2, 3})), draw({3, 2}, 52)}, along(1)});
  samples.push_back({"slice", "split, parts multiplied", {draw({5})}, [](const List& x) {
                       const List parts = split(x[0], {2, 1, 2}, 0);
                       return List{parts[0] * parts[2], parts[1]};
                     }});
  samples.push_back(
      {"slice", "split into equal parts", {draw({2, 6})}, [](const List& x) { return split(x[0], 3, 1); }});
  const auto repeated = [](Index count, int axis) {
    return [=](const List& x) { return List{repeat_interleave(x[0], count, axis)}; };
  };
  samples.push_back({"broadcast_to", "repeat_interleave of rows", {draw({2, 3})}, repeated(2, 0)});
  samples.push_back({"broadcast_to", "repeat_interleave of columns", {transpose(draw({2, 3}))}, repeated(3, 1)});
  samples.push_back({"broadcast_to", "repeat_interleave of nothing", {draw({0, 3})}, repeated(2, 0)});
}

void flips(Samples& samples) {
  const auto over = [](const Axes& axes) { return [=](const List& x) { return List{flip(x[0], axes)}; }; };
  samples.push_back({"flip", "[5]", {draw({5})}, over(0)});
  samples.push_back({"flip", "columns", {draw({2, 3})}, over(1)});
  samples.push_back({"flip", "two axes", {draw({2, 3, 2})}, over({0, -1})});
  samples.push_back({"flip", "an axis of size 1", {draw({1, 3})}, over(0)});
  samples.push_back({"flip", "empty", {draw({0, 3})}, over({0, 1})});
  samples.push_back({"flip", "transposed, long enough for tiles", {transpose(draw({9, 10}))}, over(0)});
  samples.push_back({"flip", "every second column", {slice(draw({2, 7}), 1, 0, 7, 2)}, over(1)});
  samples.push_back({"flip", "stretched", {draw({3})}, [](const List& x) {
                       return List{flip(broadcast_to(x[0], Shape{2, 3}), {0, 1})};
                     }});
  samples.push_back(
      {"flip", "x times its flip", {draw({3})}, [](const List& x) { return List{x[0] * flip(x[0], 0)}; }});
}

}  // namespace

Samples gather_samples() {
  Samples samples;
  by_ids(samples);
  stacks(samples);
  flips(samples);
  return samples;
}

}  // namespace capstan::test
