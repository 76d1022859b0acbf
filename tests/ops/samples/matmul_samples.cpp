// Samples of ops/matmul.h, ops/linear.h and ops/gelu_linear.h.
#include <capstan/autograd/create.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/gelu_linear.h>
#include <capstan/ops/linear.h>
#include <capstan/ops/matmul.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/select.h>

#include "support/sample.h"

namespace capstan::test {
namespace {

using List = std::vector<Tensor>;

Tensor draw(std::uint64_t seed, const Shape& shape) { return normal(Key{.seed = seed}, shape, 0, 1, DType::f64); }
Tensor left(const Shape& shape) { return draw(21, shape); }
Tensor right(const Shape& shape) { return draw(22, shape); }

List product(const List& x) { return {matmul(x[0], x[1])}; }
List product_nt(const List& x) { return {matmul_nt(x[0], x[1])}; }
List affine(const List& x) { return {linear(x[0], x[1], x.size() > 2 ? x[2] : Tensor())}; }

void products(Samples& samples) {
  const auto add = [&](const char* label, const Tensor& a, const Tensor& b) {
    samples.push_back({"matmul", label, {a, b}, product});
    if (a.rank() >= 2 && b.rank() >= 2) samples.push_back({"matmul_nt", label, {a, transpose(b)}, product_nt});
  };
  add("[2,3]·[3,4]", left({2, 3}), right({3, 4}));
  add("square", left({3, 3}), right({3, 3}));
  add("[1,1]·[1,1]", left({1, 1}), right({1, 1}));
  add("[5]·[5]", left({5}), right({5}));
  add("[2,3]·[3]", left({2, 3}), right({3}));
  add("[3]·[3,2]", left({3}), right({3, 2}));
  add("[2,2,3]·[3]", left({2, 2, 3}), right({3}));
  add("[3]·[2,3,2]", left({3}), right({2, 3, 2}));
  add("batch [2]", left({2, 2, 3}), right({2, 3, 2}));
  add("batch [2,2]", left({2, 2, 1, 3}), right({2, 2, 3, 2}));
  add("one b for the batch", left({2, 2, 3}), right({3, 2}));
  add("one a for the batch", left({2, 3}), right({2, 3, 2}));
  add("batches [2,1] and [3]", left({2, 1, 2, 2}), right({3, 2, 1}));
  add("batches [1,2] and [2,1]", left({1, 2, 1, 2}), right({2, 1, 2, 2}));
  add("K = 0", left({2, 0}), right({0, 3}));
  add("K = 0, batch", left({2, 2, 0}), right({2, 0, 2}));
  add("K = 0, [0]·[0]", left({0}), right({0}));
  add("M = 0", left({0, 3}), right({3, 2}));
  add("N = 0", left({2, 3}), right({3, 0}));
  add("batch of none", left({0, 2, 3}), right({3, 2}));
  add("transposed a", transpose(left({3, 2})), right({3, 2}));
  add("transposed b", left({2, 3}), transpose(right({2, 3})));
  add("both transposed", transpose(left({3, 2})), transpose(right({2, 3})));
  add("every second column and row", slice(left({2, 6}), 1, 0, 6, 2), slice(right({6, 2}), 0, 1, 6, 2));
  add("columns two apart", slice(left({2, 5}), 1, 0, 5, 2), slice(right({3, 5}), 1, 0, 5, 2));
  add("stretched operands", broadcast_to(left({3}), Shape{2, 3}), broadcast_to(right({3, 1}), Shape{3, 2}));
  add("heads from the last axis", permute(left({2, 3, 2}), {1, 0, 2}), permute(right({2, 3, 2}), {1, 2, 0}));
  samples.push_back({"matmul", "aᵀ a, views made inside", {left({3, 2})}, [](const List& x) {
                       return List{matmul(transpose(x[0]), x[0])};
                     }});
  samples.push_back({"matmul_nt", "a aᵀ", {left({3, 2})}, [](const List& x) { return List{matmul_nt(x[0], x[0])}; }});
  samples.push_back(
      {"matmul", "a·a·a", {left({2, 2})}, [](const List& x) { return List{matmul(matmul(x[0], x[0]), x[0])}; }});
  samples.push_back({"matmul", "a constant", {right({3, 2})}, [a = left({2, 3})](const List& x) {
                       return List{matmul(cast(a, x[0].dtype()), x[0])};
                     }});
  samples.push_back({"matmul", "b constant", {left({2, 2, 3})}, [b = right({3, 2})](const List& x) {
                       return List{matmul(x[0], cast(b, x[0].dtype()))};
                     }});
}

void affine_maps(Samples& samples) {
  const auto add = [&](const char* label, const List& inputs) { samples.push_back({"linear", label, inputs, affine}); };
  add("[2,3] → 4", {left({2, 3}), right({4, 3}), draw(23, {4})});
  add("without bias", {left({2, 3}), right({4, 3})});
  add("[3] → 2", {left({3}), right({2, 3}), draw(23, {2})});
  add("[2,2,3] → 2", {left({2, 2, 3}), right({2, 3}), draw(23, {2})});
  add("[2,1,2,2] → 1", {left({2, 1, 2, 2}), right({1, 2}), draw(23, {1})});
  add("K = 0", {left({2, 0}), right({3, 0}), draw(23, {3})});
  add("N = 0", {left({2, 3}), right({0, 3}), draw(23, {0})});
  add("no rows", {left({0, 3}), right({2, 3}), draw(23, {2})});
  add("transposed x", {transpose(left({3, 2})), right({2, 3}), draw(23, {2})});
  add("x whose rows do not join", {permute(left({3, 2, 2}), {1, 2, 0}), right({2, 3}), draw(23, {2})});
  add("transposed weight", {left({2, 3}), transpose(right({3, 2})), draw(23, {2})});
  add("every second of the bias", {left({2, 3}), right({2, 3}), slice(draw(23, {4}), 0, 0, 4, 2)});
  samples.push_back({"linear", "x = weight", {left({3, 3})}, [](const List& x) { return List{linear(x[0], x[0])}; }});
  samples.push_back({"linear", "x and weight used three times", {left({2, 3}), right({3, 3})}, [](const List& x) {
                       const Tensor once = linear(x[0], x[1]);
                       return List{once * linear(x[0], x[1]), linear(once, x[1])};
                     }});
  samples.push_back(
      {"linear", "a transposed x used twice", {transpose(left({3, 2})), right({4, 3})}, [](const List& x) {
         return List{linear(x[0], x[1]) * linear(x[0], x[1])};
       }});
  samples.push_back({"linear", "only the bias", {draw(23, {2})}, [x = left({2, 3}), w = right({2, 3})](const List& b) {
                       return List{linear(cast(x, b[0].dtype()), cast(w, b[0].dtype()), b[0])};
                     }});
  samples.push_back({"linear", "only the weight", {right({2, 3})}, [x = left({2, 3})](const List& w) {
                       return List{linear(cast(x, w[0].dtype()), w[0])};
                     }});
}

void gelu_maps(Samples& samples) {
  const auto call = [](const List& x) { return List{gelu_linear(x[0], x[1], x.size() > 2 ? x[2] : Tensor())}; };
  const auto add = [&](const char* label, const List& inputs) {
    samples.push_back({"gelu_linear", label, inputs, call});
  };
  add("[2,3] → 4", {left({2, 3}), right({4, 3}), draw(23, {4})});
  add("without bias", {left({2, 3}), right({4, 3})});
  add("[3] → 2", {left({3}), right({2, 3}), draw(23, {2})});
  add("[2,2,19] → 2", {left({2, 2, 19}), right({2, 19}), draw(23, {2})});
  add("K = 0", {left({2, 0}), right({3, 0}), draw(23, {3})});
  add("no rows", {left({0, 3}), right({2, 3}), draw(23, {2})});
  add("transposed x and weight", {transpose(left({3, 2})), transpose(right({3, 2})), draw(23, {2})});
  add("x whose rows do not join", {permute(left({3, 2, 2}), {1, 2, 0}), right({2, 3}), draw(23, {2})});
  samples.push_back(
      {"gelu_linear", "x = weight", {left({3, 3})}, [](const List& x) { return List{gelu_linear(x[0], x[0])}; }});
  samples.push_back({"gelu_linear", "x and weight used twice", {left({2, 3}), right({3, 3})}, [](const List& x) {
                       return List{gelu_linear(x[0], x[1]) * linear(x[0], x[1])};
                     }});
  samples.push_back({"gelu_linear", "only the weight", {right({2, 3})}, [x = left({2, 3})](const List& w) {
                       return List{gelu_linear(cast(x, w[0].dtype()), w[0])};
                     }});
}

}  // namespace

Samples matmul_samples() {
  Samples samples;
  products(samples);
  affine_maps(samples);
  gelu_maps(samples);
  return samples;
}

}  // namespace capstan::test
