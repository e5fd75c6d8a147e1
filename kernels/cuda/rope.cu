// Rotary position embedding in place (Su et al. 2021): pairs (i, i + d/2) of each head turn by the
// angle of the row's position; three axes share out the pairs for video and images. Angles come
// from fp32 tables, which the heads of a row find in L1. A thread turns one 16-byte vector of first
// halves and the one of second halves. Bound by memory; the reached fraction is not measured here.

#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/tile.cuh"
#include "kernels/reference/cases.hpp"
#include "kernels/reference/row_question.hpp"

namespace foreplan::kernels::cuda {
namespace {

template <class T>
struct Rope {
  T* x;
  const std::int32_t* positions;
  const float *cosines, *sines;
  std::int64_t rows;
  int cols, pairs;
  float direction;  ///< 1 forward, -1 backward
};

/// Sections of the pairs as reference::rope_axis.
template <int Axes>
__device__ inline int axis_of(int pair, int pairs) {
  if constexpr (Axes == 1) return 0;
  const int section = pairs / 3, first = pairs - 2 * section;
  return pair < first ? 0 : pair < first + section ? 1 : 2;
}

template <int Axes, class T, int Width>
__global__ void rotate(Rope<T> p, unsigned tiles) {
  const auto [row, vector] = tile_place(tiles);
  const int low = vector * Width;  // among the first halves of all heads
  if (row >= p.rows || low >= p.cols / 2) return;
  const int head = low / p.pairs, pair = low % p.pairs;
  T* const at = p.x + row * p.cols + static_cast<std::int64_t>(head) * 2 * p.pairs + pair;
  float a[Width], b[Width];
  load<Width>(at, a);
  load<Width>(at + p.pairs, b);
  for (int i = 0; i < Width; ++i) {
    const std::int64_t position = p.positions[row * Axes + axis_of<Axes>(pair + i, p.pairs)];
    const float c = __ldg(p.cosines + position * p.pairs + pair + i);
    const float s = p.direction * __ldg(p.sines + position * p.pairs + pair + i);
    const float first = a[i], second = b[i];
    a[i] = first * c - second * s;
    b[i] = second * c + first * s;
  }
  store<Width>(at, a);
  store<Width>(at + p.pairs, b);
}

struct Launch {
  RowShape shape;
  int pairs, axes;
  float direction;

  template <class T, int Width>
  void run(std::span<void* const> b, Stream stream) const {
    const Rope<T> p{.x = as<T>(b[0]),
                    .positions = as<std::int32_t>(b[1]),
                    .cosines = as<float>(b[2]),
                    .sines = as<float>(b[3]),
                    .rows = shape.rows,
                    .cols = static_cast<int>(shape.cols),
                    .pairs = pairs,
                    .direction = direction};
    const TilePlan plan = plan_tiles(shape.rows, shape.cols / 2 / Width);
    if (axes == 1) {
      launch(rotate<1, T, Width>, plan.grid, plan.block, 0, stream, p, plan.tiles);
    } else {
      launch(rotate<3, T, Width>, plan.grid, plan.block, 0, stream, p, plan.tiles);
    }
  }
};

Result<Case> make(const Question& question) {
  auto made = reference::rope(question);
  if (!made) return made;
  const auto shape = std::get<RowShape>(question.shape);
  const std::int64_t axes = made->operands[1].elements / shape.rows;
  const std::int64_t dim =
      reference::parameter_of(question, reference::rope_parameters(), "head_dim");
  const Launch l{shape, static_cast<int>(dim / 2), static_cast<int>(axes),
                 question.pass == Pass::forward ? 1.0F : -1.0F};
  made->algorithm = "a pair of vectors per thread, angles from tables";
  made->launch = [l, type = question.input](std::span<void* const> b, void*, Stream stream) {
    with_float_type(type, [&]<class T>() {
      l.pairs % kWide<T> == 0 ? l.run<T, kWide<T>>(b, stream) : l.run<T, 1>(b, stream);
    });
  };
  return made;
}

}  // namespace

extern const Kernel kRope{.op = "rope",
                          .variant = "table",
                          .summary = "rotary embedding in place, over 1 or 3 axes",
                          .parameters = reference::rope_parameters(),
                          .make = make};

}  // namespace foreplan::kernels::cuda
