#include <capstan/autograd/format.h>
#include <capstan/autograd/op.h>
#include <capstan/autograd/transform.h>
#include <capstan/ops/apply.h>
#include <capstan/ops/ids.h>
#include <capstan/ops/kernels/cross_entropy.h>
#include <capstan/ops/kernels/elementwise.h>
#include <capstan/ops/kernels/gemm.h>
#include <capstan/ops/kernels/scratch.h>
#include <capstan/ops/linear.h>
#include <capstan/ops/linear_cross_entropy.h>
#include <capstan/ops/loss_parts.h>
#include <capstan/ops/require.h>

#include <algorithm>
#include <limits>

namespace capstan::ops {
namespace {

/// Inputs: x, table, targets, and class weights if any. Outputs: the loss, then dx and dtable as far as they are made.
struct LinearCrossEntropy final : Op {
  static constexpr std::string_view name = "linear_cross_entropy";
  CrossEntropyOptions options;
  bool makes_dx, makes_dtable;

  LinearCrossEntropy(const CrossEntropyOptions& o, bool dx, bool dtable)
      : options(o), makes_dx(dx), makes_dtable(dtable) {
    options.ignore_index = possible_ignore(o.ignore_index);
    if (o.reduction == Reduction::none)
      fail(
          "linear_cross_entropy: reduction must be mean or sum; got none; use cross_entropy(linear(x, table), "
          "targets)");
  }

  int dtable_at() const { return 1 + makes_dx; }

  Reads reads(Wanted) const override {
    return Reads::in(0) | Reads::in(1) | Reads::in(2) | Reads::out(1).when(makes_dx) |
           Reads::out(dtable_at()).when(makes_dtable);
  }

  Types infer(Inputs in) const override {
    const Shape &x = in[0].shape(), &table = in[1].shape(), &targets = in[2].shape();
    require_float(name, "x", in[0]);
    require_same_dtype(name, "x", in[0], "table", in[1]);
    require_dtype(name, "targets", in[2], DType::i32);
    if (table.rank() != 2 || table[0] == 0)
      fail("linear_cross_entropy: table must be [V, C] with at least one class; got {}", table);
    if (x.rank() == 0 || x.back() != table[1])
      fail("linear_cross_entropy: x's last axis must be the table's; got x {} and table {} [V, C]", x, table);
    if (x.drop_back() != targets)
      fail("linear_cross_entropy: x must be [targets..., C]; got x {} and targets {}", x, targets);
    if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1))
      fail("linear_cross_entropy: label_smoothing must be in [0, 1]; got {}", options.label_smoothing);
    if (options.weights.defined()) require_class_weights(name, "x", in[0], table[0], options.weights);
    Types types = {Type{{}, in[0].dtype()}};
    if (makes_dx) types.push_back({x, in[0].dtype()});
    if (makes_dtable) types.push_back({table, in[0].dtype()});
    return types;
  }

  void eval(Inputs in, Outputs out) const override {
    require_ids(name, "targets", in[2].view(), in[1].shape()[0], options.ignore_index);
    visit_float(in[0].dtype(), [&](auto zero) { compute<decltype(zero)>(in[0], in[1].dense(), in[2].dense(), out); });
  }

  // The composed form on the same inputs, differentiated by its ops' own rules, so that every order exists; dx and dtable
  // are its gradient, which is differentiated in turn.
  Tensors vjp(const Call& call) const override {
    detail::Transform transform("linear_cross_entropy");
    Tensor x = call.in(0), table = call.in(1);
    transform.consider(x);
    transform.consider(table);
    if (call.wants(0)) x = transform.watch(x);
    if (call.wants(1)) table = transform.watch(table);
    const auto loss_of = [&](const std::vector<Tensor>& at) {
      return cross_entropy(linear(at[0], at[1]), call.in(2), options);
    };
    std::vector<Tensor> roots, cotangents;
    const auto add = [&](int output, const Tensor& root) {
      roots.push_back(root);
      cotangents.push_back(call.dout(output));
    };
    if (call.has_dout(0)) add(0, loss_of({x, table}));
    const bool hidden_x = makes_dx && call.has_dout(1), hidden_table = makes_dtable && call.has_dout(dtable_at());
    if (hidden_x || hidden_table) {
      const std::vector<Tensor> gradient = grad(std::vector<Tensor>{x, table}, loss_of);
      if (hidden_x) add(1, gradient[0]);
      if (hidden_table) add(dtable_at(), gradient[1]);
    }
    transform.backward(roots, cotangents);
    Tensors gradients;
    gradients.resize(call.inputs());
    for (int i = 0; i < 2; ++i)
      if (call.wants(i)) gradients[i] = transform.next_gradient();
    return gradients;
  }

  // What the forward pass made, times dloss.
  Tensors vjp_kernel(const Call& call) const override {
    if ((makes_dx && call.has_dout(1)) || (makes_dtable && call.has_dout(dtable_at()))) return vjp(call);
    const double dloss = call.dout(0).item();
    Tensors gradients;
    gradients.resize(call.inputs());
    const auto scaled = [&](int output) {
      Tensor made = call.take_out(output);
      if (made.defined() && dloss == 1) return made;
      if (!made.defined()) made = call.out(output);
      Buffer buffer = std::move(made).to_buffer();
      kernels::affine(buffer.view(), dloss, 0, buffer.view());
      return Tensor(std::move(buffer));
    };
    if (call.wants(0)) gradients[0] = scaled(1);
    if (call.wants(1)) gradients[1] = scaled(dtable_at());
    return gradients;
  }

