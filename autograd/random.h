// Randomness as an argument: keys, the generator that deals them, and fills whose element i depends on (key, i) alone.
// Not for: cryptography, or tensors of random values (see the factories in create.h).
//
// Everything rests on Philox4x32-10, a counter-based generator (J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel
// random numbers: as easy as 1, 2, 3", SC 2011). There is no hidden state: the same key gives the same bytes on every
// platform, for any number of threads, forward and backward, in one call or in many.
#pragma once

#include <capstan/autograd/shape.h>

#include <array>
#include <cstdint>
#include <vector>

namespace capstan {

/// Philox4x32-10: 128 random bits as a bijection of the counter, one for each key.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// Names one random stream; a value, free to copy and to store. Use a key for one purpose only: two draws of different
/// kinds from one key are correlated (derive() makes as many more as are needed).
struct Key {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;

  friend bool operator==(const Key&, const Key&) = default;

  /// Block `index` of the stream: words 4·index to 4·index + 3.
  constexpr std::array<std::uint32_t, 4> block(std::uint64_t index) const {
    return philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                   static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                  {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  }
  /// 32 random bits of element i.
  constexpr std::uint32_t bits32(Index i) const {
    return block(static_cast<std::uint64_t>(i) / 4)[static_cast<std::uint64_t>(i) % 4];
  }
  /// 64 random bits of element i: words 2i (high) and 2i + 1.
  constexpr std::uint64_t bits64(Index i) const {
    const auto four = block(static_cast<std::uint64_t>(i) / 2);
    const std::uint64_t at = static_cast<std::uint64_t>(i) % 2 * 2;
    return std::uint64_t{four[at]} << 32 | four[at + 1];
  }
  /// The n-th child: a key unrelated to this one and to its other children (equal ones have chance 2^-128).
  constexpr Key derive(std::uint64_t n) const {
    // Drawn under another Philox key, so apart from all that this key draws for elements.
    const auto four = Key{seed ^ 0xA0761D6478BD642F, stream}.block(n);
    return {std::uint64_t{four[0]} << 32 | four[1], std::uint64_t{four[2]} << 32 | four[3]};
  }
};

/// Deals keys: the n-th call of next() gives Key{seed, n}. Its whole state is two numbers, to be stored in checkpoints:
/// Generator(g.seed(), g.count()) continues where g stands.
class Generator {
 public:
  explicit Generator(std::uint64_t seed, std::uint64_t count = 0) : seed_(seed), count_(count) {}
  Key next() { return {seed_, count_++}; }
  std::uint64_t seed() const { return seed_; }
  std::uint64_t count() const { return count_; }

  friend bool operator==(const Generator&, const Generator&) = default;

 private:
  std::uint64_t seed_;
  std::uint64_t count_;
};

/// out[j] = element first + j of the key's uniform stream on [low, high), for j in [0, count). T is float or double; f64
/// carries 53 random bits, f32 the first 24 of the same ones; never equal to `high`. Error unless low < high and
/// high − low are finite.
template <class T>
void fill_uniform(Key key, T* out, Index count, T low, T high, Index first = 0);

/// out[j] = mean + deviation · z, z being element first + j of the key's standard normal stream (|z| ≤ 9.2), by inversion
/// of the distribution function; f32 is the f64 value rounded. T is float or double. Error unless mean and deviation are
/// finite and deviation ≥ 0.
template <class T>
void fill_normal(Key key, T* out, Index count, T mean, T deviation, Index first = 0);

/// The standard normal quantile: the z with Φ(z) = p, 0 < p < 1, to about 1e-15 relative (M. Wichura, algorithm AS 241,
/// 1988); the same bits on every platform. normal_quantile(0.975) = 1.959963984540054.
double normal_quantile(double p);

/// True with probability 1 − p (to 2^-33): whether dropout keeps element i. p = 0 keeps all, p = 1 none.
class Keep {
 public:
  /// Error unless 0 ≤ p ≤ 1.
  Keep(Key key, double p);
  bool operator()(Index i) const { return key_.bits32(i) >= threshold_; }
  /// out[j] = (*this)(first + j) for j in [0, count).
  void fill(bool* out, Index count, Index first = 0) const;

 private:
  Key key_;
  std::uint64_t threshold_;
};

/// Element i of the key's stream of integers uniform on [0, bound), without bias. Error if bound is 0.
std::uint64_t uniform_int(Key key, Index i, std::uint64_t bound);

/// 0 … count − 1 in random order, all orders alike (Fisher–Yates).
std::vector<Index> permutation(Key key, Index count);

}  // namespace capstan
