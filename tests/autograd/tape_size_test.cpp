// Tests of tape.h: long chains on a small stack, time that does not grow with sharing, many threads.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/autograd/transform.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <thread>

#include "support/makers.h"
#include "support/plain_ops.h"
#include "support/small_stack.h"

namespace capstan {
namespace {

using test::number;
using test::plain::add;
using test::plain::matmul;
using test::plain::mul;
using test::plain::numbers;
using test::plain::scale;
using test::plain::square;
using test::plain::sum;
using test::plain::write;

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

/// y = x, which cannot be copied onto a tape.
struct Uncopied final : Op {
  static constexpr std::string_view name = "uncopied";
  Uncopied() = default;
  Uncopied(const Uncopied&) : Op() { throw std::runtime_error("no copy"); }
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override { write(out[0], numbers(in[0])); }
  Tensors vjp(const Call& call) const override { return {call.dout(0)}; }
};

TEST(TapeSize, ANodeThatFailsLeavesNoTraceWhereverTheListOfNodesGrows) {
  // The list grows by pieces of 2048, 4096, …
  for (const int links : {1, 2046, 2047, 2048, 6142, 6143, 6144}) {
    SCOPED_TRACE(links);
    Tape tape;
    const Tensor x = tape.watch(number(1));
    Tensor y = x;
    for (int i = 0; i < links; ++i) y = scale(y, 1.0001);
    for (int i = 0; i < 2; ++i) EXPECT_THROW(record(Uncopied{}, y), std::runtime_error);
    EXPECT_EQ(tape.size(), links + 1);
    for (int i = 0; i < 3; ++i) y = scale(y, 1.0001);
    const double slope = std::pow(1.0001, links + 3);
    EXPECT_NEAR(tape.backward(y, {.keep = true}).of(x).item(), slope, 1e-12);
    EXPECT_NEAR(tape.backward(y).of(x).item(), slope, 1e-12);
  }
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
