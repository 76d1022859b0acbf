#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/nn/generate.h>
#include <capstan/ops/rearrange.h>

#include <algorithm>
#include <cmath>

namespace capstan::nn {

std::int32_t sample(const Tensor& logits, double temperature, double u) {
  if (logits.rank() != 1 || logits.elements() == 0)
    fail("sample: logits must be [V] with V at least 1; got {}", logits.shape());
  if (!(temperature >= 0) || !std::isfinite(temperature))
    fail("sample: the temperature must be finite and not negative; got {}", temperature);
  std::vector<double> weight = logits.to_doubles();
  const auto top = std::max_element(weight.begin(), weight.end());
  if (std::any_of(weight.begin(), weight.end(), [](double logit) { return std::isnan(logit); }))
    fail("sample: logits must not be NaN; got NaN among {}", weight.size());
  if (!std::isfinite(*top)) fail("sample: the largest logit must be finite; got {}", *top);
  if (temperature == 0) return static_cast<std::int32_t>(top - weight.begin());
  const double highest = *top;
  double total = 0;
  for (double& w : weight) total += w = std::exp((w - highest) / temperature);
  double cumulative = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < weight.size(); ++i) {
    if (weight[i] == 0) continue;
    cumulative += weight[i];
    last = i;
    if (cumulative > u * total) break;
  }
  return static_cast<std::int32_t>(last);
}

std::vector<std::int32_t> generate(const Gpt& model, std::vector<std::int32_t> tokens, const GenerateOptions& options) {
  if (tokens.empty()) fail("generate: the prompt must have at least one token; got none");
  if (options.count < 0) fail("generate: count must not be negative; got {}", options.count);
  std::vector<double> draws(static_cast<std::size_t>(options.count));
  fill_uniform(options.key, draws.data(), options.count, 0.0, 1.0);
  ModelCache cache;
  for (const double draw : draws) {
    // Beyond the context the window slides, every position changes, and all of it is read anew.
    const auto length =
        static_cast<std::size_t>(std::min<Index>(static_cast<Index>(tokens.size()), model.config.context));
    if (tokens.size() > length) cache = {};
    const std::size_t unread = length - static_cast<std::size_t>(cache.length);
    const std::vector<std::int32_t> next(tokens.end() - static_cast<std::ptrdiff_t>(unread), tokens.end());
    const Tensor logits = model(tensor(next, {1, static_cast<Index>(unread)}), cache);
    const Index last = static_cast<Index>(unread) - 1;
    tokens.push_back(
        sample(reshape(slice(logits, 1, last, last + 1), Shape{model.config.vocab}), options.temperature, draw));
  }
  return tokens;
}

}  // namespace capstan::nn
