// Padding and causality: which keys a query may see. See lesson.h.
#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/autograd/transform.h>
#include <capstan/ops/ops.h>

#include <cmath>

#include "lesson.h"

namespace capstan::lesson {

namespace {

/// What a query without any key gets: by −1e9, by −∞, and from capstan.
void nothing_to_attend_to(Section& page) {
  GIVEN(given_row, const Tensor row = tensor({{0.9, 1.09, 0.67, 1.5, 0.4}}));  // f32
  GIVEN(given_row64, const Tensor row64 = tensor({{0.9, 1.09, 0.67, 1.5, 0.4}}, DType::f64));
  GIVEN(given_values, const Tensor values = tensor({{1}, {2}, {3}, {8}, {6}}));
  GIVEN(given_q, const Tensor q = reshape(row, {1, 1, 1, 5}));
  GIVEN(given_k, const Tensor k = reshape(eye(5), {1, 1, 5, 5}));  // unit vectors: q kᵀ is q
  GIVEN(given_v, const Tensor v = reshape(values, {1, 1, 5, 1}));
  GIVEN(given_options, const AttentionOptions nothing{.mask = Mask::padding({0}), .scale = 1.0});
  page.put("empty/given", {given_row, given_row64, given_values, given_q, given_k, given_v, given_options});
  const Tensor large = page.show("empty/large", SHOWN(softmax(row + -1e9, -1)));
  const Tensor large64 = page.show("empty/large64", SHOWN(softmax(row64 + -1e9, -1)));
  const Tensor infinite = page.show("empty/infinite", SHOWN(softmax(row + -INFINITY, -1)));
  const Tensor weights =
      page.show("empty/capstan", SHOWN(reshape(attention_reference(q, k, v, nothing).weights, {1, 5})));
  page.show("empty/large_output", SHOWN(matmul(softmax(row + -1e9, -1), values)));
  page.show("empty/large64_output", SHOWN(matmul(softmax(row64 + -1e9, -1), cast(values, DType::f64))));
  page.show("empty/infinite_output", SHOWN(matmul(softmax(row + -INFINITY, -1), values)));
  const Tensor output = page.show("empty/capstan_output", SHOWN(reshape(attention(q, k, v, nothing).output, {1, 1})));
  page.equal("a row masked by −1e9 in f32 attends to everything alike", large, {0.2, 0.2, 0.2, 0.2, 0.2}, 1e-6);
  page.equal("and so mixes in the padding", matmul(large, values).item(), 4, 1e-5);
  page.equal("the same row in f64 is that of the scores without −1e9", large64, softmax(row64, -1), 1e-6);
  page.equal("which is 0.184, 0.223, 0.146, 0.335, 0.112", large64, {0.184, 0.223, 0.146, 0.335, 0.112}, 1e-3);
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
  GIVEN(given_q, const Tensor q = reshape(scores, {1, 1, 5, 5}));
  GIVEN(given_k, const Tensor k = reshape(eye(5, DType::f64), {1, 1, 5, 5}));  // unit vectors: q kᵀ is q
  GIVEN(given_v, const Tensor v = reshape(values, {1, 1, 5, 1}));
  GIVEN(given_words, const Tensor words = tensor({{1}, {1}, {1}, {0}, {0}}, DType::i32) > 0);  // a query is a word
  page.put("given", {given_q, given_k, given_v, given_words});
  const auto show = [&](const std::string& at, const Shown& weights, const Shown& output) {
    page.show(at + "/output", output);
    return page.show(at + "/weights", weights);
  };
  show("none", SHOWN(reshape(attention_reference(q, k, v, {.scale = 1.0}).weights, {5, 5})),
       SHOWN(reshape(attention(q, k, v, {.scale = 1.0}).output, {5, 1})));
  const Tensor columns =
      show("columns",
           SHOWN(reshape(attention_reference(q, k, v, {.mask = Mask::padding({3}), .scale = 1.0}).weights, {5, 5})),
           SHOWN(reshape(attention(q, k, v, {.mask = Mask::padding({3}), .scale = 1.0}).output, {5, 1})));
  const Tensor rows = show(
      "rows", SHOWN(reshape(attention_reference(q, k, v, {.mask = Mask::keep(words), .scale = 1.0}).weights, {5, 5})),
      SHOWN(reshape(attention(q, k, v, {.mask = Mask::keep(words), .scale = 1.0}).output, {5, 1})));

  const double a = std::exp(0.90 / std::sqrt(8.0)), b = std::exp(1.09 / std::sqrt(8.0)),
               c = std::exp(0.67 / std::sqrt(8.0));
  page.equal("row 0 is exp(sⱼ) ∕ Σ exp(sₖ) over j, k < 3, with s = 0.90 ∕ √8, 1.09 ∕ √8, 0.67 ∕ √8",
             slice(columns, 0, 0, 1), {a / (a + b + c), b / (a + b + c), c / (a + b + c), 0, 0}, 1e-12);
  page.equal("row 0 is 0.334, 0.357, 0.309, 0, 0", slice(columns, 0, 0, 1), {0.334, 0.357, 0.309, 0, 0}, 1e-3);
  page.equal("every row gives the padding exactly 0", slice(columns, 1, 3, 5), std::vector<double>(10, 0.0));
  page.equal("a padding query still gets a row that sums to 1", sum(slice(columns, 0, 3, 5), {1}), {1, 1}, 1e-12);
  page.at_least("masking rows instead leaves weight on the padding", rows.at({0, 3}), 0.2);
  nothing_to_attend_to(page);
}

void causal_mask(Section page) {
  GIVEN(given_key, const Key key{.seed = 11});
  const Tensor x = page.show("x", SHOWN(normal(key.derive(0), {5, 4}, 0, 1, DType::f64)));
  GIVEN(given_wq, const Tensor w_q = normal(key.derive(1), {4, 4}, 0, 0.6, DType::f64));
  GIVEN(given_wk, const Tensor w_k = normal(key.derive(2), {4, 4}, 0, 0.6, DType::f64));
  GIVEN(given_wv, const Tensor w_v = normal(key.derive(3), {4, 4}, 0, 0.6, DType::f64));
  GIVEN(
      given_four, const auto four = [](const Tensor& a) {
        return reshape(a, {1, 1, 5, 4});
      });
  // The third token becomes another one.
  const Tensor other = page.show(
      "other",
      SHOWN(concat({slice(x, 0, 0, 2), normal(key.derive(4), {1, 4}, 0, 1, DType::f64), slice(x, 0, 3, 5)}, 0)));

  const auto run = [&](const std::string& at, const Mask& mask) {
    GIVEN(
        given_attend, const auto attend = [&](const Tensor& t) {
          const Tensor q = matmul(t, w_q), k = matmul(t, w_k), v = matmul(t, w_v);
          return reshape(attention(four(q), four(k), four(v), {.mask = mask}).output, {5, 4});
        });
    const Tensor change = page.show(at + "/change", SHOWN(abs(attend(other) - attend(x))));
    // How strongly output s follows input t: the norm of the block ∂out[s]/∂x[t] of the Jacobian [5, 4, 5, 4].
    GIVEN(given_j, const Tensor j = jacobian(x, attend));
    const Tensor influence = page.show(at + "/influence", SHOWN(sqrt(sum(j * j, {1, 3}))));
    page.put("given", {given_key, given_wq, given_wk, given_wv, given_four, given_attend, given_j});
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
  const Tensor keep = page.show("convention/keep", SHOWN(reshape(Mask::causal().keep_tensor({1, 1, 5, 5}), {5, 5})));
  const Tensor hide = page.show("convention/hide", SHOWN(logical_not(keep)));
  GIVEN(given_equal, const Tensor q = zeros({1, 1, 5, 5}, DType::f64), k = q, v = q);  // all scores are 0
  page.put("convention/given", {given_equal});
  page.show("convention/right",
            SHOWN(reshape(attention_reference(q, k, v, {.mask = Mask::keep(keep)}).weights, {5, 5})));
  const Tensor wrong = page.show(
      "convention/wrong", SHOWN(reshape(attention_reference(q, k, v, {.mask = Mask::keep(hide)}).weights, {5, 5})));
  const Json refusal = REFUSED(Mask::keep(q));
  page.put("convention/refusal", refusal);
  page.equal("true = may attend: the lower triangle", cast(keep, DType::i32),
             {1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1});
  page.equal("read the other way round, the first token sees only the future", slice(wrong, 0, 0, 1),
             {0, 0.25, 0.25, 0.25, 0.25}, 1e-12);
  page.equal("and the last one sees nothing", slice(wrong, 0, 4, 5), {0, 0, 0, 0, 0});
  page.equal("numbers are refused as a mask", refusal["error"] == "" ? "accepted" : "refused", "refused");
}

}  // namespace capstan::lesson
