#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/autograd/gradcheck.h>
#include <capstan/autograd/gradcheck_parts.h>
#include <capstan/autograd/tape.h>

#include <algorithm>
#include <cmath>

namespace capstan {

namespace {

using List = std::vector<Tensor>;
using Numbers = std::vector<double>;

/// Cotangents under test: for each output one, or an empty tensor.
struct Cotangents {
  std::string name;  // "output 1", "all outputs"
  List of;
};

double contraction(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// The five-point quotient of each number, from values at x + h, x − h, x + 2h, x − 2h.
Numbers quotient(const Numbers& up, const Numbers& down, const Numbers& up2, const Numbers& down2, double h) {
  Numbers result(up.size());
  for (std::size_t i = 0; i < up.size(); ++i) result[i] = (8 * (up[i] - down[i]) - (up2[i] - down2[i])) / (12 * h);
  return result;
}

class Check {
 public:
  Check(GradcheckFunction f, const List& inputs, const GradcheckOptions& options)
      : f_(f), inputs_(inputs), options_(options), verdict_(options) {
    check_options();
    check_inputs();
    outputs_ = f_(inputs_);
    check_outputs();
    draw_cotangents();
  }

  GradcheckReport run() {
    first_order();
    if (options_.order == 2)
      for (std::size_t set = 0; set < sets_.size(); ++set) second_order(set);
    return verdict_.report();
  }

 private:
  // ---- what can be checked ----------------------------------------------------------------------------------------

  void check_options() const {
    if (options_.order != 1 && options_.order != 2) fail("gradcheck: the order must be 1 or 2; got {}", options_.order);
    if (!(options_.tolerance > 0) || !(options_.step > 0))
      fail("gradcheck: tolerance and step must be positive; got {} and {}", options_.tolerance, options_.step);
    if (!options_.names.empty() && options_.names.size() != inputs_.size())
      fail("gradcheck: names must have an entry for each of {} inputs, or none at all; got {}", inputs_.size(),
           options_.names.size());
    const auto& zero = options_.exactly_zero;
    if (!zero.empty() && zero.size() != inputs_.size())
      fail("gradcheck: exactly_zero must have an entry for each of {} inputs, or none at all; got {}", inputs_.size(),
           zero.size());
    for (std::size_t i = 0; i < zero.size(); ++i)
      if (zero[i].defined() && (zero[i].dtype() != DType::boolean || zero[i].shape() != inputs_[i].shape()))
        fail("gradcheck: exactly_zero[{}] must be bool {} like its input; got {} {}", i, inputs_[i].shape(),
             zero[i].dtype(), zero[i].shape());
  }

  void check_inputs() {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Tensor& x = inputs_[i];
      if (!x.defined())
        fail("gradcheck: inputs must hold values; got an empty handle as {}; assign a tensor to it first",
             name_of_input(i));
      if (x.dtype() == DType::f32)
        fail(
            "gradcheck: inputs must be f64, because differences of f32 values drown in rounding; got f32 {} as {}; "
            "cast it to f64",
            x.shape(), name_of_input(i));
      if (x.dtype() == DType::f64) varied_.push_back(i);
      inputs_[i] = x.detach();
    }
    if (varied_.empty())
      fail("gradcheck: at least one input must be f64 to be varied; got none among {}", inputs_.size());
  }

  void check_outputs() const {
    bool any = false;
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
      const Tensor& y = outputs_[o];
      if (!y.defined()) fail("gradcheck: outputs must hold values; got an empty handle as output {}", o);
      if (y.dtype() == DType::f32)
        fail(
            "gradcheck: outputs must be f64, because differences of f32 values drown in rounding; got f32 {} as output "
            "{}; compute in f64",
            y.shape(), o);
      if (y.dtype() != DType::f64) continue;
      any = true;
      const Numbers values = y.to_doubles();
      for (std::size_t i = 0; i < values.size(); ++i)
        if (!std::isfinite(values[i]))
          fail(
              "gradcheck: outputs must be finite where differences are taken; got {} at [{}] of output {}; check at "
              "other inputs",
              values[i], fmt::join(detail::unravel(static_cast<Index>(i), y.shape()), ", "), o);
    }
    if (!any) fail("gradcheck: f must return at least one f64 output; got none among {}", outputs_.size());
  }

  /// Every f64 output alone, and all together if there are several.
  void draw_cotangents() {
    Cotangents all{"all outputs", List(outputs_.size())};
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
      if (outputs_[o].dtype() != DType::f64) continue;
      Cotangents alone{fmt::format("output {}", o), List(outputs_.size())};
      alone.of[o] = normal(options_.key.derive(o), outputs_[o].shape(), 0, 1, DType::f64);
      all.of[o] = normal(options_.key.derive(outputs_.size() + o), outputs_[o].shape(), 0, 1, DType::f64);
      sets_.push_back(std::move(alone));
    }
    if (sets_.size() > 1) sets_.push_back(std::move(all));
  }

