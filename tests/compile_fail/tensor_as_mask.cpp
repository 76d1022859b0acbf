// CASES 38: a 0/1 float tensor given where a mask is expected.
// Message: a tensor is no mask: say Mask::keep
#include <capstan/ops/attention.h>

namespace capstan {

Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keep) {
#ifdef FAULT
  const AttentionOptions options{.mask = keep};
#else
  const AttentionOptions options{.mask = Mask::keep(keep)};
#endif
  return attention_reference(q, k, v, options).output;
}

}  // namespace capstan
