// What an op is: a small struct with a name, `infer`, `eval` (or `view`), `vjp` and `reads`; and `record`, which runs one.
// The engine knows ops only through this page. Not for: the catalogue (ops/catalog.h).
#pragma once

#include <capstan/autograd/tensor.h>

#include <optional>
#include <string_view>

namespace capstan {

class Call;

/// The arguments of an op: borrowed tensors.
class Inputs {
 public:
  Inputs(const Tensor* const* tensors, int count) : tensors_(tensors), count_(count) {}
  int size() const { return count_; }
  const Tensor& operator[](int i) const { return *tensors_[i]; }

 private:
  const Tensor* const* tensors_;
  int count_;
};

/// What `infer` promises of an output.
struct Type {
  Shape shape;
  DType dtype = DType::f32;
};
using Types = Small<Type, 3>;

/// The outputs that `eval` writes: row-major, not initialised.
class Outputs {
 public:
  Outputs(View* views, int count) : views_(views), count_(count) {}
  int size() const { return count_; }
  const View& operator[](int i) const { return views_[i]; }

 private:
  View* views_;
  int count_;
};

/// The inputs of a call whose gradients are wanted.
class Wanted {
 public:
  explicit Wanted(std::uint64_t bits) : bits_(bits) {}
  bool operator[](int input) const { return input < 64 && (bits_ >> input & 1) != 0; }

 private:
  std::uint64_t bits_;
};

/// The inputs and outputs whose values a rule reads; only these are kept until backward. Built with `in`, `out` and `|`.
struct Reads {
  std::uint64_t inputs = 0;
  std::uint64_t outputs = 0;
  static constexpr Reads none() { return {}; }
  /// i in [0, 64): the others cannot be read.
  static constexpr Reads in(int i) { return {bit(i), 0}; }
  static constexpr Reads out(int i) { return {0, bit(i)}; }
  static constexpr std::uint64_t bit(int i) { return i >= 0 && i < 64 ? std::uint64_t{1} << i : 0; }
  /// This set if `condition` holds, else none.
  constexpr Reads when(bool condition) const { return condition ? *this : Reads{}; }
  friend constexpr Reads operator|(Reads a, Reads b) { return {a.inputs | b.inputs, a.outputs | b.outputs}; }
};

/// The base of every op. A derived struct also has `static constexpr std::string_view name`, is copyable, and keeps its
/// options as members. It is recorded by copy. A tensor that is a member is a constant: no gradient reaches it, and
/// nothing can tell that one should have. Everything that has a gradient is an input.
class Op {
 public:
  /// Checks shapes and dtypes of the inputs (an Error names what was wrong) and says the outputs' types.
  virtual Types infer(Inputs in) const = 0;
  /// Computes the outputs. Not called when `view` gave a layout.
  virtual void eval(Inputs in, Outputs out) const;
  /// A layout under which the storage of in[0] *is* the only output; none: `eval` computes it.
  virtual std::optional<Layout> view(Inputs in) const;

  /// What `vjp` and `vjp_kernel` read, given the gradients that will be asked for.
  virtual Reads reads(Wanted wanted) const;
  /// The rule: one gradient for each input (an empty Tensor where none is wanted or it is zero), written in ops so that it can be
  /// differentiated itself. Handles cotangents of every output.
  virtual Tensors vjp(const Call& call) const = 0;
  /// The same as `vjp` by raw loops; used when the backward pass is not itself recorded. Optional.
  virtual Tensors vjp_kernel(const Call& call) const;

 protected:
  Op() = default;
  Op(const Op&) = default;
  Op& operator=(const Op&) = default;
  ~Op() = default;  // not virtual: nobody deletes an Op, and most of those that a tape frees need no destructor
};

/// One call of an op as its rule sees it in backward. Reading what `reads` did not declare is an Error.
class Call {
 public:
  const Tensor& in(int i) const;
  const Tensor& out(int i) const;
  /// The cotangent of an output; zeros (stride 0) if nothing depends on it.
  const Tensor& dout(int i) const;
  /// False if nothing that matters depends on this output.
  bool has_dout(int i) const;
  /// True if the gradient of input i is wanted.
  bool wants(int i) const;
  int inputs() const;
  /// Shape and dtype of an input; always available.
  Shape in_shape(int i) const;
  DType in_dtype(int i) const;
  /// Memory for the gradient of input i: its shape and dtype, row-major, not initialised.
  Buffer new_gradient(int i) const;
  /// The same as the next of `gradients`, which must have room for it: where to write it. Where it is not wanted, an empty tensor
  /// and a view without a layout.
  View append_gradient(Tensors& gradients, int i) const;

