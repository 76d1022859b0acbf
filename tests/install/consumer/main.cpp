// A program that sees capstan only as installed: one step of training, so that every layer and what it links (Highway, OpenMP) is
// there.
#include <capstan/nn/nn.h>

#include <cmath>

using namespace capstan;

int main() {
  nn::Init init{.seed = 1};
  nn::Gpt model(init, {.vocab = 16, .context = 64, .width = 64, .heads = 2, .blocks = 1});
  const Tensor ids = zeros({4, 64}, DType::i32);
  const auto loss = [&](const nn::Gpt& m) { return cross_entropy(m(ids), ids); };
  const auto [before, gradients] = value_and_grad(model, loss);
  nn::AdamW optimizer{.lr = 1e-2};
  optimizer.step(model, gradients);
  const double after = loss(model).item();
  return std::isfinite(after) && after < before.item() ? 0 : 1;
}
