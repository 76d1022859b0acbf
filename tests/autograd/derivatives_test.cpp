// Tests of jvp and hvp (transform.h): hand values, structures, nesting, tapes in hand, errors. Jacobians and Hessians, and
// comparisons over ops of the catalogue: tests/ops/derivatives_test.cpp.
#include <capstan/autograd/tape.h>
#include <capstan/autograd/transform.h>
#include <gtest/gtest.h>

#include "support/expect.h"
#include "support/makers.h"
#include "support/plain_ops.h"

namespace capstan {
namespace {

using test::error_of;
using test::expect_exactly;
using test::number;
using test::plain::add;
using test::plain::matmul;
using test::plain::mul;
using test::plain::scale;
using test::plain::square;
using test::plain::sum;

using List = std::vector<Tensor>;

Tensor cubes(const Tensor& x) { return sum(mul(square(x), x)); }

struct Line {
  Tensor slope, offset;
  Tensor ids = arange(2);
  static void fields(auto& self, auto& f) {
    f("slope", self.slope);
    f("offset", self.offset);
    f("ids", self.ids);
  }
};

// ---- jvp -------------------------------------------------------------------------------------------------------------

TEST(Jvp, IsTheJacobianTimesTheTangent) {
  const Tensor x = tensor({1, 2}, DType::f64), t = tensor({1, 10}, DType::f64);
  const auto [value, tangent] = jvp(x, square, t);
  expect_exactly(value, {2}, {1, 4});
  expect_exactly(tangent, {2}, {2, 40});
  EXPECT_FALSE(value.recorded());
  EXPECT_FALSE(tangent.recorded());
  const Tensor a = tensor({{1, 2}, {3, 4}}, DType::f64), column = tensor({{5}, {6}}, DType::f64);
  expect_exactly(jvp(
                     column, [&](const Tensor& v) { return matmul(a, v); }, tensor({{1}, {-1}}, DType::f64))
                     .tangent,
                 {2, 1}, {-1, -1});
}

TEST(Jvp, CallsItsFunctionOnce) {
  int calls = 0;
  jvp(
      number(2),
      [&](const Tensor& v) {
        ++calls;
        return square(v);
      },
      number(1));
  EXPECT_EQ(calls, 1);
}

TEST(Jvp, OfAStructure) {
  const Line line{number(2), number(1)}, t{number(10), number(100), Tensor()};
  const auto [value, tangent] = jvp(
      line, [](const Line& l) { return mul(l.slope, l.offset); }, t);
  EXPECT_EQ(value.item(), 2);
  EXPECT_EQ(tangent.item(), 10 * 1 + 2 * 100);
}

TEST(Jvp, OfWhatDoesNotDependOnXIsZero) {
  expect_exactly(jvp(
                     number(2), [](const Tensor&) { return ones({2}); }, number(1))
                     .tangent,
                 {2}, {0, 0});
  expect_exactly(jvp(
                     List{number(2), number(3)}, [](const List& v) { return v[1]; }, List{number(5), number(7)})
                     .tangent,
                 {}, {7});  // the identity
}

TEST(Jvp, IsDifferentiableByXAndByTheTangent) {
  Tape tape;
  const Tensor x = tape.watch(number(3)), t = tape.watch(number(5));
  const Tensor tangent = jvp(x, cubes, t).tangent;  // 3 x² t
  EXPECT_EQ(tangent.item(), 135);
  const Gradients g = tape.backward(tangent);
  EXPECT_EQ(g.of(x).item(), 90);
  EXPECT_EQ(g.of(t).item(), 27);
}

TEST(Jvp, Nests) {
  // The derivative of 3 x² along 1 at 2, and once more.
  const auto along = [](const Tensor& x, auto&& f) { return jvp(x, f, ones({}, DType::f64)).tangent; };
  const auto first = [&](const Tensor& v) { return along(v, cubes); };
  const auto second = [&](const Tensor& v) { return along(v, first); };
  EXPECT_EQ(first(number(2)).item(), 12);
  EXPECT_EQ(second(number(2)).item(), 12);
  EXPECT_EQ(along(number(2), second).item(), 6);
  EXPECT_EQ(grad(number(2), second).item(), 6);
}

TEST(Jvp, ClosuresMayCaptureRecordedTensors) {
  Tape tape;
  const Tensor w = tape.watch(number(3));
  const auto [value, tangent] = jvp(
      number(5), [&](const Tensor& v) { return mul(w, square(v)); }, number(1));
  EXPECT_EQ(tangent.item(), 30);
  EXPECT_EQ(tape.backward(value, {.keep = true}).of(w).item(), 25);
  EXPECT_EQ(tape.backward(tangent).of(w).item(), 10);
}

/// x³, whose rule takes its slope from a jvp.
struct CubeByJvp final : Op {
  static constexpr std::string_view name = "cube_by_jvp";
  static Tensor cube(const Tensor& x) { return mul(square(x), x); }
  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override {
    test::plain::write(out[0], test::plain::numbers(cube(in[0].detach())));
  }
  Tensors vjp(const Call& call) const override { return {jvp(call.in(0), cube, call.dout(0)).tangent}; }
};

TEST(Jvp, MayBeUsedInARule) {
  Tape tape;
  const Tensor x = tape.watch(number(2));
  const Tensor first = tape.backward(record(CubeByJvp{}, x)[0], {.create_graph = true}).of(x);
  EXPECT_EQ(first.item(), 12);
  EXPECT_EQ(tape.backward(first).of(x).item(), 12);
}

TEST(Jvp, ErrorsToTheLetter) {
  const Tensor x = ones({2, 8});
  EXPECT_EQ(error_of([&] { jvp(x, square, ones({8})); }),
            "jvp: the tangent must have x's shape and dtype; got f32 [8] for f32 [2, 8]");
  EXPECT_EQ(error_of([&] {
              jvp(x, square, ones({2, 8}, DType::f64));
            }),
            "jvp: the tangent must have x's shape and dtype; got f64 [2, 8] for f32 [2, 8]");
  EXPECT_EQ(error_of([&] {
              jvp(
                  Line{x, x}, [](const Line& l) { return l.slope; }, Line{x, Tensor()});
            }),
            "jvp: the tangent must have x's shape and dtype; got an empty handle for f32 [2, 8] at offset");
  EXPECT_EQ(error_of([&] {
              jvp(
                  List{x, x}, [](const List& v) { return v[0]; }, List{x});
            }),
            "jvp: the tangent must have x's structure; got 1 tensors for 2");
  EXPECT_EQ(error_of([&] {
              jvp(
                  x, [](const Tensor&) { return arange(3); }, x);
            }),
            "jvp: f must return f32 or f64; got i32 [3]");
  EXPECT_EQ(error_of([&] {
              jvp(
                  x, [](const Tensor&) { return Tensor(); }, x);
            }),
            "jvp: f must return a value; got an empty handle");
}

// ---- hvp -------------------------------------------------------------------------------------------------------------

TEST(Hvp, IsTheHessianTimesAVector) {
  const Tensor x = tensor({1, 2}, DType::f64), v = tensor({1, 10}, DType::f64);
  const Tensor h = hvp(x, cubes, v);
  expect_exactly(h, {2}, {6, 120});
  EXPECT_FALSE(h.recorded());
  // ½ xᵀ A x with A not symmetric: H = ½ (A + Aᵀ).
  const Tensor a = tensor({{1, 2}, {4, 8}}, DType::f64), column = tensor({{5}, {7}}, DType::f64);
  const auto quadratic = [&](const Tensor& z) { return scale(sum(mul(z, matmul(a, z))), 0.5); };
  expect_exactly(hvp(column, quadratic, tensor({{1}, {10}}, DType::f64)), {2, 1}, {31, 83});
}

TEST(Hvp, OfAStructureAndOfAList) {
  // f = slope² offset: H = [[2 offset, 2 slope], [2 slope, 0]].
  const Line line{number(3), number(5)}, v{number(1), number(10), Tensor()};
  const Line h = hvp(
      line, [](const Line& l) { return mul(square(l.slope), l.offset); }, v);
  EXPECT_EQ(h.slope.item(), 10 + 60);
  EXPECT_EQ(h.offset.item(), 6);
  EXPECT_FALSE(h.ids.defined());
  const List both = hvp(
      List{number(3), number(5)}, [](const List& x) { return mul(square(x[0]), x[1]); }, List{number(1), number(10)});
  EXPECT_EQ(both[0].item(), 70);
  EXPECT_EQ(both[1].item(), 6);
}

TEST(Hvp, OfALinearFunctionIsZero) {
  expect_exactly(hvp(tensor({1, 2}, DType::f64), sum, tensor({1, 1}, DType::f64)), {2}, {0, 0});
  EXPECT_EQ(hvp(
                number(2), [](const Tensor&) { return number(3); }, number(1))
                .item(),
            0);
}

TEST(Hvp, IsDifferentiable) {
  Tape tape;
  const Tensor x = tape.watch(number(3)), v = tape.watch(number(5)), w = tape.watch(number(2));
  const Tensor h = hvp(
      x, [&](const Tensor& z) { return mul(w, cubes(z)); }, v);  // 6 w x v
  EXPECT_EQ(h.item(), 180);
  const Gradients g = tape.backward(h);
  EXPECT_EQ(g.of(x).item(), 60);
  EXPECT_EQ(g.of(v).item(), 36);
  EXPECT_EQ(g.of(w).item(), 90);
}

TEST(Hvp, ErrorsToTheLetter) {
  const Tensor x = ones({2, 8});
  EXPECT_EQ(error_of([&] { hvp(x, square, x); }),
            "hvp: f must return a scalar; got [2, 8]; reduce it with sum() or mean(), or give a cotangent to vjp()");
  EXPECT_EQ(error_of([&] { hvp(x, cubes, ones({8})); }),
            "hvp: v must have x's shape and dtype; got f32 [8] for f32 [2, 8]");
  EXPECT_EQ(error_of([&] { hvp(Tensor(), cubes, Tensor()); }),
            "hvp: inputs must hold values; got an empty handle; assign a tensor to it first");
}

}  // namespace
}  // namespace capstan