  /// For vjp_kernel: the cotangent that other uses of input i have gathered so far, as a Buffer by to_buffer(), which is in
  /// place where nobody else holds it; empty if there is none. The rule adds its own to it, and must return the sum as its
  /// gradient of input i, or what was gathered is lost. So the bits do not depend on who holds what.
  Tensor take_sum(int i) const;

  /// For vjp_kernel, which may work in memory that nobody else needs: input i or output i, which only this rule reads.
  /// Dense, without another owner; empty where somebody may need it: a constant, a tape that is kept, a handle outside.
  Tensor take_in(int i) const;
  Tensor take_out(int i) const;

  /// The cotangent of output i, likewise. What was taken (in(i), out(i), dout(i)) is gone after that.
  Tensor take_dout(int i) const;

  struct State;
  explicit Call(State& state) : state_(&state) {}

 private:
  State* state_;
};

/// What the rule of an op returns whose result does not vary with its inputs (or only in jumps); `why` is for the reader.
Tensors no_gradient(const Call& call, const char* why);

namespace detail {

struct OpInfo {
  std::string_view name;
  std::uint32_t size = 0;
  bool has_view = false;
  bool has_kernel = false;
  void (*copy_to)(void* where, const Op& op) = nullptr;
  void (*destroy)(void* op) = nullptr;  // null where there is nothing to do
};

template <class Member>
struct member_class;
template <class R, class C, class... A>
struct member_class<R (C::*)(A...) const> {
  using type = C;
};
template <class Member>
inline constexpr bool overridden = !std::is_same_v<typename member_class<Member>::type, Op>;

template <class O>
void copy_op(void* where, const Op& op) {
  ::new (where) O(static_cast<const O&>(op));
}
template <class O>
void destroy_op(void* op) {
  static_cast<O*>(op)->O::~O();
}

template <class O>
concept HasName = requires {
  std::string_view(O::name);
};

template <class O>
inline constexpr OpInfo op_info{O::name,
                                static_cast<std::uint32_t>(sizeof(O)),
                                overridden<decltype(&O::view)>,
                                overridden<decltype(&O::vjp_kernel)>,
                                &copy_op<O>,
                                std::is_trivially_destructible_v<O> ? nullptr : &destroy_op<O>};

/// What the engine must know of an op's type.
template <class O>
const OpInfo& info_of() {
  static_assert(std::is_base_of_v<Op, O>, "capstan: an op derives from capstan::Op");
  static_assert(alignof(O) <= 8, "capstan: an op's alignment is at most 8");
  static_assert(sizeof(O) < 8 * 65536, "capstan: an op's options are less than 512 KB");
  static_assert(HasName<O>, "capstan: an op has a static constexpr std::string_view name");
  if constexpr (HasName<O>) return op_info<O>;
}

/// `computed`: the outputs, if they are known already; neither infer nor eval is called then.
Tensors record(const Op& op, const OpInfo& info, Inputs in, Tensors* computed = nullptr);
/// The first output alone.
Tensor record_first(const Op& op, const OpInfo& info, Inputs in);

}  // namespace detail

/// Runs an op: infers, evaluates, and appends it to the inputs' tape if any input is recorded. Returns all outputs.
/// At most 64 outputs. If anything throws, nothing was appended. This is the entry for users' own ops; ops of the catalogue use `apply`.
template <class O>
Tensors record(const O& op, Inputs in) {
  return detail::record(op, detail::info_of<O>(), in);
}

template <class O, class... T>
requires(std::is_same_v<T, Tensor>&&...) Tensors record(const O& op, const T&... inputs) {
  const Tensor* const pointers[] = {&inputs...};
  return record(op, Inputs(pointers, static_cast<int>(sizeof...(T))));
}

/// The same for a list of inputs.
template <class O>
Tensors record(const O& op, std::span<const Tensor> inputs) {
  Small<const Tensor*, 8> pointers;
  for (const Tensor& x : inputs) pointers.push_back(&x);
  return record(op, Inputs(pointers.data(), pointers.size()));
}

}  // namespace capstan
