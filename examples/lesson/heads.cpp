// Many heads, and the order of tokens. See lesson.h.
#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/nn/nn.h>

#include <cmath>

#include "lesson.h"

namespace capstan::lesson {

namespace {

/// One module, followed step by step with its own projections.
void follow(Section& page, const std::string& at, Index width, Index heads) {
  GIVEN(given_sizes, constexpr Index batch = 2, length = 4);
  GIVEN(given_size, const Index size = width / heads);  // D
  GIVEN(given_init, nn::Init init{.seed = 3, .dtype = DType::f64});
  GIVEN(given_module,
        const nn::MultiHeadAttention module(init, {.width = width, .heads = heads, .bias = false, .deviation = 1.0}));
  const Mask mask = Mask::causal();
  GIVEN(
      given_split, const auto split = [&](const Tensor& t) {
        return permute(reshape(t, {batch, length, heads, size}), {0, 2, 1, 3});
      });
  Json shapes = Json::array();
  // `variable` is the name under which later calls use the value.
  const auto step = [&](const char* name, const char* variable, const Shown& shown) {
    const std::string call = fmt::format("{}{}{}", variable, *variable ? " = " : "", shown.call);
    shapes.push_back({{"name", name}, {"shape", to_string(shown.value.shape())}, {"call", call}});
    return shown.value;
  };
  const Tensor x = step("X", "x", SHOWN(normal(Key{.seed = 21}, {batch, length, width}, 0, 1, DType::f64)));
  const Tensor query = step("Q, K, V", "query", SHOWN(module.query(x)));
  const Tensor q = step("heads", "q", SHOWN(split(query)));
  GIVEN(given_kv, const Tensor k = split(module.key(x)), v = split(module.value(x)));
  step("scores", "", SHOWN(matmul(q, transpose(k))));
  const AttentionResult attended = attention_reference(q, k, v, {.mask = mask});
  step("weights", "", SHOWN(attention_reference(q, k, v, {.mask = Mask::causal()}).weights));
  const Tensor o = step("outputs", "o", SHOWN(attention(q, k, v, {.mask = Mask::causal()}).output));
  const Tensor joined = step("joined", "joined", SHOWN(reshape(permute(o, {0, 2, 1, 3}), {batch, length, width})));
  const Tensor output = step("output", "output", SHOWN(module.project(joined)));

  page.put(at + "/given", {given_sizes, given_size, given_init, given_module, given_split, given_kv});
  page.put(at + "/shapes", std::move(shapes));
  page.put(at + "/parameters", nn::count_parameters(module));
  page.put(at + "/heads", heads);
  page.show(at + "/weights", SHOWN(module.attend(x, x, Mask::causal()).weights));
  const auto claim = [&](const char* text) { return fmt::format("width {}, {} heads: {}", width, heads, text); };
  page.equal(claim("parameters are four square matrices"), static_cast<double>(nn::count_parameters(module)),
             static_cast<double>(4 * width * width));
  page.equal(claim("step by step is what the module does"), output, module(x, mask), 1e-12);
  page.equal(claim("the weights are [B, H, T, T]"), to_string(attended.weights.shape()),
             to_string(Shape{batch, heads, length, length}));
  const Tensor first = slice(attended.weights, 1, 0, 1), second = slice(attended.weights, 1, 1, 2);
  page.at_least(claim("heads differ"), distance(first, second), 0.05);
}

}  // namespace

void many_heads(Section page) {
  follow(page, "two", 4, 2);
  follow(page, "three", 6, 3);
}

void order(Section page) {
  GIVEN(given_sizes, constexpr Index length = 5, width = 8);
  GIVEN(given_key, const Key key{.seed = 31});
  const Tensor x = page.show("x", SHOWN(normal(key.derive(0), {length, width}, 0, 1, DType::f64)));
  const Tensor shuffle = page.show("shuffle", SHOWN(tensor({3, 0, 4, 1, 2}, DType::i32)));
  const Tensor positions = page.show("positions", SHOWN(sinusoidal_positions(length, width, {}, DType::f64)));
  page.show("table", SHOWN(sinusoidal_positions(32, 16, {}, DType::f64)));
  GIVEN(
      given_weight, const auto weight = [&](std::uint64_t n) {
        return normal(key.derive(n), {width, width}, 0, 0.5, DType::f64);
      });
  GIVEN(given_weights, const Tensor w_q = weight(1), w_k = weight(2), w_v = weight(3));
  GIVEN(
      given_permuted, const auto permuted = [&](const Tensor& t) { return embedding(t, shuffle); });
  GIVEN(
      given_four, const auto four = [](const Tensor& a) {
        return reshape(a, {1, 1, length, width});
      });
  GIVEN(
      given_attend, const auto attend = [&](const Tensor& t, const Mask& mask) {
        const Tensor q = matmul(t, w_q), k = matmul(t, w_k), v = matmul(t, w_v);
        return reshape(attention(four(q), four(k), four(v), {.mask = mask}).output, {length, width});
      });
  GIVEN(given_masks, const Mask all = Mask::all(), causal = Mask::causal());
  page.put("given", {given_sizes, given_key, given_weight, given_weights, given_permuted, given_four, given_attend,
                     given_masks});
  const auto compare = [&](const std::string& at, const Shown& of_permuted, const Shown& permuted_of) {
    page.show(at + "/of_permuted", of_permuted);
    page.show(at + "/permuted_of", permuted_of);
    const double gap = distance(of_permuted.value, permuted_of.value);
    page.put(at + "/distance", drawing::rounded(gap));
    return gap;
  };
  page.at_most("without positions a permuted input gives the permuted output",
               compare("plain", SHOWN(attend(permuted(x), all)), SHOWN(permuted(attend(x, all)))), 1e-12);
  page.at_least(
      "with sinusoidal positions it does not",
      compare("placed", SHOWN(attend(permuted(x) + positions, all)), SHOWN(permuted(attend(x + positions, all)))), 0.1);
  page.at_least("nor under a causal mask, without any positions",
                compare("causal", SHOWN(attend(permuted(x), causal)), SHOWN(permuted(attend(x, causal)))), 0.1);
  page.equal("row 0 of the sinusoids is sin 0 and cos 0 in turn", slice(positions, 0, 0, 1), {0, 1, 0, 1, 0, 1, 0, 1});
}

}  // namespace capstan::lesson
