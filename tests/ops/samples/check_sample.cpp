#include "ops/samples/check_sample.h"

#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/kernels/parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace capstan::test {

namespace {

using List = std::vector<Tensor>;

/// Values and gradients of one call.
struct Outcome {
  List outputs;
  List gradients;  // for each input; empty where it was not watched
  std::vector<std::string_view> names;
};

struct RunOptions {
  std::optional<std::size_t> output = {};  // the only one with a cotangent; none: all
  std::optional<std::size_t> input = {};   // the only one that is watched; none: all
  bool create_graph = false;
  Tensor (*place)(const Tensor&) = nullptr;  // moves a cotangent in memory
};

Tensor cotangent_for(const Tensor& y, std::size_t output) {
  return normal(Key{.seed = 77, .stream = output}, y.shape(), 0, 1, y.dtype());
}

Outcome run(const Sample& sample, const List& inputs, const RunOptions& options = {}) {
  Tape tape;
  List watched = inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (is_float(inputs[i].dtype()) && options.input.value_or(i) == i) watched[i] = tape.watch(inputs[i]);
  Outcome outcome{sample.f(watched), List(inputs.size()), tape.names()};
  std::vector<Root> roots;
  for (std::size_t o = 0; o < outcome.outputs.size(); ++o) {
    const Tensor& y = outcome.outputs[o];
    if (!y.recorded() || options.output.value_or(o) != o) continue;
    const Tensor cotangent = cotangent_for(y, o);
    roots.push_back({y, options.place ? options.place(cotangent) : cotangent});
  }
  if (roots.empty()) return outcome;
  const Gradients gradients = tape.backward(roots, {.create_graph = options.create_graph});
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (watched[i].recorded() || (is_float(inputs[i].dtype()) && options.input.value_or(i) == i))
      outcome.gradients[i] = gradients.of(watched[i]).detach();
  return outcome;
}

/// "" or where two tensors differ by more than tolerance · max(1, |want|, floor); NaN equals NaN.
std::string difference(const std::string& what, const Tensor& got, const Tensor& want, double tolerance,
                       double floor = 1) {
  if (!got.defined() && !want.defined()) return "";
  if (!got.defined() || !want.defined()) return fmt::format("{}: one is missing", what);
  if (got.shape() != want.shape())
    return fmt::format("{}: shape {}, not {}", what, to_string(got.shape()), to_string(want.shape()));
  const std::vector<double> a = got.to_doubles(), b = want.to_doubles();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double allowed = tolerance * std::max({1.0, std::abs(b[i]), floor});
    if (!(std::abs(a[i] - b[i]) <= allowed))
      return fmt::format("{}: element {} is {:.17g}, not {:.17g} (allowed {:.3g})", what, i, a[i], b[i], allowed);
  }
  return "";
}

std::string difference(const std::string& what, const Outcome& got, const Outcome& want, double tolerance) {
  for (std::size_t o = 0; o < want.outputs.size(); ++o) {
    const std::string text =
        difference(fmt::format("{}, output {}", what, o), got.outputs[o], want.outputs[o], tolerance);
    if (!text.empty()) return text;
  }
  for (std::size_t i = 0; i < want.gradients.size(); ++i) {
    const std::string text =
        difference(fmt::format("{}, gradient of input {}", what, i), got.gradients[i], want.gradients[i], tolerance);
    if (!text.empty()) return text;
  }
  return "";
}

/// The same elements in other memory: axes reversed, every second element, between NaN (or what is no id, or true).
Tensor scattered(const Tensor& x) {
  if (x.rank() == 0) return x;
  Shape memory;
  for (int axis = x.rank() - 1; axis >= 0; --axis)
    memory.push_back(axis == 0 ? 2 * x.size(axis) + 1 : x.size(axis) + 1);
  const Layout dense(memory);
  Index strides[max_rank], offset = 0;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const Index stride = dense.stride(x.rank() - 1 - axis);
    strides[axis] = axis == 0 ? 2 * stride : stride;
    offset += stride;
  }
  const Layout layout(x.shape(), strides, offset);
  const double padding = is_float(x.dtype())       ? std::numeric_limits<double>::quiet_NaN()
                         : x.dtype() == DType::i32 ? 1 << 30
                                                   : 1;
  StorageHandle storage = StorageHandle::adopt(Storage::create(detail::bytes_for(memory, x.dtype())));
  const std::vector<double> elements = x.to_doubles();
  visit_dtype(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    auto* out = static_cast<T*>(storage.get()->data());
    std::fill_n(out, memory.elements(), static_cast<T>(padding));
    std::vector<Index> index(static_cast<std::size_t>(x.rank()));
    for (const double element : elements) {
      Index position = offset;
      for (int axis = 0; axis < x.rank(); ++axis) position += index[static_cast<std::size_t>(axis)] * strides[axis];
      out[position] = static_cast<T>(element);
      for (int axis = x.rank() - 1; axis >= 0; --axis) {
        if (++index[static_cast<std::size_t>(axis)] < x.size(axis)) break;
        index[static_cast<std::size_t>(axis)] = 0;
      }
    }
  });
  return detail::Access::make(std::move(storage), layout, x.dtype());
}

