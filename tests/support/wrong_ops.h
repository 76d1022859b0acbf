// Ops whose rules can be made wrong in the ways in which rules go wrong: what the gradient check is checked with. By default
// each is right. Not for: anything that should be right (plain_ops.h).
#pragma once

#include <capstan/autograd/create.h>
#include <capstan/autograd/gradcheck.h>
#include <capstan/autograd/op.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/plain_ops.h"

namespace capstan::test::wrong {

/// a · b; the rule is right only if all switches are.
struct Product final : Op {
  static constexpr std::string_view name = "product";
  double factor;        // of da
  bool forgets_second;  // no db
  explicit Product(double factor_ = 1, bool forgets_second_ = false)
      : factor(factor_), forgets_second(forgets_second_) {}
  Reads reads(Wanted) const override { return Reads::in(0) | Reads::in(1); }
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override {
    std::vector<double> y = plain::numbers(in[0]);
    const std::vector<double> b = plain::numbers(in[1]);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] *= b[i];
    plain::write(out[0], y);
  }
  Tensors vjp(const Call& call) const override {
    const Tensor& dy = call.dout(0);
    return {plain::scale(plain::mul(dy, call.in(1)), factor), forgets_second ? Tensor() : plain::mul(dy, call.in(0))};
  }
};

/// A B; wrong: dA = dY B, which has the right shape if B is square.
struct Matmul final : Op {
  static constexpr std::string_view name = "matmul";
  bool transposes;
  explicit Matmul(bool transposes_ = true) : transposes(transposes_) {}
  Reads reads(Wanted) const override { return Reads::in(0) | Reads::in(1); }
  Types infer(Inputs in) const override { return {Type{Shape{in[0].size(0), in[1].size(1)}, DType::f64}}; }
  void eval(Inputs in, Outputs out) const override {
    plain::write(out[0], plain::numbers(plain::matmul(in[0].detach(), in[1].detach())));
  }
  Tensors vjp(const Call& call) const override {
    const Tensor& dy = call.dout(0);
    return {plain::matmul(dy, transposes ? plain::transpose(call.in(1)) : call.in(1)),
            plain::matmul(plain::transpose(call.in(0)), dy)};
  }
};

/// x³; wrong: the rule multiplies by 3x² as a constant, which the first order cannot see.
struct Cube final : Op {
  static constexpr std::string_view name = "cube";
  bool constant_slope;
  explicit Cube(bool constant_slope_ = false) : constant_slope(constant_slope_) {}
  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override {
    std::vector<double> x = plain::numbers(in[0]);
    for (double& element : x) element = element * element * element;
    plain::write(out[0], x);
  }
  Tensors vjp(const Call& call) const override {
    const Tensor slope = plain::scale(plain::square(call.in(0)), 3);
    return {plain::mul(call.dout(0), constant_slope ? slope.detach() : slope)};
  }
};

/// x [N, C] → y = (x − mean) r and the hidden r = 1/√(var + ε) [N, 1].
struct LayerNorm final : Op {
  static constexpr std::string_view name = "layer_norm";
  bool mean_terms, hidden_term;
  explicit LayerNorm(bool mean_terms_ = true, bool hidden_term_ = true)
      : mean_terms(mean_terms_), hidden_term(hidden_term_) {}
  Reads reads(Wanted) const override { return Reads::out(0) | Reads::out(1); }
  Types infer(Inputs in) const override {
    return {Type{in[0].shape(), DType::f64}, Type{Shape{in[0].size(0), 1}, DType::f64}};
  }
  void eval(Inputs in, Outputs out) const override {
    const auto rows = static_cast<std::size_t>(in[0].size(0)), width = static_cast<std::size_t>(in[0].size(1));
    std::vector<double> y = plain::numbers(in[0]), r(rows);
    for (std::size_t row = 0; row < rows; ++row) {
      double mean = 0, variance = 0;
      for (std::size_t c = 0; c < width; ++c) mean += y[row * width + c] / static_cast<double>(width);
      for (std::size_t c = 0; c < width; ++c)
        variance += std::pow(y[row * width + c] - mean, 2) / static_cast<double>(width);
      r[row] = 1 / std::sqrt(variance + 1e-5);
      for (std::size_t c = 0; c < width; ++c) y[row * width + c] = (y[row * width + c] - mean) * r[row];
    }
    plain::write(out[0], y);
    plain::write(out[1], r);
  }
  // dx = r (dy − mean(dy) − y mean(dy y)) − dr r² y / C
  Tensors vjp(const Call& call) const override {
    const Tensor &y = call.out(0), &dy = call.dout(0);
    const Index width = y.size(1);
    const Tensor means = full(Shape{width, width}, 1.0 / static_cast<double>(width), DType::f64);
    const Tensor row = ones(Shape{1, width}, DType::f64);
    const Tensor r = plain::matmul(call.out(1), row), dr = plain::matmul(call.dout(1), row);
    Tensor dx = plain::mul(r, dy);
    if (mean_terms) {
      const Tensor both = plain::add(plain::matmul(dy, means), plain::mul(y, plain::matmul(plain::mul(dy, y), means)));
      dx = plain::add(dx, plain::scale(plain::mul(r, both), -1));
    }
    if (hidden_term)
      dx = plain::add(dx,
                      plain::scale(plain::mul(plain::mul(dr, plain::square(r)), y), -1.0 / static_cast<double>(width)));
    return {dx};
  }
};

