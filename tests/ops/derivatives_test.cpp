// Tests of derivatives.h, and of jvp and hvp on the catalogue's ops: hand values, against each other and against gradcheck,
// nested, on tapes in hand, errors.
#include <capstan/autograd/gradcheck.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/ops.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/expect.h"
#include "support/makers.h"

namespace capstan {
namespace {

using test::error_of;
using test::expect_exactly;
using test::expect_near;
using test::number;
using test::random;

using List = std::vector<Tensor>;

Tensor square(const Tensor& x) { return x * x; }
Tensor cubes(const Tensor& x) { return sum(x * x * x); }
Tensor softmax_of(const Tensor& x) { return softmax(x, -1); }
/// A scalar function with every second derivative.
Tensor tangled(const Tensor& x) { return sum(exp(softmax(x, -1)) * tanh(x) * sum(x * x)); }

// ---- hand values -----------------------------------------------------------------------------------------------------

TEST(Jacobian, HandValues) {
  const Tensor j = jacobian(tensor({1, 2}, DType::f64), square);
  expect_exactly(j, {2, 2}, {2, 0, 0, 4});
  EXPECT_FALSE(j.recorded());
  // Of A x it is A.
  const Tensor a = tensor({{1, 2, 3}, {4, 5, 6}}, DType::f64);
  expect_exactly(jacobian(tensor({7, 8, 9}, DType::f64), [&](const Tensor& x) { return matmul(a, x); }), {2, 3},
                 {1, 2, 3, 4, 5, 6});
  // Of a scalar it is the gradient, of the identity the identity.
  expect_exactly(jacobian(tensor({1, 2}, DType::f64), cubes), {2}, {3, 12});
  expect_exactly(jacobian(number(3), square), {}, {6});
  expect_exactly(jacobian(tensor({{1, 2}}, DType::f64), [](const Tensor& x) { return transpose(x); }), {2, 1, 1, 2},
                 {1, 0, 0, 1});
}

TEST(Jacobian, OfSoftmaxIsDiagonalMinusOuterProduct) {
  const Tensor x = tensor({0.5, -1, 2}, DType::f64);
  const std::vector<double> y = softmax_of(x).to_doubles();
  std::vector<double> want;
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t k = 0; k < 3; ++k) want.push_back((i == k ? y[i] : 0) - y[i] * y[k]);
  expect_near(jacobian(x, softmax_of), {3, 3}, want, 1e-15);
}

TEST(Jacobian, CallsItsFunctionOnce) {
  int calls = 0;
  jacobian(random(1, {4}), [&](const Tensor& x) {
    ++calls;
    return exp(x);
  });
  EXPECT_EQ(calls, 1);
}

TEST(Jacobian, OfWhatDoesNotDependOnXIsZero) {
  expect_exactly(jacobian(ones({2}), [](const Tensor&) { return ones({3}); }), {3, 2}, std::vector<double>(6, 0));
  // An element alone may depend on nothing.
  expect_exactly(jacobian(number(3),
                          [](const Tensor& x) {
                            return concat({reshape(x, {1}), ones({1}, DType::f64)}, 0);
                          }),
                 {2}, {1, 0});
}

TEST(Jacobian, HasTheShapeOfYThenOfX) {
  EXPECT_EQ(jacobian(random(1, {2, 3}), [](const Tensor& x) { return matmul(transpose(x), x); }).shape(),
            (Shape{3, 3, 2, 3}));
  EXPECT_EQ(jacobian(zeros({0, 3}), square).shape(), (Shape{0, 3, 0, 3}));
  EXPECT_EQ(jacobian(ones({2}), [](const Tensor& x) { return slice(x, 0, 0, 0); }).shape(), (Shape{0, 2}));
  EXPECT_EQ(jacobian(ones({2}), [](const Tensor& x) { return cast(x, DType::f64); }).dtype(), DType::f32);
  EXPECT_EQ(jacobian(ones({1, 1, 1, 1, 1, 1, 1, 2}), [](const Tensor& x) { return sum(x); }).rank(), 8);
}

TEST(Hessian, HandValues) {
  expect_exactly(hessian(tensor({1, 2}, DType::f64), cubes), {2, 2}, {6, 0, 0, 12});
  // xᵀ A x: A + Aᵀ.
  const Tensor a = tensor({{1, 2}, {4, 8}}, DType::f64);
  expect_exactly(hessian(tensor({5, 7}, DType::f64), [&](const Tensor& x) { return sum(x * matmul(a, x)); }), {2, 2},
                 {2, 6, 6, 16});
  EXPECT_EQ(hessian(random(1, {2, 3}), tangled).shape(), (Shape{2, 3, 2, 3}));
  expect_exactly(hessian(tensor({1, 2}, DType::f64), [](const Tensor& x) { return sum(x); }), {2, 2}, {0, 0, 0, 0});
}

TEST(Hessian, OfLogSumExpIsTheJacobianOfSoftmax) {
  const Tensor x = tensor({0.5, -1, 2}, DType::f64);
  const Tensor h = hessian(x, [](const Tensor& v) { return log(sum(exp(v))); });
  expect_near(h, {3, 3}, jacobian(x, softmax_of).to_doubles(), 1e-15);
}

// ---- against each other and against differences -------------------------------------------------------------------------

TEST(Derivatives, JvpAndVjpAreProductsWithTheJacobian) {
  const Tensor x = random(1, {2, 3}), t = random(2, {2, 3}), u = random(3, {2, 3});
  const auto f = [](const Tensor& v) { return exp(softmax(v, -1)) * tanh(v); };
  const Tensor j = reshape(jacobian(x, f), Shape{6, 6});
  expect_near(jvp(x, f, t).tangent, {2, 3}, matmul(j, reshape(t, Shape{6})).to_doubles(), 1e-13);
  expect_near(vjp(x, f, u).gradient, {2, 3}, matmul(reshape(u, Shape{6}), j).to_doubles(), 1e-13);
}

TEST(Derivatives, HvpIsTheProductWithTheHessianWhichIsSymmetric) {
  const Tensor x = random(1, {2, 3}), v = random(2, {2, 3});
  const Tensor h = reshape(hessian(x, tangled), Shape{6, 6});
  expect_near(hvp(x, tangled, v), {2, 3}, matmul(h, reshape(v, Shape{6})).to_doubles(), 1e-12);
  expect_near(h, {6, 6}, transpose(h).to_doubles(), 1e-12);
}

TEST(Derivatives, TheHessianIsTheJacobianOfTheGradient) {
  const Tensor x = random(1, {4});
  EXPECT_EQ(jacobian(x, [](const Tensor& v) { return grad(v, tangled); }).to_doubles(),
            hessian(x, tangled).to_doubles());
}

TEST(Derivatives, AreThemselvesFunctionsWithRightGradients) {
  const auto check = [](const char* what, auto&& f) {
    const GradcheckReport report = gradcheck([&](const List& x) -> List { return {f(x[0], x[1])}; },
                                             {random(1, {3}), random(2, {3})}, {.label = what});
    EXPECT_TRUE(report) << report.failure;
  };
  check("jvp", [](const Tensor& x, const Tensor& t) { return jvp(x, softmax_of, t).tangent; });
  check("hvp", [](const Tensor& x, const Tensor& v) { return hvp(x, tangled, v); });
  check("jacobian", [](const Tensor& x, const Tensor& w) {
    return jacobian(x, [&](const Tensor& v) { return softmax(v * w, -1); });
  });
  check("hessian", [](const Tensor& x, const Tensor& w) {
    return hessian(x, [&](const Tensor& v) { return sum(exp(v) * w) * sum(v); });
  });
}

TEST(Derivatives, NestOnTapesInHand) {
  Tape tape;
  const Tensor x = tape.watch(tensor({1, 2}, DType::f64));
  const Tensor j = jacobian(x, [](const Tensor& v) { return v * v * v; });  // diag(3 x²)
  EXPECT_TRUE(j.recorded());
  expect_exactly(tape.backward(sum(j)).of(x), {2}, {6, 12});
  expect_exactly(grad(tensor({1, 2}, DType::f64), [](const Tensor& v) { return sum(hessian(v, cubes)); }), {2}, {6, 6});
  expect_exactly(jacobian(tensor({1, 2}, DType::f64), [](const Tensor& v) { return hessian(v, cubes); }), {2, 2, 2},
                 {6, 0, 0, 0, 0, 0, 0, 6});
}

TEST(Derivatives, WhatFCapturesIsAConstantInsideAndRecordedOutside) {
  Tape tape;
  const Tensor w = tape.watch(number(3));
  const Tensor j = jacobian(tensor({1, 2}, DType::f64), [&](const Tensor& x) { return w * square(x); });
  expect_exactly(j, {2, 2}, {6, 0, 0, 12});
  EXPECT_EQ(tape.backward(sum(j)).of(w).item(), 6);
}

// ---- errors ----------------------------------------------------------------------------------------------------------

TEST(Derivatives, ErrorsToTheLetter) {
  const Tensor x = ones({2, 8});
  EXPECT_EQ(
      error_of([&] { hessian(x, square); }),
      "hessian: f must return a scalar; got [2, 8]; reduce it with sum() or mean(), or give a cotangent to vjp()");
  EXPECT_EQ(error_of([&] { jacobian(arange(3), square); }),
            "jacobian: x must be f32 or f64; got i32 [3]; cast() it first");
  EXPECT_EQ(error_of([&] { jacobian(x, [](const Tensor&) { return arange(3); }); }),
            "jacobian: f must return f32 or f64; got i32 [3]");
  EXPECT_EQ(error_of([&] { jacobian(x, [](const Tensor&) { return Tensor(); }); }),
            "jacobian: f must return a value; got an empty handle");
  EXPECT_EQ(error_of([&] { jacobian(Tensor(), square); }),
            "jacobian: inputs must hold values; got an empty handle; assign a tensor to it first");
  EXPECT_EQ(error_of([&] {
              hessian(ones({1, 1, 1, 1, 2}), cubes);
            }),
            "hessian: y and x must have at most 8 axes together; got [1, 1, 1, 1, 2] and [1, 1, 1, 1, 2]; reshape() "
            "them first");
}

TEST(Derivatives, NoticesATapeThatDiesInsideF) {
  const auto sentence =
      "jacobian: the tape that f's argument stands on must outlive f; it was consumed or destroyed inside f; pass {.keep = "
      "true} to that backward";
  EXPECT_EQ(error_of([] {
              Tape tape;
              jacobian(tape.watch(tensor({1, 2})), [&](const Tensor& x) {
                const Tensor y = x * x;
                tape.backward(sum(y));
                return y;
              });
            }),
            sentence);
  EXPECT_EQ(error_of([] {
              Tape tape;
              const Tensor captured = tape.watch(tensor({1, 2}));
              jacobian(tensor({1, 2}), [&](const Tensor& x) {
                const Tensor y = x * captured;
                tape.backward(sum(y));
                return y;
              });
            }),
            sentence);
}

}  // namespace
}  // namespace capstan
