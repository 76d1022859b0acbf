// A module that does not list its members.
// Message: a module lists its members in static void fields\(auto& self, auto& f\)
#include <capstan/autograd/transform.h>
#include <capstan/nn/module.h>
#include <capstan/nn/optim.h>

namespace capstan {

struct Shift {
  Tensor by;
#ifndef FAULT
  static void fields(auto& self, auto& f) { f("by", self.by); }
#endif
};

void train(Shift& model, Tensor (*loss)(const Shift&)) { nn::Sgd().step(model, value_and_grad(model, loss).gradient); }

}  // namespace capstan
