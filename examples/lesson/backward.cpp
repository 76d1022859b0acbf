// From the loss back to the embedding, each gradient beside its finite difference. See lesson.h.
#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/autograd/function_ref.h>
#include <capstan/autograd/graph.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/ops.h>

#include <algorithm>
#include <cmath>

#include "lesson.h"

namespace capstan::lesson {

namespace {

using Loss = FunctionRef<Tensor(const Tensor&)>;

/// (f(x + h) − f(x − h)) / 2h for each element of x.
Tensor differences(const Tensor& x, Loss f) {
  const double h = 1e-5;
  std::vector<double> slopes;
  for (std::size_t i = 0; i < static_cast<std::size_t>(x.elements()); ++i) {
    const auto moved = [&](double by) {
      std::vector<double> elements = x.to_doubles();
      elements[i] += by;
      return f(tensor(elements, x.shape())).item();
    };
    slopes.push_back((moved(h) - moved(-h)) / (2 * h));
  }
  return tensor(slopes, x.shape());
}

/// softmax of the scores that a token may see: those at and before it.
Tensor causal_weights(const Tensor& scores) {
  const Tensor keep = Mask::causal().keep_tensor({1, 1, scores.size(0), scores.size(1)});
  return softmax(where(reshape(keep, scores.shape()), scores, -INFINITY), -1);
}

/// Two weights, two values: small enough for a pencil.
void by_hand(Section& page) {
  Tape tape;
  const Tensor v = page.show("hand/v", SHOWN(tensor({{2, 4}, {6, 8}}, DType::f64)));
  const Tensor a = tape.watch(page.show("hand/a", SHOWN(tensor({{0.25, 0.75}}, DType::f64))));
  const Tensor o = page.show("hand/o", SHOWN(matmul(a, v)));
  const Tensor loss = page.show("hand/loss", SHOWN(sum(o * tensor({{1, 2}}, DType::f64))));  // O₁ + 2 O₂
  const Gradients gradients = tape.backward(loss);
  page.equal("by hand: the gradient of the two weights", page.show("hand/da", SHOWN(gradients.of(a))), {10, 22});
}

}  // namespace

void backward(Section page) {
  by_hand(page);

  const Tensor ids = page.show("ids", SHOWN(tensor({2, 0, 5}, DType::i32)));
  const Tensor table = tensor({{0.3, 1.2, -0.9, 0.6},
                               {1.5, -0.6, 0.9, 0.3},
                               {-1.2, 0.9, 0.6, 1.8},
                               {0.6, 0.3, -1.5, 0.9},
                               {0.9, -1.8, 1.2, -0.3},
                               {1.8, 0.6, 0.3, -1.2}},
                              DType::f64);
  const Tensor w_q = tensor({{0.4, -1}, {1.4, 0.2}, {-0.6, 0.8}, {1.2, 0.6}}, DType::f64);
  const Tensor w_k = tensor({{-0.2, 1.2}, {0.8, -0.4}, {1, 0.6}, {-1.4, 0.4}}, DType::f64);
  const Tensor w_v = tensor({{0.6, 1.6}, {-1.2, 0.2}, {0.4, -0.8}, {1, 1.4}}, DType::f64);

  // One line a step, each from what the step before made, so that a gradient can be checked from there on.
  const auto loss_of_o = [](const Tensor& o) { return 0.5 * sum(o * o); };  // dO = O
  const auto loss_of_a = [&](const Tensor& a, const Tensor& v) { return loss_of_o(matmul(a, v)); };
  const auto loss_of_s = [&](const Tensor& s, const Tensor& v) { return loss_of_a(causal_weights(s), v); };
  const auto loss_of_qkv = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    return loss_of_s(matmul(q, transpose(k)) / std::sqrt(2.0), v);
  };
  const auto loss_of_x = [&](const Tensor& x, const Tensor& a, const Tensor& b, const Tensor& c) {
    return loss_of_qkv(matmul(x, a), matmul(x, b), matmul(x, c));
  };

