// The README's C++ is compiled and runs: each of its blocks stands here (or in an example), word for word.
#include <capstan/autograd/format.h>
#include <capstan/autograd/gradcheck_gtest.h>
#include <capstan/nn/io/checkpoint.h>
#include <capstan/nn/nn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "support/states.h"
#include "support/temporary_folder.h"

using namespace capstan;

namespace {

struct Cube final : Op {  // y = x³
  static constexpr std::string_view name = "cube";
  Types infer(Inputs in) const override { return {Type{in[0].shape(), in[0].dtype()}}; }
  void eval(Inputs in, Outputs out) const override {
    const Tensor x = in[0].dense();
    visit_float(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      T* y = out[0].data<T>();
      for (const T v : x.data<T>()) *y++ = v * v * v;
    });
  }
  Reads reads(Wanted) const override { return Reads::in(0); }
  // dx = 3 x² dy
  Tensors vjp(const Call& call) const override { return {3.0 * call.in(0) * call.in(0) * call.dout(0)}; }
};

TEST(Cube, Gradients) {
  const auto cube = [](const std::vector<Tensor>& x) { return record(Cube{}, x[0])[0]; };
  EXPECT_GRADIENTS(cube, {tensor({{-1, 0.5}, {2, 3}}, DType::f64)});
}

struct Gate {
  nn::Linear value, gate;
  Gate(nn::Init& init, Index width) : value(init, {.in = width, .out = width}), gate(init, {.in = width, .out = width}) {}
  Tensor operator()(const Tensor& x) const { return value(x) * tanh(gate(x)); }
  static void fields(auto& self, auto& f) {
    f("value", self.value);
    f("gate", self.gate);
  }
};

TEST(Gate, Gradients) {
  nn::Init init{.seed = 1, .dtype = DType::f64};  // differences of f32 values drown in rounding
  const Gate model(init, 3);
  const Tensor x = normal(Key{.seed = 2}, {2, 3}, 0, 1, DType::f64);
  const auto report = nn::gradcheck_module(model, [&](const Gate& m) { return mean(m(x) * m(x)); });
  EXPECT_TRUE(report.passed) << report.failure;  // … the derivative by gate.weight at [2, 0] …
}

TEST(Readme, AModelIsTrained) {
  struct Batch {
    Tensor ids, targets;
  };
  const std::vector<Batch> batches{{tensor({{1, 2}}, DType::i32), tensor({{2, 3}}, DType::i32)}};

  nn::Init init{.seed = 7};
  nn::Gpt model(init, {.vocab = 256, .context = 128, .width = 128, .heads = 4, .blocks = 4});
  nn::AdamW optimizer{.lr = 3e-4};
  for (const auto& batch : batches) {  // ids and targets, i32 [B, T] each
    const auto loss = [&](const nn::Gpt& m) { return m.loss(batch.ids, batch.targets); };
    auto [value, gradients] = value_and_grad(model, loss);
    optimizer.step(model, gradients);
  }
  EXPECT_EQ(optimizer.state.begin()->second.steps, 1);
}

TEST(Readme, AModelIsSavedAndLoaded) {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "model.safetensors").string();
  nn::Init init{.seed = 7};
  const nn::Gpt model(init, {.vocab = 5, .context = 3, .width = 4, .heads = 2, .blocks = 1});

  nn::save_checkpoint(path, {.tensors = nn::state_dict(model), .metadata = {{"step", "100"}}});
  nn::Gpt restored(init, model.config);
  nn::load_state(restored, nn::load_checkpoint(path).tensors);

  EXPECT_EQ(test::difference(restored, model), "");
  EXPECT_NE(test::difference(nn::Gpt(init, model.config), model), "");
}

// ---- word for word ----------------------------------------------------------------------------------------------------

/// The code of a text: lines without their indentation; no includes, no using directives, no empty lines.
std::string code_of(const std::string& text) {
  std::istringstream lines(text);
  std::string code, line;
  while (std::getline(lines, line)) {
    const std::size_t start = line.find_first_not_of(' ');
    if (start == std::string::npos || line.starts_with("#include") || line.starts_with("using namespace")) continue;
    code += line.substr(start) + "\n";
  }
  return code;
}

std::string file(const std::string& name) {
  std::ostringstream content;
  content << std::ifstream(std::string(CAPSTAN_SOURCE_DIR) + "/" + name).rdbuf();
  return content.str();
}

TEST(Readme, EveryBlockIsCompiled) {
  const std::string readme = file("README.md"), fence = "```cpp\n";
  const std::string here = code_of(file("tests/nn/readme_test.cpp")) + code_of(file("examples/01_gradient.cpp"));
  int blocks = 0;
  for (std::size_t at = 0; (at = readme.find(fence, at)) != std::string::npos; ++blocks) {
    const std::size_t start = at + fence.size();
    at = readme.find("```", start);
    const std::string block = readme.substr(start, at - start);
    EXPECT_NE(here.find(code_of(block)), std::string::npos)
        << "README.md: put this block into tests/nn/readme_test.cpp, where it is compiled:\n"
        << block;
  }
  EXPECT_GE(blocks, 5);
}

}  // namespace
