#include <capstan/autograd/format.h>
#include <capstan/ops/axes.h>
#include <capstan/ops/require.h>

namespace capstan {

void Axes::too_many() { fail("axes: at most {} may be named; got one more", max_rank); }

std::string to_string(const Axes& axes) { return fmt::format("{{{}}}", fmt::join(axes.begin(), axes.end(), ", ")); }

namespace ops {

void fail_not_float(std::string_view op, const char* argument, DType got) {
  fail("{}: {} must be f32 or f64; got {}; cast it first", op, argument, got);
}

void fail_dtype(std::string_view op, const char* argument, DType wanted, DType got) {
  fail("{}: {} must be {}; got {}; {} it first", op, argument, wanted, got,
       wanted == DType::boolean ? "cast or compare" : "cast");
}

void fail_mixed(std::string_view op, const char* a_name, const char* b_name, DType a, DType b) {
  fail("{}: {} and {} must have one dtype; got {} and {}; cast one of them", op, a_name, b_name, a, b);
}

void require_defined(std::string_view op, const char* argument, const Tensor& x) {
  if (!x.defined()) fail("{}: {} must hold a value; got an empty handle; assign a tensor to it first", op, argument);
}

bool stretches(const Shape& from, const Shape& to) {
  const int added = to.rank() - from.rank();
  if (added < 0) return false;
  for (int i = 0; i < from.rank(); ++i)
    if (from[i] != to[added + i] && from[i] != 1) return false;
  return true;
}

}  // namespace ops
}  // namespace capstan
