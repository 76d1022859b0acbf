// Tests of checkpoint.h: gradients with and without are the same bits, second order, nesting, what is kept and freed, and
// what is refused. As an op with samples it is checked in tests/ops too; in a model, in tests/nn.
#include <capstan/autograd/checkpoint.h>
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/autograd/transform.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "support/expect.h"
#include "support/makers.h"
#include "support/plain_ops.h"

namespace capstan {
namespace {

using test::error_of;
using test::expect_exactly;
using test::number;
using test::random;
using test::plain::add;
using test::plain::matmul;
using test::plain::mul;
using test::plain::scale;
using test::plain::square;
using test::plain::sum;
using ::testing::ElementsAre;

using List = std::vector<Tensor>;

/// A layer of an odd structure: a list, an optional that is not there, ids, and a bare number.
struct Layer {
  List weights;
  std::optional<Tensor> bias;
  Tensor ids = arange(3);
  double factor = 0.5;
  static void fields(auto& self, auto& f) {
    f("weights", self.weights);
    f("bias", self.bias);
    f("ids", self.ids);
  }
  /// With dropout whose key is fixed: element i is kept or not by (key, i).
  Tensor operator()(const Tensor& x) const {
    EXPECT_EQ(ids.to_doubles(), (std::vector<double>{0, 1, 2}));
    EXPECT_FALSE(bias);
    Tensor y = x;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      y = scale(test::plain::tanh(matmul(y, weights[i])), factor);
      std::vector<double> kept(static_cast<std::size_t>(y.elements()));
      const Keep keep(Key{.seed = 5, .stream = i}, 0.3);
      for (std::size_t e = 0; e < kept.size(); ++e) kept[e] = keep(static_cast<Index>(e)) ? 1 / 0.7 : 0;
      y = mul(y, tensor(kept, y.shape()));
    }
    return y;
  }
};

struct Call {
  Tensor x;
  Layer layer;
  static void fields(auto& self, auto& f) {
    f("x", self.x);
    f("layer", self.layer);
  }
};

Call make_call() { return {random(1, {4, 4}), {{random(2, {4, 4}), random(3, {4, 4})}, std::nullopt}}; }
Tensor plain_run(const Call& c) { return c.layer(c.x); }
Tensor checkpointed(const Call& c) { return checkpoint(c, plain_run); }

std::vector<double> flat(const Call& c) {
  std::vector<double> all;
  for_each_tensor(c, [&](const Tensor& x) {
    if (!x.defined()) return;
    const std::vector<double> elements = x.to_doubles();
    all.insert(all.end(), elements.begin(), elements.end());
  });
  return all;
}

TEST(Checkpoint, GivesTheSameBitsAsWithout) {
  const Call call = make_call();
  const Tensor u = random(9, {4, 4});
  const auto want = vjp(call, plain_run, u), got = vjp(call, checkpointed, u);
  EXPECT_EQ(got.value.to_doubles(), want.value.to_doubles());
  EXPECT_EQ(flat(got.gradient), flat(want.gradient));
  EXPECT_GT(flat(want.gradient).size(), 40U);
}

TEST(Checkpoint, GivesTheSameBitsInAChainOfLayers) {
  const auto chain = [](bool recompute) {
    return [recompute](const Call& c) {
      Tensor x = c.x;
      for (int i = 0; i < 3; ++i)
        x = recompute ? checkpoint(x, [](const Tensor& v) { return add(v, test::plain::tanh(square(v))); })
                      : add(x, test::plain::tanh(square(x)));
      return sum(x);
    };
  };
  const Call call = make_call();
  EXPECT_EQ(flat(grad(call, chain(true))), flat(grad(call, chain(false))));
}

TEST(Checkpoint, HasAllOrdersOfDerivative) {
  // The Hessian times a vector, and its gradient once more.
  const Call call = make_call(), v = {random(4, {4, 4}), {{random(5, {4, 4}), random(6, {4, 4})}, std::nullopt}};
  const auto loss = [](bool recompute) {
    return [recompute](const Call& c) { return sum(square(recompute ? checkpointed(c) : plain_run(c))); };
  };
  const auto third = [&](bool recompute) {
    return grad(call, [&](const Call& c) { return sum(square(hvp(c, loss(recompute), v).x)); });
  };
  const std::vector<double> want = flat(hvp(call, loss(false), v)), got = flat(hvp(call, loss(true), v));
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-13 * std::max(1.0, std::abs(want[i])));
  const std::vector<double> want3 = flat(third(false)), got3 = flat(third(true));
  ASSERT_EQ(got3.size(), want3.size());
  for (std::size_t i = 0; i < got3.size(); ++i)
    EXPECT_NEAR(got3[i], want3[i], 1e-12 * std::max(1.0, std::abs(want3[i])));
}

