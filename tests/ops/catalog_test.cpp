// Every op of the catalogue, on every one of its samples: listed and sampled, gradients at order 1 and 2, kernels equal
// to rules, any memory layout, f32, any thread count. Values are tested op by op elsewhere.
#include <capstan/ops/catalog.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "ops/samples/check_sample.h"
#include "ops/samples/large_samples.h"

namespace capstan::test {
namespace {

std::string missing_sample(std::string_view op, const Samples& samples) {
  for (const Sample& sample : samples)
    if (sample.op == op) return "";
  return fmt::format(
      "ops/catalog.h lists {}, but no sample calls it; add samples to its family's file "
      "tests/ops/samples/<family>_samples.cpp, "
      "which tests/ops/samples/samples.cpp joins",
      op);
}

class Catalog : public testing::TestWithParam<std::string_view> {
 protected:
  /// Asserts that check(sample) is "" for each sample of the op.
  template <class Check>
  void for_each_sample(Check&& check) {
    for (const Sample& sample : samples_of(GetParam())) {
      const std::string wrong = check(sample);
      EXPECT_EQ(wrong, "") << sample.op << " [" << sample.label << "]";
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Ops, Catalog, testing::ValuesIn(ops::catalog),
                         [](const auto& parameter) { return std::string(parameter.param); });

TEST_P(Catalog, HasSamples) { EXPECT_EQ(missing_sample(GetParam(), samples_of(GetParam())), ""); }

TEST_P(Catalog, HasAnEmptySample) {
  EXPECT_TRUE(std::ranges::any_of(samples_of(GetParam()), is_empty)) << GetParam();
}

TEST_P(Catalog, SamplesRunTheOp) { for_each_sample(runs_its_op); }

TEST_P(Catalog, GradientsMatchDifferencesAtOrderOneAndTwo) {
  for_each_sample([](const Sample& sample) -> std::string {
    if (!differentiable(sample)) return "";
    const GradcheckReport report = check_gradients(sample);
    return report.passed ? "" : report.failure;
  });
}

TEST_P(Catalog, KernelsEqualRules) { for_each_sample(kernel_equals_rule); }
TEST_P(Catalog, MemoryLayoutDoesNotMatter) { for_each_sample(ignores_memory_layout); }
TEST_P(Catalog, F32IsCloseToF64) { for_each_sample(close_in_f32); }
TEST_P(Catalog, ThreadsDoNotChangeBytes) { EXPECT_EQ(same_on_any_threads_when_large(GetParam()).failure, ""); }
TEST_P(Catalog, HasAGradientOrSaysNo) {
  EXPECT_EQ(std::ranges::none_of(samples_of(GetParam()), differentiable), has_no_gradient(GetParam()));
}

TEST(CatalogMechanism, ASampleOfAnUnlistedOpIsRefused) {
  for (const Sample& sample : all_samples())
    EXPECT_TRUE(ops::listed(sample.op)) << sample.op << " [" << sample.label << "]";
}

TEST(CatalogMechanism, AListedOpWithoutASampleIsNamedWithTheFileToEdit) {
  EXPECT_EQ(missing_sample("relu", {}),
            "ops/catalog.h lists relu, but no sample calls it; add samples to its family's file "
            "tests/ops/samples/<family>_samples.cpp, which tests/ops/samples/samples.cpp joins");
}

TEST(CatalogMechanism, ListsEachOpOnce) {
  for (const std::string_view op : ops::catalog) EXPECT_EQ(std::ranges::count(ops::catalog, op), 1) << op;
  EXPECT_FALSE(ops::listed("no_such_op"));
}

TEST(CatalogMechanism, LabelsTellSamplesApart) {
  const Samples all = all_samples();
  for (const Sample& sample : all)
    EXPECT_EQ(std::ranges::count_if(
                  all, [&](const Sample& other) { return other.op == sample.op && other.label == sample.label; }),
              1)
        << sample.op << " [" << sample.label << "]";
}

}  // namespace
}  // namespace capstan::test
