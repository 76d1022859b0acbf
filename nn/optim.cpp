#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/nn/optim.h>
#include <capstan/ops/kernels/optimizer.h>
#include <capstan/ops/kernels/parallel.h>

#include <algorithm>
#include <cmath>

namespace capstan::nn {

namespace {

void check_pair(const char* optimizer, const detail::Pair& pair) {
  if (!pair.parameter->defined() || !is_float(pair.parameter->dtype()))
    fail("{}: a parameter must be f32 or f64; got {} for {}", optimizer,
         pair.parameter->defined() ? name_of(pair.parameter->dtype()) : "an empty handle", pair.name);
  if (!pair.gradient.defined() || pair.gradient.shape() != pair.parameter->shape() ||
      pair.gradient.dtype() != pair.parameter->dtype())
    fail("{}: a gradient must have its parameter's shape and dtype; got {} for {} {} {}", optimizer,
         pair.gradient.defined() ? fmt::format("{} {}", pair.gradient.dtype(), pair.gradient.shape())
                                 : std::string("none"),
         pair.name, pair.parameter->dtype(), pair.parameter->shape());
}

void check_state(const char* optimizer, const detail::Pair& pair, const Tensor& state) {
  if (state.shape() != pair.parameter->shape() || state.dtype() != pair.parameter->dtype())
    fail("{}: the state must have its parameter's shape and dtype; got {} {} for {} {} {}", optimizer, state.dtype(),
         state.shape(), pair.name, pair.parameter->dtype(), pair.parameter->shape());
}

/// Takes the tensor's memory to write in: in place if the module is its only owner.
Buffer take(Tensor& x) { return std::move(x).to_buffer(); }

}  // namespace

void detail::check_count(std::size_t gradients, std::size_t parameters) {
  if (gradients != parameters)
    fail("optimizer: there must be a gradient for each parameter; got {} for {}", gradients, parameters);
}

bool decay_matrices(std::string_view, const Tensor& parameter) { return parameter.rank() >= 2; }

// ---- AdamW ----------------------------------------------------------------------------------------------------------

void AdamW::update(std::vector<detail::Pair> pairs) {
  for (const detail::Pair& pair : pairs) {
    check_pair("AdamW", pair);
    const auto own = state.find(pair.name);
    if (own == state.end()) continue;
    check_state("AdamW", pair, own->second.first_moment);
    check_state("AdamW", pair, own->second.second_moment);
  }
  for (detail::Pair& pair : pairs) {
    State& own = state[pair.name];
    if (!own.first_moment.defined()) {
      own.first_moment = zeros(pair.parameter->shape(), pair.parameter->dtype());
      own.second_moment = zeros(pair.parameter->shape(), pair.parameter->dtype());
    }
    const bool decayed = decays == nullptr || decays(pair.name, *pair.parameter);
    const kernels::AdamWStep options{.lr = lr,
                                     .beta1 = beta1,
                                     .beta2 = beta2,
                                     .eps = eps,
                                     .weight_decay = decayed ? weight_decay : 0,
                                     .step = ++own.steps};
    const Tensor gradient = pair.gradient.dense();
    Buffer p = take(*pair.parameter), m = take(own.first_moment), v = take(own.second_moment);
    visit_float(p.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::adamw(p.elements(), p.data<T>().data(), gradient.data<T>().data(), m.data<T>().data(),
                     v.data<T>().data(), options);
    });
    *pair.parameter = Tensor(std::move(p));
    own.first_moment = Tensor(std::move(m));
    own.second_moment = Tensor(std::move(v));
  }
}

StateDict AdamW::state_dict() const {
  StateDict saved;
  for (const auto& [name, own] : state) {
    saved.emplace("first_moment." + name, own.first_moment);
    saved.emplace("second_moment." + name, own.second_moment);
    saved.emplace("steps." + name, full({}, static_cast<double>(own.steps), DType::f64));
  }
  return saved;
}

void AdamW::load_state(const StateDict& saved) {
  const StateDict first = select(saved, "first_moment."), second = select(saved, "second_moment."),
                  steps = select(saved, "steps.");
  if (first.size() != second.size() || first.size() != steps.size() || first.size() * 3 != saved.size())
    fail(
        "AdamW: the state must hold a first_moment, a second_moment and steps for each name; got {}, {} and {} of them "
        "among {} tensors",
        first.size(), second.size(), steps.size(), saved.size());
  std::map<std::string, State> loaded;
  for (const auto& [name, x] : first) {
    const auto v = second.find(name), t = steps.find(name);
    if (v == second.end() || t == steps.end())
      fail("AdamW: the state must hold a second_moment and steps for each name; got none for {}", name);
    const double count = t->second.item();
    if (!(count >= 0 && count <= 0x1p53) || count != std::floor(count))
      fail("AdamW: steps must be a whole number, not negative; got {} for {}", count, name);
    if (!is_float(x.dtype()) || v->second.dtype() != x.dtype() || v->second.shape() != x.shape())
      fail("AdamW: the moments must be f32 or f64, of one shape and dtype; got {} {} and {} {} for {}", x.dtype(),
           x.shape(), v->second.dtype(), v->second.shape(), name);
    loaded[name] = {x, v->second, static_cast<Index>(count)};
  }
  state = std::move(loaded);
}

