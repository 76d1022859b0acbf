// How a gradient fades with distance: one step through attention, as many as the distance through a recurrent net. See
// lesson.h.
#include <capstan/autograd/create.h>
#include <capstan/autograd/tape.h>
#include <capstan/ops/ops.h>

#include <cmath>

#include "lesson.h"

namespace capstan::lesson {

namespace {

constexpr Index batch = 64, length = 48, width = 16;

Tensor weight(std::uint64_t n) {
  return normal(Key{.seed = 41}.derive(n), {width, width}, 0, 1 / std::sqrt(static_cast<double>(width)), DType::f64);
}

GIVEN(
    given_cell, const auto cell = [](const Tensor& x, const Tensor& h, const Tensor& u, const Tensor& w) {
      return tanh(matmul(x, u) + matmul(h, w));
    });

/// The last state of h ← tanh(x_t U + h W) over t: a recurrent net (Elman 1990) from our ops.   x [B, T, C] → [B, C]
Tensor recurrent(const Tensor& x) {
  const Tensor u = weight(0), w = weight(1);
  Tensor h = zeros({batch, width}, DType::f64);
  for (Index t = 0; t < length; ++t) h = cell(reshape(slice(x, 1, t, t + 1), {batch, width}), h, u, w);
  return h;
}

/// The last output of one head of causal attention.   x [B, T, C] → [B, C]
Tensor attended(const Tensor& x) {
  const auto project = [&](std::uint64_t n) { return reshape(matmul(x, weight(n)), {batch, 1, length, width}); };
  const Tensor output = attention(project(2), project(3), project(4), {.mask = Mask::causal()}).output;
  return reshape(slice(output, 2, length - 1, length), {batch, width});
}

/// Mean over the batch of ‖∂⟨y, r⟩ / ∂x_t‖ for distances T − 1 − t = 0, 1, …, with y at the last position and r random.
Tensor by_distance(Tensor (*net)(const Tensor&)) {
  Tape tape;
  const Tensor x = tape.watch(normal(Key{.seed = 42}, {batch, length, width}, 0, 1, DType::f64));
  const Tensor y = net(x);
  const Tensor g = tape.backward(y, normal(Key{.seed = 43}, y.shape(), 0, 1, DType::f64)).of(x);
  return flip(mean(sqrt(sum(g * g, {2})), {0}), {0});
}

}  // namespace

void reach(Section page) {
  const Tensor through_cells = page.show("recurrent", SHOWN(by_distance(recurrent)));
  const Tensor through_attention = page.show("attention", SHOWN(by_distance(attended)));
  page.put("length", length);
  page.put("given", {given_cell});
  // Distance 0 is left out: there attention also has the query's own way.
  const Tensor near = slice(through_attention, 0, 1, 9), far = slice(through_attention, 0, length - 8, length);
  page.at_least("attention: far inputs weigh as much as near ones, to a half", (mean(far) / mean(near)).item(), 0.5);
  page.at_most("the recurrent net: the farthest input against the nearest",
               through_cells.at({length - 1}) / through_cells.at({0}), 1e-3);
  page.at_least("at the farthest input, attention against the recurrent net",
                through_attention.at({length - 1}) / through_cells.at({length - 1}), 10);
}

}  // namespace capstan::lesson
