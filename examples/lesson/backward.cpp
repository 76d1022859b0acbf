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

/// Two weights, two values: small enough for a pencil.
void by_hand(Section& page) {
  Tape tape;
  const Tensor v = page.show("hand/v", SHOWN(tensor({{2, 4}, {6, 8}}, DType::f64)));
  const Tensor a = tape.watch(page.show("hand/a", SHOWN(tensor({{0.25, 0.75}}, DType::f64))));
  const Tensor o = page.show("hand/o", SHOWN(matmul(a, v)));
  const Tensor loss = page.show("hand/loss", SHOWN(sum(o * tensor({{1, 2}}, DType::f64))));  // O₁ + 2 O₂
  GIVEN(given_gradients, const Gradients gradients = tape.backward(loss));
  page.put("hand/given", {given_gradients});
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
  GIVEN(given_keep, const Tensor keep = reshape(Mask::causal().keep_tensor({1, 1, 3, 3}), {3, 3}));
  GIVEN(
      given_o, const auto loss_of_o = [](const Tensor& o) { return 0.5 * sum(o * o); });  // dO = O
  GIVEN(
      given_a, const auto loss_of_a = [&](const Tensor& a, const Tensor& v) { return loss_of_o(matmul(a, v)); });
  GIVEN(
      given_s, const auto loss_of_s = [&](const Tensor& s, const Tensor& v) {
        return loss_of_a(softmax(where(keep, s, -INFINITY), -1), v);
      });
  GIVEN(
      given_qkv, const auto loss_of_qkv = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
        return loss_of_s(matmul(q, transpose(k)) / std::sqrt(2.0), v);
      });
  GIVEN(
      given_x, const auto loss_of_x = [&](const Tensor& x, const Tensor& a, const Tensor& b, const Tensor& c) {
        return loss_of_qkv(matmul(x, a), matmul(x, b), matmul(x, c));
      });

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
  const Tensor a = tape.watch(page.show("A", SHOWN(softmax(where(keep, s, -INFINITY), -1))));
  const Tensor o = tape.watch(page.show("O", SHOWN(matmul(a, v))));
  const Tensor loss = page.show("loss", SHOWN(0.5 * sum(o * o)));

  const std::vector<GraphName> names{{"E", e}, {"W_Q", wq}, {"W_K", wk}, {"W_V", wv}, {"X", x}, {"Q", q},
                                     {"K", k}, {"V", v},    {"S", s},    {"A", a},    {"O", o}, {"loss", loss}};
  GIVEN(given_svg, const std::optional<std::string> svg = graph_to_svg(tape, names));
  page.put("tape", {{"call", given_svg},
                    {"svg", svg.value_or("")},  // empty without Graphviz: the text is shown
                    {"dot", graph_to_dot(tape, names)}});
  const std::vector<std::string_view> calls = tape.names();
  page.equal("the tape holds five matrix products",
             static_cast<double>(std::count(calls.begin(), calls.end(), "matmul")), 5);
  GIVEN(given_g, const Gradients g = tape.backward(loss));

  const auto gradient = [&](const std::string& name, const Shown& analytic, const Shown& numeric) {
    page.show("d" + name, analytic);
    const double gap = distance(analytic.value, numeric.value);
    page.show("d" + name + "/differences", numeric);
    page.put("d" + name + "/distance", drawing::rounded(gap));
    page.at_most("d" + name + " against finite differences", gap, 1e-8);
  };
  GIVEN(given_detached, const Tensor xd = x.detach(), qd = q.detach(), kd = k.detach(), vd = v.detach());
  page.put("given", {given_keep, given_g, given_detached, given_o, given_a, given_s, given_qkv, given_x});
  gradient("O", SHOWN(g.of(o)), SHOWN(differences(o.detach(), loss_of_o)));
  gradient("A", SHOWN(g.of(a)), SHOWN(differences(a.detach(), [&](const Tensor& t) { return loss_of_a(t, vd); })));
  gradient("V", SHOWN(g.of(v)),
           SHOWN(differences(v.detach(), [&](const Tensor& t) { return loss_of_qkv(qd, kd, t); })));
  gradient("S", SHOWN(g.of(s)), SHOWN(differences(s.detach(), [&](const Tensor& t) { return loss_of_s(t, vd); })));
  gradient("Q", SHOWN(g.of(q)),
           SHOWN(differences(q.detach(), [&](const Tensor& t) { return loss_of_qkv(t, kd, vd); })));
  gradient("K", SHOWN(g.of(k)),
           SHOWN(differences(k.detach(), [&](const Tensor& t) { return loss_of_qkv(qd, t, vd); })));
  gradient("Wq", SHOWN(g.of(wq)),
           SHOWN(differences(wq.detach(), [&](const Tensor& t) { return loss_of_x(xd, t, w_k, w_v); })));
  gradient("Wk", SHOWN(g.of(wk)),
           SHOWN(differences(wk.detach(), [&](const Tensor& t) { return loss_of_x(xd, w_q, t, w_v); })));
  gradient("Wv", SHOWN(g.of(wv)),
           SHOWN(differences(wv.detach(), [&](const Tensor& t) { return loss_of_x(xd, w_q, w_k, t); })));
  gradient("X", SHOWN(g.of(x)),
           SHOWN(differences(x.detach(), [&](const Tensor& t) { return loss_of_x(t, w_q, w_k, w_v); })));
  gradient(
      "E", SHOWN(g.of(e)),
      SHOWN(differences(e.detach(), [&](const Tensor& t) { return loss_of_x(embedding(t, ids), w_q, w_k, w_v); })));
  const Tensor unused = concat({slice(g.of(e), 0, 1, 2), slice(g.of(e), 0, 3, 5)}, 0);
  page.equal("tokens that the sentence does not use have gradient exactly 0", unused, std::vector<double>(12, 0.0));
}

}  // namespace capstan::lesson