// ---- Sgd --------------------------------------------------------------------------------------------------------------

void Sgd::update(std::vector<detail::Pair> pairs) {
  for (const detail::Pair& pair : pairs) {
    check_pair("Sgd", pair);
    const auto own = state.find(pair.name);
    if (own != state.end()) check_state("Sgd", pair, own->second);
  }
  for (detail::Pair& pair : pairs) {
    kernels::SgdStep options{.lr = lr,
                             .momentum = momentum,
                             .dampening = dampening,
                             .weight_decay = weight_decay,
                             .nesterov = nesterov,
                             .first = false};
    const Tensor gradient = pair.gradient.dense();
    Buffer p = take(*pair.parameter);
    visit_float(p.dtype(), [&](auto zero) {
      using T = decltype(zero);
      if (momentum == 0)
        return kernels::sgd(p.elements(), p.data<T>().data(), gradient.data<T>().data(), static_cast<T*>(nullptr),
                            options);
      Tensor& own = state[pair.name];
      options.first = !own.defined();
      Buffer buffer = options.first ? Buffer(p.shape(), p.dtype()) : take(own);
      kernels::sgd(p.elements(), p.data<T>().data(), gradient.data<T>().data(), buffer.data<T>().data(), options);
      own = Tensor(std::move(buffer));
    });
    *pair.parameter = Tensor(std::move(p));
  }
}

StateDict Sgd::state_dict() const {
  StateDict saved;
  for (const auto& [name, buffer] : state) saved.emplace("momentum." + name, buffer);
  return saved;
}

void Sgd::load_state(const StateDict& saved) {
  StateDict loaded = select(saved, "momentum.");
  if (loaded.size() != saved.size())
    fail("Sgd: the state must hold only names that begin with momentum.; got {} others", saved.size() - loaded.size());
  state = std::move(loaded);
}

// ---- clipping -----------------------------------------------------------------------------------------------------------

namespace {

/// Reduces fixed blocks in parallel, then the blocks' results in order: the same bytes for any thread count.
template <class Block>
double blockwise(Index count, double start, Block&& block, double (*join)(double, double)) {
  constexpr Index grain = 1 << 15;
  std::vector<double> partial(static_cast<std::size_t>((count + grain - 1) / grain), start);
  kernels::parallel_blocks(kernels::Region::optimizer, count, grain, [&](Index begin, Index end) {
    partial[static_cast<std::size_t>(begin / grain)] = block(begin, end);
  });
  double result = start;
  for (const double part : partial) result = join(result, part);
  return result;
}

double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double plus(double a, double b) { return a + b; }

double largest_magnitude(const Tensor& x) {
  return visit_float(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* at = x.data<T>().data();
    return blockwise(
        x.elements(), 0,
        [&](Index begin, Index end) {
          double largest = 0;
          for (Index i = begin; i < end; ++i) largest = larger(largest, std::abs(static_cast<double>(at[i])));
          return largest;
        },
        larger);
  });
}

double scaled_square_sum(const Tensor& x, double factor) {
  return visit_float(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* at = x.data<T>().data();
    return blockwise(
        x.elements(), 0,
        [&](Index begin, Index end) {
          double sum = 0;
          for (Index i = begin; i < end; ++i) {
            const double scaled = static_cast<double>(at[i]) * factor;
            sum += scaled * scaled;
          }
          return sum;
        },
        plus);
  });
}

}  // namespace

double detail::clip(const std::vector<Tensor*>& gradients, double max_norm) {
  if (!(max_norm > 0)) fail("clip_gradient_norm: max_norm must be positive; got {}", max_norm);
  std::vector<Tensor> dense;
  double largest = 0;
  for (const Tensor* x : gradients) {
    dense.push_back(x->dense());
    largest = larger(largest, largest_magnitude(dense.back()));
  }
  if (!std::isfinite(largest))
    fail("clip_gradient_norm: gradients must be finite; got {}; nothing was changed", largest);
  if (largest == 0) return 0;
  // Scaled by a power of two near the largest magnitude: the squares neither overflow nor vanish, and scaling is exact.
  const int exponent = std::max(std::ilogb(largest), -1000);  // 2^1074 is beyond f64
  double sum = 0;
  for (const Tensor& x : dense) sum += scaled_square_sum(x, std::scalbn(1.0, -exponent));
  const double norm = std::scalbn(std::sqrt(sum), exponent);
  if (!std::isfinite(norm)) fail("clip_gradient_norm: the norm must be finite; got {}; nothing was changed", norm);
  const double factor = max_norm / (norm + 1e-6);
  if (factor >= 1) return norm;
  dense.clear();
  for (Tensor* x : gradients) {
    Buffer buffer = take(*x);
    visit_float(buffer.dtype(), [&](auto zero) {
      using T = decltype(zero);
      T* at = buffer.data<T>().data();
      kernels::parallel_blocks(kernels::Region::optimizer, buffer.elements(), 1 << 15, [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) at[i] = static_cast<T>(static_cast<double>(at[i]) * factor);
      });
    });
    *x = Tensor(std::move(buffer));
  }
  return norm;
}

}  // namespace capstan::nn
