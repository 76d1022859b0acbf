// Matrix products: values by hand, gradients of broadcast and 1-D operands, errors. Gradient checks: samples/.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/autograd/transform.h>
#include <capstan/ops/matmul.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>

#include "support/expect.h"

namespace capstan::test {
namespace {

/// Gradients of Σ up ⊙ (a · b).
struct Gradient {
  Tensor da, db;
};
Gradient gradient(const Tensor& a, const Tensor& b, const Tensor& up, BackwardOptions options = {}) {
  Tape tape;
  const Tensor left = tape.watch(a), right = tape.watch(b);
  const Gradients g = tape.backward(matmul(left, right), up, options);
  return {g.of(left).detach(), g.of(right).detach()};
}

/// The product by its definition, for the last two axes of operands of one batch shape.
std::vector<double> naive(const Tensor& a, const Tensor& b) {
  const Index m = a.size(-2), k = a.size(-1), n = b.size(-1);
  const Index batch = m * k == 0 ? 0 : a.elements() / (m * k);
  const std::vector<double> x = a.to_doubles(), y = b.to_doubles();
  std::vector<double> z;
  for (Index item = 0; item < batch; ++item)
    for (Index i = 0; i < m; ++i)
      for (Index j = 0; j < n; ++j) {
        double total = 0;
        for (Index l = 0; l < k; ++l)
          total +=
              x[static_cast<std::size_t>((item * m + i) * k + l)] * y[static_cast<std::size_t>((item * k + l) * n + j)];
        z.push_back(total);
      }
  return z;
}

Tensor draw(std::uint64_t seed, const Shape& shape, DType dtype = DType::f64) {
  return normal(Key{.seed = seed}, shape, 0, 1, dtype);
}

TEST(MatMul, MultipliesMatricesAndVectors) {
  const Tensor a = tensor({{1, 2}, {3, 4}}), b = tensor({{5, 6}, {7, 8}}), v = tensor({5, 6});
  expect_exactly(matmul(a, b), {2, 2}, {19, 22, 43, 50});
  expect_exactly(matmul(a, v), {2}, {17, 39});
  expect_exactly(matmul(v, a), {2}, {23, 34});
  expect_exactly(matmul(v, v), {}, {61});
}

TEST(MatMulNT, MultipliesByTheTranspose) {
  const Tensor a = tensor({{1, 2}, {3, 4}}), b = tensor({{5, 6}});
  expect_exactly(matmul_nt(a, b), {2, 1}, {17, 39});
  for (const Index size : {3, 50}) {
    const Tensor x = draw(30, {2, 1, size, 7}), y = draw(31, {3, size + 1, 7}), up = draw(32, {2, 3, size, size + 1});
    for (const bool create_graph : {false, true}) {
      Tape tape;
      const Tensor x1 = tape.watch(x), y1 = tape.watch(y), x2 = tape.watch(x), y2 = tape.watch(y);
      const Tensor got = matmul_nt(x1, y1), want = matmul(x2, transpose(y2));
      expect_near(got, {2, 3, size, size + 1}, want.to_doubles(), 1e-13);
      const Gradients g = tape.backward({{got, up}, {want, up}}, {.create_graph = create_graph});
      expect_near(g.of(x1).detach(), x.shape(), g.of(x2).detach().to_doubles(), 1e-12);
      expect_near(g.of(y1).detach(), y.shape(), g.of(y2).detach().to_doubles(), 1e-12);
    }
  }
}

TEST(MatMulNT, NamesWhatDoesNotFit) {
  EXPECT_EQ(error_of([] {
              matmul_nt(zeros({2, 3}), zeros({3}));
            }),
            "matmul_nt: operands must have at least two axes; got a [2, 3] and b [3]");
  EXPECT_EQ(error_of([] {
              matmul_nt(zeros({2, 3}), zeros({3, 2}));
            }),
            "matmul_nt: inner sizes must agree; got a [2, 3] and b [3, 2]");
  EXPECT_EQ(error_of([] {
              matmul_nt(zeros({2, 2, 3}), zeros({3, 2, 3}));
            }),
            "matmul_nt: leading axes must broadcast (equal sizes, or 1); got a [2, 2, 3] and b [3, 2, 3]");
  EXPECT_EQ(error_of([] {
              matmul_nt(zeros({2, 3}), zeros({2, 3}, DType::f64));
            }),
            "matmul_nt: a and b must have one dtype; got f32 and f64; cast one of them");
}

TEST(MatMul, BatchedGradientIsSummedOverTheBatch) {
  const Tensor a = tensor({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}), b = tensor({{9, 10}, {11, 12}});
  const Gradient g = gradient(a, b, ones({2, 2, 2}));
  expect_exactly(g.db, {2, 2}, {16, 16, 20, 20});
  expect_exactly(g.da, {2, 2, 2}, {19, 23, 19, 23, 19, 23, 19, 23});
}

TEST(MatMul, OneDimensionalOperandsHaveOuterProductGradients) {
  const Tensor a = draw(1, {3, 3}), b = draw(2, {3}), up = draw(3, {3});
  const std::vector<double> va = a.to_doubles(), vb = b.to_doubles(), u = up.to_doubles();
  std::vector<double> outer, back(3), left(3);
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 3; ++j) {
      outer.push_back(u[i] * vb[j]);
      back[j] += va[3 * i + j] * u[i];
      left[i] += va[3 * i + j] * u[j];
    }
  for (const bool create_graph : {false, true}) {
    const Gradient matrix_vector = gradient(a, b, up, {.create_graph = create_graph});
    expect_near(matrix_vector.da, {3, 3}, outer, 1e-14);
    expect_near(matrix_vector.db, {3}, back, 1e-14);
    const Gradient vector_matrix = gradient(b, a, up, {.create_graph = create_graph});
    expect_near(vector_matrix.da, {3}, left, 1e-14);
    const Gradient dot = gradient(b, up, tensor(2, DType::f64), {.create_graph = create_graph});
    expect_near(dot.da, {3}, {2 * u[0], 2 * u[1], 2 * u[2]}, 1e-15);
    expect_near(dot.db, {3}, {2 * vb[0], 2 * vb[1], 2 * vb[2]}, 1e-15);
  }
}

TEST(MatMul, BroadcastsLeadingAxes) {
  const Tensor a = draw(4, {2, 1, 3, 4}), b = draw(5, {3, 4, 2});
  const Tensor y = matmul(a, b);
  const Tensor wide_a = broadcast_to(a, Shape{2, 3, 3, 4}), wide_b = broadcast_to(b, Shape{2, 3, 4, 2});
  expect_near(y, {2, 3, 3, 2}, naive(wide_a, wide_b), 1e-14);
  expect_near(matmul(draw(4, {3, 4}), b), {3, 3, 2}, naive(broadcast_to(draw(4, {3, 4}), Shape{3, 3, 4}), b), 1e-14);
  expect_near(matmul(a, draw(5, {4})), {2, 1, 3}, naive(a, broadcast_to(draw(5, {4, 1}), Shape{2, 1, 4, 1})), 1e-14);
}

TEST(MatMul, ReadsAnyStrides) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double tolerance = dtype == DType::f32 ? 1e-5 : 1e-13;
    for (const Index size : {3, 40}) {
      const Tensor a = draw(6, {2, size, size + 1}, dtype), b = draw(7, {2, size + 1, size + 2}, dtype);
      const std::vector<double> expected = naive(a, b);
      const Shape shape{2, size, size + 2};
      // The same values under other strides: a transpose of a dense transpose, and every second element.
      const Tensor ta = transpose(transpose(a).dense()), tb = transpose(transpose(b).dense());
      const Tensor sa = slice(pad(a, 2, 0, 1, 2), 2, 0, to_end, 2);
      expect_near(matmul(ta, b), shape, expected, tolerance);
      expect_near(matmul(a, tb), shape, expected, tolerance);
      expect_near(matmul(ta, tb), shape, expected, tolerance);
      expect_near(matmul(sa, tb), shape, expected, tolerance);
      const Tensor batch_last = permute(permute(a, {1, 2, 0}).dense(), {2, 0, 1});
      expect_near(matmul(batch_last, b), shape, expected, tolerance);
    }
  }
}