  // ---- evaluations ------------------------------------------------------------------------------------------------

  List evaluate(const List& x) const {
    List y = f_(x);
    bool same = y.size() == outputs_.size();
    for (std::size_t o = 0; same && o < y.size(); ++o)
      same = y[o].shape() == outputs_[o].shape() && y[o].dtype() == outputs_[o].dtype();
    if (!same)
      fail(
          "gradcheck: f must return outputs of the same number, shapes and dtypes each time; got others in another "
          "call");
    return y;
  }

  List watch(Tape& tape, List tensors) const {
    for (Tensor& x : tensors)
      if (x.defined() && x.dtype() == DType::f64) x = tape.watch(x);
    return tensors;
  }

  /// The outputs that depend on an input, with their cotangents.
  static std::vector<Root> roots(const List& y, const List& cotangents) {
    std::vector<Root> result;
    for (std::size_t o = 0; o < y.size(); ++o)
      if (cotangents[o].defined() && y[o].recorded()) result.push_back({y[o], cotangents[o]});
    return result;
  }

  /// Σ ⟨u, f(x)⟩ differentiated by all varied inputs, for each set of cotangents: [set][varied input].
  std::vector<List> gradients(const List& x, std::span<const List> sets) const {
    Tape tape;
    const List watched = watch(tape, x);
    const List y = evaluate(watched);
    std::vector<List> result;
    for (std::size_t set = 0; set < sets.size(); ++set) {
      const std::vector<Root> from = roots(y, sets[set]);
      List& found = result.emplace_back();
      if (from.empty()) {
        for (const std::size_t i : varied_) found.push_back(zeros(x[i].shape(), DType::f64));
        continue;
      }
      const Gradients g = tape.backward(from, {.keep = set + 1 < sets.size()});
      for (const std::size_t i : varied_) found.push_back(g.of(watched[i]));
    }
    return result;
  }

  // ---- order 1 ----------------------------------------------------------------------------------------------------

  void first_order() {
    std::vector<List> cotangents;
    for (const Cotangents& set : sets_) cotangents.push_back(set.of);
    const std::vector<List> analytic = gradients(inputs_, cotangents);

    const Numbers y = flat(outputs_);
    std::vector<Numbers> u;
    for (const List& set : cotangents) u.push_back(flat(set, outputs_));

    for (std::size_t v = 0; v < varied_.size(); ++v) {
      std::vector<Numbers> found;
      for (const List& set : analytic) found.push_back(set[v].to_doubles());
      const std::size_t i = varied_[v];
      for (Index element = 0; element < inputs_[i].elements(); ++element) {
        const auto at = static_cast<std::size_t>(element);
        if (exactly_zero(i, element)) {
          for (std::size_t set = 0; set < sets_.size(); ++set)
            verdict_.compare_zero(by_input(1, set, i, element), found[set][at]);
          continue;
        }
        const Numbers slope = along(inputs_, i, element, [&](const List& x) { return flat(evaluate(x)); });
        for (std::size_t set = 0; set < sets_.size(); ++set)
          verdict_.compare(by_input(1, set, i, element), found[set][at], contraction(u[set], slope),
                           contraction(u[set], y));
      }
    }
  }

  // ---- order 2 ----------------------------------------------------------------------------------------------------

  /// S(x, u) = Σ ⟨w, g(x, u)⟩, g being the gradient of Σ ⟨u, f(x)⟩; S is differentiated by x and by u.
  void second_order(std::size_t set) {
    const List& u = sets_[set].of;
    List w;
    for (std::size_t v = 0; v < varied_.size(); ++v)
      w.push_back(
          normal(options_.key.derive(1'000'000 + 1000 * set + v), inputs_[varied_[v]].shape(), 0, 1, DType::f64));

    List by_x(inputs_.size()), by_u(u.size());
    const double s = differentiate_twice(u, w, by_x, by_u);
    const Numbers weights = flat(w);
    auto slope_of = [&](const List& list, std::size_t i, Index element, auto&& gradient) {
      return contraction(weights, along(list, i, element, gradient));
    };
    for (const std::size_t i : varied_) {
      const Numbers found = by_x[i].to_doubles();
      for (Index element = 0; element < inputs_[i].elements(); ++element) {
        const double analytic = found[static_cast<std::size_t>(element)];
        if (exactly_zero(i, element)) {
          verdict_.compare_zero(by_input(2, set, i, element), analytic);
          continue;
        }
        const double numeric = slope_of(inputs_, i, element, [&](const List& x) {
          return flat(gradients(x, {&u, 1})[0]);
        });
        verdict_.compare(by_input(2, set, i, element), analytic, numeric, s);
      }
    }
    for (std::size_t o = 0; o < u.size(); ++o) {
      if (!u[o].defined()) continue;
      const Numbers found = by_u[o].to_doubles();
      for (Index element = 0; element < u[o].elements(); ++element) {
        const double numeric = slope_of(u, o, element, [&](const List& moved) {
          return flat(gradients(inputs_, {&moved, 1})[0]);
        });
        verdict_.compare(by_cotangent(set, o, element), found[static_cast<std::size_t>(element)], numeric, s);
      }
    }
  }

