// Padding and causality: which keys a query may see. See lesson.h.
#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/autograd/transform.h>
#include <capstan/ops/ops.h>

#include <cmath>

#include "lesson.h"

namespace capstan::lesson {

namespace {

/// softmax of scores [5, 5] that are divided by √8 already, where the mask allows: through the attention itself, with keys
/// that are unit vectors, so that q kᵀ is q.
AttentionResult weigh(const Tensor& scores, const Tensor& values, const Mask& mask) {
  const auto four = [](const Tensor& x) { return reshape(x, {1, 1, 5, -1}); };
  return attention_reference(four(scores), four(eye(5, scores.dtype())), four(values), {.mask = mask, .scale = 1.0});
}

Tensor matrix(const Tensor& x) { return reshape(x, {5, -1}); }

std::string error_of_mask(const Tensor& x) {
  try {
    Mask::keep(x);
  } catch (const Error& error) { return error.what(); }
  return "";
}

/// What a query without any key gets: by −1e9, by −∞, and from capstan.
void nothing_to_attend_to(Section& page) {
  const Tensor row = page.show("empty/scores", SHOWN(tensor({{0.9, 1.09, 0.67, 1.5, 0.4}})));  // f32
  const Tensor values = page.show("empty/values", SHOWN(tensor({{1}, {2}, {3}, {8}, {6}})));
  const Tensor large = page.show("empty/large", SHOWN(softmax(row + -1e9, -1)));
  const Tensor infinite = page.show("empty/infinite", SHOWN(softmax(row + -INFINITY, -1)));
  const auto four = [](const Tensor& x) { return reshape(x, {1, 1, -1, x.size(1)}); };
  const Tensor q = four(row), k = four(eye(5)), v = four(values);
  const AttentionOptions nothing{.mask = Mask::padding({0}), .scale = 1.0};
  const Tensor weights = attention_reference(q, k, v, nothing).weights;
  page.show("empty/capstan", Shown{"attention(q, k, v, {.mask = Mask::padding({0})})", weights});
  page.show("empty/large_output", SHOWN(matmul(large, values)));
  page.show("empty/infinite_output", SHOWN(matmul(infinite, values)));
  const Tensor output = page.show("empty/capstan_output", SHOWN(attention(q, k, v, nothing).output));
  page.equal("a row masked by −1e9 attends to everything alike", large, {0.2, 0.2, 0.2, 0.2, 0.2}, 1e-6);
  page.equal("and so mixes in the padding", matmul(large, values).item(), 4, 1e-5);
  page.equal("a row masked by −∞ alone is not a number", std::isnan(infinite.at({0, 0})) ? "NaN" : "a number", "NaN");
  page.equal("capstan: a row with nothing to attend to has weights 0", weights, {0, 0, 0, 0, 0});
  page.equal("and output 0", output.item(), 0);
  const Tensor gradient = grad(q, [&](const Tensor& x) { return sum(attention(x, k, v, nothing).output); });
  page.equal("and gradient 0", gradient, {0, 0, 0, 0, 0});
}

}  // namespace

void padding_mask(Section page) {
  const Tensor raw = page.show("raw", SHOWN(tensor({{0.90, 1.09, 0.67, 1.50, 0.40},
                                                    {0.35, 1.20, 0.95, 0.80, 1.10},
                                                    {0.60, 0.45, 1.30, 0.20, 0.75},
                                                    {1.00, 0.70, 0.50, 1.40, 0.90},
                                                    {0.55, 0.85, 1.15, 0.65, 1.25}},
                                                   DType::f64)));
  const Tensor scores = page.show("scores", SHOWN(raw / std::sqrt(8.0)));
  const Tensor values = page.show("values", SHOWN(tensor({{1}, {2}, {3}, {8}, {6}}, DType::f64)));
  const auto show = [&](const std::string& at, const char* call, const Mask& mask) {
    const AttentionResult result = weigh(scores, values, mask);
    page.show(at + "/weights", Shown{call, matrix(result.weights)});
    page.show(at + "/output", Shown{call, matrix(result.output)});
    return matrix(result.weights);
  };
  show("none", "attention(q, k, v)", Mask::all());
  const Tensor columns = show("columns", "attention(q, k, v, {.mask = Mask::padding({3})})", Mask::padding({3}));
  const Tensor words = tensor({{1}, {1}, {1}, {0}, {0}}, DType::i32) > 0;  // [5, 1]: true where a query is a word
  const Tensor rows = show("rows", "attention(q, k, v, {.mask = Mask::keep(words)})", Mask::keep(words));

  const double a = std::exp(0.90 / std::sqrt(8.0)), b = std::exp(1.09 / std::sqrt(8.0)),
               c = std::exp(0.67 / std::sqrt(8.0));
  page.equal("row 0 by hand", slice(columns, 0, 0, 1), {a / (a + b + c), b / (a + b + c), c / (a + b + c), 0, 0},
             1e-12);
  page.equal("row 0 in round numbers", slice(columns, 0, 0, 1), {0.334, 0.357, 0.309, 0, 0}, 1e-3);
  page.equal("every row gives the padding exactly 0", slice(columns, 1, 3, 5), std::vector<double>(10, 0.0));
  page.equal("a padding query still gets a row that sums to 1", sum(slice(columns, 0, 3, 5), {1}), {1, 1}, 1e-12);
  page.at_least("masking rows instead leaves weight on the padding", rows.at({0, 3}), 0.2);
  nothing_to_attend_to(page);
}

void causal_mask(Section page) {
  const Key key{.seed = 11};
  const Tensor x = page.show("x", SHOWN(normal(key.derive(0), {5, 4}, 0, 1, DType::f64)));
  const Tensor w_q = normal(key.derive(1), {4, 4}, 0, 0.6, DType::f64);
  const Tensor w_k = normal(key.derive(2), {4, 4}, 0, 0.6, DType::f64);
  const Tensor w_v = normal(key.derive(3), {4, 4}, 0, 0.6, DType::f64);
  // The third token becomes another one.
  const Tensor other = page.show(
      "other",
      SHOWN(concat({slice(x, 0, 0, 2), normal(key.derive(4), {1, 4}, 0, 1, DType::f64), slice(x, 0, 3, 5)}, 0)));

  const auto run = [&](const std::string& at, const Mask& mask) {
    const auto attend = [&](const Tensor& t) {
      const auto four = [](const Tensor& a) { return reshape(a, {1, 1, 5, 4}); };
      return reshape(attention(four(matmul(t, w_q)), four(matmul(t, w_k)), four(matmul(t, w_v)), {.mask = mask}).output,
                     {5, 4});
    };
    const Tensor change = page.show(at + "/change", SHOWN(abs(attend(other) - attend(x))));
    // How strongly output s follows input t: the norm of the block ∂out[s]/∂x[t] of the Jacobian [5, 4, 5, 4].
    const Tensor j = jacobian(x, attend);
    const Tensor influence = page.show(at + "/influence", SHOWN(sqrt(sum(j * j, {1, 3}))));
    return std::pair{change, influence};
  };
  const auto [change, influence] = run("causal", Mask::causal());
  const auto [change_all, influence_all] = run("all", Mask::all());
  page.equal("a change of token 3 leaves every output before it as it was", slice(change, 0, 0, 2),
             std::vector<double>(8, 0.0));
  page.at_least("it does change its own output and the later ones", min(max(slice(change, 0, 2, 5), {1})).item(), 1e-3);
  page.at_least("without the mask it changes the outputs before it too",
                min(max(slice(change_all, 0, 0, 2), {1})).item(), 1e-3);
  page.equal("the gradient from position 1 to later inputs is exactly 0", slice(slice(influence, 0, 0, 1), 1, 1, 5),
             {0, 0, 0, 0});
  page.at_least("without the mask it is not", min(slice(slice(influence_all, 0, 0, 1), 1, 1, 5)).item(), 1e-3);

  // Two conventions of Booleans: true = may attend (capstan's only one), and true = is hidden.
  const Tensor keep = reshape(Mask::causal().keep_tensor({1, 1, 5, 5}), {5, 5});
  const Tensor hide = logical_not(keep);
  page.show("convention/keep", Shown{"Mask::causal().keep_tensor({1, 1, 5, 5})", keep});
  page.show("convention/hide", Shown{"logical_not(keep)", hide});
  const Tensor scores = zeros({5, 5}, DType::f64), values = ones({5, 1}, DType::f64);
  const Tensor right = matrix(weigh(scores, values, Mask::keep(keep)).weights);
  const Tensor wrong = matrix(weigh(scores, values, Mask::keep(hide)).weights);
  page.show("convention/right", Shown{"attention(q, k, v, {.mask = Mask::keep(keep)})", right});
  page.show("convention/wrong", Shown{"attention(q, k, v, {.mask = Mask::keep(hide)})", wrong});
  const std::string refusal = error_of_mask(scores);
  page.put("convention/refusal", {{"call", "Mask::keep(scores)"}, {"error", refusal}});
  page.equal("true = may attend: the lower triangle", cast(keep, DType::i32),
             {1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1});
  page.equal("read the other way round, the first token sees only the future", slice(wrong, 0, 0, 1),
             {0, 0.25, 0.25, 0.25, 0.25}, 1e-12);
  page.equal("and the last one sees nothing", slice(wrong, 0, 4, 5), {0, 0, 0, 0, 0});
  page.equal("numbers are refused as a mask", refusal.empty() ? "accepted" : "refused", "refused");
}

}  // namespace capstan::lesson
