// Tests of tape.h: watching, backward and its errors, consumption and .keep, what is saved and when it is freed, tapes
// that meet, rules that throw or run backward themselves, long chains on a small stack, many threads.
#include <capstan/autograd/create.h>
#include <capstan/autograd/pool.h>
#include <capstan/autograd/tape.h>
#include <capstan/autograd/transform.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <thread>

#include "support/expect.h"
#include "support/plain_ops.h"
#include "support/small_stack.h"

namespace capstan {
namespace {

using test::error_of;
using test::expect_exactly;
using test::plain::add;
using test::plain::matmul;
using test::plain::mul;
using test::plain::numbers;
using test::plain::scale;
using test::plain::square;
using test::plain::sum;
using test::plain::write;
using ::testing::ElementsAre;

Tensor number(double value) { return tensor(value, DType::f64); }

// ---- gradients -------------------------------------------------------------------------------------------------------

TEST(Tape, GradientsOfSharedIntermediates) {  // CASES 64
  {
    Tape tape;
    const Tensor a = tape.watch(number(1)), b = add(a, a), c = add(b, b);
    EXPECT_EQ(tape.backward(c).of(a).item(), 4);
  }
  Tape tape;
  const Tensor a = tape.watch(number(2)), b = tape.watch(number(3));
  const Tensor c = add(a, b), d = mul(a, b), e = add(c, d), f = mul(c, d), y = add(e, f);
  const Gradients g = tape.backward(y);
  EXPECT_EQ(g.of(a).item(), 25);
  EXPECT_EQ(g.of(b).item(), 19);
}

TEST(Tape, OnlyDescendantsOfWatchedTensorsRecord) {
  Tape tape;
  const Tensor a = number(2), x = tape.watch(number(3));
  EXPECT_FALSE(a.recorded());
  EXPECT_TRUE(x.recorded());
  EXPECT_EQ(tape.size(), 1);
  EXPECT_FALSE(mul(a, a).recorded());
  EXPECT_EQ(tape.size(), 1);
  EXPECT_TRUE(mul(a, x).recorded());
  EXPECT_FALSE(x.detach().recorded());
  EXPECT_THAT(tape.names(), ElementsAre("", "plain_mul"));
}

TEST(Tape, WatchedTensorsMayBeIntermediates) {
  Tape tape;
  const Tensor x = tape.watch(number(3)), z = square(x);
  const Tensor same = tape.watch(z);
  EXPECT_EQ(tape.size(), 2);  // no new node
  const Gradients g = tape.backward(square(same));
  EXPECT_EQ(g.of(z).item(), 18);
  EXPECT_EQ(g.of(x).item(), 108);
}

TEST(Tape, WatchingTwiceIsWatchingOnce) {
  Tape tape;
  const Tensor x = tape.watch(number(3)), again = tape.watch(x);
  const Gradients g = tape.backward(square(again));
  EXPECT_EQ(g.of(x).item(), 6);
  EXPECT_EQ(g.of(again).item(), 6);
  EXPECT_EQ(g.unreached(), 0);
}

TEST(Tape, TheRootItselfMayBeWatched) {
  Tape tape;
  const Tensor x = tape.watch(number(3));
  EXPECT_EQ(tape.backward(x).of(x).item(), 1);
}

TEST(Tape, SeveralRootsWithCotangents) {
  Tape tape;
  const Tensor x = tape.watch(tensor({1, 2}, DType::f64));
  const Tensor y = square(x), z = sum(x);
  const Gradients g = tape.backward({{y, tensor({10, 100}, DType::f64)}, {z}, {z, number(0.5)}});
  expect_exactly(g.of(x), {2}, {21.5, 401.5});
}

TEST(Tape, AScalarMayHaveAxesOfSizeOne) {
  Tape tape;
  const Tensor x = tape.watch(tensor({{3}}, DType::f64));
  expect_exactly(tape.backward(square(x)).of(x), {1, 1}, {6});
}

TEST(Tape, ACotangentMayBeStretched) {  // CASES 26
  Tape tape;
  const Tensor x = tape.watch(zeros({1000}, DType::f64));
  const Gradients g = tape.backward(scale(x, 2), test::plain::fill(number(1), {1000}));
  expect_exactly(g.of(x), {1000}, std::vector<double>(1000, 2));
  EXPECT_TRUE(g.of(x).contiguous());
}

TEST(Tape, GradientsOfF32AreF32) {
  Tape tape;
  const Tensor x = tape.watch(tensor({1, 2}));
  const Tensor g = tape.backward(sum(square(x))).of(x);
  EXPECT_EQ(g.dtype(), DType::f32);
  expect_exactly(g, {2}, {2, 4});
}

// ---- errors, to the letter -------------------------------------------------------------------------------------------

TEST(TapeErrors, Watch) {
  Tape tape, other;
  EXPECT_EQ(error_of([&] { tape.watch(Tensor()); }),
            "watch: x must hold a value; got an empty handle; assign a tensor to it first");
  EXPECT_EQ(error_of([&] { tape.watch(arange(3)); }),
            "watch: x must be f32 or f64 to have a gradient; got i32 [3]; cast() it first");
  const Tensor x = other.watch(ones({2}));
  EXPECT_EQ(error_of([&] { tape.watch(x); }),
            "watch: x must not be recorded on another living tape; got such a tensor of shape [2]; detach() it, or use "
            "grad() or vjp()");
}

TEST(TapeErrors, BackwardRefusesToGuess) {
  Tape tape;
  const Tensor x = tape.watch(ones({2, 8}));
  const Tensor y = square(x);
  EXPECT_EQ(error_of([&] { tape.backward(y); }),
            "backward: y must be a scalar or come with a cotangent; got [2, 8]; reduce it with sum() or mean()");
  EXPECT_EQ(error_of([&] { tape.backward(y, ones({8})); }),
            "backward: the cotangent must have y's shape and dtype; got f32 [8] for y f32 [2, 8]");
  EXPECT_EQ(error_of([&] {
              tape.backward(y, ones({2, 8}, DType::f64));
            }),
            "backward: the cotangent must have y's shape and dtype; got f64 [2, 8] for y f32 [2, 8]");
  EXPECT_EQ(error_of([&] { tape.backward(std::span<const Root>()); }),
            "backward: at least one root is needed; got none");
  // None of that consumed the tape.
  expect_exactly(tape.backward(sum(y)).of(x), {2, 8}, std::vector<double>(16, 2));
}

TEST(TapeErrors, AnEmptyListOfRootsOnAnEmptyTape) {
  Tape tape;
  EXPECT_EQ(error_of([&] { tape.backward(std::span<const Root>()); }),
            "backward: at least one root is needed; got none");
}

TEST(TapeErrors, BackwardOfWhatIsNotThere) {
  Tape tape, other;
  EXPECT_EQ(error_of([&] { tape.backward(Tensor()); }),
            "backward: y must hold a value; got an empty handle; assign a tensor to it first");
  EXPECT_EQ(error_of([&] { tape.backward(number(1)); }),
            "backward: y must be recorded; got a constant; compute it from a tensor that watch() returned");
  const Tensor elsewhere = other.watch(number(1));
  EXPECT_EQ(error_of([&] { tape.backward(elsewhere); }),
            "backward: y must be recorded on this tape; got a tensor of another tape; call backward on that one");
  Tensor stale;
  {
    Tape gone;
    stale = gone.watch(number(1));
  }
  EXPECT_EQ(error_of([&] { tape.backward(stale); }),
            "backward: y must be recorded on a living tape; got a tensor whose tape is gone; keep the Tape alive until "
            "backward");
}

TEST(TapeErrors, ASecondBackward) {  // CASES 65
  Tape tape;
  const Tensor x = tape.watch(number(3));
  const Tensor y = square(x);
  EXPECT_EQ(tape.backward(y).of(x).item(), 6);
  EXPECT_EQ(error_of([&] { tape.backward(y); }),
            "backward: the tape must still hold y; got a tape that an earlier backward consumed; pass {.keep = true} "
            "to that one");
}

TEST(TapeErrors, KeepGivesTheSameGradientsAgain) {  // CASES 65
  Tape tape;
  const Tensor x = tape.watch(number(3));
  const Tensor y = square(x);
  EXPECT_EQ(tape.backward(y, {.keep = true}).of(x).item(), 6);
  EXPECT_EQ(tape.backward(y, {.keep = true}).of(x).item(), 6);
  EXPECT_EQ(tape.backward(y).of(x).item(), 6);
  EXPECT_FALSE(y.recorded());
}

TEST(TapeErrors, TwoUnrelatedTapes) {
  Tape first, second;
  const Tensor a = first.watch(number(1)), b = second.watch(number(2));
  EXPECT_EQ(error_of([&] { mul(a, b); }),
            "plain_mul: inputs must be recorded on one tape; got two unrelated tapes; detach() one input, or use "
            "grad() or vjp() inside");
  EXPECT_EQ(first.size(), 1);
  EXPECT_EQ(second.size(), 1);
  EXPECT_EQ(first.backward(mul(a, b.detach())).of(a).item(), 2);
}

TEST(TapeErrors, GradientsOfWhatWasNotWatched) {
  Tape tape;
  const Tensor x = tape.watch(ones({2}));
  const Tensor y = square(x);
  const Gradients g = tape.backward(sum(y));
  EXPECT_EQ(error_of([&] { (void)g.of(y); }),
            "gradients: x must have been watched on the tape before backward; got a tensor of shape [2] that was not; "
            "pass the "
            "tensor that watch() returned");
}

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

// ---- re-entrant and throwing ops -------------------------------------------------------------------------------------

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

// ---- higher orders ---------------------------------------------------------------------------------------------------

TEST(TapeHigherOrder, GradientsOfGradients) {
  Tape tape;
  const Tensor x = tape.watch(number(2));
  const Tensor y = mul(square(x), square(x));  // x⁴
  const Tensor first = tape.backward(y, {.create_graph = true}).of(x);
  EXPECT_EQ(first.item(), 32);
  EXPECT_TRUE(first.recorded());
  const Tensor second = tape.backward(first, {.create_graph = true}).of(x);
  EXPECT_EQ(second.item(), 48);
  const Tensor third = tape.backward(second, {.create_graph = true}).of(x);
  EXPECT_EQ(third.item(), 48);
  EXPECT_EQ(tape.backward(third).of(x).item(), 24);
}

TEST(TapeHigherOrder, KeepRecordsNothing) {
  Tape tape;
  const Tensor x = tape.watch(number(2));
  const Tensor y = square(x);
  const Index size = tape.size();
  EXPECT_FALSE(tape.backward(y, {.keep = true}).of(x).recorded());
  EXPECT_EQ(tape.size(), size);
  EXPECT_TRUE(tape.backward(y, {.create_graph = true}).of(x).recorded());
  EXPECT_GT(tape.size(), size);
}

TEST(TapeHigherOrder, ARecordedCotangentIsDifferentiated) {
  Tape tape;
  const Tensor x = tape.watch(number(3)), u = tape.watch(number(5));
  const Tensor g = tape.backward(square(x), u, {.create_graph = true}).of(x);  // 2 x u
  EXPECT_EQ(g.item(), 30);
  const Gradients second = tape.backward(g);
  EXPECT_EQ(second.of(x).item(), 10);
  EXPECT_EQ(second.of(u).item(), 6);
}

TEST(TapeHigherOrder, ARecordedCotangentIsAConstantWithoutCreateGraph) {
  Tape tape, other;
  const Tensor x = tape.watch(number(3)), u = tape.watch(number(5)), elsewhere = other.watch(number(7));
  const Tensor y = square(x);
  const Index size = tape.size();
  const Tensor g = tape.backward(y, u, {.keep = true}).of(x);
  EXPECT_EQ(g.item(), 30);
  EXPECT_FALSE(g.recorded());
  EXPECT_EQ(tape.size(), size);
  EXPECT_EQ(tape.backward(y, elsewhere).of(x).item(), 42);
  EXPECT_EQ(other.size(), 1);
}

// ---- size, time, threads ---------------------------------------------------------------------------------------------

/// y = y + y·1e-6, n times.
Tensor long_chain(const Tensor& x, int n) {
  Tensor y = x;
  for (int i = 0; i < n; ++i) y = add(y, scale(y, 1e-6));
  return y;
}

TEST(TapeSize, AMillionLinksOnASmallStack) {  // CASES 62
  constexpr int links = test::sanitized ? 200'000 : 1'000'000;
  test::with_small_stack([] {
    {
      Tape tape;  // dropped without backward
      long_chain(tape.watch(number(1)), links);
      EXPECT_EQ(tape.size(), 2 * links + 1);
    }
    Tape tape;
    const Tensor x = tape.watch(number(1));
    const Tensor y = long_chain(x, links);
    const double slope = tape.backward(y).of(x).item();
    EXPECT_NEAR(slope, std::exp(links * std::log1p(1e-6)), 1e-9);
    EXPECT_NEAR(y.item(), slope, 1e-9);
  });
}

/// a + b, whose rule counts its calls.
struct Counted final : Op {
  static constexpr std::string_view name = "counted";
  int* calls;
  explicit Counted(int* calls_) : calls(calls_) {}
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override { write(out[0], numbers(add(in[0].detach(), in[1].detach()))); }
  Tensors vjp(const Call& call) const override {
    ++*calls;
    return {call.dout(0), call.dout(0)};
  }
};

TEST(TapeSize, SixtyDoublingsRunSixtyRules) {  // CASES 63
  test::with_small_stack([] {
    int calls = 0;
    Tape tape;
    const Tensor x = tape.watch(number(1));
    Tensor y = x;
    for (int i = 0; i < 60; ++i) y = record(Counted(&calls), y, y)[0];
    EXPECT_EQ(tape.size(), 61);
    EXPECT_EQ(y.item(), std::ldexp(1, 60));
    EXPECT_EQ(tape.backward(y).of(x).item(), std::ldexp(1, 60));
    EXPECT_EQ(calls, 60);
  });
}

std::vector<double> train_a_little(std::uint64_t seed) {
  Tensor w = normal(Key{.seed = seed}, {8, 8}, 0, 0.3, DType::f64);
  const Tensor x = normal(Key{.seed = seed + 1000}, {8, 8}, 0, 1, DType::f64);
  for (int step = 0; step < 20; ++step) {
    Tape tape;
    const Tensor watched = tape.watch(w);
    const Tensor loss = sum(square(test::plain::tanh(matmul(x, watched))));
    w = add(w, scale(tape.backward(loss).of(watched), -0.05));
    const Tensor twice = grad(w, [&](const Tensor& v) {
      return sum(square(grad(v, [&](const Tensor& z) { return sum(square(matmul(x, z))); })));
    });
    w = add(w, scale(twice, -1e-6));
  }
  return w.to_doubles();
}

TEST(TapeThreads, EightThreadsWithATapeEach) {  // CASES 67
  std::vector<std::vector<double>> serial, parallel(8);
  for (std::uint64_t i = 0; i < 8; ++i) serial.push_back(train_a_little(i));
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 8; ++i) threads.emplace_back([&, i] { parallel[i] = train_a_little(i); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(parallel, serial);
}

TEST(TapeThreads, OneConstantOnManyTapes) {
  const Tensor shared = normal(Key{.seed = 9}, {16, 16}, 0, 1, DType::f64);
  std::vector<std::vector<double>> found(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 20; ++round) {
        Tape tape;
        const Tensor x = tape.watch(shared);
        found[i] = tape.backward(sum(matmul(x, matmul(shared, x)))).of(x).to_doubles();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& gradient : found) EXPECT_EQ(gradient, found[0]);
}

}  // namespace
}  // namespace capstan