/// One number in place of all: stride 0 on every axis.
Tensor expanded(const Tensor& x) {
  return detail::Access::alias(full(Shape{}, 0.75, x.dtype()), Layout(Shape{}).broadcast_to(x.shape()));
}
Tensor filled(const Tensor& x) { return full(x.shape(), 0.75, x.dtype()); }

Tensor as_f32(const Tensor& x) {
  if (x.dtype() != DType::f64) return x;
  Buffer buffer(x.shape(), DType::f32);
  std::ranges::transform(x.to_doubles(), buffer.data<float>().begin(),
                         [](double element) { return static_cast<float>(element); });
  return buffer;
}

double largest(const Tensor& x) {
  double result = 0;
  for (const double element : x.to_doubles())
    if (std::isfinite(element)) result = std::max(result, std::abs(element));
  return result;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  const Tensor x = a.dense(), y = b.dense();
  const auto bytes = static_cast<std::size_t>(x.elements() * size_of(x.dtype()));
  auto start = [](const Tensor& t) {
    return static_cast<const char*>(t.view().bytes) + t.layout().offset() * size_of(t.dtype());
  };
  return x.shape() == y.shape() && x.dtype() == y.dtype() &&
         (bytes == 0 || std::equal(start(x), start(x) + bytes, start(y)));
}

}  // namespace

Samples samples_of(std::string_view op) {
  static const Samples all = all_samples();
  Samples result;
  std::ranges::copy_if(all, std::back_inserter(result), [&](const Sample& sample) { return sample.op == op; });
  return result;
}

bool differentiable(const Sample& sample) {
  Tape tape;
  List inputs = sample.inputs;
  for (Tensor& x : inputs)
    if (is_float(x.dtype())) x = tape.watch(x);
  return std::ranges::any_of(sample.f(inputs), [](const Tensor& y) { return y.recorded(); });
}

GradcheckReport check_gradients(const Sample& sample) {
  return gradcheck(sample.f, sample.inputs,
                   {.step = sample.step,
                    .label = fmt::format("{} [{}]", sample.op, sample.label),
                    .exactly_zero = sample.exactly_zero});
}

std::string runs_its_op(const Sample& sample) {
  const Outcome outcome = run(sample, sample.inputs);
  const auto& names = outcome.names;
  if (std::ranges::find(names, sample.op) != names.end()) return "";
  const bool could_record = std::ranges::any_of(sample.inputs, [](const Tensor& x) { return is_float(x.dtype()); }) &&
                            std::ranges::any_of(outcome.outputs, [](const Tensor& y) { return is_float(y.dtype()); });
  return could_record ? fmt::format("the call must record an op named {}; got [{}]", sample.op, fmt::join(names, ", "))
                      : "";
}

std::string kernel_equals_rule(const Sample& sample) {
  const std::size_t outputs = sample.f(sample.inputs).size();
  for (std::size_t o = 0; o <= outputs; ++o) {
    RunOptions options;
    if (o < outputs) options.output = o;
    const Outcome kernel = run(sample, sample.inputs, options);
    const std::string cotangents = o < outputs ? fmt::format("cotangent on output {}", o) : "cotangents on all outputs";
    options.create_graph = true;
    const std::string text =
        difference(cotangents + ", rule against kernel", run(sample, sample.inputs, options), kernel, 1e-12);
    if (!text.empty()) return text;
    for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
      if (!is_float(sample.inputs[i].dtype())) continue;
      for (const bool create_graph : {false, true}) {
        options.input = i;
        options.create_graph = create_graph;
        const Outcome alone = run(sample, sample.inputs, options);
        if (!kernel.gradients[i].defined()) continue;
        const Tensor got =
            alone.gradients[i].defined() ? alone.gradients[i] : zeros(sample.inputs[i].shape(), DType::f64);
        const std::string one =
            difference(fmt::format("{}, input {} watched alone, {}", cotangents, i, create_graph ? "rule" : "kernel"),
                       got, kernel.gradients[i], 1e-12);
        if (!one.empty()) return one;
      }
    }
  }
  return "";
}

