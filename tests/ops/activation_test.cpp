// Activations: values, tails without cancellation, the chosen subgradient, errors. Gradient checks: samples/.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/autograd/transform.h>
#include <capstan/ops/activation.h>
#include <capstan/ops/reduce.h>

#include <cmath>
#include <limits>

#include "support/expect.h"

namespace capstan::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

using Function = Tensor (*)(const Tensor&);

/// The slope at x, by the rule (create_graph) or by the kernel.
double slope(Function f, double x, bool create_graph, DType dtype = DType::f64) {
  Tape tape;
  const Tensor watched = tape.watch(tensor(x, dtype));
  return tape.backward(f(watched), {.create_graph = create_graph}).of(watched).item();
}

TEST(Relu, IsZeroBelowZero) {
  expect_exactly(relu(tensor({-2, -0.5, 0, 0.5, 3})), {5}, {0, 0, 0, 0.5, 3});
  expect_exactly(relu(tensor({nan, -infinity, infinity})), {3}, {nan, 0, infinity});
  expect_exactly(relu(zeros({2, 0})), {2, 0}, {});
}

TEST(Relu, TheSubgradientAtZeroIsZero) {
  for (const bool create_graph : {false, true}) {
    EXPECT_EQ(slope(relu, 0, create_graph), 0);
    EXPECT_EQ(slope(relu, -0.0, create_graph), 0);
    EXPECT_EQ(slope(relu, std::numeric_limits<double>::denorm_min(), create_graph), 1);
    EXPECT_EQ(slope(relu, -1, create_graph), 0);
  }
}

void expect_relative(double got, double expected, double tolerance) {
  EXPECT_NEAR(got / expected, 1, tolerance) << got << " where " << expected << " is right";
}

TEST(Gelu, ValuesAndSlopesAtOne) {
  EXPECT_NEAR(gelu_erf(tensor(1, DType::f64)).item(), 0.8413447, 5e-8);
  EXPECT_NEAR(gelu_tanh(tensor(1, DType::f64)).item(), 0.8411920, 5e-8);
  for (const bool create_graph : {false, true}) {
    EXPECT_NEAR(slope(gelu_erf, 1, create_graph), 1.0833155, 5e-8);
    EXPECT_NEAR(slope(gelu_tanh, 1, create_graph), 1.0829641, 5e-8);
    EXPECT_NEAR(slope(gelu_erf, 0, create_graph), 0.5, 1e-16);
    EXPECT_NEAR(slope(gelu_tanh, 0, create_graph), 0.5, 1e-16);
  }
}

TEST(Gelu, TheNegativeTailKeepsItsDigits) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    expect_relative(gelu_tanh(tensor(-6, dtype)).item(), -8.4396e-11, 1e-4);
    expect_relative(gelu_erf(tensor(-6, dtype)).item(), -5.9195e-9, 1e-4);
    for (const bool create_graph : {false, true}) {
      expect_relative(slope(gelu_tanh, -6, create_graph, dtype), -7.710e-10, 1e-3);
      expect_relative(slope(gelu_erf, -6, create_graph, dtype), -3.5469e-8, 1e-4);
    }
  }
}

TEST(Silu, ValuesAndSlopes) {
  expect_exactly(silu(tensor({0, -infinity, infinity, nan}, DType::f64)), {4}, {0, 0, infinity, nan});
  EXPECT_NEAR(silu(tensor(1, DType::f64)).item(), 0.7310585786300049, 1e-15);
  for (const bool create_graph : {false, true}) {
    EXPECT_EQ(slope(silu, 0, create_graph), 0.5);
    EXPECT_NEAR(slope(silu, 1, create_graph), 0.9276705118714867, 1e-15);
    for (const DType dtype : {DType::f32, DType::f64}) {
      const double tolerance = dtype == DType::f32 ? 1e-6 : 1e-14;
      // x σ(x) and σ(x) (1 + x σ(−x)) at −40, where σ(x) = 4.2484e−18
      expect_relative(silu(tensor(-40, dtype)).item(), -40 * 4.248354255291589e-18, tolerance);
      expect_relative(slope(silu, -40, create_graph, dtype), -39 * 4.248354255291589e-18, tolerance);
      for (const double x : {-infinity, -1e30, -1e4}) EXPECT_EQ(slope(silu, x, create_graph, dtype), 0) << x;
      for (const double x : {infinity, 1e30, 1e4}) EXPECT_EQ(slope(silu, x, create_graph, dtype), 1) << x;
    }
  }
}

