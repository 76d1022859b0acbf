// Tests of checkpoint.h: tensors and text through a file, bit by bit. Malformed files: safetensors_test.cpp.
#include <capstan/nn/io/checkpoint.h>
#include <capstan/nn/nn.h>
#include <capstan/ops/rearrange.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "support/expect.h"
#include "support/states.h"
#include "support/temporary_folder.h"

namespace capstan::nn {
namespace {

using test::difference;
using test::error_of;
using test::expect_exactly;

// A folder of its own for each test.
class CheckpointFile : public testing::Test {
 protected:
  std::string path(const std::string& name = "x.safetensors") const { return (folder_ / name).string(); }

  const test::TemporaryFolder folder_;
};

TEST_F(CheckpointFile, GoesRoundBitByBit) {  // CASES 57
  constexpr double inf = std::numeric_limits<double>::infinity();
  Checkpoint saved;
  saved.tensors = {{"f32", tensor({1.5, -0.0, inf, std::nan(""), 1e-45})},
                   {"f64", tensor({{0.1, -inf}, {5e-324, 1e308}}, DType::f64)},
                   {"i32", tensor({-2147483648.0, 0, 2147483647}, DType::i32)},
                   {"bool", tensor({{1, 0, 1}}, DType::boolean)},
                   {"scalar f32", tensor(3)},
                   {"scalar f64", tensor(0.1, DType::f64)},
                   {"scalar bool", tensor(1, DType::boolean)},
                   {"empty [2, 0]", zeros({2, 0})},
                   {"empty [0] f64", zeros({0}, DType::f64)},
                   {"rank 8", ones({1, 2, 1, 2, 1, 2, 1, 2})}};
  saved.metadata = {{"step", "7"}, {"text", "quotes \" and \\ and ü"}, {"empty", ""}};
  save_checkpoint(path(), saved);
  const Checkpoint loaded = load_checkpoint(path());
  EXPECT_EQ(difference(loaded.tensors, saved.tensors), "");
  EXPECT_EQ(loaded.metadata, saved.metadata);
  EXPECT_EQ(to_string(loaded.tensors.at("empty [2, 0]").shape()), "[2, 0]");
  EXPECT_EQ(to_string(loaded.tensors.at("scalar f32").shape()), "[]");
}

TEST_F(CheckpointFile, HoldsTheElementsOfAViewInOrder) {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  save_checkpoint(
      path(), {{{"turned", transpose(x)}, {"row", slice(x, 0, 1, 2)}, {"wide", broadcast_to(x, Shape{2, 2, 3})}}, {}});
  const Checkpoint loaded = load_checkpoint(path());
  expect_exactly(loaded.tensors.at("turned"), {3, 2}, {1, 4, 2, 5, 3, 6});
  expect_exactly(loaded.tensors.at("row"), {1, 3}, {4, 5, 6});
  expect_exactly(loaded.tensors.at("wide"), {2, 2, 3}, {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6});
}

TEST_F(CheckpointFile, HoldsManySmallTensors) {
  Checkpoint saved;
  for (int i = 0; i < 300; ++i) saved.tensors["x" + std::to_string(i)] = full({1}, i);
  save_checkpoint(path(), saved);
  EXPECT_EQ(difference(load_checkpoint(path()).tensors, saved.tensors), "");
}

TEST_F(CheckpointFile, HoldsAModelAndItsOptimizer) {
  const auto make = [](std::uint64_t seed) {
    Init init{.seed = seed};
    return Gpt(init, {.vocab = 7, .context = 4, .width = 4, .heads = 2, .blocks = 1});
  };
  const auto loss = [](const Gpt& m) {
    return cross_entropy(m(tensor({{1, 2, 3}}, DType::i32)), tensor({{2, 3, 4}}, DType::i32));
  };
  Gpt model = make(1);
  AdamW optimizer{.lr = 1e-2};
  for (int i = 0; i < 2; ++i) optimizer.step(model, value_and_grad(model, loss).gradient);
  Checkpoint saved;
  insert(saved.tensors, "model.", state_dict(model));
  insert(saved.tensors, "optimizer.", optimizer.state_dict());
  save_checkpoint(path(), saved);

  const Checkpoint loaded = load_checkpoint(path());
  Gpt resumed = make(2);
  load_state(resumed, select(loaded.tensors, "model."));
  AdamW continued{.lr = 1e-2};
  continued.load_state(select(loaded.tensors, "optimizer."));
  EXPECT_EQ(difference(resumed, model), "");
  optimizer.step(model, value_and_grad(model, loss).gradient);
  continued.step(resumed, value_and_grad(resumed, loss).gradient);
  EXPECT_EQ(difference(resumed, model), "");
  EXPECT_EQ(difference(continued.state_dict(), optimizer.state_dict()), "");
}

TEST_F(CheckpointFile, MayHoldNothing) {
  save_checkpoint(path(), {});
  const Checkpoint loaded = load_checkpoint(path());
  EXPECT_TRUE(loaded.tensors.empty());
  EXPECT_TRUE(loaded.metadata.empty());
}

TEST_F(CheckpointFile, ErrorsNameThePathAndLeaveTheOldFile) {
  EXPECT_EQ(error_of([&] { load_checkpoint(path("absent")); }),
            "safetensors: \"" + path("absent") + "\" must be a readable file; got \"No such file or directory\"");
  save_checkpoint(path(), {{{"x", ones({2})}}, {}});
  EXPECT_EQ(error_of([&] {
              save_checkpoint(path(), {{{"__metadata__", ones({2})}}, {}});
            }),
            "safetensors: a tensor must not be named __metadata__; the format reserves it");
  EXPECT_NE(error_of([&] { save_checkpoint(path(), {{{"x", ones({3})}}, {{"text", "\xff"}}}); }), "no error");
  expect_exactly(load_checkpoint(path()).tensors.at("x"), {2}, {1, 1});
  std::ofstream(path("damaged"), std::ios::binary) << "short";
  EXPECT_NE(error_of([&] { load_checkpoint(path("damaged")); }).find(path("damaged")), std::string::npos);
}

}  // namespace
}  // namespace capstan::nn
