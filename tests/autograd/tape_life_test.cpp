// Tests of tape.h: how long links hold, what a tape keeps alive, when it is freed, and what rules and evals
// of users may do to it.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/autograd/transform.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>

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

// ---- the life of links -----------------------------------------------------------------------------------------------

TEST(TapeLife, TensorsOfADestroyedTapeAreConstants) {
  Tensor y;
  {
    Tape tape;
    y = square(tape.watch(number(3)));
    EXPECT_TRUE(y.recorded());
  }
  EXPECT_FALSE(y.recorded());
  EXPECT_EQ(y.item(), 9);
  EXPECT_FALSE(square(y).recorded());
}

TEST(TapeLife, ARecycledTapeIsAnotherTape) {
  for (int round = 0; round < 5; ++round) {
    Tensor stale;
    {
      Tape tape;
      stale = square(tape.watch(number(3)));
    }
    Tape tape;  // most likely in the same memory
    const Tensor x = tape.watch(number(5));
    EXPECT_FALSE(stale.recorded());
    EXPECT_EQ(tape.backward(mul(x, stale)).of(x).item(), 9);
  }
}

TEST(TapeLife, AConsumedTapeMayBeUsedAfresh) {
  Tape tape;
  const Tensor x = tape.watch(number(3));
  const Tensor y = square(x);
  tape.backward(y);
  EXPECT_FALSE(x.recorded());
  EXPECT_EQ(tape.size(), 0);
  const Tensor z = tape.watch(y);
  const Gradients g = tape.backward(mul(z, x));
  EXPECT_EQ(g.of(z).item(), 3);
  EXPECT_EQ(error_of([&] { (void)g.of(x); }).substr(0, 10), "gradients:");
}

TEST(TapeLife, GradientsOutliveTheTape) {
  std::optional<Gradients> g;
  Tensor x;
  {
    Tape tape;
    x = tape.watch(number(3));
    g = tape.backward(square(x));
  }
  EXPECT_EQ(g->of(x).item(), 6);
}

// ---- what is kept alive ----------------------------------------------------------------------------------------------

TEST(TapeMemory, AnAdditionPinsNothing) {
  Tape tape;
  const Tensor x = tape.watch(ones({1000}, DType::f64));
  const Tensor y = add(x, x);
  scale(y, 2);
  EXPECT_EQ(tape.saved_bytes(), 0);
}

TEST(TapeMemory, OnlyReadValuesAreSavedOnceEach) {
  Tape tape;
  const Tensor x = tape.watch(ones({1000}, DType::f64)), c = ones({1000}, DType::f64);
  const Tensor y = mul(x, c);  // reads c alone: dc is not wanted
  EXPECT_EQ(tape.saved_bytes(), 8000);
  mul(y, c);
  EXPECT_EQ(tape.saved_bytes(), 8000);
  mul(x, x);
  EXPECT_EQ(tape.saved_bytes(), 16000);
  mul(x, x);
  EXPECT_EQ(tape.saved_bytes(), 16000);
}

/// x, whose rule notes what its tape still saves.
struct Spy final : Op {
  static constexpr std::string_view name = "spy";
  const Tape* tape;
  Index* seen;
  Spy(const Tape* tape_, Index* seen_) : tape(tape_), seen(seen_) {}
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override { write(out[0], numbers(in[0])); }
  Tensors vjp(const Call& call) const override {
    *seen = tape->saved_bytes();
    return {call.dout(0)};
  }
};

TEST(TapeMemory, BackwardFreesAsItWalks) {
  for (const bool keep : {false, true}) {
    Tape tape;
    Index half_way = -1, at_the_end = -1;
    const Tensor x = tape.watch(ones({1000}, DType::f64));
    Tensor y = record(Spy(&tape, &at_the_end), x)[0];
    for (int i = 0; i < 4; ++i) y = test::plain::tanh(y);
    y = record(Spy(&tape, &half_way), y)[0];
    for (int i = 0; i < 4; ++i) y = test::plain::tanh(y);
    const Tensor loss = sum(y);
    EXPECT_EQ(tape.saved_bytes(), 64000);
    tape.backward(loss, {.keep = keep});
    EXPECT_EQ(half_way, keep ? 64000 : 32000);
    EXPECT_EQ(at_the_end, keep ? 64000 : 0);
    EXPECT_EQ(tape.saved_bytes(), keep ? 64000 : 0);
  }
}