  /// S and its analytic derivatives by x and u.
  double differentiate_twice(const List& u, const List& w, List& by_x, List& by_u) const {
    Tape tape;
    const List x = watch(tape, inputs_);
    const List y = evaluate(x);
    const List cotangents = watch(tape, u);
    double s = 0;
    std::vector<Root> seconds;
    if (const std::vector<Root> firsts = roots(y, cotangents); !firsts.empty()) {
      const Gradients g = tape.backward(firsts, {.create_graph = true});
      for (std::size_t v = 0; v < varied_.size(); ++v) {
        const Tensor gradient = g.of(x[varied_[v]]);
        s += contraction(gradient.to_doubles(), w[v].to_doubles());
        if (gradient.recorded()) seconds.push_back({gradient, w[v]});
      }
    }
    auto empty = [](const Tensor& like) { return zeros(like.shape(), DType::f64); };
    if (seconds.empty()) {
      for (const std::size_t i : varied_) by_x[i] = empty(inputs_[i]);
      for (std::size_t o = 0; o < u.size(); ++o)
        if (u[o].defined()) by_u[o] = empty(u[o]);
      return s;
    }
    const Gradients g = tape.backward(seconds);
    for (const std::size_t i : varied_) by_x[i] = g.of(x[i]);
    for (std::size_t o = 0; o < u.size(); ++o)
      if (u[o].defined()) by_u[o] = g.of(cotangents[o]);
    return s;
  }

  // ---- numbers ----------------------------------------------------------------------------------------------------

  /// All elements of the f64 tensors, one after the other.
  static Numbers flat(const List& list) {
    Numbers result;
    for (const Tensor& x : list) {
      if (!x.defined() || x.dtype() != DType::f64) continue;
      const Numbers elements = x.to_doubles();
      result.insert(result.end(), elements.begin(), elements.end());
    }
    return result;
  }

  /// The same for cotangents, 0 where there is none.
  static Numbers flat(const List& cotangents, const List& like) {
    List filled = cotangents;
    for (std::size_t o = 0; o < like.size(); ++o)
      if (!filled[o].defined() && like[o].dtype() == DType::f64) filled[o] = zeros(like[o].shape(), DType::f64);
    return flat(filled);
  }

  /// The difference quotient of f's numbers along one element of list[i].
  template <class F>
  Numbers along(const List& list, std::size_t i, Index element, F&& f) const {
    const double x = detail::element_of<double>(list[i], element);
    // A power of two, so that x + h is exact and the points lie where the quotient takes them to lie.
    const double h = std::exp2(std::floor(std::log2(options_.step * std::max(1.0, std::abs(x)))));
    auto at = [&](double steps) {
      List moved = list;
      moved[i] = detail::with_element(list[i], element, x + steps * h);
      return f(moved);
    };
    return quotient(at(1), at(-1), at(2), at(-2), h);
  }

  bool exactly_zero(std::size_t i, Index element) const {
    if (options_.exactly_zero.empty() || !options_.exactly_zero[i].defined()) return false;
    return detail::element_of<bool>(options_.exactly_zero[i], element);
  }

  /// By an element of an input, or of the cotangent of an output.
  detail::Place by_input(int order, std::size_t set, std::size_t i, Index element) const {
    return {order, sets_[set].name, name_of_input(i), inputs_[i].shape(), element};
  }
  detail::Place by_cotangent(std::size_t set, std::size_t o, Index element) const {
    return {2, sets_[set].name, fmt::format("the cotangent of output {}", o), outputs_[o].shape(), element};
  }
  std::string name_of_input(std::size_t i) const {
    return options_.names.empty() ? fmt::format("input {}", i) : options_.names[i];
  }

  GradcheckFunction f_;
  List inputs_;
  const GradcheckOptions& options_;
  List outputs_;
  std::vector<std::size_t> varied_;  // the f64 inputs
  std::vector<Cotangents> sets_;
  detail::Verdict verdict_;
};

}  // namespace

GradcheckReport gradcheck(GradcheckFunction f, const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  return Check(f, inputs, options).run();
}

}  // namespace capstan
