// Tests of heatmap.h: what stands in the terminal, plain and coloured.
#include <capstan/autograd/create.h>
#include <capstan/autograd/heatmap.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "support/expect.h"

namespace capstan {
namespace {

using test::error_of;

TEST(Heatmap, HasLabelsBeforeRowsAndAboveColumns) {
  EXPECT_EQ(heatmap(tensor({{1, 0}, {0.25, 0.75}}), {"a", "b"}), "      a    b\na  1.00 0.00\nb  0.25 0.75\n");
  EXPECT_EQ(heatmap(tensor({{1, 0, 10}}), {"row"}, {"x", "y", "z"}),
            "         x     y     z\nrow   1.00  0.00 10.00\n");
  EXPECT_EQ(heatmap(tensor({{1, 0, 2}}), {"row"}), "row  1.00 0.00 2.00\n");
  EXPECT_EQ(heatmap(tensor({{1}})), "1.00\n");
}

TEST(Heatmap, WideCharactersTakeTwoColumns) {
  EXPECT_EQ(heatmap(tensor({{1, 0}, {0, 1}}), {"小猫", "é"}), "      小猫    é\n小猫  1.00 0.00\né     0.00 1.00\n");
}

TEST(Heatmap, NoNegativeZeros) { EXPECT_EQ(heatmap(tensor({{-0.001, -0.01}})), " 0.00 -0.01\n"); }

TEST(Heatmap, NumbersOfExtremeSizeStayNarrow) {
  EXPECT_EQ(heatmap(tensor({{-1.5e9, 1}, {0, 0.25}})), "-1.5e+09        1\n       0     0.25\n");
  EXPECT_EQ(heatmap(tensor({{1e-6, 0}})), "1e-06     0\n");
}

TEST(Heatmap, ColourFollowsMagnitudeAndSign) {
  EXPECT_EQ(heatmap(tensor({{2, 0}, {-2, 1}}), {}, {}, true),
            "\x1b[48;5;26;38;5;231m 2.00\x1b[0m \x1b[48;5;231;38;5;16m 0.00\x1b[0m\n"
            "\x1b[48;5;166;38;5;231m-2.00\x1b[0m \x1b[48;5;117;38;5;16m 1.00\x1b[0m\n");
}

TEST(Heatmap, WhatIsNotFiniteHasNoColourAndDoesNotSetTheScale) {
  EXPECT_EQ(heatmap(tensor({{INFINITY, NAN, 1}}), {}, {}, true), " inf  nan \x1b[48;5;26;38;5;231m1.00\x1b[0m\n");
}

TEST(Heatmap, IsPlainInAFile) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  print_heatmap(tensor({{1, 0}}), {}, {}, file.get());
  std::rewind(file.get());
  char line[64] = {};
  ASSERT_EQ(std::fgets(line, sizeof line, file.get()), line);
  EXPECT_STREQ(line, "1.00 0.00\n");
}

TEST(Heatmap, Errors) {
  EXPECT_EQ(error_of([] {
              heatmap(ones({2, 2, 2}));
            }),
            "heatmap: x must be a matrix; got [2, 2, 2]; slice() and reshape() it to the one to show");
  EXPECT_EQ(error_of([] {
              heatmap(ones({2, 3}), {"a"});
            }),
            "heatmap: there must be a label for each row; got 1 for 2; pass none to leave them out");
  EXPECT_EQ(error_of([] {
              heatmap(ones({1, 3}), {}, {"a"});
            }),
            "heatmap: there must be a label for each column; got 1 for 3; pass none to leave them out");
}

}  // namespace
}  // namespace capstan