TEST(Checkpoint, SecondOrderOnATapeInHand) {
  Tape tape;
  const Tensor x = tape.watch(number(2));
  const Tensor y = checkpoint(x, [](const Tensor& v) { return mul(square(v), square(v)); });
  const Tensor first = tape.backward(y, {.create_graph = true}).of(x);
  EXPECT_EQ(first.item(), 32);
  const Tensor second = tape.backward(first, {.create_graph = true}).of(x);
  EXPECT_EQ(second.item(), 48);
  EXPECT_EQ(tape.backward(second).of(x).item(), 48);
}

TEST(Checkpoint, Nests) {
  int runs = 0;
  const auto inner = [&runs](const Tensor& v) {
    ++runs;
    return mul(square(v), v);
  };
  const auto outer = [&](const Tensor& v) { return square(checkpoint(v, inner)); };
  const Tensor x = number(2);
  EXPECT_EQ(grad(x, [&](const Tensor& v) { return checkpoint(v, outer); }).item(), 6 * 32);
  EXPECT_EQ(runs, 3);  // forward; the outer run again; its own inner run again
}

TEST(Checkpoint, SeveralResultsOfWhichSomeAreConstantsOrInputs) {
  Tape tape;
  const Tensor x = tape.watch(tensor({1, 2}, DType::f64));
  const List y = checkpoint(x, [](const Tensor& v) { return List{square(v), arange(3), v, ones({2}, DType::f64)}; });
  ASSERT_EQ(y.size(), 4U);
  EXPECT_FALSE(y[1].recorded());
  expect_exactly(y[1], {3}, {0, 1, 2});
  const Tensor u = tensor({10, 100}, DType::f64);
  expect_exactly(tape.backward({{y[0], u}, {y[2], u}, {y[3], u}}).of(x), {2}, {30, 500});
}

TEST(Checkpoint, OfConstantsRecordsNothing) {
  const Tensor y = checkpoint(number(3), square);
  EXPECT_EQ(y.item(), 9);
  EXPECT_FALSE(y.recorded());
}

TEST(Checkpoint, ComputesOnlyWantedGradients) {
  Tape tape;
  const Tensor x = tape.watch(number(3)), constant = number(5);
  const Tensor y = checkpoint(List{x, constant}, [](const List& v) {
    EXPECT_FALSE(v[1].recorded());
    return mul(v[0], v[1]);
  });
  EXPECT_EQ(tape.backward(y).of(x).item(), 5);
}

// ---- what is kept ----------------------------------------------------------------------------------------------------

TEST(Checkpoint, KeepsItsInputOnly) {
  const auto deep = [](const Tensor& v) {
    Tensor y = v;
    for (int i = 0; i < 10; ++i) y = test::plain::tanh(y);
    return y;
  };
  Tape tape;
  const Tensor x = tape.watch(ones({1000}, DType::f64));
  const Tensor y = checkpoint(checkpoint(x, deep), deep);
  EXPECT_EQ(tape.saved_bytes(), 16000);
  EXPECT_THAT(tape.names(), ElementsAre("", "checkpoint", "checkpoint"));
  EXPECT_EQ(tape.backward(sum(y)).of(x).to_doubles(),
            grad(ones({1000}, DType::f64), [&](const Tensor& v) { return sum(deep(deep(v))); }).to_doubles());
  EXPECT_EQ(tape.saved_bytes(), 0);
}

