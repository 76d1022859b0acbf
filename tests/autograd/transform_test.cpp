// Tests of transform.h: value_and_grad, grad and vjp, nested, over structures, and with what their closures capture.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/autograd/transform.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/expect.h"
#include "support/makers.h"
#include "support/plain_ops.h"

namespace capstan {
namespace {

using test::error_of;
using test::expect_exactly;
using test::number;
using test::plain::add;
using test::plain::mul;
using test::plain::scale;
using test::plain::square;
using test::plain::sum;

Tensor cube(const Tensor& x) { return mul(square(x), x); }

// ---- one order -------------------------------------------------------------------------------------------------------

TEST(Transform, ValueAndGradOfATensor) {
  const Tensor x = tensor({1, 2}, DType::f64);
  const auto [value, gradient] = value_and_grad(x, [](const Tensor& v) { return sum(cube(v)); });
  EXPECT_EQ(value.item(), 9);
  expect_exactly(gradient, {2}, {3, 12});
  EXPECT_FALSE(value.recorded());
  EXPECT_FALSE(gradient.recorded());
  EXPECT_FALSE(x.recorded());
}

TEST(Transform, VjpTakesACotangent) {
  const Tensor x = tensor({1, 2}, DType::f64);
  const auto [value, gradient] = vjp(x, square, tensor({10, 100}, DType::f64));
  expect_exactly(value, {2}, {1, 4});
  expect_exactly(gradient, {2}, {20, 400});
}

TEST(Transform, AnUnusedInputHasGradientZero) {
  expect_exactly(grad(tensor({1, 2}, DType::f64), [](const Tensor&) { return number(3); }), {2}, {0, 0});
}

TEST(Transform, ErrorsToTheLetter) {
  const Tensor x = ones({2, 8});
  const std::string not_a_scalar =
      ": f must return a scalar; got [2, 8]; reduce it with sum() or mean(), or give a cotangent to vjp()";
  EXPECT_EQ(error_of([&] { grad(x, square); }), "grad" + not_a_scalar);
  EXPECT_EQ(error_of([&] { value_and_grad(x, square); }), "value_and_grad" + not_a_scalar);
  EXPECT_EQ(error_of([&] { vjp(x, square, Tensor()); }),
            "vjp: the cotangent must hold a value; got an empty handle; for a scalar f use grad()");
  EXPECT_EQ(error_of([&] { vjp(x, square, ones({8})); }),
            "vjp: the cotangent must have y's shape and dtype; got f32 [8] for y f32 [2, 8]");
  EXPECT_EQ(error_of([&] { grad(Tensor(), square); }),
            "grad: inputs must hold values; got an empty handle; assign a tensor to it first");
  EXPECT_EQ(error_of([&] { grad(x, [](const Tensor&) { return Tensor(); }); }),
            "grad: f must return a value; got an empty handle");
}

TEST(Transform, AThrowingFunctionLeavesNothingBehind) {
  const Tensor x = number(2);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(error_of([&] {
                grad(x, [](const Tensor& v) -> Tensor {
                  square(v);
                  throw Error("f: no");
                });
              }),
              "f: no");
    EXPECT_EQ(grad(x, square).item(), 4);
  }
}

// ---- structures ------------------------------------------------------------------------------------------------------

struct Line {
  Tensor slope, offset;
  static void fields(auto& self, auto& f) {
    f("slope", self.slope);
    f("offset", self.offset);
  }
};

struct Model {
  std::vector<Line> lines;
  std::optional<Tensor> extra;
  Tensor ids = arange(2);
  static void fields(auto& self, auto& f) {
    f("lines", self.lines);
    f("extra", self.extra);
    f("ids", self.ids);
  }
};

TEST(Transform, GradientsOfAStructureHaveItsType) {
  const Line line{number(2), number(1)};
  const auto [value, gradient] =
      value_and_grad(line, [](const Line& l) { return square(add(scale(l.slope, 3), l.offset)); });
  EXPECT_EQ(value.item(), 49);
  EXPECT_EQ(gradient.slope.item(), 42);
  EXPECT_EQ(gradient.offset.item(), 14);
  EXPECT_FALSE(line.slope.recorded());
}

TEST(Transform, GradientsOfNestedStructuresAndLists) {
  const Model model{{{number(1), number(2)}, {number(3), number(4)}}, number(5)};
  const Model gradient = grad(model, [](const Model& m) {
    Tensor y = mul(m.lines[0].slope, m.lines[1].offset);
    return add(y, square(*m.extra));
  });
  EXPECT_EQ(gradient.lines[0].slope.item(), 4);
  EXPECT_EQ(gradient.lines[0].offset.item(), 0);
  EXPECT_EQ(gradient.lines[1].offset.item(), 1);
  EXPECT_EQ(gradient.extra->item(), 10);
  EXPECT_FALSE(gradient.ids.defined());  // i32: no gradient
  const std::vector<Tensor> both = {number(2), number(3)};
  const std::vector<Tensor> gradients = grad(both, [](const std::vector<Tensor>& x) { return mul(x[0], x[1]); });
  EXPECT_EQ(gradients[0].item(), 3);
  EXPECT_EQ(gradients[1].item(), 2);
}

TEST(Transform, TheSameTensorInTwoFieldsHasTwoGradients) {
  const Tensor x = number(3);
  const std::vector<Tensor> g = grad(std::vector<Tensor>{x, x}, [](const auto& v) { return mul(v[0], square(v[1])); });
  EXPECT_EQ(g[0].item(), 9);
  EXPECT_EQ(g[1].item(), 18);
}

// ---- nesting ---------------------------------------------------------------------------------------------------------

TEST(Transform, GradOfGradOfGrad) {
  auto first = [](const Tensor& x) { return grad(x, [](const Tensor& v) { return mul(cube(v), v); }); };
  auto second = [&](const Tensor& x) { return grad(x, first); };
  auto third = [&](const Tensor& x) { return grad(x, second); };
  EXPECT_EQ(first(number(2)).item(), 32);
  EXPECT_EQ(second(number(2)).item(), 48);
  EXPECT_EQ(third(number(2)).item(), 48);
  EXPECT_EQ(grad(number(2), third).item(), 24);
}

TEST(Transform, ClosuresMayCaptureRecordedTensors) {
  // d/dx [ d/dy (x³ y²) at y = 5 ] at x = 2: d/dx 10 x³ = 120.
  const Tensor found = grad(number(2), [](const Tensor& x) {
    return grad(number(5), [&](const Tensor& y) { return mul(cube(x), square(y)); });
  });
  EXPECT_EQ(found.item(), 120);
}

TEST(Transform, AnInnerTapeIsAbsorbedByTheCapturedOne) {
  Tape tape;
  const Tensor x = tape.watch(number(2));
  const auto [value, gradient] = value_and_grad(number(5), [&](const Tensor& y) { return mul(cube(x), square(y)); });
  EXPECT_EQ(value.item(), 200);
  EXPECT_EQ(gradient.item(), 80);
  EXPECT_TRUE(value.recorded());
  EXPECT_TRUE(gradient.recorded());
  EXPECT_EQ(tape.backward(value, {.keep = true}).of(x).item(), 300);
  EXPECT_EQ(tape.backward(gradient).of(x).item(), 120);
  EXPECT_FALSE(value.recorded());
  EXPECT_FALSE(gradient.recorded());
}

// An absorbed tape has no nodes of its own left; its tensors must not outlive it, nor pass for those of the next tape.
TEST(Transform, WhatLeaksFromAnAbsorbedTapeIsAConstantAfterwards) {
  Tensor leaked;
  const auto leak = [&] {
    return grad(number(2), [&](const Tensor& w) {
      return grad(number(3), [&](const Tensor& x) {
        leaked = square(x);
        return mul(leaked, w);
      });
    });
  };
  EXPECT_EQ(leak().item(), 6);
  EXPECT_FALSE(leaked.recorded());
  EXPECT_EQ(grad(number(2), [&](const Tensor& w) { return mul(square(w), leaked); }).item(), 36);
  {
    Tape tape;
    const Tensor w = tape.watch(number(2));
    EXPECT_TRUE(grad(number(3), [&](const Tensor& x) { return mul(leaked = square(x), w); }).recorded());
    EXPECT_TRUE(leaked.recorded());
  }
  EXPECT_FALSE(leaked.recorded());
  Tape one, other;
  const Tensor v = other.watch(number(5));
  EXPECT_EQ(other.backward(mul(v, leaked)).of(v).item(), 9);
}

TEST(Transform, ThreeTapesBecomeOne) {
  Tape tape;
  const Tensor x = tape.watch(number(2));
  Tensor inner;
  const Tensor outer = grad(number(3), [&](const Tensor& y) {
    inner = grad(number(5), [&](const Tensor& z) { return mul(mul(square(z), square(y)), x); });  // 10 y² x
    return inner;
  });
  EXPECT_EQ(inner.item(), 180);
  EXPECT_EQ(outer.item(), 120);  // 20 y x
  EXPECT_EQ(tape.backward(add(outer, inner)).of(x).item(), 60 + 90);
  EXPECT_FALSE(outer.recorded());
}

TEST(Transform, TwoInnerTapesMeet) {
  Tape tape;
  const Tensor x = tape.watch(number(2));
  const Tensor a = grad(number(3), [&](const Tensor& y) { return mul(x, square(y)); });  // 6 x
  const Tensor b = grad(number(5), [&](const Tensor& y) { return mul(x, cube(y)); });    // 75 x
  EXPECT_EQ(tape.backward(mul(a, b)).of(x).item(), 2 * 6 * 75 * 2);
}

TEST(Transform, PerturbationsAreNotConfused) {
  // z = x² is captured: inside, it is a constant, though it descends from the very x that is differentiated.
  Tape tape;
  const Tensor x = tape.watch(number(3)), z = square(x);
  const Tensor g = grad(x, [&](const Tensor& v) { return mul(v, z); });
  EXPECT_EQ(g.item(), 9);
  EXPECT_EQ(tape.backward(g).of(x).item(), 6);  // outside, g = x²
}

TEST(Transform, SiskindAndPearlmutter) {
  // d/dx (x · d/dy (x + y) at y = 1) at x = 1 is 1; 2 for systems that confuse the two derivatives.
  const Tensor found = grad(
      number(1), [](const Tensor& x) { return mul(x, grad(number(1), [&](const Tensor& y) { return add(x, y); })); });
  EXPECT_EQ(found.item(), 1);
}

TEST(Transform, AnUnusedCapturedTensorIsLeftAlone) {
  Tape tape;
  const Tensor x = tape.watch(number(3));
  EXPECT_EQ(grad(number(2), [&](const Tensor& y) { return square(y); }).item(), 4);
  EXPECT_EQ(tape.size(), 1);
  EXPECT_EQ(grad(number(2), [&](const Tensor&) { return x; }).item(), 0);
  EXPECT_EQ(tape.backward(square(x)).of(x).item(), 6);
}

TEST(Transform, ACotangentFromATapeIsDifferentiated) {
  Tape tape;
  const Tensor u = tape.watch(number(7));
  const auto [value, gradient] = vjp(number(3), square, u);
  EXPECT_EQ(gradient.item(), 42);
  EXPECT_EQ(tape.backward(gradient).of(u).item(), 6);
}

TEST(Transform, InputsOfTwoUnrelatedTapes) {
  Tape first, second;
  const std::vector<Tensor> x = {first.watch(number(1)), second.watch(number(2))};
  EXPECT_EQ(error_of([&] { grad(x, [](const auto& v) { return mul(v[0], v[1]); }); }),
            "grad: inputs must be recorded on one tape; got two unrelated tapes; detach() one input, or use "
            "grad() or "
            "vjp() inside");
}

TEST(Transform, OnlyWhatLiesInsideIsWalked) {
  Tape tape;
  const Tensor x = tape.watch(number(3)), outside = cube(x);
  const Index before = tape.size();
  const Tensor g = grad(x, [&](const Tensor& v) { return mul(v, outside); });
  EXPECT_EQ(g.item(), 27);
  EXPECT_LE(tape.size() - before, 3);  // the place of v, the product, and one product in its rule
}

TEST(Transform, GradientsOutliveTheirOwnTape) {
  Tensor parameter = ones({100});
  const void* memory = parameter.view().bytes;
  const Tensor gradient = grad(parameter, [](const Tensor& p) { return sum(square(p)); });
  // Nothing holds the parameter any more: an update is in place.
  EXPECT_EQ(std::move(parameter).to_buffer().view().bytes, memory);
  expect_exactly(gradient, {100}, std::vector<double>(100, 2));
}

TEST(Transform, AHundredThousandSmallGradientsInARow) {
  Tensor x = number(1);
  for (int i = 0; i < 100'000; ++i) x = add(x, scale(grad(x, square), -1e-5));
  EXPECT_NEAR(x.item(), std::exp(-2.0), 1e-5);
}

}  // namespace
}  // namespace capstan
