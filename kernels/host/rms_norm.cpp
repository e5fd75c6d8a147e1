// RMSNorm forward and backward (Zhang and Sennrich 2019); oneDNN has none that trains. Rows are
// shared out between threads; each goes through a core's own cache twice. Bound by memory.

#include "kernels/host/rows.hpp"
#include "kernels/reference/cases.hpp"

#include <cmath>

namespace foreplan::kernels::host {
namespace {

struct Sizes {
  std::int64_t rows, cols;
  Storage storage;
  [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(cols); }
};

void forward(const Sizes& s, std::span<void* const> b) {
  const Numbers x(b[0], s.storage), weight(b[1], s.storage), y(b[2], s.storage);
  auto* const rstd = static_cast<float*>(b[3]);
  in_parts(s.rows, s.rows * s.cols, [&](std::int64_t first, std::int64_t last) {
    Rooms room(3, s.width());
    const float* const w = weight.read(0, s.width(), room[0]);
    for (std::int64_t r = first; r < last; ++r) {
      const float* const row = x.read(r * s.cols, s.width(), room[1]);
      const float mean = sum_of_products(row, row, s.width()) / static_cast<float>(s.cols);
      rstd[r] = 1 / std::sqrt(mean + static_cast<float>(reference::kNormEpsilon));
      float* const out = y.place(r * s.cols, room[2]);
      scaled_product(row, w, rstd[r], out, s.width());
      y.write(r * s.cols, s.width(), out);
    }
  });
}

void backward(const Sizes& s, std::span<void* const> b) {
  const Numbers x(b[0], s.storage), weight(b[1], s.storage), dy(b[2], s.storage),
      dx(b[4], s.storage);
  const auto* const rstd = static_cast<const float*>(b[3]);
  ColumnSums dweight(1, s.width());
  in_parts(s.rows, s.rows * s.cols, [&](std::int64_t first, std::int64_t last) {
    Rooms room(4, s.width());
    const float* const w = weight.read(0, s.width(), room[0]);
    for (std::int64_t r = first; r < last; ++r) {
      const float* const row = x.read(r * s.cols, s.width(), room[1]);
      const float* const gradient = dy.read(r * s.cols, s.width(), room[2]);
      const float product =
          rstd[r] * sum_of_products(row, w, gradient, s.width()) / static_cast<float>(s.cols);
      float* const out = dx.place(r * s.cols, room[3]);
      norm_gradient({.x = row, .weight = w, .dy = gradient, .rstd = rstd[r], .product = product},
                    out, s.width());
      dx.write(r * s.cols, s.width(), out);
      accumulate_product(row, gradient, rstd[r], dweight.own(0), s.width());
    }
  });
  dweight.total(0, static_cast<float*>(b[5]));
}

Result<Case> make(const Question& question) {
  auto made = in_host_types(reference::rms_norm(question));
  if (!made) return made;
  const auto& shape = std::get<RowShape>(question.shape);
  const Sizes sizes{shape.rows, shape.cols, made->operands.front().storage};
  made->algorithm = "vectorised loop";
  made->launch = [sizes, way = question.pass == Pass::forward ? forward : backward](
                     std::span<void* const> b, void*, Stream) { way(sizes, b); };
  return made;
}

}  // namespace

extern const Kernel kRmsNorm{.op = "rms_norm",
                             .variant = "loop",
                             .summary = "RMSNorm with gain, and its gradients",
                             .parameters = {},
                             .make = make};

}  // namespace foreplan::kernels::host
