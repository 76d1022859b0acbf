// The entropies that a language model has to beat. Not for: the model's own loss.
#pragma once

#include "text.h"

namespace capstan::train_gpt {

/// Plug-in entropies (Shannon 1948) of a text, in nats per byte: the loss of the best model that was allowed to count the
/// whole text, validation part included, and that looks at no byte, or at one byte, before the one to predict.
///
///   unigram = −Σₐ (n(a) / N) ln(n(a) / N)                        n(a): how often byte a occurs, N = Σ n(a)
///   bigram  = −Σₐᵦ (n(ab) / P) ln(n(ab) / n(a·))                 n(ab): how often b follows a, n(a·) = Σᵦ n(ab), P = Σ n(ab)
///
/// Pairs lie inside one file. Without any pair the bigram entropy is 0. Example: "abab" → ln 2 and 0.
struct Entropies {
  double unigram = 0;
  double bigram = 0;
};
Entropies entropies(const Text& text);

}  // namespace capstan::train_gpt