TEST(Checkpoint, TheInputIsGivenUpByBackward) {
  Tensor parameter = ones({100});
  const void* memory = parameter.view().bytes;
  {
    Tape tape;
    tape.backward(sum(checkpoint(tape.watch(parameter), square)));
    EXPECT_EQ(std::move(parameter).to_buffer().view().bytes, memory);  // in place: nobody shares it any more
  }
}

// ---- errors ----------------------------------------------------------------------------------------------------------

TEST(Checkpoint, ACapturedRecordedTensorIsRefused) {
  Tape tape;
  const Tensor x = tape.watch(ones({2})), w = tape.watch(ones({2}));
  const std::string sentence =
      "checkpoint: f must not depend on recorded tensors that it captures, because their gradients would be lost; got "
      "a "
      "result of shape [2] that does; pass them as part of x";
  EXPECT_EQ(error_of([&] { checkpoint(x, [&](const Tensor& v) { return mul(v, w); }); }), sentence);
  EXPECT_EQ(error_of([&] { checkpoint(ones({2}), [&](const Tensor& v) { return mul(v, w); }); }), sentence);
  EXPECT_EQ(error_of([&] { checkpoint(x, [&](const Tensor&) { return List{x}; }); }), sentence);
  expect_exactly(tape.backward(sum(checkpoint(List{x, w}, [](const List& v) { return mul(v[0], v[1]); }))).of(w), {2},
                 {1, 1});
}

TEST(Checkpoint, ErrorsToTheLetter) {
  const Tensor x = ones({2});
  EXPECT_EQ(error_of([&] { checkpoint(Tensor(), square); }),
            "checkpoint: x must hold values; got an empty handle; assign a tensor to it first");
  EXPECT_EQ(error_of([&] { checkpoint(x, [](const Tensor&) { return Tensor(); }); }),
            "checkpoint: f must return a value; got an empty handle");
  EXPECT_EQ(error_of([&] { checkpoint(List(65, x), [](const List& v) { return v[64]; }); }),
            "checkpoint: x must hold at most 64 tensors; got 65; checkpoint its parts one by one");
  EXPECT_EQ(error_of([&] { checkpoint(x, [](const Tensor& v) { return List(65, v); }); }),
            "checkpoint: an op has at most 64 outputs; got 65");
  Tape tape;
  int runs = 0;
  const Tensor y = checkpoint(tape.watch(x), [&](const Tensor& v) { return ++runs > 1 ? sum(v) : square(v); });
  EXPECT_EQ(error_of([&] { tape.backward(y, x); }),
            "checkpoint: f must return the same shapes and dtypes when it runs again; got f32 [] after f32 [2]");
  const auto again = [&](const List& second) {
    runs = 0;
    return error_of([&] {
      grad(x, [&](const Tensor& v) {
        return sum(checkpoint(v, [&](const Tensor& u) { return ++runs > 1 ? second : List{square(u)}; })[0]);
      });
    });
  };
  EXPECT_EQ(again({}), "checkpoint: f must return as many tensors when it runs again; got 0 after 1");
  EXPECT_EQ(again({x, x}), "checkpoint: f must return as many tensors when it runs again; got 2 after 1");
  EXPECT_EQ(again({Tensor()}), "checkpoint: f must return a value when it runs again; got an empty handle");
}

TEST(Checkpoint, AThrowingFunctionLeavesNothingBehind) {
  Tape tape;
  const Tensor x = tape.watch(number(3));
  EXPECT_EQ(error_of([&] { checkpoint(x, [](const Tensor&) -> Tensor { throw Error("f: no"); }); }), "f: no");
  EXPECT_EQ(tape.size(), 1);
}

}  // namespace
}  // namespace capstan
