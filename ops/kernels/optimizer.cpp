// One pass over each parameter's memory, which is what an update costs; on SIMD for square root and division.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <capstan/ops/kernels/optimizer.cpp>
#include <capstan/ops/kernels/optimizer.h>
#include <capstan/ops/kernels/parallel.h>
#include <capstan/ops/kernels/simd.h>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <capstan/ops/kernels/row_loops-inl.h>

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

template <class T>
HWY_INLINE void AdamWOf(Index n, T* p, const T* g, T* m, T* v, const AdamWStep& o) {
  const hn::ScalableTag<T> d;
  const double steps = static_cast<double>(o.step);
  const double correction1 = 1 - std::pow(o.beta1, steps), correction2 = 1 - std::pow(o.beta2, steps);
  const auto keep = hn::Set(d, static_cast<T>(1 - o.lr * o.weight_decay));
  const auto mix = hn::Set(d, static_cast<T>(1 - o.beta1));
  const auto beta2 = hn::Set(d, static_cast<T>(o.beta2)), rest2 = hn::Set(d, static_cast<T>(1 - o.beta2));
  const auto root = hn::Set(d, static_cast<T>(std::sqrt(correction2)));
  const auto eps = hn::Set(d, static_cast<T>(o.eps));
  const auto step = hn::Set(d, static_cast<T>(o.lr / correction1));
  RowEach<T>(n, [&](const auto& at) HWY_ATTR {
    const auto gradient = at.Load(g);
    const auto old = at.Load(m);
    const auto first = hn::MulAdd(mix, hn::Sub(gradient, old), old);
    const auto second = hn::MulAdd(hn::Mul(rest2, gradient), gradient, hn::Mul(at.Load(v), beta2));
    at.Store(first, m);
    at.Store(second, v);
    const auto scale = hn::Add(hn::Div(hn::Sqrt(second), root), eps);
    at.Store(hn::NegMulAdd(step, hn::Div(first, scale), hn::Mul(at.Load(p), keep)), p);
  });
}

template <class T>
HWY_INLINE void SgdOf(Index n, T* p, const T* g, T* buffer, const SgdStep& o) {
  const hn::ScalableTag<T> d;
  const auto lr = hn::Set(d, static_cast<T>(o.lr)), decay = hn::Set(d, static_cast<T>(o.weight_decay));
  const auto momentum = hn::Set(d, static_cast<T>(o.momentum)), fresh = hn::Set(d, static_cast<T>(1 - o.dampening));
  RowEach<T>(n, [&](const auto& at) HWY_ATTR {
    const auto value = at.Load(p);
    auto direction = at.Load(g);
    if (o.weight_decay != 0) direction = hn::MulAdd(decay, value, direction);
    if (o.momentum != 0) {
      const auto moved = o.first ? direction : hn::MulAdd(momentum, at.Load(buffer), hn::Mul(fresh, direction));
      at.Store(moved, buffer);
      direction = o.nesterov ? hn::MulAdd(momentum, moved, direction) : moved;
    }
    at.Store(hn::NegMulAdd(lr, direction, value), p);
  });
}

HWY_ATTR void AdamWF32(Index n, float* p, const float* g, float* m, float* v, const AdamWStep& o) {
  AdamWOf(n, p, g, m, v, o);
}
HWY_ATTR void AdamWF64(Index n, double* p, const double* g, double* m, double* v, const AdamWStep& o) {
  AdamWOf(n, p, g, m, v, o);
}
HWY_ATTR void SgdF32(Index n, float* p, const float* g, float* b, const SgdStep& o) { SgdOf(n, p, g, b, o); }
HWY_ATTR void SgdF64(Index n, double* p, const double* g, double* b, const SgdStep& o) { SgdOf(n, p, g, b, o); }

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {
namespace {

HWY_EXPORT(AdamWF32);
HWY_EXPORT(AdamWF64);
HWY_EXPORT(SgdF32);
HWY_EXPORT(SgdF64);

/// Elements a task.
constexpr Index grain = 16384;

}  // namespace

void adamw(Index n, float* p, const float* g, float* m, float* v, const AdamWStep& options) {
  const auto kernel = HWY_DYNAMIC_DISPATCH(AdamWF32);
  parallel_blocks(Region::optimizer, n, grain,
                  [&](Index i, Index end) { kernel(end - i, p + i, g + i, m + i, v + i, options); });
}

void adamw(Index n, double* p, const double* g, double* m, double* v, const AdamWStep& options) {
  const auto kernel = HWY_DYNAMIC_DISPATCH(AdamWF64);
  parallel_blocks(Region::optimizer, n, grain,
                  [&](Index i, Index end) { kernel(end - i, p + i, g + i, m + i, v + i, options); });
}

void sgd(Index n, float* p, const float* g, float* buffer, const SgdStep& options) {
  const auto kernel = HWY_DYNAMIC_DISPATCH(SgdF32);
  parallel_blocks(Region::optimizer, n, grain, [&](Index i, Index end) {
    kernel(end - i, p + i, g + i, buffer == nullptr ? nullptr : buffer + i, options);
  });
}

void sgd(Index n, double* p, const double* g, double* buffer, const SgdStep& options) {
  const auto kernel = HWY_DYNAMIC_DISPATCH(SgdF64);
  parallel_blocks(Region::optimizer, n, grain, [&](Index i, Index end) {
    kernel(end - i, p + i, g + i, buffer == nullptr ? nullptr : buffer + i, options);
  });
}

}  // namespace capstan::kernels
#endif
