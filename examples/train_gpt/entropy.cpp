// Counting bytes and pairs; see entropy.h.
#include "entropy.h"

#include <cmath>

namespace capstan::train_gpt {
namespace {

constexpr std::size_t vocabulary = 256;

/// −Σᵢ (nᵢ / N) ln(nᵢ / N) · N, so that sums over several distributions add up before they are divided.
double total_surprise(const std::int64_t* counts) {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < vocabulary; ++i) total += counts[i];
  double surprise = 0;
  for (std::size_t i = 0; i < vocabulary; ++i)
    if (counts[i] > 0)
      surprise -=
          static_cast<double>(counts[i]) * std::log(static_cast<double>(counts[i]) / static_cast<double>(total));
  return surprise;
}

}  // namespace

Entropies entropies(const Text& text) {
  std::vector<std::int64_t> bytes(vocabulary), pairs(vocabulary * vocabulary);
  std::int64_t pair_count = 0;
  for (const TextFile& file : text.files) {
    const std::string_view content = text.of(file);
    for (std::size_t i = 0; i < content.size(); ++i) {
      const auto byte = static_cast<unsigned char>(content[i]);
      ++bytes[byte];
      if (i == 0) continue;
      ++pairs[static_cast<unsigned char>(content[i - 1]) * vocabulary + byte];
      ++pair_count;
    }
  }
  Entropies result;
  if (text.size() > 0) result.unigram = total_surprise(bytes.data()) / static_cast<double>(text.size());
  if (pair_count > 0) {
    for (std::size_t a = 0; a < vocabulary; ++a) result.bigram += total_surprise(&pairs[a * vocabulary]);
    result.bigram /= static_cast<double>(pair_count);
  }
  return result;
}

}  // namespace capstan::train_gpt
