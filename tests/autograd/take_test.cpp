// Tests of Call::take_sum, take_in, take_out and take_dout (op.h): a rule gets memory only if nobody else needs it; and of
// new_gradient and append_gradient.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "support/expect.h"
#include "support/plain_ops.h"

namespace capstan {
namespace {

using test::expect_exactly;
using test::plain::add;
using test::plain::mul;
using test::plain::numbers;
using test::plain::scale;
using test::plain::sum;
using test::plain::transpose;
using test::plain::write;

/// y = 2 x (a second input counts for nothing), which reads all of them though it needs none; its kernel asks for one piece
/// of memory, and tells whether it got it.
struct Asking final : Op {
  static constexpr std::string_view name = "asking";
  enum class For { sum, in, second, out, dout } what;
  std::string* told;
  Asking(For what_, std::string& told_) : what(what_), told(&told_) {}
  Reads reads(Wanted) const override { return Reads::in(0) | Reads::in(1) | Reads::out(0); }
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override { write(out[0], numbers(scale(in[0].detach(), 2))); }
  Tensors vjp(const Call& call) const override { return with_second(call, scale(call.dout(0), 2)); }
  static Tensors with_second(const Call& call, const Tensor& dx) {
    return call.inputs() == 1 ? Tensors{dx} : Tensors{dx, Tensor()};
  }
  Tensors vjp_kernel(const Call& call) const override {
    const Tensor dx = scale(call.dout(0), 2);
    Tensor taken = what == For::sum      ? call.take_sum(0)
                   : what == For::in     ? call.take_in(0)
                   : what == For::second ? call.take_in(1)
                   : what == For::out    ? call.take_out(0)
                                         : call.take_dout(0);
    *told += taken.defined() ? "taken " : "none ";
    if (!taken.defined()) return with_second(call, dx);
    // What was taken may be written: here everything but a sum is overwritten.
    const void* const before = taken.view().bytes;
    std::vector<double> values = numbers(dx);
    if (what == For::sum)
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += numbers(taken)[i];
    Buffer buffer = std::move(taken).to_buffer();
    *told += buffer.view().bytes == before ? "in place " : "copied ";
    write(buffer.view(), values);
    return {Tensor(std::move(buffer))};
  }
};

/// Reads what it has taken.
struct Greedy final : Op {
  static constexpr std::string_view name = "greedy";
  Reads reads(Wanted) const override { return Reads::in(0); }
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override { write(out[0], numbers(in[0].detach())); }
  Tensors vjp(const Call& call) const override { return {call.dout(0)}; }
  Tensors vjp_kernel(const Call& call) const override {
    const Tensor taken = call.take_in(0);
    return {call.in(0)};
  }
};

TEST(TakeErrors, WhatWasTakenCannotBeRead) {
  Tape tape;
  const Tensor x = tape.watch(tensor({1, 2}, DType::f64));
  const auto loss = [&] { return sum(record(Greedy{}, scale(x, 2))[0]); };
  EXPECT_THROW(tape.backward(loss()), Error);
}

struct Take : testing::Test {
  std::string told;
  Tape tape;
  Tensor x = tape.watch(tensor({1, 2, 3}, DType::f64));
  Tensor ask(Asking::For what, const Tensor& at) { return record(Asking(what, told), at)[0]; }
  /// The gradient of Σ y by x.
  void expect_gradient(const Tensor& y, double each, BackwardOptions options = {}) {
    expect_exactly(tape.backward(sum(y), options).of(x), {3}, {each, each, each});
  }
};
using For = Asking::For;

TEST_F(Take, TheSumOfLaterUsesIsHandedOverAndGrows) {
  const Tensor early = ask(For::sum, x), late = scale(x, 5);
  expect_gradient(add(late, early), 7);
  EXPECT_EQ(told, "taken in place ");
}

TEST_F(Take, WithoutOtherUsesThereIsNoSum) {
  expect_gradient(ask(For::sum, x), 2);
  EXPECT_EQ(told, "none ");
}

TEST_F(Take, ASumThatAnotherTensorSharesGrowsInACopy) {
  // Both inputs of the addition get its own cotangent: one storage for x's sum and y's, which is asked for.
  const Tensor y = tape.watch(ask(For::sum, x));
  const Gradients g = tape.backward(sum(scale(add(x, y), 10)));
  expect_exactly(g.of(x), {3}, {30, 30, 30});
  expect_exactly(g.of(y), {3}, {10, 10, 10});
  EXPECT_EQ(told, "taken copied ");
}

TEST_F(Take, InARecordedBackwardNothingIsTaken) {
  const Tensor early = ask(For::sum, x), late = scale(x, 5);
  expect_gradient(add(late, early), 7, {.create_graph = true});
  EXPECT_EQ(told, "") << "the rule runs, not the kernel";
}

TEST_F(Take, AnInputThatNobodyElseHoldsIsHandedOver) {
  const Tensor y = ask(For::in, scale(x, 3));  // what is in between has no handle once y is made
  expect_gradient(y, 6);
  EXPECT_EQ(told, "taken in place ");
}

TEST_F(Take, AnInputWithAHandleIsNot) {
  const Tensor held = scale(x, 3);
  expect_gradient(ask(For::in, held), 6);
  EXPECT_EQ(told, "none ");
  expect_exactly(held, {3}, {3, 6, 9});
}

TEST_F(Take, AnInputThatAnEarlierRuleReadsTooIsNot) {
  Tensor y;
  {
    const Tensor between = scale(x, 3);
    y = add(mul(between, between), ask(For::in, between));
  }
  expect_exactly(tape.backward(sum(y)).of(x), {3}, {24, 42, 60});  // 2 · 9 x + 6
  EXPECT_EQ(told, "none ");
}

TEST_F(Take, AKeptTapeGivesNothingAway) {
  for (const For what : {For::in, For::out}) {
    told.clear();
    const Tensor y = sum(scale(ask(what, scale(x, 3)), 1));
    for (int i = 0; i < 2; ++i) expect_exactly(tape.backward(y, {.keep = true}).of(x), {3}, {6, 6, 6});
    EXPECT_EQ(told, "none none ");
  }
}

TEST_F(Take, AConstantIsNot) {
  // Later calls may share what the tape keeps of a constant.
  const Tensor y = record(Asking(For::second, told), x, scale(x.detach(), 3))[0];  // held by the tape alone
  expect_gradient(y, 2);
  EXPECT_EQ(told, "none ");
}

TEST_F(Take, AnOutputThatNobodyElseHoldsIsHandedOver) {
  const Tensor y = scale(ask(For::out, x), 3);
  expect_gradient(y, 6);
  EXPECT_EQ(told, "taken in place ");
}

TEST_F(Take, AnOutputWithAHandleOrAReaderIsNot) {
  const Tensor held = ask(For::out, x);
  expect_gradient(held, 2);
  EXPECT_EQ(told, "none ");
  expect_exactly(held, {3}, {2, 4, 6});
}

TEST_F(Take, AnOutputThatALaterRuleReadTooIsNot) {
  Tensor y;
  {
    const Tensor between = ask(For::out, x);
    y = mul(between, between);
  }
  expect_exactly(tape.backward(sum(y)).of(x), {3}, {8, 16, 24});  // 2 · 4 x
  EXPECT_EQ(told, "none ");
}

TEST_F(Take, ACotangentThatWasMadeForItIsHandedOver) {
  expect_gradient(scale(ask(For::dout, x), 3), 6);
  EXPECT_EQ(told, "taken in place ");
}

TEST_F(Take, ACotangentThatIsAskedForIsNot) {
  const Tensor y = tape.watch(ask(For::dout, x));
  const Gradients g = tape.backward(sum(scale(y, 3)));
  expect_exactly(g.of(y), {3}, {3, 3, 3});
  expect_exactly(g.of(x), {3}, {6, 6, 6});
  EXPECT_EQ(told, "none ");
}

TEST_F(Take, ACotangentThatTheCallerHoldsIsNot) {
  const Tensor up = tensor({1, 1, 1}, DType::f64);
  expect_exactly(tape.backward(ask(For::dout, x), up).of(x), {3}, {2, 2, 2});
  EXPECT_EQ(told, "none ");
  expect_exactly(up, {3}, {1, 1, 1});
}

// ---- new memory -------------------------------------------------------------------------------------------------------

/// y = a + b, whose rule writes into the memory that the call gives.
struct Written final : Op {
  static constexpr std::string_view name = "written";
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override { write(out[0], numbers(add(in[0].detach(), in[1].detach()))); }
  Tensors vjp(const Call& call) const override { return {call.dout(0), call.dout(0)}; }
  Tensors vjp_kernel(const Call& call) const override {
    Tensors gradients;
    for (int i = 0; i < 2; ++i) {
      const View d = call.append_gradient(gradients, i);
      EXPECT_EQ(d.layout != nullptr, call.wants(i));
      EXPECT_EQ(gradients[i].defined(), call.wants(i));
      if (!call.wants(i)) continue;
      write(d, numbers(call.dout(0)));
      Buffer alone = call.new_gradient(i);
      EXPECT_EQ(alone.shape(), call.in_shape(i));
      EXPECT_EQ(alone.dtype(), call.in_dtype(i));
      EXPECT_EQ(alone.view().layout->stride(0), 3);  // row-major, whatever the input's strides
    }
    return gradients;
  }
};

TEST(NewGradient, ACallGivesMemoryForTheGradientsThatAreWanted) {
  const Tensor up = tensor({{1, 2, 3}, {4, 5, 6}}), b = tensor({{1, 1, 1}, {2, 2, 2}});
  Tape tape;
  const Tensor x = tape.watch(tensor({{1, 4}, {2, 5}, {3, 6}}));
  const Tensor y = record(Written{}, transpose(x), b)[0];
  const Gradients g = tape.backward(y, up);
  expect_exactly(g.of(x), {3, 2}, {1, 4, 2, 5, 3, 6});
  Tape second;
  const Tensor c = second.watch(b);
  expect_exactly(second.backward(record(Written{}, up, c)[0], up).of(c), {2, 3}, {1, 2, 3, 4, 5, 6});
}

}  // namespace
}  // namespace capstan