TEST(Softplus, ValuesAndSlopes) {
  expect_exactly(softplus(tensor({-infinity, infinity, nan, -1000, 1000}, DType::f64)), {5},
                 {0, infinity, nan, 0, 1000});
  EXPECT_NEAR(softplus(tensor(0, DType::f64)).item(), std::log(2.0), 1e-16);
  for (const bool create_graph : {false, true}) {
    EXPECT_EQ(slope(softplus, 0, create_graph), 0.5);
    for (const DType dtype : {DType::f32, DType::f64}) {
      const double tolerance = dtype == DType::f32 ? 1e-6 : 1e-14;
      expect_relative(softplus(tensor(-40, dtype)).item(), 4.248354255291589e-18, tolerance);
      expect_relative(softplus(tensor(-3, dtype)).item(), std::log1p(std::exp(-3.0)), tolerance);
      expect_relative(slope(softplus, -40, create_graph, dtype), 4.248354255291589e-18, tolerance);
      EXPECT_EQ(slope(softplus, -infinity, create_graph, dtype), 0);
      EXPECT_EQ(slope(softplus, infinity, create_graph, dtype), 1);
    }
  }
}

TEST(Activation, RuleAndKernelAgreeToRelativePrecision) {
  for (const Function f : {static_cast<Function>(gelu_tanh), static_cast<Function>(gelu_erf),
                           static_cast<Function>(silu), static_cast<Function>(softplus)})
    for (double x = -12; x <= 12; x += 0.37) expect_relative(slope(f, x, true), slope(f, x, false), 1e-11);
}

TEST(Gelu, FarTailsStayFiniteAtSecondOrder) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Function f : {static_cast<Function>(gelu_tanh), static_cast<Function>(gelu_erf)}) {
      for (const double x : {-1000.0, -30.0, -10.0, 10.0, 30.0, 1000.0}) {
        Tape tape;
        const Tensor watched = tape.watch(tensor(x, dtype));
        const Tensor first = tape.backward(f(watched), {.create_graph = true}).of(watched);
        EXPECT_NEAR(first.item(), x > 0 ? 1 : 0, 1e-6);
        EXPECT_NEAR(tape.backward(first).of(watched).item(), 0, 1e-6);
      }
    }
  }
}

TEST(Activation, FarTailsOfSiluAndSoftplusAreFlatOrStraight) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Function f : {static_cast<Function>(silu), static_cast<Function>(softplus)}) {
      for (const double x : {-1e30, -1000.0, 1000.0, 1e30}) {
        Tape tape;
        const Tensor watched = tape.watch(tensor(x, dtype));
        const Tensor first = tape.backward(f(watched), {.create_graph = true}).of(watched);
        EXPECT_EQ(first.item(), x > 0 ? 1 : 0);
        EXPECT_EQ(tape.backward(first).of(watched).item(), 0);
      }
    }
  }
}

TEST(Activation, NamesWhatDoesNotFit) {
  const Tensor ids = zeros({2}, DType::i32);
  EXPECT_EQ(error_of([&] { relu(ids); }), "relu: x must be f32 or f64; got i32; cast it first");
  EXPECT_EQ(error_of([&] { gelu_tanh(ids); }), "gelu_tanh: x must be f32 or f64; got i32; cast it first");
  EXPECT_EQ(error_of([&] { gelu_erf(ids); }), "gelu_erf: x must be f32 or f64; got i32; cast it first");
  EXPECT_EQ(error_of([&] { silu(ids); }), "silu: x must be f32 or f64; got i32; cast it first");
  EXPECT_EQ(error_of([&] { softplus(ids); }), "softplus: x must be f32 or f64; got i32; cast it first");
}

}  // namespace
}  // namespace capstan::test
