// Reductions and rearrangements that the reference results do not name, against cases that say the same in other words:
// the smallest element is the largest of −x, log-softmax is x − log Σ exp(x), an embedding gathers, a concat of slices
// splits. The cases themselves are run in golden_test.cpp.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/arg.h>
#include <capstan/ops/elementwise.h>
#include <capstan/ops/embedding.h>
#include <capstan/ops/gather.h>
#include <capstan/ops/rearrange.h>
#include <capstan/ops/reduce.h>
#include <capstan/ops/softmax.h>
#include <capstan/ops/stack.h>
#include <gtest/gtest.h>

#include "support/expect.h"
#include "support/golden.h"

namespace capstan::test {
namespace {

class GoldenReduce : public testing::TestWithParam<DType> {
 protected:
  DType dtype() const { return GetParam(); }

  void expect_close(const std::string& what, const Tensor& got, const Tensor& want) {
    const std::string text = golden_difference(what, got, want, bound_for(dtype()));
    EXPECT_TRUE(text.empty()) << text;
  }

  /// f(the inputs) against "out", and its gradient by the input `name`.
  template <class F>
  void check(const GoldenCase& golden, const std::string& name, F&& f) {
    SCOPED_TRACE(golden.name);
    Tape tape;
    Named in;
    for (const auto& [key, value] : golden.inputs) in[key] = in_dtype(value, dtype());
    in[name] = tape.watch(in.at(name));
    const Tensor y = f(in);
    expect_close("out", y, golden.outputs.at("out"));
    const Gradients gradients = tape.backward(y, in_dtype(golden.upstream.at("out"), dtype()));
    expect_close("gradient of " + name, gradients.of(in.at(name)), golden.gradients.at(name));
  }

  /// Calls fn with the cases of a file for which `wanted` holds; asserts their number.
  template <class Wanted, class F>
  void for_cases(const char* file, int expected, Wanted&& wanted, F&& fn) {
    int ran = 0;
    for (const GoldenCase& golden : golden_cases(file))
      if (wanted(golden)) {
        fn(golden);
        ++ran;
      }
    EXPECT_EQ(ran, expected);
  }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, GoldenReduce, testing::Values(DType::f64, DType::f32),
                         [](const auto& parameter) { return std::string(name_of(parameter.param)); });

TEST_P(GoldenReduce, TheSmallestIsTheLargestOfTheNegative) {
  for_cases(
      "elementwise_reduce", 6, [](const GoldenCase& g) { return g.op() == "max"; },
      [&](const GoldenCase& g) {
        const int axis = g.options["axis"];
        const bool keep = g.options["keepdim"];
        check(g, "x", [&](const Named& in) { return -min(-in.at("x"), axis, keep); });
        expect_close("indices", argmin(-g.inputs.at("x"), axis, keep), g.outputs.at("indices"));
        // The largest elements are those that their places point at.
        check(g, "x", [&](const Named& in) {
          return reshape(gather(in.at("x"), axis, argmax(in.at("x"), axis, keep_axes)), g.outputs.at("out").shape());
        });
      });
}

TEST_P(GoldenReduce, LogSoftmaxIsWhatLogSumExpLeavesOfX) {
  // Shifts of 1e5 leave f32 fewer digits than the bound asks for: those cases are golden_test.cpp's.
  for_cases(
      "softmax", 13, [&](const GoldenCase& g) { return g.op() == "log_softmax" && g.name != "log_softmax_huge_shift"; },
      [&](const GoldenCase& g) {
        const int axis = g.options["axis"];
        check(g, "x", [&](const Named& in) { return in.at("x") - logsumexp(in.at("x"), axis, keep_axes); });
      });
}

TEST_P(GoldenReduce, AnEmbeddingGathersItsRows) {
  for_cases(
      "embedding", 6, [](const GoldenCase& g) { return g.options["padding_idx"].is_null(); },
      [&](const GoldenCase& g) {
        check(g, "weight", [&](const Named& in) {
          const Tensor &table = in.at("weight"), &ids = in.at("ids");
          const Index width = table.size(1);
          const Tensor places = broadcast_to(reshape(ids, Shape{ids.elements(), 1}), Shape{ids.elements(), width});
          return reshape(gather(table, 0, places), g.outputs.at("out").shape());
        });
        expect_close("gradient of weight",
                     embedding_transpose(in_dtype(g.upstream.at("out"), dtype()), g.inputs.at("ids"),
                                         g.inputs.at("weight").size(0)),
                     g.gradients.at("weight"));
      });
}

TEST_P(GoldenReduce, SplitUndoesConcat) {
  for_cases(
      "elementwise_reduce", 4, [](const GoldenCase& g) { return g.op() == "concat"; },
      [&](const GoldenCase& g) {
        SCOPED_TRACE(g.name);
        const int axis = g.options["axis"];
        std::vector<Index> sizes;
        for (const auto& [name, part] : g.inputs) sizes.push_back(part.size(axis));
        const std::vector<Tensor> parts = split(g.outputs.at("out"), sizes, axis);
        const std::vector<Tensor> gradients = split(g.upstream.at("out"), sizes, axis);
        std::size_t i = 0;
        for (const auto& [name, part] : g.inputs) {
          expect_close(name, parts[i], part);
          expect_close("gradient of " + name, gradients[i++], g.gradients.at(name));
        }
      });
}

TEST_P(GoldenReduce, TheMeanOfNothingIsAnErrorInsteadOfNaN) {
  for_cases(
      "elementwise_reduce", 1, [](const GoldenCase& g) { return g.name == "mean_zero_size"; },
      [&](const GoldenCase& g) {
        const Tensor x = in_dtype(g.inputs.at("x"), dtype());
        EXPECT_EQ(error_of([&] { mean(x, 1); }),
                  "mean: there must be at least one element for each result; got shape [2, 0] over axes {1}");
      });
}

}  // namespace
}  // namespace capstan::test
