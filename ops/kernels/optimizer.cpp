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
HWY_INLINE void AdamOf(Index n, T* p, const T* g, T* m, T* v, T* largest, const AdamStep& o) {
  const hn::ScalableTag<T> d;
  const double steps = static_cast<double>(o.step);
  const double correction1 = 1 - std::pow(o.beta1, steps), correction2 = 1 - std::pow(o.beta2, steps);
  const auto keep = hn::Set(d, static_cast<T>(o.decay_in_gradient ? 1 : 1 - o.lr * o.weight_decay));
  const auto decay = hn::Set(d, static_cast<T>(o.weight_decay));
  const auto mix = hn::Set(d, static_cast<T>(1 - o.beta1));
  const auto beta2 = hn::Set(d, static_cast<T>(o.beta2)), rest2 = hn::Set(d, static_cast<T>(1 - o.beta2));
  const auto root = hn::Set(d, static_cast<T>(std::sqrt(correction2)));
  const auto eps = hn::Set(d, static_cast<T>(o.eps));
  const auto step = hn::Set(d, static_cast<T>(o.lr / correction1));
  const bool penalty = o.decay_in_gradient && o.weight_decay != 0;
  RowEach<T>(n, [&](const auto& at) HWY_ATTR {
    const auto value = at.Load(p);
    auto gradient = at.Load(g);
    if (penalty) gradient = hn::MulAdd(decay, value, gradient);
    const auto old = at.Load(m);
    const auto first = hn::MulAdd(mix, hn::Sub(gradient, old), old);
    auto second = hn::MulAdd(hn::Mul(rest2, gradient), gradient, hn::Mul(at.Load(v), beta2));
    at.Store(first, m);
    at.Store(second, v);
    if (largest != nullptr) {
      second = hn::Max(at.Load(largest), second);  // in this order a NaN stays
      at.Store(second, largest);
    }
    const auto scale = hn::Add(hn::Div(hn::Sqrt(second), root), eps);
    at.Store(hn::NegMulAdd(step, hn::Div(first, scale), hn::Mul(value, keep)), p);
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

template <class T>
HWY_INLINE void RmsPropOf(Index n, T* p, const T* g, T* v, T* average, T* buffer, const RmsPropStep& o) {
  const hn::ScalableTag<T> d;
  const auto lr = hn::Set(d, static_cast<T>(o.lr)), decay = hn::Set(d, static_cast<T>(o.weight_decay));
  const auto alpha = hn::Set(d, static_cast<T>(o.alpha)), rest = hn::Set(d, static_cast<T>(1 - o.alpha));
  const auto eps = hn::Set(d, static_cast<T>(o.eps)), momentum = hn::Set(d, static_cast<T>(o.momentum));
  RowEach<T>(n, [&](const auto& at) HWY_ATTR {
    const auto value = at.Load(p);
    auto gradient = at.Load(g);
    if (o.weight_decay != 0) gradient = hn::MulAdd(decay, value, gradient);
    auto square = hn::MulAdd(hn::Mul(rest, gradient), gradient, hn::Mul(at.Load(v), alpha));
    at.Store(square, v);
    if (average != nullptr) {
      const auto old = at.Load(average);
      const auto mean = hn::MulAdd(rest, hn::Sub(gradient, old), old);
      at.Store(mean, average);
      // Rounding may bring a variance of 0 below it. In this order a NaN stays.
      square = hn::Max(hn::Zero(d), hn::NegMulAdd(mean, mean, square));
    }
    auto direction = hn::Div(gradient, hn::Add(hn::Sqrt(square), eps));
    if (buffer != nullptr) {
      direction = hn::MulAdd(momentum, at.Load(buffer), direction);
      at.Store(direction, buffer);
    }
    at.Store(hn::NegMulAdd(lr, direction, value), p);
  });
}

template <class T>
HWY_INLINE void LionOf(Index n, T* p, const T* g, T* m, const LionStep& o) {
  const hn::ScalableTag<T> d;
  const auto keep = hn::Set(d, static_cast<T>(1 - o.lr * o.weight_decay)), lr = hn::Set(d, static_cast<T>(o.lr));
  const auto beta1 = hn::Set(d, static_cast<T>(o.beta1)), rest1 = hn::Set(d, static_cast<T>(1 - o.beta1));
  const auto beta2 = hn::Set(d, static_cast<T>(o.beta2)), rest2 = hn::Set(d, static_cast<T>(1 - o.beta2));
  RowEach<T>(n, [&](const auto& at) HWY_ATTR {
    const auto gradient = at.Load(g), old = at.Load(m);
    const auto mixed = hn::MulAdd(beta1, old, hn::Mul(rest1, gradient));
    const auto moved = hn::CopySign(lr, mixed);
    // 0 and NaN stay what they are.
    const auto step = hn::IfThenElse(hn::Gt(hn::Abs(mixed), hn::Zero(d)), moved, mixed);
    at.Store(hn::Sub(hn::Mul(at.Load(p), keep), step), p);
    at.Store(hn::MulAdd(beta2, old, hn::Mul(rest2, gradient)), m);
  });
}

HWY_ATTR void AdamF32(Index n, float* p, const float* g, float* m, float* v, float* largest, const AdamStep& o) {
  AdamOf(n, p, g, m, v, largest, o);
}
HWY_ATTR void AdamF64(Index n, double* p, const double* g, double* m, double* v, double* largest, const AdamStep& o) {
  AdamOf(n, p, g, m, v, largest, o);
}
HWY_ATTR void SgdF32(Index n, float* p, const float* g, float* b, const SgdStep& o) { SgdOf(n, p, g, b, o); }
HWY_ATTR void SgdF64(Index n, double* p, const double* g, double* b, const SgdStep& o) { SgdOf(n, p, g, b, o); }
HWY_ATTR void RmsPropF32(Index n, float* p, const float* g, float* v, float* a, float* b, const RmsPropStep& o) {
  RmsPropOf(n, p, g, v, a, b, o);
}
HWY_ATTR void RmsPropF64(Index n, double* p, const double* g, double* v, double* a, double* b, const RmsPropStep& o) {
  RmsPropOf(n, p, g, v, a, b, o);
}
HWY_ATTR void LionF32(Index n, float* p, const float* g, float* m, const LionStep& o) { LionOf(n, p, g, m, o); }
HWY_ATTR void LionF64(Index n, double* p, const double* g, double* m, const LionStep& o) { LionOf(n, p, g, m, o); }

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {
namespace {

HWY_EXPORT(AdamF32);
HWY_EXPORT(AdamF64);
HWY_EXPORT(SgdF32);
HWY_EXPORT(SgdF64);
HWY_EXPORT(RmsPropF32);
HWY_EXPORT(RmsPropF64);
HWY_EXPORT(LionF32);
HWY_EXPORT(LionF64);

/// Elements a task.
constexpr Index grain = 16384;

/// Runs a kernel on blocks of every array; a null one stays null.
template <class Kernel, class Step, class T, class... Arrays>
void in_blocks(Kernel kernel, const Step& options, Index n, T* p, const T* g, Arrays*... state) {
  parallel_blocks(Region::optimizer, n, grain, [&](Index i, Index end) {
    kernel(end - i, p + i, g + i, (state == nullptr ? nullptr : state + i)..., options);
  });
}

}  // namespace

template <>
void adam(Index n, float* p, const float* g, float* m, float* v, float* largest, const AdamStep& options) {
  in_blocks(HWY_DYNAMIC_DISPATCH(AdamF32), options, n, p, g, m, v, largest);
}
template <>
void adam(Index n, double* p, const double* g, double* m, double* v, double* largest, const AdamStep& options) {
  in_blocks(HWY_DYNAMIC_DISPATCH(AdamF64), options, n, p, g, m, v, largest);
}

template <>
void sgd(Index n, float* p, const float* g, float* buffer, const SgdStep& options) {
  in_blocks(HWY_DYNAMIC_DISPATCH(SgdF32), options, n, p, g, buffer);
}
template <>
void sgd(Index n, double* p, const double* g, double* buffer, const SgdStep& options) {
  in_blocks(HWY_DYNAMIC_DISPATCH(SgdF64), options, n, p, g, buffer);
}

template <>
void rms_prop(Index n, float* p, const float* g, float* v, float* average, float* buffer, const RmsPropStep& options) {
  in_blocks(HWY_DYNAMIC_DISPATCH(RmsPropF32), options, n, p, g, v, average, buffer);
}
template <>
void rms_prop(Index n, double* p, const double* g, double* v, double* average, double* buffer, const RmsPropStep& options) {
  in_blocks(HWY_DYNAMIC_DISPATCH(RmsPropF64), options, n, p, g, v, average, buffer);
}

template <>
void lion(Index n, float* p, const float* g, float* m, const LionStep& options) {
  in_blocks(HWY_DYNAMIC_DISPATCH(LionF32), options, n, p, g, m);
}
template <>
void lion(Index n, double* p, const double* g, double* m, const LionStep& options) {
  in_blocks(HWY_DYNAMIC_DISPATCH(LionF64), options, n, p, g, m);
}

}  // namespace capstan::kernels
#endif
