#include <capstan/autograd/accumulate.h>
#include <capstan/autograd/format.h>
#include <capstan/autograd/node.h>
#include <capstan/autograd/op.h>
#include <capstan/autograd/strided.h>

namespace capstan {

namespace {

/// f(into, x), element by element; `into` is dense.
template <class T, class F>
void for_each_pair(T* into, const ConstView& x, F f) {
  const auto* from = static_cast<const T*>(x.bytes);
  const Layout dense(x.shape());
  if (x.layout->contiguous()) {
    const T* at = from + x.layout->offset();
    const Index count = x.elements();
    for (Index i = 0; i < count; ++i) f(into[i], at[i]);
    return;
  }
  detail::for_each_run(*x.layout, dense, [&](Index at_x, Index at_into, Index count, Index stride, Index) {
    for (Index i = 0; i < count; ++i) f(into[at_into + i], from[at_x + i * stride]);
  });
}

template <class T>
void add(T* into, const ConstView& x) {
  for_each_pair(into, x, [](T& sum, T term) { sum += term; });
}

struct Accumulate final : Op {
  static constexpr std::string_view name = "accumulate";

  Types infer(Inputs in) const override {
    for (int i = 0; i < in.size(); ++i) {
      if (!is_float(in[i].dtype())) fail("accumulate: terms must be f32 or f64; got {}", in[i].dtype());
      if (in[i].shape() != in[0].shape() || in[i].dtype() != in[0].dtype())
        fail("accumulate: terms must have one shape and dtype; got {} {} and {} {}", in[0].dtype(), in[0].shape(),
             in[i].dtype(), in[i].shape());
    }
    return {Type{in[0].shape(), in[0].dtype()}};
  }
  std::optional<Layout> view(Inputs in) const override {
    if (in.size() == 1) return in[0].layout();
    return std::nullopt;
  }
  void eval(Inputs in, Outputs out) const override {
    visit_float(out[0].dtype, [&](auto zero) {
      using T = decltype(zero);
      T* sum = out[0].data<T>();
      for_each_pair(sum, in[0].view(), [](T& first, T term) { first = term; });
      for (int i = 1; i < in.size(); ++i) add(sum, in[i].view());
    });
  }
  // y = Σ x_i   ⇒   dx_i = dy
  Tensors vjp(const Call& call) const override {
    Tensors gradients;
    for (int i = 0; i < call.inputs(); ++i) gradients.push_back(call.dout(0));
    return gradients;
  }
};

}  // namespace

Tensor accumulate(std::span<const Tensor> terms) {
  if (terms.empty()) fail("accumulate: at least one term is needed; got none");
  return record(Accumulate{}, terms)[0];
}

namespace detail {

void add_in_place(Tensor& into, const Tensor& x) {
  visit_float(into.dtype(), [&](auto zero) {
    using T = decltype(zero);
    add(static_cast<T*>(Access::storage(into)->data()) + into.layout().offset(), x.view());
  });
}

bool exclusively_owned(const Tensor& x) {
  return Access::link(x).tape == nullptr && Access::storage(x)->unique() && x.contiguous();
}

}  // namespace detail

}  // namespace capstan