std::string ignores_memory_layout(const Sample& sample) {
  List moved;
  for (const Tensor& x : sample.inputs) moved.push_back(scattered(x));
  for (const bool create_graph : {false, true}) {
    const Outcome want = run(sample, sample.inputs, {.create_graph = create_graph});
    std::string text = difference("inputs moved", run(sample, moved, {.create_graph = create_graph}), want, 1e-12);
    if (!text.empty()) return text;
    text = difference("cotangents moved",
                      run(sample, sample.inputs, {.create_graph = create_graph, .place = scattered}), want, 1e-12);
    if (!text.empty()) return text;
    text = difference("cotangents of stride 0",
                      run(sample, sample.inputs, {.create_graph = create_graph, .place = expanded}),
                      run(sample, sample.inputs, {.create_graph = create_graph, .place = filled}), 1e-12);
    if (!text.empty()) return text;
  }
  return "";
}

namespace {

/// One sample in both precisions. The f64 run starts from the rounded inputs: only the computation is compared.
struct BothPrecisions {
  Outcome f64, f32;
};
BothPrecisions in_both_precisions(const Sample& sample) {
  List narrow, rounded;
  for (const Tensor& x : sample.inputs) {
    narrow.push_back(as_f32(x));
    rounded.push_back(x);
    if (x.dtype() == DType::f64) rounded.back() = tensor(narrow.back().to_doubles(), x.shape());
  }
  // Cotangents of f32 and f64 outputs are the same draws rounded differently.
  return {run(sample, rounded), run(sample, narrow)};
}

double f32_unit(const Sample& sample) {
  double scale = sample.largest_inside;
  for (const Tensor& x : sample.inputs)
    if (is_float(x.dtype())) scale = std::max(scale, largest(x));
  return std::numeric_limits<float>::epsilon() * scale;
}

double error_of(const Tensor& got, const Tensor& want) {
  if (!got.defined() || !want.defined()) return 0;
  double worst = 0;
  const std::vector<double> a = got.to_doubles(), b = want.to_doubles();
  const double scale = std::max(1.0, largest(want));
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::isfinite(a[i]) && std::isfinite(b[i])) worst = std::max(worst, std::abs(a[i] - b[i]) / scale);
  return worst;
}

}  // namespace

double f32_error(const Sample& sample) {
  const auto [want, got] = in_both_precisions(sample);
  double worst = 0;
  for (std::size_t o = 0; o < want.outputs.size(); ++o)
    worst = std::max(worst, error_of(got.outputs[o], want.outputs[o]));
  for (std::size_t i = 0; i < want.gradients.size(); ++i)
    worst = std::max(worst, error_of(got.gradients[i], want.gradients[i]));
  return worst / f32_unit(sample);
}

std::string close_in_f32(const Sample& sample) {
  const auto [want, got] = in_both_precisions(sample);
  const double tolerance = 8 * f32_unit(sample);
  for (std::size_t o = 0; o < want.outputs.size(); ++o) {
    const std::string text = difference(fmt::format("f32 output {}", o), got.outputs[o], want.outputs[o], tolerance,
                                        largest(want.outputs[o]));
    if (!text.empty()) return text;
  }
  for (std::size_t i = 0; i < want.gradients.size(); ++i) {
    if (!want.gradients[i].defined()) continue;
    const std::string text = difference(fmt::format("f32 gradient of input {}", i), got.gradients[i], want.gradients[i],
                                        tolerance, largest(want.gradients[i]));
    if (!text.empty()) return text;
    if (sample.exactly_zero.empty() || !sample.exactly_zero[i].defined()) continue;
    const std::vector<double> zero = sample.exactly_zero[i].to_doubles(), gradient = got.gradients[i].to_doubles();
    for (std::size_t e = 0; e < zero.size(); ++e)
      if (zero[e] != 0 && gradient[e] != 0)
        return fmt::format("f32 gradient of input {}: element {} is {}, not exactly 0", i, e, gradient[e]);
  }
  return "";
}

bool is_empty(const Sample& sample) {
  return std::ranges::any_of(sample.inputs, [](const Tensor& x) { return x.elements() == 0; });
}

std::string same_on_any_threads(const Sample& sample) {
  struct Restore {
    int threads = kernels::thread_count();
    ~Restore() { kernels::set_thread_count(threads); }
  } restore;
  std::optional<Outcome> first;
  for (const int threads : {1, 2, 4}) {
    kernels::set_thread_count(threads);
    Outcome outcome = run(sample, sample.inputs);
    if (!first) {
      first = std::move(outcome);
      continue;
    }
    for (std::size_t o = 0; o < outcome.outputs.size(); ++o)
      if (!same_bytes(outcome.outputs[o], first->outputs[o]))
        return fmt::format("output {} has other bytes on {} threads", o, threads);
    for (std::size_t i = 0; i < outcome.gradients.size(); ++i)
      if (!same_bytes(outcome.gradients[i], first->gradients[i]))
        return fmt::format("the gradient of input {} has other bytes on {} threads", i, threads);
  }
  return "";
}

}  // namespace capstan::test
