// Samples of ops/rearrange.h.
#include <capstan/autograd/create.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/select.h>

#include "support/sample.h"

namespace capstan::test {
namespace {

using List = std::vector<Tensor>;

Tensor draw(std::uint64_t seed, const Shape& shape) { return uniform(Key{.seed = seed}, shape, -2, 2, DType::f64); }

void views(Samples& samples) {
  const auto add_sample = [&](const char* op, const char* label, const Tensor& x, auto f) {
    samples.push_back({op, label, {x}, [f](const List& in) { return List{f(in[0])}; }});
  };
  const auto to = [](const Shape& shape) { return [=](const Tensor& x) { return reshape(x, shape); }; };
  add_sample("reshape", "[2,6] → [3,4]", draw(31, {2, 6}), to({3, 4}));
  add_sample("reshape", "a copy of a transpose", transpose(draw(31, {2, 6})), to({3, 4}));
  add_sample("reshape", "a view of a slice", slice(draw(31, {2, 6}), 1, 0, 4), to({2, 2, 2}));
  add_sample("reshape", "[1,1] → []", draw(31, {1, 1}), to({}));
  add_sample("reshape", "[] → [1,1]", draw(31, {}), to({1, 1}));
  add_sample("reshape", "empty", draw(31, {0, 3}), to({5, 0}));
  add_sample("reshape", "of a stretched view", draw(31, {3}), [](const Tensor& x) {
    return reshape(broadcast_to(x, Shape{2, 3}), {-1});
  });

  add_sample("transpose", "[2,3]", draw(32, {2, 3}), [](const Tensor& x) { return transpose(x); });
  add_sample("transpose", "square", draw(32, {3, 3}), [](const Tensor& x) { return transpose(x) * x; });
  add_sample("transpose", "axes 0 and 2", draw(32, {2, 3, 4}), [](const Tensor& x) { return transpose(x, 0, 2); });
  add_sample("transpose", "an axis with itself", draw(32, {2, 3}), [](const Tensor& x) { return transpose(x, 1, 1); });
  add_sample("transpose", "empty", draw(32, {0, 3}), [](const Tensor& x) { return transpose(x); });
  add_sample("transpose", "twice", transpose(draw(32, {2, 3})), [](const Tensor& x) { return transpose(x); });

  add_sample("permute", "a cycle", draw(33, {2, 3, 4}), [](const Tensor& x) { return permute(x, {2, 0, 1}); });
  add_sample("permute", "the other cycle", draw(33, {2, 3, 4}), [](const Tensor& x) { return permute(x, {1, -1, 0}); });
  add_sample("permute", "heads [B,T,H,D]", draw(33, {2, 3, 2, 2}), [](const Tensor& x) {
    return permute(x, {0, 2, 1, 3});
  });
  add_sample("permute", "a scalar", draw(33, {}), [](const Tensor& x) { return permute(x, {}); });
  add_sample("permute", "empty", draw(33, {2, 0, 3}), [](const Tensor& x) { return permute(x, {2, 0, 1}); });

  const auto stretch = [](const Shape& shape) { return [=](const Tensor& x) { return broadcast_to(x, shape); }; };
  add_sample("broadcast_to", "[3] → [2,3]", draw(34, {3}), stretch({2, 3}));
  add_sample("broadcast_to", "[2,1] → [4,2,3]", draw(34, {2, 1}), stretch({4, 2, 3}));
  add_sample("broadcast_to", "[] → [2,2]", draw(34, {}), stretch({2, 2}));
  add_sample("broadcast_to", "[1] → [1,1,1]", draw(34, {1}), stretch({1, 1, 1}));
  add_sample("broadcast_to", "[1,3] → [0,3]", draw(34, {1, 3}), stretch({0, 3}));
  add_sample("broadcast_to", "empty [0,1] → [2,0,3]", draw(34, {0, 1}), stretch({2, 0, 3}));
  add_sample("broadcast_to", "transposed", transpose(draw(34, {1, 3})), stretch({3, 2}));
  add_sample("broadcast_to", "squared", draw(34, {3}), [](const Tensor& x) {
    const Tensor y = broadcast_to(x, Shape{2, 3});
    return y * y;
  });
}

void parts(Samples& samples) {
  const auto add_sample = [&](const char* op, const char* label, const Tensor& x, auto f) {
    samples.push_back({op, label, {x}, [f](const List& in) { return List{f(in[0])}; }});
  };
  add_sample("slice", "the middle", draw(35, {5}), [](const Tensor& x) { return slice(x, 0, 1, 4); });
  add_sample("slice", "columns", draw(35, {3, 4}), [](const Tensor& x) { return slice(x, 1, 2, to_end); });
  add_sample("slice", "every second, with a remainder", draw(35, {7}),
             [](const Tensor& x) { return slice(x, 0, 0, 6, 2); });
  add_sample("slice", "every third from 1", draw(35, {2, 8}),
             [](const Tensor& x) { return slice(x, 1, 1, to_end, 3); });
  add_sample("slice", "negative bounds", draw(35, {6, 2}), [](const Tensor& x) { return slice(x, 0, -5, -1, 2); });
  add_sample("slice", "all of it", draw(35, {4}), [](const Tensor& x) { return slice(x, 0, 0, 4); });
  add_sample("slice", "nothing", draw(35, {4, 2}), [](const Tensor& x) { return slice(x, 0, 3, 3); });
  add_sample("slice", "a step beyond the axis", draw(35, {4}), [](const Tensor& x) { return slice(x, 0, 1, 4, 1000); });
  add_sample("slice", "empty", draw(35, {0, 3}), [](const Tensor& x) { return slice(x, 1, 1, 3); });
  add_sample("slice", "of a transpose", transpose(draw(35, {4, 3})), [](const Tensor& x) { return slice(x, 0, 1, 3); });
  samples.push_back({"slice", "overlapping", {draw(35, {5})}, [](const List& x) {
                       return List{slice(x[0], 0, 0, 4) * slice(x[0], 0, 1, 5)};
                     }});

  add_sample("pad", "both ends", draw(36, {3}), [](const Tensor& x) { return pad(x, 0, 2, 1); });
  add_sample("pad", "rows", draw(36, {2, 3}), [](const Tensor& x) { return pad(x, 0, 1, 0); });
  add_sample("pad", "columns", draw(36, {2, 3}), [](const Tensor& x) { return pad(x, -1, 0, 2); });
  add_sample("pad", "spread by 3", draw(36, {2, 3}), [](const Tensor& x) { return pad(x, 1, 1, 2, 3); });
  add_sample("pad", "by nothing", draw(36, {3}), [](const Tensor& x) { return pad(x, 0, 0, 0); });
  add_sample("pad", "empty", draw(36, {0, 2}), [](const Tensor& x) { return pad(x, 0, 1, 2, 2); });
  add_sample("pad", "of a transpose", transpose(draw(36, {2, 3})), [](const Tensor& x) { return pad(x, 0, 1, 1); });
}

void joins(Samples& samples) {
  const auto along = [](int axis) { return [=](const List& x) { return List{concat(x, axis)}; }; };
  samples.push_back({"concat", "rows", {draw(37, {2, 3}), draw(38, {1, 3})}, along(0)});
  samples.push_back({"concat", "columns, three", {draw(37, {2, 3}), draw(38, {2, 1}), draw(39, {2, 2})}, along(-1)});
  samples.push_back({"concat", "one", {draw(37, {2, 3})}, along(1)});
  samples.push_back({"concat", "with an empty one", {draw(37, {2, 0}), draw(38, {2, 2}), draw(39, {2, 0})}, along(1)});
  samples.push_back(
      {"concat", "strided", {transpose(draw(37, {3, 2})), slice(draw(38, {2, 5}), 1, 0, 5, 2)}, along(0)});
  samples.push_back({"concat", "the middle axis", {draw(37, {2, 1, 2}), draw(38, {2, 2, 2})}, along(1)});
  samples.push_back({"concat", "x with itself", {draw(37, {3})}, [](const List& x) {
                       return List{concat({x[0], x[0]}, 0)};
                     }});
  // The gradient of x gathers in a part of a larger cotangent's memory, which begins elsewhere.
  samples.push_back({"concat", "after a constant, x used again", {draw(37, {3})}, [c = draw(38, {2})](const List& x) {
                       const Tensor again = scale(x[0], 2), joined = concat({cast(c, x[0].dtype()), x[0]}, 0);
                       return List{again, joined * joined};
                     }});
  samples.push_back({"concat", "with a constant", {draw(37, {3})}, [c = draw(38, {2})](const List& x) {
                       return List{concat({x[0], cast(c, x[0].dtype()), x[0] * x[0]}, 0)};
                     }});

  const Tensor ids = tensor({{2, 0}, {1, 2}}, DType::i32);
  samples.push_back({"one_hot", "[2,2] of 3", {ids}, [](const List& x) { return List{one_hot(x[0], 3, DType::f64)}; }});
  samples.push_back(
      {"one_hot", "transposed", {transpose(ids)}, [](const List& x) { return List{one_hot(x[0], 4, DType::f64)}; }});
  samples.push_back({"one_hot", "empty", {zeros({0, 2}, DType::i32)}, [](const List& x) {
                       return List{one_hot(x[0], 3, DType::f64)};
                     }});
  samples.push_back({"mul", "by one_hot", {ids, draw(40, {3})}, [](const List& x) {
                       return List{one_hot(x[0], 3, x[1].dtype()) * x[1]};
                     }});
}

}  // namespace

Samples rearrange_samples() {
  Samples samples;
  views(samples);
  parts(samples);
  joins(samples);
  return samples;
}

}  // namespace capstan::test