 private:
  /// Rows whose logits are held at a time: few enough to save memory, and enough to be worth a walk over the table, which
  /// the products read, and dtable's writes. Multiples of 16 but for the last.
  static Index chunk_of(Index rows, Index classes, Index element) {
    constexpr Index bytes = Index{64} << 20;
    const Index most = std::max(Index{16}, bytes / (classes * element) / 16 * 16);
    const Index chunks = (rows + most - 1) / most;
    return chunks <= 1 ? rows : std::min(most, ((rows + chunks - 1) / chunks + 15) / 16 * 16);
  }

  /// c (+)= a b, of rows or columns that lie densely.
  template <class T>
  static void multiply(Index m, Index n, Index k, const T* a, bool a_transposed, const T* b, bool b_transposed, T* c,
                       bool accumulate) {
    kernels::Product<T> p{.m = m, .n = n, .k = k, .a = a, .b = b, .c = c, .c_row = n, .accumulate = accumulate};
    p.a_row = a_transposed ? 1 : k;
    p.a_column = a_transposed ? m : 1;
    p.b_row = b_transposed ? 1 : n;
    p.b_column = b_transposed ? k : 1;
    kernels::gemm(p);
  }

  template <class T>
  void compute(const Tensor& strided_x, const Tensor& table, const Tensor& targets, Outputs out) const {
    T* const dx = makes_dx ? out[1].data<T>() : nullptr;
    T* const dtable = makes_dtable ? out[dtable_at()].data<T>() : nullptr;
    const double count_of_all =
        options.reduction == Reduction::sum ? 1 : kept_weight(targets, options.ignore_index, options.weights);
    if (targets.elements() == 0 || count_of_all == 0) {
      for (int i = 0; i < out.size(); ++i) std::fill_n(out[i].data<T>(), out[i].elements(), T{0});
      return;
    }
    const double factor = 1 / count_of_all;
    const Tensor x = strided_x.dense();
    const Index rows = targets.elements(), classes = table.shape()[0], width = table.shape()[1];
    const Index chunk = chunk_of(rows, classes, sizeof(T));
    const T* const w = table.data<T>().data();
    kernels::Scratch<T> logits(chunk * classes), losses(chunk);
    double sum = 0;
    for (Index begin = 0; begin < rows; begin += chunk) {
      const Index count = std::min(chunk, rows - begin);
      const T* const some_x = x.data<T>().data() + begin * width;
      multiply<T>(count, classes, width, some_x, false, w, true, logits.data(), false);
      losses_and_gradients(Rows<T>{begin, count, classes, logits.data(), losses.data()}, targets, factor);
      for (Index i = 0; i < count; ++i) sum += static_cast<double>(losses[i]);
      if (dx != nullptr) multiply<T>(count, width, classes, logits.data(), false, w, false, dx + begin * width, false);
      if (dtable != nullptr) multiply<T>(classes, width, count, logits.data(), true, some_x, false, dtable, begin > 0);
    }
    *out[0].data<T>() = static_cast<T>(sum * factor);
  }

  template <class T>
  struct Rows {
    Index begin, count, classes;
    T *logits, *losses;
  };

  /// The rows' losses, and in place of their logits the gradient, if one is made.
  template <class T>
  void losses_and_gradients(const Rows<T>& rows, const Tensor& targets, double factor) const {
    const Layout matrix({rows.count, rows.classes}), column({rows.count});
    const Index one[] = {1};
    const Layout some({rows.count}, one, targets.layout().offset() + rows.begin);
    const View logits{rows.logits, &matrix, dtype_of<T>}, losses{rows.losses, &column, dtype_of<T>};
    const ConstView ids{targets.view().bytes, &some, DType::i32};
    const ConstView weights = options.weights.defined() ? options.weights.view() : ConstView{};
    const std::int64_t ignore = options.ignore_index.value_or(std::numeric_limits<std::int64_t>::min());
    if (makes_dx || makes_dtable) {
      kernels::cross_entropy_in_place(logits, ids, weights, ignore, options.label_smoothing, factor, losses);
    } else {
      kernels::cross_entropy(logits, ids, weights, ignore, options.label_smoothing, losses);
    }
  }
};

}  // namespace
}  // namespace capstan::ops

namespace capstan {

LinearCrossEntropyOutputs linear_cross_entropy_outputs(const Tensor& x, const Tensor& table, const Tensor& targets,
                                                       const CrossEntropyOptions& options) {
  Tensors outputs = ops::apply_all(ops::LinearCrossEntropy(options, true, true), x, table, targets);
  return {std::move(outputs[0]), std::move(outputs[1]), std::move(outputs[2])};
}

Tensor linear_cross_entropy(const Tensor& x, const Tensor& table, const Tensor& targets,
                            const CrossEntropyOptions& options) {
  return ops::apply(ops::LinearCrossEntropy(options, x.recorded(), table.recorded()), x, table, targets);
}

}  // namespace capstan
