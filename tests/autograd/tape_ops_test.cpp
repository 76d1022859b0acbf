// Tests of tape.h: ops that throw, and rules that run a backward of their own.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/autograd/transform.h>
#include <gmock/gmock.h>
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
using test::plain::mul;
using test::plain::numbers;
using test::plain::scale;
using test::plain::square;
using test::plain::sum;
using test::plain::write;
using ::testing::ElementsAre;

/// x², whose rule, infer or eval throws when asked to.
struct Throwing final : Op {
  static constexpr std::string_view name = "throwing";
  enum class Where { nowhere, infer, eval, rule, copy } where;
  explicit Throwing(Where where_) : where(where_) {}
  Throwing(const Throwing& other) : Op(other), where(other.where) {
    if (where == Where::copy) throw Error("throwing: copy");
  }
  Throwing& operator=(const Throwing&) = default;
  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override {
    if (where == Where::infer) throw Error("throwing: infer");
    return {Type{in[0].shape(), in[0].dtype()}};
  }
  void eval(Inputs in, Outputs out) const override {
    if (where == Where::eval) throw Error("throwing: eval");
    write(out[0], numbers(square(in[0].detach())));
  }
  Tensors vjp(const Call& call) const override {
    if (where == Where::rule) throw Error("throwing: rule");
    return {scale(mul(call.dout(0), call.in(0)), 2)};
  }
};

TEST(TapeOps, AnOpThatThrowsHasAppendedNothing) {
  Tape tape;
  const Tensor x = tape.watch(number(3));
  for (const auto where : {Throwing::Where::infer, Throwing::Where::eval, Throwing::Where::copy}) {
    EXPECT_NE(error_of([&] { record(Throwing(where), x); }), "no error");
    EXPECT_EQ(tape.size(), 1);
    EXPECT_THAT(tape.names(), ElementsAre(""));
  }
  EXPECT_EQ(tape.backward(record(Throwing(Throwing::Where::nowhere), x)[0]).of(x).item(), 6);
}

TEST(TapeOps, AThrowingRuleConsumesTheTape) {
  Tape tape;
  const Tensor x = tape.watch(number(3));
  const Tensor y = add(record(Throwing(Throwing::Where::rule), x)[0], x);
  EXPECT_EQ(error_of([&] { tape.backward(y); }), "throwing: rule");
  EXPECT_EQ(error_of([&] { tape.backward(y); }),
            "backward: the tape must still hold y; got a tape that an earlier backward consumed; pass {.keep = true} "
            "to that one");
  EXPECT_EQ(tape.size(), 0);
  const Tensor again = tape.watch(number(2));
  EXPECT_EQ(tape.backward(square(again)).of(again).item(), 4);
}

TEST(TapeOps, AThrowingRuleLeavesAKeptTapeWhole) {
  Tape tape;
  const Tensor x = tape.watch(number(3));
  const Tensor bad = add(record(Throwing(Throwing::Where::rule), x)[0], square(x)), good = square(x);
  EXPECT_EQ(error_of([&] { tape.backward(bad, {.keep = true}); }), "throwing: rule");
  EXPECT_EQ(error_of([&] { tape.backward(bad, {.create_graph = true}); }), "throwing: rule");
  EXPECT_EQ(tape.backward(good, {.keep = true}).of(x).item(), 6);
  EXPECT_EQ(tape.backward(good).of(x).item(), 6);
}

/// Σ xᵢ³ by a rule that runs a small backward of its own.
struct Nested final : Op {
  static constexpr std::string_view name = "nested";
  bool own_tape;
  explicit Nested(bool own_tape_) : own_tape(own_tape_) {}
  static Tensor cubes(const Tensor& x) { return sum(mul(square(x), x)); }
  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return {Type{Shape{}, in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override { write(out[0], numbers(cubes(in[0].detach()))); }
  Tensors vjp(const Call& call) const override {
    const Tensor dy = test::plain::fill(call.dout(0), call.in_shape(0));
    if (!own_tape) return {mul(dy, grad(call.in(0), cubes))};
    Tape tape;
    const Tensor x = tape.watch(call.in(0).detach());
    return {mul(dy, tape.backward(cubes(x)).of(x))};
  }
};

TEST(TapeOps, ARuleMayRunABackwardOfItsOwn) {  // CASES 66
  for (const bool own_tape : {true, false})
    for (const BackwardOptions options : {BackwardOptions{}, {.keep = true}, {.create_graph = true}}) {
      Tape tape;
      const Tensor x = tape.watch(tensor({1, 2}, DType::f64));
      const Tensor y = square(record(Nested(own_tape), square(x))[0]);  // (Σ x⁶)² = 65²
      expect_exactly(tape.backward(y, options).of(x), {2}, {2 * 65 * 6.0, 2 * 65 * 192.0});
    }
}

TEST(TapeOps, ARuleByGradHasASecondOrder) {
  Tape tape;
  const Tensor x = tape.watch(tensor({1, 2}, DType::f64));
  const Tensor g = tape.backward(record(Nested(false), x)[0], {.create_graph = true}).of(x);
  expect_exactly(g, {2}, {3, 12});
  expect_exactly(tape.backward(sum(g)).of(x), {2}, {6, 12});
}

/// Runs backward of a tensor on the tape that is running the rule.
struct Reentering final : Op {
  static constexpr std::string_view name = "reentering";
  Tape* tape;
  Tensor y;
  Reentering(Tape* tape_, Tensor y_) : tape(tape_), y(std::move(y_)) {}
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override { write(out[0], numbers(in[0])); }
  Tensors vjp(const Call& call) const override {
    tape->backward(y, {.keep = true});
    return {call.dout(0)};
  }
};

TEST(TapeOps, ARuleMustNotRunTheTapeThatRunsIt) {
  Tape tape;
  const Tensor x = tape.watch(number(3));
  const Tensor y = record(Reentering(&tape, square(x)), x)[0];
  EXPECT_EQ(error_of([&] { tape.backward(y, {.keep = true}); }),
            "backward: a rule must not run backward on the tape that is running it; use grad() or vjp(), or a Tape of "
            "its own");
  EXPECT_EQ(tape.backward(square(x)).of(x).item(), 6);
}

}  // namespace
}  // namespace capstan
