// Softmax-cross-entropy over rows of logits, forward and backward. Bound by memory, and by the
// exponential where the processor has narrow vectors.

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
  const Numbers logits(b[0], s.storage);
  const auto* const targets = static_cast<const std::int64_t*>(b[1]);
  auto *const loss = static_cast<float*>(b[2]), *const lse = static_cast<float*>(b[3]);
  in_parts(s.rows, s.rows * s.cols, [&](std::int64_t first, std::int64_t last) {
    Rooms room(1, s.width());
    for (std::int64_t r = first; r < last; ++r) {
      const float* const x = logits.read(r * s.cols, s.width(), room[0]);
      const float most = largest(x, s.width());
      lse[r] = most + std::log(sum_of_exponentials(x, -most, s.width()));
      loss[r] = lse[r] - x[targets[r]];
    }
  });
}

void backward(const Sizes& s, std::span<void* const> b) {
  const Numbers logits(b[0], s.storage), dlogits(b[4], s.storage);
  const auto* const targets = static_cast<const std::int64_t*>(b[1]);
  const auto *const lse = static_cast<const float*>(b[2]), *const dloss =
                                                               static_cast<const float*>(b[3]);
  in_parts(s.rows, s.rows * s.cols, [&](std::int64_t first, std::int64_t last) {
    Rooms room(2, s.width());
    for (std::int64_t r = first; r < last; ++r) {
      const float* const x = logits.read(r * s.cols, s.width(), room[0]);
      float* const out = dlogits.place(r * s.cols, room[1]);
      exponentials(x, 1, -lse[r], out, s.width());
      out[targets[r]] -= 1;
      scale(out, dloss[r], out, s.width());
      dlogits.write(r * s.cols, s.width(), out);
    }
  });
}

Result<Case> make(const Question& question) {
  auto made = in_host_types(reference::cross_entropy(question));
  if (!made) return made;
  const auto& shape = std::get<RowShape>(question.shape);
  const Sizes sizes{shape.rows, shape.cols, made->operands.front().storage};
  made->algorithm = "vectorised loop";
  made->launch = [sizes, way = question.pass == Pass::forward ? forward : backward](
                     std::span<void* const> b, void*, Stream) { way(sizes, b); };
  return made;
}

}  // namespace

extern const Kernel kCrossEntropy{.op = "cross_entropy",
                                  .variant = "loop",
                                  .summary = "loss over a vocabulary, and the logits' gradient",
                                  .parameters = {},
                                  .make = make};

}  // namespace foreplan::kernels::host