TEST(MatMul, AnInnerSizeOfZeroGivesZeros) {
  expect_exactly(matmul(zeros({2, 0}), zeros({0, 3})), {2, 3}, {0, 0, 0, 0, 0, 0});
  expect_exactly(matmul(zeros({0}), zeros({0})), {}, {0});
  const Gradient g = gradient(zeros({2, 0}), zeros({0, 3}), ones({2, 3}));
  expect_exactly(g.da, {2, 0}, {});
  expect_exactly(g.db, {0, 3}, {});
}

TEST(MatMul, EmptySizesPassThrough) {
  expect_exactly(matmul(zeros({0, 3}), zeros({3, 2})), {0, 2}, {});
  expect_exactly(matmul(zeros({4, 0, 3}), zeros({3, 2})), {4, 0, 2}, {});
  const Gradient g = gradient(zeros({0, 2, 3}), ones({3, 2}), zeros({0, 2, 2}));
  expect_exactly(g.da, {0, 2, 3}, {});
  expect_exactly(g.db, {3, 2}, {0, 0, 0, 0, 0, 0});
}

TEST(MatMul, KeepsOnlyWhatTheWantedGradientsNeed) {
  Tape tape;
  const Tensor a = tape.watch(draw(8, {4, 4}));
  const Tensor b = draw(9, {4, 4});
  const Tensor y = matmul(a, b);
  EXPECT_EQ(tape.saved_bytes(), 4 * 4 * 8);
  EXPECT_TRUE(y.recorded());
}

TEST(MatMul, NamesWhatDoesNotFit) {
  const auto error = [](const Tensor& a, const Tensor& b) { return error_of([&] { matmul(a, b); }); };
  EXPECT_EQ(error(zeros({2, 3}), zeros({4, 5})), "matmul: inner sizes must agree; got a [2, 3] and b [4, 5]");
  EXPECT_EQ(error(zeros({3}), zeros({4})), "matmul: inner sizes must agree; got a [3] and b [4]");
  EXPECT_EQ(error(zeros({2, 3}), zeros({})),
            "matmul: operands must have at least one axis; got a [2, 3] and b []; multiply scalars by *");
  EXPECT_EQ(error(zeros({2, 3, 4}), zeros({3, 4, 5})),
            "matmul: leading axes must broadcast (equal sizes, or 1); got a [2, 3, 4] and b [3, 4, 5]");
  EXPECT_EQ(error(zeros({2, 2}), zeros({2, 2}, DType::f64)),
            "matmul: a and b must have one dtype; got f32 and f64; cast one of them");
  EXPECT_EQ(error(zeros({2, 2}, DType::i32), zeros({2, 2}, DType::i32)),
            "matmul: a must be f32 or f64; got i32; cast it first");
  EXPECT_EQ(error(Tensor(), zeros({2})),
            "matmul: inputs must hold values; got an empty handle as input 0; assign a tensor to it first");
}

}  // namespace
}  // namespace capstan::test
