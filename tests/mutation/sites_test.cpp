// The faults that mutation plants: found in rules, masks and kernels, nowhere else, and each of them changes its line.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "mutation/sites.h"

namespace capstan::mutation {
namespace {

std::vector<std::string> mutants_of(const std::string& file, const std::string& text) {
  std::vector<std::string> mutants;
  for (const Site& site : sites_of(file, text)) mutants.push_back(planted(text, site));
  return mutants;
}

bool has(const std::vector<std::string>& mutants, const std::string& text) {
  return std::ranges::find(mutants, text) != mutants.end();
}

TEST(MutationSites, ARuleGetsFaultsOfSignOrderTermAndSavedValue) {
  const auto rule = [](const std::string& body) {
    return "struct Foo final : Op {\n  Tensors vjp(const Call& c) const override {\n    " + body + "\n  }\n};\n";
  };
  const std::vector<std::string> mutants = mutants_of("ops/foo.cpp", rule("return {sub(c.in(0), y) - neg(x) * z};"));
  EXPECT_TRUE(has(mutants, rule("return {sub(c.in(0), y) + neg(x) * z};")));
  EXPECT_TRUE(has(mutants, rule("return {sub(y, c.in(0)) - neg(x) * z};")));
  EXPECT_TRUE(has(mutants, rule("return {sub(c.in(0), y) - (x) * z};")));
  EXPECT_TRUE(has(mutants, rule("return {sub(c.in(0), y) - neg(x)};")));
  EXPECT_TRUE(has(mutants, rule("return {sub(c.in(1), y) - neg(x) * z};")));
}

TEST(MutationSites, OnlyTheRuleOfAnOpCounts) {
  const std::string text =
      "struct Foo final : Op {\n  Types infer(Inputs in) const override {\n    return a + b;\n  }\n};\n";
  EXPECT_TRUE(mutants_of("ops/foo.cpp", text).empty());
}

TEST(MutationSites, CommentsStringsAndRefusalsStay) {
  EXPECT_TRUE(mutants_of("ops/kernels/foo.cpp", "// a + b\nchar c = \"a + b\";\nfail(\"x\", a + b);\n").empty());
  EXPECT_EQ(mutants_of("ops/kernels/foo.cpp", "x = 1'000 + b;  // 'a + b'\n").front(), "x = 1'000 - b;  // 'a + b'\n");
}

TEST(MutationSites, MasksGetStrictComparisonsAndKernelsOffByOne) {
  const std::string mask = "bool Mask::sees(Index i, Index j) {\n  return j <= i;\n}\n";
  EXPECT_TRUE(has(mutants_of("ops/mask.cpp", mask), "bool Mask::sees(Index i, Index j) {\n  return j < i;\n}\n"));
  EXPECT_EQ(sites_of("ops/mask.cpp", mask).front().unit, "mask Mask::sees");
  EXPECT_TRUE(has(mutants_of("ops/kernels/foo.cpp", "for (Index i = 0; i < count; ++i)\n"),
                  "for (Index i = 1; i < count; ++i)\n"));
}

TEST(MutationSites, EveryRuleMaskAndKernelOfTheProjectHasSome) {
  std::set<std::string> units;
  for (const Site& site : all_sites(CAPSTAN_SOURCE_DIR)) units.insert(site.unit);
  for (const char* unit :
       {"rule Softmax", "rule MatMul", "rule CrossEntropy", "mask Mask::band", "mask resolve",
        "function compose", "kernel softmax.cpp", "kernel gemm_large.cpp", "kernel math-inl.h"})
    EXPECT_TRUE(units.contains(unit)) << unit;
  EXPECT_GT(units.size(), 100U);
}

}  // namespace
}  // namespace capstan::mutation
