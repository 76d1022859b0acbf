// Philox's published answers, the pinned bytes of every distribution, independence of call boundaries, and statistics
// under fixed seeds (bounds at five standard errors or more, so a change of seed should not matter).
#include <capstan/autograd/error.h>
#include <capstan/autograd/random.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace capstan {
namespace {

using Words = std::array<std::uint32_t, 4>;

template <class T>
std::uint64_t fnv1a(const std::vector<T>& values) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
  for (std::size_t i = 0; i < values.size() * sizeof(T); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
  return hash;
}

template <class T>
std::vector<T> uniforms(Key key, Index count, T low = 0, T high = 1, Index first = 0) {
  std::vector<T> out(static_cast<std::size_t>(count));
  fill_uniform(key, out.data(), count, low, high, first);
  return out;
}

template <class T>
std::vector<T> normals(Key key, Index count, T mean = 0, T deviation = 1, Index first = 0) {
  std::vector<T> out(static_cast<std::size_t>(count));
  fill_normal(key, out.data(), count, mean, deviation, first);
  return out;
}

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) { return error.what(); }
  return "no error";
}

double phi(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

// The largest distance between the sample's distribution function and `expected`, times √n (Kolmogorov–Smirnov).
template <class T, class F>
double kolmogorov(std::vector<T> sample, F expected) {
  std::sort(sample.begin(), sample.end());
  const auto n = static_cast<double>(sample.size());
  double worst = 0;
  for (std::size_t i = 0; i < sample.size(); ++i) {
    const double f = expected(static_cast<double>(sample[i]));
    worst = std::max({worst, static_cast<double>(i + 1) / n - f, f - static_cast<double>(i) / n});
  }
  return worst * std::sqrt(n);
}

// Salmon et al., file kat_vectors of Random123: philox4x32, 10 rounds.
TEST(Philox, PublishedKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  static_assert(philox({0, 0, 0, 0}, {0, 0})[0] == 0x6627e8d5, "usable at compile time");
}

TEST(Key, SeedIsThePhiloxKeyAndStreamTheUpperCounter) {
  const Key key{0x299f31d0a4093822, 0x0370734413198a2e};
  EXPECT_EQ(key.block(0x85a308d3243f6a88), (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  for (Index i = 0; i < 9; ++i) {
    EXPECT_EQ(key.bits32(i), key.block(static_cast<std::uint64_t>(i / 4))[static_cast<std::size_t>(i % 4)]);
    EXPECT_EQ(key.bits64(i), std::uint64_t{key.bits32(2 * i)} << 32 | key.bits32(2 * i + 1));
  }
}

TEST(Key, ChildrenAndDealtKeysAreAllDifferent) {
  Generator generator(3);
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  for (int i = 0; i < 100; ++i) {
    const Key key = generator.next();
    seen.insert({key.seed, key.stream});
    for (std::uint64_t n = 0; n < 50; ++n) {
      const Key child = key.derive(n);
      EXPECT_EQ(child, key.derive(n));
      seen.insert({child.seed, child.stream});
      seen.insert({child.derive(n).seed, child.derive(n).stream});
    }
  }
  EXPECT_EQ(seen.size(), 100u * 101);
}

TEST(Generator, ContinuesFromSeedAndCount) {
  Generator generator(42);
  EXPECT_EQ(generator.next(), (Key{42, 0}));
  EXPECT_EQ(generator.next(), (Key{42, 1}));
  Generator restored(generator.seed(), generator.count());
  EXPECT_EQ(restored, generator);
  EXPECT_EQ(restored.next(), generator.next());
  EXPECT_EQ(generator.count(), 3u);
}

// Whoever changes one of these changes every trained model: they are the library's promise of exact bytes.
TEST(Random, PinnedBytes) {
  const Key key{2024, 5};
  EXPECT_EQ(fnv1a(uniforms<float>(key, 1000)), 0xbf0ea8f0dbda6fcau);
  EXPECT_EQ(fnv1a(uniforms<double>(key, 1000)), 0x7e141e2c8fe97954u);
  EXPECT_EQ(fnv1a(uniforms<float>(key, 1000, -0.3f, 1.7f)), 0x5f6eded4357486a1u);
  EXPECT_EQ(fnv1a(uniforms<double>(key, 1000, -0.3, 1.7)), 0xf1e4c23454960110u);
  EXPECT_EQ(fnv1a(normals<float>(key, 1000)), 0xa1a15a622b5825d0u);
  EXPECT_EQ(fnv1a(normals<double>(key, 1000)), 0x0aa73520f0da1567u);
  EXPECT_EQ(fnv1a(normals<float>(key, 1000, 0.1f, 0.02f)), 0x15a427752b436815u);
  EXPECT_EQ(fnv1a(normals<double>(key, 100'000, 0.1, 0.02)), 0x817dcc6c7d9737ccu);
  EXPECT_EQ(fnv1a(permutation(key, 1000)), 0xfb1dad28cf953db1u);
  std::vector<char> kept(1000);
  for (Index i = 0; i < 1000; ++i) kept[static_cast<std::size_t>(i)] = Keep(key, 0.1)(i) ? 1 : 0;
  EXPECT_EQ(fnv1a(kept), 0x9f032fdb8d3a9fc8u);
}

template <class T>
void expect_independent_of_boundaries() {
  const Key key{1, 2};
  const std::vector<T> uniform = uniforms<T>(key, 101, T(-2), T(3));
  const std::vector<T> normal = normals<T>(key, 101, T(1), T(2));
  for (Index first = 0; first < 12; ++first)
    for (Index count = 0; count < 14; ++count) {
      const auto at = uniform.begin() + first;
      EXPECT_EQ(uniforms<T>(key, count, T(-2), T(3), first), std::vector<T>(at, at + count));
      const auto normal_at = normal.begin() + first;
      EXPECT_EQ(normals<T>(key, count, T(1), T(2), first), std::vector<T>(normal_at, normal_at + count));
    }
  // Far beyond 2^32 elements.
  const Index far = (Index{1} << 40) + 3;
  const std::vector<T> piece = uniforms<T>(key, 8, T(0), T(1), far);
  EXPECT_EQ(uniforms<T>(key, 1, T(0), T(1), far + 5)[0], piece[5]);
  EXPECT_NE(uniforms<T>(key, 1, T(0), T(1), 3 + 5)[0], piece[5]);
}

TEST(Random, ElementIDependsOnKeyAndIndexAlone) {
  expect_independent_of_boundaries<float>();
  expect_independent_of_boundaries<double>();
  const Keep keep({1, 2}, 0.3);
  for (Index first = 0; first < 9; ++first)
    for (Index count = 0; count < 14; ++count) {
      bool kept[14];
      keep.fill(kept, count, first);
      for (Index j = 0; j < count; ++j) EXPECT_EQ(kept[j], keep(first + j));
    }
}

TEST(Random, SingleAndDoublePrecisionComeFromTheSameBits) {
  const Key key{8, 8};
  const auto u32 = uniforms<float>(key, 1000);
  const auto u64 = uniforms<double>(key, 1000);
  const auto z32 = normals<float>(key, 1000, 0.5f, 2.0f);
  const auto z64 = normals<double>(key, 1000, 0.5, 2.0);
  for (std::size_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(u32[i], std::floor(u64[i] * 0x1p24) * 0x1p-24);
    EXPECT_EQ(z32[i], static_cast<float>(z64[i]));
  }
}

TEST(Uniform, MomentsAndDistribution) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const auto u = uniforms<double>({seed, 0}, 200'000);
    double mean = 0, square = 0, neighbours = 0;
    for (std::size_t i = 0; i < u.size(); ++i) {
      mean += u[i] - 0.5;
      square += (u[i] - 0.5) * (u[i] - 0.5);
      if (i > 0) neighbours += (u[i] - 0.5) * (u[i - 1] - 0.5);
    }
    const auto n = static_cast<double>(u.size());
    EXPECT_NEAR(mean / n, 0, 5 * std::sqrt(1 / 12.0 / n));
    EXPECT_NEAR(square / n, 1 / 12.0, 5 * std::sqrt(1 / 180.0 / n));
    EXPECT_NEAR(neighbours / n, 0, 5 / 12.0 / std::sqrt(n));
    EXPECT_LT(kolmogorov(u, [](double x) { return x; }), 2.2);  // chance 1e-4 each
    EXPECT_LT(kolmogorov(uniforms<float>({seed, 1}, 200'000, -3.0f, 5.0f), [](double x) { return (x + 3) / 8; }), 2.2);
  }
}

TEST(Uniform, NeverReachesHighEvenWhereRoundingWould) {
  const float low = 1, high = std::nextafter(1.0f, 2.0f);  // only one value is allowed
  for (const float x : uniforms<float>({1, 1}, 1000, low, high)) EXPECT_EQ(x, low);
  const float wide_high = 1 + 4 * 0x1p-23f;
  std::set<float> values;
  for (const float x : uniforms<float>({1, 1}, 1000, low, wide_high)) values.insert(x);
  EXPECT_EQ(values.size(), 4u);
  EXPECT_EQ(*values.begin(), low);
  EXPECT_LT(*values.rbegin(), wide_high);
  for (const double x : uniforms<double>({1, 1}, 1000, -1e-300, 1e300)) {
    EXPECT_GE(x, -1e-300);
    EXPECT_LT(x, 1e300);
  }
}

TEST(Normal, MomentsAndDistribution) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const auto z = normals<double>({seed, 9}, 200'000);
    double moments[5] = {};
    for (const double x : z)
      for (int power = 1; power <= 4; ++power) moments[power] += std::pow(x, power) / static_cast<double>(z.size());
    const double error = 5 / std::sqrt(static_cast<double>(z.size()));
    EXPECT_NEAR(moments[1], 0, error);
    EXPECT_NEAR(moments[2], 1, error * std::sqrt(2.0));
    EXPECT_NEAR(moments[3], 0, error * std::sqrt(15.0));
    EXPECT_NEAR(moments[4], 3, error * std::sqrt(96.0));
    EXPECT_LT(kolmogorov(z, phi), 2.2);
    EXPECT_LT(kolmogorov(normals<float>({seed, 10}, 200'000, 3.0f, 0.5f), [](double x) { return phi((x - 3) / 0.5); }),
              2.2);
  }
}

TEST(Normal, TailsHaveTheRightWeight) {
  constexpr Index count = 4'000'000;
  const auto z = normals<float>({77, 0}, count);
  for (const double bound : {2.0, 3.0, 4.0}) {
    for (const int side : {-1, 1}) {
      const auto beyond =
          std::count_if(z.begin(), z.end(), [&](float x) { return side * static_cast<double>(x) > bound; });
      const double expected = count * phi(-bound);
      EXPECT_NEAR(static_cast<double>(beyond), expected, 5 * std::sqrt(expected)) << side * bound;
    }
  }
  const auto [least, most] = std::minmax_element(z.begin(), z.end());
  EXPECT_LT(*least, -4.5f);
  EXPECT_GT(*most, 4.5f);
  EXPECT_LT(std::max(-*least, *most), 6.5f);  // chance 3e-4
}

TEST(Normal, QuantileInvertsTheDistributionFunction) {
  EXPECT_EQ(normal_quantile(0.5), 0.0);
  EXPECT_DOUBLE_EQ(normal_quantile(0.975), 1.959963984540054);
  EXPECT_DOUBLE_EQ(normal_quantile(0.25), -0.6744897501960817);
  EXPECT_DOUBLE_EQ(normal_quantile(1e-20), -9.262340089798408);
  // ln Φ(z) moves by about z² for a relative change of z, hence the bound.
  double worst = 0;
  for (double p = 0.4999; p > 1e-300; p *= 0.97) {
    const double z = normal_quantile(p);
    worst = std::max(worst, std::abs(phi(z) / p - 1) / (1 + z * z));
    if (p > 1e-10) { EXPECT_NEAR(normal_quantile(1 - p), -z, 1e-15 / p); }
  }
  EXPECT_LT(worst, 1e-15);
  // The pieces of the approximation meet at q = 0.425 and at r = 5, p = exp(-25).
  for (const double seam : {0.075, std::exp(-25.0)}) {
    const double above = normal_quantile(seam * (1 + 1e-15)), below = normal_quantile(seam * (1 - 1e-15));
    EXPECT_NEAR(above / below, 1, 4e-15);
  }
}

TEST(Keep, HasTheRightRateAndIsIndependentOfItsNeighbours) {
  constexpr Index count = 400'000;
  for (const double p : {0.1, 0.5, 0.9}) {
    const Keep keep({5, 6}, p);
    Index kept = 0, both = 0;
    for (Index i = 0; i < count; ++i) {
      kept += keep(i);
      both += keep(i) && keep(i + 1);
    }
    const double q = 1 - p;
    EXPECT_NEAR(static_cast<double>(kept) / count, q, 5 * std::sqrt(p * q / count));
    EXPECT_NEAR(static_cast<double>(both) / count, q * q, 8 * std::sqrt(q * q * (1 - q * q) / count));
  }
  for (Index i = 0; i < 1000; ++i) {
    EXPECT_TRUE(Keep({5, 6}, 0.0)(i));
    EXPECT_FALSE(Keep({5, 6}, 1.0)(i));
  }
}

TEST(UniformInt, CoversItsRangeEvenly) {
  for (const std::uint64_t bound : {1, 2, 3, 7, 10}) {
    std::vector<double> counts(bound);
    constexpr Index draws = 100'000;
    for (Index i = 0; i < draws; ++i) ++counts.at(uniform_int({3, 1}, i, bound));
    const double expected = draws / static_cast<double>(bound);
    for (const double observed : counts) EXPECT_NEAR(observed, expected, 5 * std::sqrt(expected));
  }
  // 3 · 2^62: a plain remainder would give the first third half of all draws.
  constexpr std::uint64_t bound = std::uint64_t{3} << 62;
  Index first_third = 0;
  for (Index i = 0; i < 100'000; ++i) {
    const std::uint64_t x = uniform_int({3, 1}, i, bound);
    ASSERT_LT(x, bound);
    first_third += x < bound / 3;
  }
  EXPECT_NEAR(static_cast<double>(first_third), 100'000 / 3.0, 5 * std::sqrt(100'000 * 2 / 9.0));
}

TEST(Permutation, HoldsEveryIndexOnceAndAllOrdersAreAlike) {
  EXPECT_TRUE(permutation({1, 1}, 0).empty());
  EXPECT_EQ(permutation({1, 1}, 1), std::vector<Index>{0});
  auto order = permutation({1, 1}, 5000);
  EXPECT_NE(order, permutation({1, 2}, 5000));
  std::sort(order.begin(), order.end());
  for (Index i = 0; i < 5000; ++i) ASSERT_EQ(order[static_cast<std::size_t>(i)], i);

  std::vector<double> counts(24);
  constexpr int draws = 48'000;
  for (std::uint64_t stream = 0; stream < draws; ++stream) {
    const auto p = permutation({9, stream}, 4);
    std::size_t rank = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const auto smaller_later =
          std::count_if(p.begin() + static_cast<Index>(i), p.end(), [&](Index x) { return x < p[i]; });
      rank = rank * (4 - i) + static_cast<std::size_t>(smaller_later);
    }
    ++counts.at(rank);
  }
  for (const double observed : counts) EXPECT_NEAR(observed, draws / 24.0, 5 * std::sqrt(draws / 24.0));
}

TEST(Random, ErrorsToTheLetter) {
  float x;
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(message_of([&] {
              fill_uniform({1, 1}, &x, 1, 2.0f, 2.0f);
            }),
            "uniform: low must be below high and high - low finite; got low 2 and high 2");
  EXPECT_EQ(message_of([&] {
              fill_uniform({1, 1}, &x, 1, -3e38f, 3e38f);
            }),
            "uniform: low must be below high and high - low finite; got low -3e+38 and high 3e+38");
  EXPECT_EQ(message_of([&] {
              fill_normal({1, 1}, &x, 1, 0.0f, -1.0f);
            }),
            "normal: mean and deviation must be finite, and deviation not negative; got mean 0 and deviation -1");
  EXPECT_EQ(message_of([&] {
              fill_normal({1, 1}, &x, 1, infinity, 1.0f);
            }),
            "normal: mean and deviation must be finite, and deviation not negative; got mean inf and deviation 1");
  EXPECT_EQ(message_of([] { normal_quantile(1.0); }), "normal_quantile: p must be in (0, 1); got 1");
  EXPECT_EQ(message_of([] { Keep({1, 1}, 1.5); }), "dropout: p must be in [0, 1]; got 1.5");
  EXPECT_EQ(message_of([] { Keep({1, 1}, std::nan("")); }), "dropout: p must be in [0, 1]; got nan");
  EXPECT_EQ(message_of([] { uniform_int({1, 1}, 0, 0); }), "uniform_int: bound must be at least 1; got 0");
  EXPECT_EQ(message_of([] { permutation({1, 1}, -1); }), "permutation: count must not be negative; got -1");
}

}  // namespace
}  // namespace capstan
