// A module of two bare tensors, for tests of what walks over modules. Not for: models (nn/transformer.h).
#pragma once

#include <capstan/autograd/create.h>
#include <capstan/autograd/fields.h>

namespace capstan::test {

struct Two {
  Tensor w, b;
  static void fields(auto& self, auto& f) {
    f("w", self.w);
    f("b", self.b);
  }
};

/// w [2, 2] and b [3], each of one value.
inline Two two(double w, double b, DType dtype = DType::f64) { return {full({2, 2}, w, dtype), full({3}, b, dtype)}; }

/// Where the tensors of a structure lie.
template <class S>
std::vector<const void*> addresses(const S& structure) {
  std::vector<const void*> list;
  for_each_tensor(structure, [&](const Tensor& x) { list.push_back(x.view().bytes); });
  return list;
}

}  // namespace capstan::test
