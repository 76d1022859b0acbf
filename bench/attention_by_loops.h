// Attention of a few rows by plain loops in f64, to hold results of any length against. Not for: timing.
#pragma once

#include <capstan/autograd/create.h>
#include <capstan/ops/attention.h>
#include <capstan/ops/rearrange.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace capstan::bench {

/// Query i sees the keys low ≤ j − i ≤ high with j < visible.
struct Sight {
  Index low, high, visible;
};

/// The last batch item's last head as [T, D].
inline Tensor last_head(const Tensor& x) {
  const Index batch = x.size(0), heads = x.size(1);
  return reshape(slice(slice(x, 0, batch - 1, batch), 1, heads - 1, heads), Shape{x.size(2), x.size(3)});
}

/// Up to 16 rows, the first and the last one among them.
inline std::vector<Index> sampled_rows(Index length) {
  std::vector<Index> rows;
  const Index count = std::min(length, Index{16});
  for (Index i = 0; i < count; ++i) rows.push_back(count == 1 ? 0 : i * (length - 1) / (count - 1));
  return rows;
}

/// x where a sampled row of the last head stands, else 0: as a cotangent it makes gradients that few loops can follow.
inline Tensor only_sampled_rows(const Tensor& x) {
  const Index length = x.size(2), width = x.size(3), head = (x.size(0) * x.size(1) - 1) * length;
  std::vector<float> kept(static_cast<std::size_t>(x.elements()));
  for (const Index row : sampled_rows(length))
    std::copy_n(x.data<float>().data() + (head + row) * width, width, kept.data() + (head + row) * width);
  return tensor(kept, x.shape());
}

/// out = softmax(q kᵀ / √D) v at the sampled rows of the last head, [rows · D], and the gradients of ⟨up, out⟩ over
/// those rows, each [T · D].
struct ByLoops {
  std::vector<double> out, dq, dk, dv;

  ByLoops(const Sight& sight, const Tensor& q4, const Tensor& k4, const Tensor& v4, const Tensor& up4)
      : dq(static_cast<std::size_t>(q4.size(2) * q4.size(3))), dk(dq.size()), dv(dq.size()) {
    const std::vector<double> q = last_head(q4).to_doubles(), k = last_head(k4).to_doubles(),
                              v = last_head(v4).to_doubles(), up = last_head(up4).to_doubles();
    const Index length = q4.size(2), width = q4.size(3);
    const double scale = 1 / std::sqrt(static_cast<double>(width));
    const auto dot = [&](const double* a, const double* b) {
      double sum = 0;
      for (Index d = 0; d < width; ++d) sum += a[d] * b[d];
      return sum;
    };
    const auto add = [&](double factor, const double* x, double* to) {
      for (Index d = 0; d < width; ++d) to[d] += factor * x[d];
    };
    for (const Index i : sampled_rows(length)) {
      const Index first = std::max(Index{0}, i + sight.low), end = std::min(sight.visible, i + sight.high + 1);
      const double *qi = &q[static_cast<std::size_t>(i * width)], *upi = &up[static_cast<std::size_t>(i * width)];
      std::vector<double> p, o(static_cast<std::size_t>(width));
      double total = 0;
      for (Index j = first; j < end; ++j) total += p.emplace_back(std::exp(scale * dot(qi, k.data() + j * width)));
      for (Index j = first; j < end; ++j) {
        double& weight = p[static_cast<std::size_t>(j - first)];
        weight /= total;
        add(weight, v.data() + j * width, o.data());
      }
      const double delta = dot(upi, o.data());
      for (Index j = first; j < end; ++j) {
        const double weight = p[static_cast<std::size_t>(j - first)];
        const double ds = weight * (dot(upi, v.data() + j * width) - delta);
        add(scale * ds, k.data() + j * width, dq.data() + i * width);
        add(scale * ds, qi, dk.data() + j * width);
        add(weight, upi, dv.data() + j * width);
      }
      out.insert(out.end(), o.begin(), o.end());
    }
  }
};

}  // namespace capstan::bench
