// From three tokens to their output; why scores are divided by √d; why softmax is stable. See lesson.h.
#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/ops/ops.h>

#include <cmath>

#include "lesson.h"

namespace capstan::lesson {

namespace {

/// All steps from the scaled scores to the output under one mask.
void steps(Section& page, const std::string& at, const Tensor& q, const Tensor& k, const Tensor& v,
           const Tensor& scaled, const Mask& mask, const Shown& kept) {
  const Tensor keep = page.show(at + "/keep", kept);
  const Tensor masked = page.show(at + "/masked", SHOWN(where(keep, scaled, -INFINITY)));
  const Tensor shifted = page.show(at + "/shifted", SHOWN(masked - max(masked, {1}, keep_axes)));
  const Tensor exps = page.show(at + "/exps", SHOWN(exp(shifted)));
  const Tensor totals = page.show(at + "/totals", SHOWN(sum(exps, {1}, keep_axes)));
  const Tensor weights = page.show(at + "/weights", SHOWN(softmax(masked, -1)));
  const Tensor parts = page.show(at + "/parts", SHOWN(reshape(weights, {3, 3, 1}) * reshape(v, {1, 3, 2})));
  const Tensor output = page.show(at + "/output", SHOWN(matmul(weights, v)));

  page.equal(at + ": each row of weights sums to 1", sum(weights, {1}), {1, 1, 1}, 1e-12);
  page.equal(at + ": exp and normalise give softmax", exps / totals, weights, 1e-12);
  page.equal(at + ": the output is the weighted sum of the values", sum(parts, {1}), output, 1e-12);
  const auto four = [](const Tensor& x) { return reshape(x, {1, 1, 3, 2}); };
  const AttentionResult whole = attention_reference(four(q), four(k), four(v), {.mask = mask});
  page.equal(at + ": attention_reference gives these weights", whole.weights, weights, 1e-12);
  page.equal(at + ": the fused attention gives this output",
             attention(four(q), four(k), four(v), {.mask = mask}).output, output, 1e-12);
}

}  // namespace

void three_tokens(Section page) {
  const Tensor q = page.show("q", SHOWN(tensor({{1, 2}, {2, 0}, {1, 1}}, DType::f64)));
  const Tensor k = page.show("k", SHOWN(tensor({{2, 1}, {0, 1}, {1, 2}}, DType::f64)));
  const Tensor v = page.show("v", SHOWN(tensor({{1, 0}, {0, 2}, {2, 1}}, DType::f64)));
  const Tensor products = page.show("products", SHOWN(reshape(q, {3, 1, 2}) * reshape(k, {1, 3, 2})));
  const Tensor scores = page.show("scores", SHOWN(matmul(q, transpose(k))));
  const Tensor scaled = page.show("scaled", SHOWN(scores / std::sqrt(2.0)));
  steps(page, "all", q, k, v, scaled, Mask::all(), SHOWN(reshape(Mask::all().keep_tensor({1, 1, 3, 3}), {3, 3})));
  steps(page, "causal", q, k, v, scaled, Mask::causal(),
        SHOWN(reshape(Mask::causal().keep_tensor({1, 1, 3, 3}), {3, 3})));

  page.equal("scores by hand", scores, {4, 2, 5, 4, 0, 2, 3, 1, 3});
  page.equal("a score is the sum of its terms", sum(products, {2}), scores);
  const double a = std::exp(4 / std::sqrt(2.0)), b = std::exp(2 / std::sqrt(2.0)), c = std::exp(5 / std::sqrt(2.0));
  page.equal("the first row of weights by hand", slice(softmax(scaled, -1), 0, 0, 1),
             {a / (a + b + c), b / (a + b + c), c / (a + b + c)}, 1e-12);
  const Mask causal = Mask::causal();
  const auto four = [](const Tensor& x) { return reshape(x, {1, 1, 3, 2}); };
  const AttentionResult masked = attention_reference(four(q), four(k), four(v), {.mask = causal});
  const std::vector<double> w = masked.weights.to_doubles();
  page.equal("causal: weights above the diagonal are exactly 0", tensor({w[1], w[2], w[5]}, DType::f64), {0, 0, 0});
  page.equal("causal: the first token gets its own value", slice(reshape(masked.output, {3, 2}), 0, 0, 1), {1, 0});

  // K is transposed because its rows are compared with Q's rows; without that the inner sizes do not meet.
  const Json refusal = REFUSED(matmul(q, k));
  page.put("refusal", refusal);
  page.equal("Q K without the transpose is refused", refusal["error"].get<std::string>(),
             "matmul: inner sizes must agree; got a [3, 2] and b [3, 2]");
  page.equal("K transposed is [2, 3]", to_string(transpose(k).shape()), "[2, 3]");
  page.equal("the output is [3, 2]", to_string(matmul(softmax(scaled, -1), v).shape()), "[3, 2]");
}

void why_scale(Section page) {
  GIVEN(given_sizes, constexpr Index draws = 2000, keys = 5);
  struct Expected {
    Index d;
    double deviation, largest, largest_scaled;
  };
  const Expected expected[] = {{8, 2.83, 0.70, 0.44}, {64, 8.00, 0.89, 0.46}, {256, 16.00, 0.95, 0.46}};
  page.put("draws", draws);
  for (const Expected& e : expected) {
    const Index d = e.d;
    const std::string at = fmt::format("d{}", d);
    GIVEN(given_key, const Key key = Key{.seed = 7}.derive(static_cast<std::uint64_t>(d)));
    GIVEN(given_q, const Tensor q = normal(key.derive(0), {draws, 1, d}, 0, 1, DType::f64));
    GIVEN(given_k, const Tensor k = normal(key.derive(1), {draws, keys, d}, 0, 1, DType::f64));
    GIVEN(given_scores, const Tensor scores = reshape(matmul(q, transpose(k)), {draws, keys}));
    GIVEN(given_scaled, const Tensor scaled = scores / std::sqrt(static_cast<double>(d)));
    page.put("given", {given_sizes, given_key, given_q, given_k, given_scores, given_scaled});
    const auto show = [&](const std::string& which, const Tensor& s) {
      page.show(at + which + "/deviation", SHOWN(sqrt(variance(s))));
      page.show(at + which + "/largest", SHOWN(mean(max(softmax(s, -1), {1}))));
      page.show(at + which + "/first", SHOWN(softmax(slice(s, 0, 0, 1), -1)));
    };
    show("/plain", scores);
    show("/scaled", scaled);
    const auto claim = [&](const char* text) { return fmt::format("d = {}: {}", d, text); };
    const auto deviation = [](const Tensor& s) { return sqrt(variance(s)).item(); };
    const auto largest = [](const Tensor& s) { return mean(max(softmax(s, -1), {1})).item(); };
    page.equal(claim("scores spread like √d"), deviation(scores), e.deviation, 0.03 * e.deviation);
    page.equal(claim("scaled scores spread like 1"), deviation(scaled), 1, 0.03);
    // Four standard errors: one draw's largest weight varies by 0.2, the mean of 2000 by 0.005.
    page.equal(claim("mean largest weight without scaling"), largest(scores), e.largest, 0.02);
    page.equal(claim("mean largest weight with scaling"), largest(scaled), e.largest_scaled, 0.02);
  }
}

void stable_softmax(Section page) {
  const Tensor z = page.show("z", SHOWN(tensor({2, 1, 0.1}, DType::f64)));
  const Tensor weights = page.show("weights", SHOWN(softmax(z)));
  Json steps = Json::array();
  double worst = 0;
  for (const double c : {-1000.0, -100.0, -1.0, 0.0, 1.0, 2.0, 100.0, 1000.0}) {
    const Shown stable = SHOWN(softmax(z - c));
    steps.push_back({{"c", c},
                     {"shifted", to_json(SHOWN(z - c))},
                     {"softmax", to_json(stable)},
                     {"naive", to_json(SHOWN(exp(z - c) / sum(exp(z - c))))}});
    worst = std::max(worst, distance(stable.value, weights));
  }
  page.put("steps", std::move(steps));
  page.at_most("weights after subtracting any constant", worst, 1e-12);

  const Tensor large = page.show("large/z", SHOWN(tensor({1000, 0, -1000}, DType::f64)));
  page.equal("logits of ±1000", page.show("large/softmax", SHOWN(softmax(large))), {1, 0, 0});
  const Tensor naive = page.show("large/naive", SHOWN(exp(large) / sum(exp(large))));
  page.equal("the same by exp alone is not a number", std::isnan(naive.at({0})) ? "NaN" : "a number", "NaN");
  const Tensor total = page.show("large/logsumexp", SHOWN(logsumexp(tensor({1000, 1000}, DType::f64))));
  page.equal("log Σ exp of 1000 and 1000", total.item(), 1000 + std::log(2.0), 1e-9);
}

}  // namespace capstan::lesson
