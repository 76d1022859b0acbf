#include "ops/kernels/arrays.h"

#include <capstan/ops/kernels/optimizer.h>

namespace capstan::kernels::test {
namespace {

TEST(AdamWKernel, FirstStepDecaysFirst) {
  double p = 1, g = 1, m = 0, v = 0;
  adam<double>(1, &p, &g, &m, &v, nullptr, {.lr = 0.1, .weight_decay = 0.1});
  EXPECT_NEAR(p, 0.89, 1e-8);
}

TEST(AdamWKernel, EpsilonComesAfterTheBiasCorrection) {
  double p = 0, g = 1e-6, m = 0, v = 0;
  adam<double>(1, &p, &g, &m, &v, nullptr, {.lr = 1e-3});
  EXPECT_NEAR(-p / 1e-3, 0.990099, 1e-6);
}

template <class T>
void expect_adamw_trace() {
  for_each_target([] {
    Random random(1);
    const Index n = 37;
    Array<T> p(Shape{n}), g(Shape{n}), m(Shape{n}), v(Shape{n});
    randomize(p, random);
    std::vector<double> want_p, want_m(n), want_v(n);
    for (Index i = 0; i < n; ++i) want_p.push_back(static_cast<double>(p[i]));
    for (int step = 1; step <= 12; ++step) {
      randomize(g, random);
      AdamStep options{.lr = 1e-2, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.03, .step = step};
      adam<T>(n, p.data(), g.data(), m.data(), v.data(), nullptr, options);
      for (Index i = 0; i < n; ++i) {
        const std::size_t at = static_cast<std::size_t>(i);
        const double gradient = static_cast<double>(g[i]);
        want_p[at] *= 1 - 1e-2 * 0.03;
        want_m[at] = 0.8 * want_m[at] + 0.2 * gradient;
        want_v[at] = 0.95 * want_v[at] + 0.05 * gradient * gradient;
        want_p[at] -=
            1e-2 * want_m[at] / (1 - std::pow(0.8, step)) / (std::sqrt(want_v[at] / (1 - std::pow(0.95, step))) + 1e-6);
        expect_near(static_cast<double>(p[i]), want_p[at], 20 * epsilon<T>, 20 * epsilon<T>);
      }
    }
  });
}

TEST(AdamWKernel, TraceOfTwelveSteps) {
  expect_adamw_trace<float>();
  expect_adamw_trace<double>();
}

TEST(SgdKernel, AllItsOptions) {
  for_each_target([] {
    for (const SgdStep& base :
         {SgdStep{.lr = 0.1}, SgdStep{.lr = 0.1, .weight_decay = 0.2}, SgdStep{.lr = 0.1, .momentum = 0.9},
          SgdStep{.lr = 0.1, .momentum = 0.9, .dampening = 0.3},
          SgdStep{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true}}) {
      Random random(2);
      const Index n = 21;
      Array<double> p(Shape{n}), g(Shape{n}), buffer(Shape{n});
      randomize(p, random);
      buffer.fill_all(NAN);  // the first step must not read it
      std::vector<double> want_p, want_b(n);
      for (Index i = 0; i < n; ++i) want_p.push_back(p[i]);
      for (int step = 0; step < 5; ++step) {
        randomize(g, random);
        SgdStep options = base;
        options.first = step == 0;
        sgd<double>(n, p.data(), g.data(), base.momentum == 0 ? nullptr : buffer.data(), options);
        for (Index i = 0; i < n; ++i) {
          const std::size_t at = static_cast<std::size_t>(i);
          double direction = g[i] + base.weight_decay * want_p[at];
          if (base.momentum != 0) {
            want_b[at] = step == 0 ? direction : base.momentum * want_b[at] + (1 - base.dampening) * direction;
            direction = base.nesterov ? direction + base.momentum * want_b[at] : want_b[at];
          }
          want_p[at] -= 0.1 * direction;
          expect_near(p[i], want_p[at], 1e-14, 1e-14);
        }
      }
    }
  });
}

TEST(AdamKernel, DecayInTheGradientAndTheLargestSecondMoment) {
  for_each_target([] {
    Random random(4);
    const Index n = 21;
    Array<double> p(Shape{n}), g(Shape{n}), m(Shape{n}), v(Shape{n}), largest(Shape{n});
    randomize(p, random);
    std::vector<double> want_p, want_m(n), want_v(n), want_largest(n);
    for (Index i = 0; i < n; ++i) want_p.push_back(p[i]);
    for (int step = 1; step <= 6; ++step) {
      randomize(g, random);
      adam<double>(
          n, p.data(), g.data(), m.data(), v.data(), largest.data(),
          {.lr = 1e-2, .beta1 = 0.8, .beta2 = 0.5, .weight_decay = 0.3, .decay_in_gradient = true, .step = step});
      for (Index i = 0; i < n; ++i) {
        const std::size_t at = static_cast<std::size_t>(i);
        const double gradient = g[i] + 0.3 * want_p[at];
        want_m[at] = 0.8 * want_m[at] + 0.2 * gradient;
        want_v[at] = 0.5 * want_v[at] + 0.5 * gradient * gradient;
        want_largest[at] = std::max(want_largest[at], want_v[at]);
        want_p[at] -= 1e-2 * want_m[at] / (1 - std::pow(0.8, step)) /
                      (std::sqrt(want_largest[at] / (1 - std::pow(0.5, step))) + 1e-8);
        expect_near(p[i], want_p[at], 1e-13, 1e-13);
        expect_near(largest[i], want_largest[at], 1e-13, 1e-13);
      }
    }
  });
}

TEST(RmsPropKernel, AllItsOptions) {
  for_each_target([] {
    for (const bool centered : {false, true})
      for (const RmsPropStep& options : {RmsPropStep{.lr = 0.1, .alpha = 0.9, .eps = 1e-3},
                                         RmsPropStep{.lr = 0.1, .alpha = 0.9, .weight_decay = 0.2, .momentum = 0.7}}) {
        Random random(5);
        const Index n = 21;
        Array<double> p(Shape{n}), g(Shape{n}), v(Shape{n}), a(Shape{n}), b(Shape{n});
        randomize(p, random);
        std::vector<double> want_p, want_v(n), want_a(n), want_b(n);
        for (Index i = 0; i < n; ++i) want_p.push_back(p[i]);
        for (int step = 0; step < 5; ++step) {
          randomize(g, random);
          rms_prop<double>(n, p.data(), g.data(), v.data(), centered ? a.data() : nullptr,
                           options.momentum == 0 ? nullptr : b.data(), options);
          for (Index i = 0; i < n; ++i) {
            const std::size_t at = static_cast<std::size_t>(i);
            const double gradient = g[i] + options.weight_decay * want_p[at];
            want_v[at] = 0.9 * want_v[at] + 0.1 * gradient * gradient;
            want_a[at] = 0.9 * want_a[at] + 0.1 * gradient;
            const double variance = want_v[at] - (centered ? want_a[at] * want_a[at] : 0);
            want_b[at] = options.momentum * want_b[at] + gradient / (std::sqrt(variance) + options.eps);
            want_p[at] -= 0.1 * want_b[at];
            expect_near(p[i], want_p[at], 1e-12, 1e-12);
          }
        }
      }
  });
}

TEST(RmsPropKernel, AConstantGradientHasNoVarianceAndNoNaN) {
  double p = 1, g = 0.1, v = 0, a = 0;
  for (int step = 0; step < 2000; ++step) rms_prop<double>(1, &p, &g, &v, &a, nullptr, {.lr = 1e-6, .alpha = 0.9});
  EXPECT_TRUE(std::isfinite(p));
}

TEST(LionKernel, MovesByTheSignAndStaysAtZero) {
  for_each_target([] {
    const Index n = 5;
    Array<double> p(Shape{n}), g(Shape{n}), m(Shape{n});
    const double gradients[] = {2, -3, 0, 1e-300, NAN}, moments[] = {0, 1, 0, -1, 0};
    for (Index i = 0; i < n; ++i) p[i] = 1, g[i] = gradients[i], m[i] = moments[i];
    lion<double>(n, p.data(), g.data(), m.data(), {.lr = 0.25, .beta1 = 0.5, .beta2 = 0.75, .weight_decay = 2});
    EXPECT_EQ(p[0], 0.5 - 0.25);
    EXPECT_EQ(p[1], 0.5 + 0.25);
    EXPECT_EQ(p[2], 0.5);
    EXPECT_EQ(p[3], 0.5 + 0.25);
    EXPECT_TRUE(std::isnan(p[4]));
    EXPECT_EQ(m[0], 0.5);
    EXPECT_EQ(m[1], 0);
  });
}

TEST(OptimizerKernels, SameBytesForAnyThreadCount) {
  Random random(3);
  const Index n = 100003;
  Array<float> start(Shape{n}), g(Shape{n});
  randomize(start, random), randomize(g, random);
  const auto run = [&](bool by_adam) {
    Array<float> p(Shape{n}), m(Shape{n}), v(Shape{n});
    for (Index i = 0; i < n; ++i) p[i] = start[i];
    if (by_adam) {
      adam<float>(n, p.data(), g.data(), m.data(), v.data(), nullptr, {});
    } else {
      sgd<float>(n, p.data(), g.data(), m.data(), {.momentum = 0.9, .first = true});
    }
    return p.bytes() + m.bytes() + v.bytes();
  };
  expect_same_bytes(Region::optimizer, [&] { return run(true); });
  expect_same_bytes(Region::optimizer, [&] { return run(false); });
  expect_same_bytes(Region::optimizer, [&] {
    Array<float> p(Shape{n}), m(Shape{n}), v(Shape{n});
    for (Index i = 0; i < n; ++i) p[i] = start[i];
    rms_prop<float>(n, p.data(), g.data(), m.data(), v.data(), nullptr, {});
    lion<float>(n, p.data(), g.data(), m.data(), {});
    return p.bytes() + m.bytes() + v.bytes();
  });
}

}  // namespace
}  // namespace capstan::kernels::test
