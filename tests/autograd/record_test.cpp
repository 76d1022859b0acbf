// Tests of op.h: what `record` checks and returns, and what a rule sees of its call.
#include <capstan/autograd/create.h>
#include <capstan/autograd/gradcheck.h>
#include <capstan/autograd/op.h>
#include <capstan/autograd/tape.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/expect.h"
#include "support/plain_ops.h"

namespace capstan {
namespace {

using test::error_of;
using test::expect_exactly;
using test::plain::add;
using test::plain::mul;
using test::plain::numbers;
using test::plain::scale;
using test::plain::square;
using test::plain::sum;
using test::plain::write;

using List = std::vector<Tensor>;

Tensor vector(std::initializer_list<double> elements) {
  return tensor(std::vector<double>(elements), {static_cast<Index>(elements.size())});
}

// ---- errors ----------------------------------------------------------------------------------------------------------

TEST(Record, RefusesEmptyHandles) {
  EXPECT_EQ(error_of([] { mul(vector({1}), Tensor()); }),
            "plain_mul: inputs must hold values; got an empty handle as input 1; assign a tensor to it first");
}

struct Bare final : Op {
  static constexpr std::string_view name = "bare";
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  Tensors vjp(const Call&) const override { return {Tensor()}; }
};

TEST(Record, AnOpWithoutEvalOrViewSaysSo) {
  EXPECT_EQ(error_of([] { record(Bare{}, vector({1})); }), "op: an op must override eval or view; got neither");
}

/// x; its rule misbehaves in one way.
struct Misbehaving final : Op {
  static constexpr std::string_view name = "misbehaving";
  enum class By { reading_an_input, reading_an_output, a_wrong_shape, a_wrong_dtype, too_many } by;
  explicit Misbehaving(By by_) : by(by_) {}
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override { write(out[0], numbers(in[0])); }
  Tensors vjp(const Call& call) const override {
    switch (by) {
      case By::reading_an_input: return {call.in(0)};
      case By::reading_an_output: return {call.out(0)};
      case By::a_wrong_shape: return {sum(call.dout(0))};
      case By::a_wrong_dtype: return {zeros(call.in_shape(0), DType::f32)};
      case By::too_many: return {call.dout(0), call.dout(0)};
    }
    return {};
  }
};

TEST(Record, MisbehavingRulesAreNamed) {
  auto sentence = [](Misbehaving::By by) {
    Tape tape;
    const Tensor y = sum(record(Misbehaving(by), tape.watch(vector({1, 2})))[0]);
    return error_of([&] { tape.backward(y); });
  };
  using By = Misbehaving::By;
  EXPECT_EQ(sentence(By::reading_an_input),
            "misbehaving: its rule must declare what it reads; got a read of in 0; add Reads::in(0) to reads()");
  EXPECT_EQ(sentence(By::reading_an_output),
            "misbehaving: its rule must declare what it reads; got a read of out 0; add Reads::out(0) to reads()");
  EXPECT_EQ(sentence(By::a_wrong_shape),
            "misbehaving: its rule must give a gradient of f64 [2] for input 0; got f64 []");
  EXPECT_EQ(sentence(By::a_wrong_dtype),
            "misbehaving: its rule must give a gradient of f64 [2] for input 0; got f32 [2]");
  EXPECT_EQ(sentence(By::too_many), "misbehaving: its rule must give one gradient for each of 1 inputs; got 2");
}

// ---- outputs ---------------------------------------------------------------------------------------------------------

/// x [n] → x², x³ and the hidden i32 signs; the rule reads x and the signs.
struct Three final : Op {
  static constexpr std::string_view name = "three";
  Reads reads(Wanted) const override { return Reads::in(0) | Reads::out(2); }
  Types infer(Inputs in) const override {
    const Shape shape = in[0].shape();
    return {Type{shape, DType::f64}, Type{shape, DType::f64}, Type{shape, DType::i32}};
  }
  void eval(Inputs in, Outputs out) const override {
    std::vector<double> x = numbers(in[0]), squares = x, cubes = x, signs = x;
    for (std::size_t i = 0; i < x.size(); ++i) {
      squares[i] = x[i] * x[i];
      cubes[i] = x[i] * x[i] * x[i];
      signs[i] = x[i] < 0 ? -1 : 1;
    }
    write(out[0], squares);
    write(out[1], cubes);
    write(out[2], signs);
  }
  Tensors vjp(const Call& call) const override {
    if (call.out(2).dtype() != DType::i32 || call.has_dout(2))
      throw Error("three: the signs are i32 and have no cotangent");
    const Tensor& x = call.in(0);
    return {add(scale(mul(call.dout(0), x), 2), scale(mul(call.dout(1), square(x)), 3))};
  }
};

TEST(Record, EveryOutputCarriesItsOwnCotangentAbsentMeaningZero) {
  const List inputs = {vector({2, -1})};
  for (const int used : {0, 1}) {
    Tape tape;
    const Tensor x = tape.watch(inputs[0]);
    const Tensors y = record(Three{}, x);
    EXPECT_EQ(y.size(), 3);
    expect_exactly(tape.backward(sum(y[used])).of(x), {2},
                   used == 0 ? std::vector<double>{4, -2} : std::vector<double>{12, 3});
  }
  EXPECT_TRUE(gradcheck(
      [](const List& x) -> List {
        const Tensors y = record(Three{}, x[0]);
        return {y[0], y[1], y[2]};
      },
      inputs));
}

TEST(Record, OutputsThatAreNotFloatsAreNeverRecorded) {
  Tape tape;
  const Tensors y = record(Three{}, tape.watch(vector({2, -1})));
  EXPECT_TRUE(y[0].recorded());
  EXPECT_FALSE(y[2].recorded());
  expect_exactly(y[2], {2}, {1, -1});
  EXPECT_EQ(tape.size(), 2);
}

struct Signs final : Op {
  static constexpr std::string_view name = "signs";
  Types infer(Inputs in) const override { return {Type{in[0].shape(), DType::i32}}; }
  void eval(Inputs in, Outputs out) const override { write(out[0], std::vector<double>(numbers(in[0]).size(), 1)); }
  Tensors vjp(const Call& call) const override { return no_gradient(call, "signs jump"); }
};

TEST(Record, AnOpWithoutFloatOutputsIsNotAppended) {
  Tape tape;
  record(Signs{}, tape.watch(vector({2, -1})));
  EXPECT_EQ(tape.size(), 1);
}

/// Rounds; says aloud that it has no gradient.
struct Rounded final : Op {
  static constexpr std::string_view name = "rounded";
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override { write(out[0], std::vector<double>(numbers(in[0]).size(), 3)); }
  Tensors vjp(const Call& call) const override { return no_gradient(call, "it is constant between its jumps"); }
};

TEST(Record, NoGradientIsZero) {
  Tape tape;
  const Tensor x = tape.watch(vector({2, -1}));
  const Gradients g = tape.backward(sum(record(Rounded{}, x)[0]));
  EXPECT_FALSE(g.reached(x));
  expect_exactly(g.of(x), {2}, {0, 0});
}

// ---- what a rule sees ------------------------------------------------------------------------------------------------

/// a + b + c; notes which gradients were wanted, when reads() and when the rule ran.
struct Notes final : Op {
  static constexpr std::string_view name = "notes";
  std::string* read;
  std::string* ran;
  Notes(std::string* read_, std::string* ran_) : read(read_), ran(ran_) {}
  Reads reads(Wanted wanted) const override {
    read->clear();
    for (int i = 0; i < 3; ++i) *read += wanted[i] ? '1' : '0';
    return Reads::none();
  }
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override { write(out[0], numbers(in[0])); }
  Tensors vjp(const Call& call) const override {
    ran->clear();
    for (int i = 0; i < 3; ++i) *ran += call.wants(i) ? '1' : '0';
    EXPECT_EQ(to_string(call.in_shape(1)), "[2]");
    EXPECT_EQ(call.in_dtype(1), DType::f64);
    EXPECT_EQ(call.inputs(), 3);
    return {call.dout(0), call.dout(0), call.dout(0)};  // more than is wanted: ignored
  }
};

TEST(Record, RulesKnowWhichGradientsAreWanted) {
  std::string read, ran;
  Tape tape;
  const Tensor x = tape.watch(vector({1, 2})), c = vector({3, 4});
  const Tensor y = sum(record(Notes(&read, &ran), c, x, c)[0]);
  expect_exactly(tape.backward(y).of(x), {2}, {1, 1});
  EXPECT_EQ(read, "010");
  EXPECT_EQ(ran, "010");
}

/// Σ of any number of inputs; reads nothing.
struct Many final : Op {
  static constexpr std::string_view name = "many";
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override {
    std::vector<double> y = numbers(in[0]);
    for (int i = 1; i < in.size(); ++i)
      for (std::size_t e = 0; e < y.size(); ++e) y[e] += (i + 1) * numbers(in[i])[e];
    write(out[0], y);
  }
  Tensors vjp(const Call& call) const override {
    Tensors gradients;
    for (int i = 0; i < call.inputs(); ++i) gradients.push_back(call.wants(i) ? scale(call.dout(0), i + 1) : Tensor());
    return gradients;
  }
};

TEST(Record, MoreThanSixtyFourInputs) {
  Tape tape;
  List inputs;
  for (int i = 0; i < 100; ++i) {
    const Tensor x = vector({static_cast<double>(i)});
    inputs.push_back(i % 3 == 0 ? x : tape.watch(x));
  }
  const Gradients g = tape.backward(record(Many{}, std::span<const Tensor>(inputs))[0]);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (i % 3 != 0) { EXPECT_EQ(g.of(inputs[i]).item(), static_cast<double>(i + 1)); }
}

/// x times a tensor that the op itself holds.
struct Holding final : Op {
  static constexpr std::string_view name = "holding";
  Tensor factor;
  explicit Holding(Tensor factor_) : factor(std::move(factor_)) {}
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override { write(out[0], numbers(mul(in[0].detach(), factor))); }
  Tensors vjp(const Call& call) const override { return {mul(call.dout(0), factor)}; }
};

TEST(Record, WhatAnOpHoldsLivesAsLongAsItsRecord) {
  Tensor factor = ones({100}, DType::f64);
  const void* memory = factor.view().bytes;
  {
    Tape tape;
    record(Holding(factor), tape.watch(ones({100}, DType::f64)));
  }
  Buffer alone = std::move(factor).to_buffer();  // nobody else holds it any more: in place
  EXPECT_EQ(alone.view().bytes, memory);
}

/// 3x, with a kernel that the tests can tell from the rule.
struct WithKernel final : Op {
  static constexpr std::string_view name = "with_kernel";
  int *rules, *kernels;
  WithKernel(int* rules_, int* kernels_) : rules(rules_), kernels(kernels_) {}
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override { write(out[0], numbers(scale(in[0].detach(), 3))); }
  Tensors vjp(const Call& call) const override {
    ++*rules;
    return {scale(call.dout(0), 3)};
  }
  Tensors vjp_kernel(const Call& call) const override {
    ++*kernels;
    Buffer dx(call.in_shape(0), call.in_dtype(0));
    write(dx.view(), numbers(scale(call.dout(0), 3)));
    return {Tensor(std::move(dx))};
  }
};

TEST(Record, KernelsServeOnlyBackwardsThatAreNotRecorded) {
  int rules = 0, kernels = 0;
  Tape tape;
  const Tensor x = tape.watch(vector({2}));
  const Tensor y = record(WithKernel(&rules, &kernels), x)[0];
  EXPECT_EQ(tape.backward(y, {.create_graph = true}).of(x).item(), 3);
  EXPECT_EQ(rules, 1);
  EXPECT_EQ(kernels, 0);
  EXPECT_EQ(tape.backward(y).of(x).item(), 3);
  EXPECT_EQ(rules, 1);
  EXPECT_EQ(kernels, 1);
}

TEST(Record, ViewsShareStorage) {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}}, DType::f64), y = test::plain::transpose(x);
  EXPECT_EQ(y.view().bytes, x.view().bytes);
  expect_exactly(y, {3, 2}, {1, 4, 2, 5, 3, 6});
  Tape tape;
  const Tensor w = tape.watch(x);
  const Tensor cotangent = tensor({{1, 2}, {3, 4}, {5, 6}}, DType::f64);
  expect_exactly(tape.backward(test::plain::transpose(w), cotangent).of(w), {2, 3}, {1, 3, 5, 2, 4, 6});
}

TEST(Record, SavedViewsReadTheRightElements) {
  Tape tape;
  const Tensor x = tape.watch(tensor({{1, 2, 3}, {4, 5, 6}}, DType::f64));
  const Tensor t = test::plain::transpose(x);
  // The rule of square reads t: strides other than x's, the same storage.
  expect_exactly(tape.backward(sum(square(t))).of(x), {2, 3}, {2, 4, 6, 8, 10, 12});
}

TEST(Record, OneConstantUnderTwoLayouts) {
  const Tensor c = tensor({{1, 2}, {3, 4}}, DType::f64), ct = test::plain::transpose(c);
  Tape tape;
  const Tensor x = tape.watch(ones({2, 2}, DType::f64));
  const Tensor y = add(sum(mul(x, c)), scale(sum(mul(x, ct)), 10));
  expect_exactly(tape.backward(y).of(x), {2, 2}, {11, 32, 23, 44});
}

}  // namespace
}  // namespace capstan
