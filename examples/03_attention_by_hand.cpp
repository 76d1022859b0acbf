// Causal attention, number by number: first three tokens with identity projections, then the whole chain from token ids to
// the loss and every gradient back to the embedding, each held against finite differences. Next: 04_hessian_vector.
//
// Output:
#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/ops.h>

#include <cmath>

using namespace capstan;

/// Rows of a matrix with three decimals, behind its name and shape.
void show(std::string_view name, const Tensor& x) {
  fmt::print("{:<8} {}\n", name, x.shape());
  for (Index i = 0; i < x.size(0); ++i) {
    for (Index j = 0; j < x.size(1); ++j) fmt::print(" {:>7.3f}", x.at({i, j}) + 0.0);
    fmt::print("\n");
  }
}

/// Largest |gradient − (f(x + h) − f(x − h)) / 2h| over the elements of x.
template <class F>
double distance(const Tensor& x, const Tensor& gradient, F f) {
  const double h = 1e-5;
  double worst = 0;
  for (Index i = 0; i < x.size(0); ++i)
    for (Index j = 0; j < x.size(1); ++j) {
      const auto moved = [&](double by) {
        std::vector<double> elements = x.to_doubles();
        elements[static_cast<std::size_t>(i * x.size(1) + j)] += by;
        return f(tensor(elements, x.shape())).item();
      };
      worst = std::max(worst, std::abs(gradient.at({i, j}) - (moved(h) - moved(-h)) / (2 * h)));
    }
  return worst;
}

/// softmax of the scores that a token may see: those at and before it.
Tensor causal_weights(const Tensor& scores) {
  const Tensor visible = Mask::causal().keep_tensor({1, 1, scores.size(0), scores.size(1)});
  const Tensor keep = reshape(visible, scores.shape());
  return softmax(where(keep, scores, tensor(-INFINITY, scores.dtype())), -1);
}

void three_tokens() {
  fmt::print("Three tokens, Q = K = V = X\n\n");
  const Tensor x = tensor({{1, 0}, {0, 1}, {1, 1}}, DType::f64);
  const Tensor scores = matmul(x, transpose(x));          // [3, 2] · [2, 3] → [3, 3]
  const Tensor scaled = scores / std::sqrt(2.0);          // d_k = 2
  const Tensor weights = causal_weights(scaled);          // rows sum to 1, 0 above the diagonal
  const Tensor output = matmul(weights, x);               // [3, 3] · [3, 2] → [3, 2]
  show("X", x);
  show("QKᵀ", scores);
  show("S", scaled);
  show("A", weights);
  show("O", output);
}

void whole_chain() {
  fmt::print("\nFrom ids to the loss and back: vocabulary 6, 3 tokens, d_model 4, d_k = d_v = 2\n\n");
  const Tensor ids = tensor({2, 0, 5}, DType::i32);
  const Tensor embedding_table = tensor({{0.1, 0.4, -0.3, 0.2},
                                         {0.5, -0.2, 0.3, 0.1},
                                         {-0.4, 0.3, 0.2, 0.6},
                                         {0.2, 0.1, -0.5, 0.3},
                                         {0.3, -0.6, 0.4, -0.1},
                                         {0.6, 0.2, 0.1, -0.4}},
                                        DType::f64);
  const Tensor w_q = tensor({{0.2, -0.5}, {0.7, 0.1}, {-0.3, 0.4}, {0.6, 0.3}}, DType::f64);
  const Tensor w_k = tensor({{-0.1, 0.6}, {0.4, -0.2}, {0.5, 0.3}, {-0.7, 0.2}}, DType::f64);
  const Tensor w_v = tensor({{0.3, 0.8}, {-0.6, 0.1}, {0.2, -0.4}, {0.5, 0.7}}, DType::f64);

  // One line a step; each takes what the step before made, so that a gradient can be checked from there on.
  const auto loss_of_o = [](const Tensor& o) { return 0.5 * sum(o * o); };  // dO = O
  const auto scores = [](const Tensor& q, const Tensor& k) { return matmul(q, transpose(k)) / std::sqrt(2.0); };
  const auto loss_of_qkv = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    return loss_of_o(matmul(causal_weights(scores(q, k)), v));
  };
  const auto loss_of_x = [&](const Tensor& x, const Tensor& a, const Tensor& b, const Tensor& c) {
    return loss_of_qkv(matmul(x, a), matmul(x, b), matmul(x, c));
  };

  Tape tape;
  const Tensor e = tape.watch(embedding_table), wq = tape.watch(w_q), wk = tape.watch(w_k), wv = tape.watch(w_v);
  const Tensor x = tape.watch(embedding(e, ids));  // watching a result keeps its gradient too
  const Tensor q = tape.watch(matmul(x, wq)), k = tape.watch(matmul(x, wk)), v = tape.watch(matmul(x, wv));
  const Tensor s = tape.watch(scores(q, k));
  const Tensor a = tape.watch(causal_weights(s));
  const Tensor o = tape.watch(matmul(a, v));
  const Tensor loss = loss_of_o(o);
  const Gradients g = tape.backward(loss);

  show("X", x);
  show("Q", q);
  show("K", k);
  show("V", v);
  show("S", s);
  show("A", a);
  show("O", o);
  fmt::print("loss {:.6f}\n\n", loss.item());

  fmt::print("Gradients, with their largest distance from finite differences\n\n");
  const auto check = [&](std::string_view name, const Tensor& at, auto f) {
    const double worst = distance(at.detach(), g.of(at), f);
    show(name, g.of(at));
    fmt::print("  from differences: {}\n", worst < 1e-9 ? "below 1e-9" : fmt::format("{:.1e}", worst));
  };
  const Tensor xd = x.detach(), qd = q.detach(), kd = k.detach(), vd = v.detach();
  check("dO", o, loss_of_o);
  check("dA", a, [&](const Tensor& t) { return loss_of_o(matmul(t, vd)); });
  check("dV", v, [&](const Tensor& t) { return loss_of_qkv(qd, kd, t); });
  check("dS", s, [&](const Tensor& t) { return loss_of_o(matmul(causal_weights(t), vd)); });
  check("dQ", q, [&](const Tensor& t) { return loss_of_qkv(t, kd, vd); });
  check("dK", k, [&](const Tensor& t) { return loss_of_qkv(qd, t, vd); });
  check("dW_Q", wq, [&](const Tensor& t) { return loss_of_x(xd, t, w_k, w_v); });
  check("dW_K", wk, [&](const Tensor& t) { return loss_of_x(xd, w_q, t, w_v); });
  check("dW_V", wv, [&](const Tensor& t) { return loss_of_x(xd, w_q, w_k, t); });
  check("dX", x, [&](const Tensor& t) { return loss_of_x(t, w_q, w_k, w_v); });
  check("dE", e, [&](const Tensor& t) { return loss_of_x(embedding(t, ids), w_q, w_k, w_v); });
}

int main() {
  three_tokens();
  whole_chain();
}
