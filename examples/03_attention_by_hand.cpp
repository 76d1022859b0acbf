// Causal attention, number by number: first three tokens with identity projections, then the whole chain from token ids to
// the loss and every gradient back to the embedding, each held against finite differences. Next: 04_hessian_vector.
//
// Output:
//   Three tokens, Q = K = V = X
//
//   X        [3, 2]
//      1.000   0.000
//      0.000   1.000
//      1.000   1.000
//   QKᵀ      [3, 3]
//      1.000   0.000   1.000
//      0.000   1.000   1.000
//      1.000   1.000   2.000
//   S        [3, 3]
//      0.707   0.000   0.707
//      0.000   0.707   0.707
//      0.707   0.707   1.414
//   A        [3, 3]
//         小猫 喜欢 小鱼
//   小猫  1.00 0.00 0.00
//   喜欢  0.33 0.67 0.00
//   小鱼  0.25 0.25 0.50
//   O        [3, 2]
//      1.000   0.000
//      0.330   0.670
//      0.752   0.752
//
//   From ids to the loss and back: vocabulary 6, 3 tokens, d_model 4, d_k = d_v = 2
//
//   X        [3, 4]
//     -1.200   0.900   0.600   1.800
//      0.300   1.200  -0.900   0.600
//      1.800   0.600   0.300  -1.200
//   Q        [3, 2]
//      2.580   2.940
//      3.060  -0.420
//     -0.060  -2.160
//   K        [3, 2]
//     -0.960  -0.720
//     -0.840  -0.420
//      2.100   1.620
//   V        [3, 2]
//      0.240   0.300
//     -1.020   2.280
//     -0.720   1.080
//   S        [3, 3]
//     -3.248  -2.406   7.199
//     -1.863  -1.693   4.063
//      1.140   0.677  -2.563
//   A        [3, 3]
//      1.000   0.000   0.000
//      0.457   0.543   0.000
//      0.605   0.380   0.015
//   O        [3, 2]
//      0.240   0.300
//     -0.444   1.374
//     -0.254   1.065
//   loss 1.715621
//
//   Gradients, with their largest distance from finite differences
//
//   dO       [3, 2]
//      0.240   0.300
//     -0.444   1.374
//     -0.254   1.065
//     from differences: below 1e-9
//   dA       [3, 3]
//      0.148   0.439   0.151
//      0.306   3.586   1.804
//      0.259   2.687   1.333
//     from differences: below 1e-9
//   dV       [3, 2]
//     -0.116   1.573
//     -0.337   1.151
//     -0.004   0.016
//     from differences: below 1e-9
//   dS       [3, 3]
//      0.000   0.000   0.000
//     -0.814   0.814   0.000
//     -0.568   0.566   0.002
//     from differences: below 1e-9
//   dQ       [3, 2]
//      0.000   0.000
//      0.069   0.173
//      0.052   0.123
//     from differences: below 1e-9
//   dK       [3, 2]
//     -1.737   1.110
//      1.737  -1.107
//      0.000  -0.003
//     from differences: below 1e-9
//   dW_Q     [4, 2]
//      0.115   0.274
//      0.114   0.281
//     -0.046  -0.118
//     -0.021  -0.045
//     from differences: below 1e-9
//   dW_K     [4, 2]
//      2.606  -1.669
//      0.521  -0.331
//     -2.606   1.661
//     -2.085   1.337
//     from differences: below 1e-9
//   dW_V     [4, 2]
//      0.032  -1.513
//     -0.512   2.806
//      0.233  -0.087
//     -0.407   3.502
//     from differences: below 1e-9
//   dX       [3, 4]
//      4.125  -1.380  -2.376   4.961
//     -0.182   2.599   0.115  -1.415
//     -0.083   0.107   0.051   0.154
//     from differences: below 1e-9
//   dE       [6, 4]
//     -0.182   2.599   0.115  -1.415
//      0.000   0.000   0.000   0.000
//      4.125  -1.380  -2.376   4.961
//      0.000   0.000   0.000   0.000
//      0.000   0.000   0.000   0.000
//     -0.083   0.107   0.051   0.154
//     from differences: below 1e-9
#include <capstan/autograd/create.h>
#include <capstan/autograd/format.h>
#include <capstan/autograd/heatmap.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/ops.h>

#include <cmath>

using namespace capstan;

/// Rows of a matrix with three decimals, behind its name and shape.
void show(std::string_view name, const Tensor& x) {
  fmt::print("{:<8} {}\n", name, x.shape());
  for (Index i = 0; i < x.size(0); ++i) {
    for (Index j = 0; j < x.size(1); ++j) fmt::print(" {:>7.3f}", std::round(x.at({i, j}) * 1000) / 1000 + 0.0);
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
  const Tensor scores = matmul(x, transpose(x));  // [3, 2] · [2, 3] → [3, 3]
  const Tensor scaled = scores / std::sqrt(2.0);  // d_k = 2
  const Tensor weights = causal_weights(scaled);  // rows sum to 1, 0 above the diagonal
  const Tensor output = matmul(weights, x);       // [3, 3] · [3, 2] → [3, 2]
  show("X", x);
  show("QKᵀ", scores);
  show("S", scaled);
  fmt::print("{:<8} {}\n", "A", weights.shape());
  print_heatmap(weights, {"小猫", "喜欢", "小鱼"});  // in colour on a terminal
  show("O", output);
}

void whole_chain() {
  fmt::print("\nFrom ids to the loss and back: vocabulary 6, 3 tokens, d_model 4, d_k = d_v = 2\n\n");
  const Tensor ids = tensor({2, 0, 5}, DType::i32);
  const Tensor embedding_table = tensor({{0.3, 1.2, -0.9, 0.6},
                                         {1.5, -0.6, 0.9, 0.3},
                                         {-1.2, 0.9, 0.6, 1.8},
                                         {0.6, 0.3, -1.5, 0.9},
                                         {0.9, -1.8, 1.2, -0.3},
                                         {1.8, 0.6, 0.3, -1.2}},
                                        DType::f64);
  const Tensor w_q = tensor({{0.4, -1}, {1.4, 0.2}, {-0.6, 0.8}, {1.2, 0.6}}, DType::f64);
  const Tensor w_k = tensor({{-0.2, 1.2}, {0.8, -0.4}, {1, 0.6}, {-1.4, 0.4}}, DType::f64);
  const Tensor w_v = tensor({{0.6, 1.6}, {-1.2, 0.2}, {0.4, -0.8}, {1, 1.4}}, DType::f64);

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