  Tape tape;
  const Tensor e = page.show("E", SHOWN(tape.watch(table)));
  const Tensor wq = page.show("Wq", SHOWN(tape.watch(w_q)));
  const Tensor wk = page.show("Wk", SHOWN(tape.watch(w_k)));
  const Tensor wv = page.show("Wv", SHOWN(tape.watch(w_v)));
  const Tensor x = tape.watch(page.show("X", SHOWN(embedding(e, ids))));  // a watched result keeps its gradient
  const Tensor q = tape.watch(page.show("Q", SHOWN(matmul(x, wq))));
  const Tensor k = tape.watch(page.show("K", SHOWN(matmul(x, wk))));
  const Tensor v = tape.watch(page.show("V", SHOWN(matmul(x, wv))));
  const Tensor s = tape.watch(page.show("S", SHOWN(matmul(q, transpose(k)) / std::sqrt(2.0))));
  const Tensor a = tape.watch(page.show("A", SHOWN(causal_weights(s))));
  const Tensor o = tape.watch(page.show("O", SHOWN(matmul(a, v))));
  const Tensor loss = page.show("loss", SHOWN(0.5 * sum(o * o)));

  const std::vector<GraphName> names{{"E", e}, {"W_Q", wq}, {"W_K", wk}, {"W_V", wv}, {"X", x}, {"Q", q},
                                     {"K", k}, {"V", v},    {"S", s},    {"A", a},    {"O", o}, {"loss", loss}};
  page.put("tape", {{"call", "graph_to_svg(tape, names)"},
                    {"svg", graph_to_svg(tape, names).value_or("")},  // empty without Graphviz: the text is shown
                    {"dot", graph_to_dot(tape, names)}});
  const std::vector<std::string_view> calls = tape.names();
  page.equal("the tape holds five matrix products",
             static_cast<double>(std::count(calls.begin(), calls.end(), "matmul")), 5);
  const Gradients g = tape.backward(loss);

  const auto gradient = [&](const std::string& name, const Tensor& at, Loss f) {
    const Tensor analytic = page.show("d" + name, Shown{"gradients.of(…)", g.of(at)});
    const Tensor numeric = differences(at.detach(), f);
    const double gap = distance(analytic, numeric);
    page.put("d" + name + "/differences", drawing::to_json(numeric));
    page.put("d" + name + "/distance", drawing::rounded(gap));
    page.at_most("d" + name + " against finite differences", gap, 1e-8);
  };
  const Tensor xd = x.detach(), qd = q.detach(), kd = k.detach(), vd = v.detach();
  gradient("O", o, loss_of_o);
  gradient("A", a, [&](const Tensor& t) { return loss_of_a(t, vd); });
  gradient("V", v, [&](const Tensor& t) { return loss_of_qkv(qd, kd, t); });
  gradient("S", s, [&](const Tensor& t) { return loss_of_s(t, vd); });
  gradient("Q", q, [&](const Tensor& t) { return loss_of_qkv(t, kd, vd); });
  gradient("K", k, [&](const Tensor& t) { return loss_of_qkv(qd, t, vd); });
  gradient("Wq", wq, [&](const Tensor& t) { return loss_of_x(xd, t, w_k, w_v); });
  gradient("Wk", wk, [&](const Tensor& t) { return loss_of_x(xd, w_q, t, w_v); });
  gradient("Wv", wv, [&](const Tensor& t) { return loss_of_x(xd, w_q, w_k, t); });
  gradient("X", x, [&](const Tensor& t) { return loss_of_x(t, w_q, w_k, w_v); });
  gradient("E", e, [&](const Tensor& t) { return loss_of_x(embedding(t, ids), w_q, w_k, w_v); });
  const Tensor unused = concat({slice(g.of(e), 0, 1, 2), slice(g.of(e), 0, 3, 5)}, 0);
  page.equal("tokens that the sentence does not use have gradient exactly 0", unused, std::vector<double>(12, 0.0));
}

}  // namespace capstan::lesson