/// Square whose rule walks memory instead of logical elements if it is wrong.
struct Strided final : Op {
  static constexpr std::string_view name = "strided";
  bool walks_memory;
  explicit Strided(bool walks_memory_ = false) : walks_memory(walks_memory_) {}
  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override {
    plain::write(out[0], plain::numbers(plain::square(in[0].detach())));
  }
  Tensors vjp(const Call& call) const override {
    Tensor x = call.in(0);
    if (walks_memory) x = detail::Access::alias(x, Layout(x.shape()));
    return {plain::scale(plain::mul(call.dout(0), x), 2)};
  }
};

/// x where keep, else 0; wrong: the dropped elements get a gradient that no difference could show.
struct Select final : Op {
  static constexpr std::string_view name = "select";
  std::vector<double> keep;
  double leak = 0;  // gradient of dropped elements: leak · dy
  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override {
    std::vector<double> x = plain::numbers(in[0]);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = keep[i] != 0 ? x[i] : 0;
    plain::write(out[0], x);
  }
  Tensors vjp(const Call& call) const override {
    std::vector<double> factor = keep;
    for (double& element : factor)
      if (element == 0) element = leak;
    return {plain::mul(call.dout(0), tensor(factor, call.in_shape(0)))};
  }
};

/// x; wrong: its rule cuts the cotangent off its graph.
struct Frozen final : Op {
  static constexpr std::string_view name = "frozen";
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override { plain::write(out[0], plain::numbers(in[0])); }
  Tensors vjp(const Call& call) const override { return {call.dout(0).detach()}; }
};

/// x; wrong: a gradient of NaN.
struct Broken final : Op {
  static constexpr std::string_view name = "broken";
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override { plain::write(out[0], plain::numbers(in[0])); }
  Tensors vjp(const Call& call) const override {
    return {plain::scale(call.dout(0), std::numeric_limits<double>::quiet_NaN())};
  }
};

/// (x₁, 0); wrong: its gradient has 1e-200 (x₂ − x₂) added to it, whose derivative comes out as 1e-200.
struct Leaky final : Op {
  static constexpr std::string_view name = "leaky";
  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override { plain::write(out[0], {plain::numbers(in[0])[0], 0}); }
  Tensors vjp(const Call& call) const override {
    const Tensor& x = call.in(0);
    const Tensor keep = tensor({1, 0}, DType::f64), drop = tensor({0, 1e-200}, DType::f64);
    const Tensor nothing = plain::mul(drop, plain::add(x, plain::scale(x.detach(), -1)));
    return {plain::add(plain::mul(call.dout(0), keep), nothing)};
  }
};

/// Passed, with errors far below the tolerance.
inline void expect_exact(const GradcheckReport& report) {
  EXPECT_TRUE(report.passed) << report.failure;
  EXPECT_EQ(report.failure, "");
  EXPECT_LE(report.worst_first_order, 1e-10);
  EXPECT_LE(report.worst_second_order, 1e-10);
  EXPECT_GT(report.entries, 0);
}

}  // namespace capstan::test::wrong