TEST(TapeMemory, SavedStorageIsGivenUpByBackward) {
  Tensor parameter = ones({100});
  const void* memory = parameter.view().bytes;
  {
    Tape tape;
    const Tensor y = sum(square(tape.watch(parameter)));
    tape.backward(y);
    // The tape is consumed and y is a constant: nothing shares the parameter's memory any more.
    Buffer buffer = std::move(parameter).to_buffer();
    EXPECT_EQ(buffer.view().bytes, memory);
  }
}

TEST(TapeMemory, WhatBackwardNeedsCannotBeOverwritten) {  // CASES 27
  Tape tape;
  Tensor x = tensor({1, 2, 3}, DType::f64);
  const Tensor watched = tape.watch(x);
  const Tensor y = sum(square(watched));
  Buffer buffer = std::move(x).to_buffer();  // shared with the tape: a copy
  std::ranges::fill(buffer.data<double>(), 100.0);
  expect_exactly(tape.backward(y).of(watched), {3}, {2, 4, 6});
}

// ---- what users may do meanwhile --------------------------------------------------------------------------------------

/// y = 2x; `on_eval` and `on_rule` are what a user may do meanwhile.
struct Busy final : Op {
  static constexpr std::string_view name = "busy";
  const std::function<void(const Tensor&)>* on_eval;
  const std::function<void()>* on_rule;
  Busy(const std::function<void(const Tensor&)>& eval_, const std::function<void()>& rule_)
      : on_eval(&eval_), on_rule(&rule_) {}
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override {
    write(out[0], numbers(scale(in[0].detach(), 2)));
    (*on_eval)(in[0]);
  }
  Tensors vjp(const Call& call) const override {
    (*on_rule)();
    return {scale(call.dout(0), 2)};
  }
};
const std::function<void(const Tensor&)> nothing_on_eval = [](const Tensor&) {};
const std::function<void()> nothing_on_rule = [] {};

TEST(TapeMeanwhile, ARuleMayWatchOnTheTapeThatRunsIt) {
  for (const bool keep : {false, true}) {
    Tape tape;
    const std::function<void()> watch = [&] {
      for (int i = 0; i < 2; ++i) square(tape.watch(number(1)));
    };
    const Tensor x = tape.watch(number(3));
    const Tensor y = record(Busy(nothing_on_eval, watch), square(x))[0];
    const Gradients g = tape.backward(sum(y), {.keep = keep});
    EXPECT_TRUE(g.reached(x));
    expect_exactly(g.of(x), {}, {12});
  }
}

TEST(TapeMeanwhile, AnEvalMayEndTheTapeOfItsInputs) {
  Tape tape;
  const Tensor x = tape.watch(number(3));
  const Tensor root = sum(square(x));
  const std::function<void(const Tensor&)> end = [&](const Tensor&) { tape.backward(root); };
  const Tensor y = record(Busy(end, nothing_on_rule), scale(x, 1))[0];
  EXPECT_FALSE(y.recorded());
  const Tensor n = tape.watch(number(1));
  expect_exactly(tape.backward(sum(mul(n, y))).of(n), {}, {6});
}

TEST(TapeMeanwhile, AnEvalMayJoinTheTapeOfItsInputsToAnother) {
  Tape tape;
  const Tensor a = tape.watch(number(5));
  Tensor kept;
  const std::function<void(const Tensor&)> join = [&](const Tensor& x) { kept = mul(x, a); };
  const Tensor slope =
      grad(number(3), [&](const Tensor& x) { return sum(add(record(Busy(join, nothing_on_rule), x)[0], kept)); });
  expect_exactly(slope, {}, {7});  // 2 + a
  expect_exactly(tape.backward(sum(slope)).of(a), {}, {1});
}

}  // namespace
}  // namespace capstan
