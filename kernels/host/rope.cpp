// RoPE in one and three dimensions, in place. Bound by memory.

#include "kernels/host/rows.hpp"
#include "kernels/reference/cases.hpp"

namespace foreplan::kernels::host {
namespace {

struct Sizes {
  std::int64_t rows, heads, dim;
  int axes;
  float direction;  ///< 1 forward, -1 back
  Storage storage;
};

/// The row's angles: of each pair those of its axis' position.
void gather_angles(const Sizes& s, const std::int32_t* positions, const float* table,
                   float* angles) {
  const auto pairs = static_cast<int>(s.dim / 2);
  for (int p = 0; p < pairs; ++p) {
    const auto position =
        static_cast<std::int64_t>(positions[reference::rope_axis(p, pairs, s.axes)]);
    angles[p] = table[position * pairs + p];
  }
}

void launch(const Sizes& s, std::span<void* const> b) {
  const Numbers x(b[0], s.storage);
  const auto* const positions = static_cast<const std::int32_t*>(b[1]);
  const auto *const cosines = static_cast<const float*>(b[2]), *const sines =
                                                                   static_cast<const float*>(b[3]);
  const std::int64_t cols = s.heads * s.dim;
  const auto width = static_cast<std::size_t>(cols), pairs = static_cast<std::size_t>(s.dim / 2);
  in_parts(s.rows, s.rows * cols, [&](std::int64_t first, std::int64_t last) {
    Rooms room(1, width), angle(2, pairs);
    for (std::int64_t r = first; r < last; ++r) {
      gather_angles(s, positions + r * s.axes, cosines, angle[0]);
      gather_angles(s, positions + r * s.axes, sines, angle[1]);
      auto* const row = const_cast<float*>(x.read(r * cols, width, room[0]));
      for (std::int64_t h = 0; h < s.heads; ++h) {
        float* const head = row + h * s.dim;
        rotate(head, head + pairs, {angle[0], angle[1], s.direction}, pairs);
      }
      x.write(r * cols, width, row);
    }
  });
}

Result<Case> make(const Question& question) {
  auto made = in_host_types(reference::rope(question));
  if (!made) return made;
  const auto& shape = std::get<RowShape>(question.shape);
  const auto declared = reference::rope_parameters();
  const std::int64_t dim = reference::parameter_of(question, declared, "head_dim");
  const Sizes sizes{shape.rows,
                    shape.cols / dim,
                    dim,
                    static_cast<int>(reference::parameter_of(question, declared, "axes")),
                    question.pass == Pass::forward ? 1.0F : -1.0F,
                    made->operands.front().storage};
  made->algorithm = "vectorised loop";
  made->launch = [sizes](std::span<void* const> b, void*, Stream) { launch(sizes, b); };
  return made;
}

}  // namespace

extern const Kernel kRope{.op = "rope",
                          .variant = "loop",
                          .summary = "rotary positions in one or three dimensions, in place",
                          .parameters = reference::rope_parameters(),
                          .make = make};

}  // namespace foreplan::kernels::host
