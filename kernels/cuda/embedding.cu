// Rows out of an embedding table, and their gradients added into an fp32 table by atomics (a table
// row that many tokens share is added to in any order: the last bits vary from run to run). A
// thread does 16 bytes of a row; sm_90 and later add 16 bytes at once. No shared memory. Bound by
// memory; the reached fraction is not measured here.

#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/tile.cuh"
#include "kernels/reference/cases.hpp"

namespace foreplan::kernels::cuda {
namespace {

template <class Unit>
__global__ void gather(const Unit* table, const std::int64_t* ids, Unit* rows, std::int64_t count,
                       int units, unsigned tiles) {
  const auto [row, unit] = tile_place(tiles);
  if (row >= count || unit >= units) return;
  rows[row * units + unit] = table[ids[row] * units + unit];
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
constexpr int kAddedAtOnce = 4;
#else
constexpr int kAddedAtOnce = 1;
#endif

template <int Width>
__device__ inline void add_to(float* at, const float (&values)[Width]) {
  constexpr int kStep = Width % kAddedAtOnce == 0 ? kAddedAtOnce : 1;
  for (int i = 0; i < Width; i += kStep) {
    if constexpr (kStep == 1) {
      atomicAdd(at + i, values[i]);
    } else {
      atomicAdd(reinterpret_cast<float4*>(at + i),
                make_float4(values[i], values[i + 1], values[i + 2], values[i + 3]));
    }
  }
}

template <class T, int Width>
__global__ void scatter_add(const T* dy, const std::int64_t* ids, float* dtable, std::int64_t rows,
                            int cols, unsigned tiles) {
  const auto [row, vector] = tile_place(tiles);
  const int col = vector * Width;
  if (row >= rows || col >= cols) return;
  float values[Width];
  load<Width>(dy + row * cols + col, values);
  add_to<Width>(dtable + ids[row] * cols + col, values);
}

template <class Unit>
void launch_gather(RowShape shape, std::int64_t units, std::span<void* const> b, Stream stream) {
  const TilePlan plan = plan_tiles(shape.rows, units);
  launch(gather<Unit>, plan.grid, plan.block, 0, stream, as<Unit>(b[0]), as<std::int64_t>(b[1]),
         as<Unit>(b[2]), shape.rows, static_cast<int>(units), plan.tiles);
}

template <class T, int Width>
void launch_scatter(RowShape shape, std::span<void* const> b, Stream stream) {
  const TilePlan plan = plan_tiles(shape.rows, shape.cols / Width);
  launch(scatter_add<T, Width>, plan.grid, plan.block, 0, stream, as<T>(b[0]),
         as<std::int64_t>(b[1]), as<float>(b[2]), shape.rows, static_cast<int>(shape.cols),
         plan.tiles);
}

Result<Case> make(const Question& question) {
  auto made = reference::embedding(question);
  if (!made) return made;
  const auto shape = std::get<RowShape>(question.shape);
  const bool forward = question.pass == Pass::forward;
  made->algorithm = forward ? "a vector per thread" : "a vector per thread, fp32 atomics";
  made->launch = [=, type = question.input](std::span<void* const> b, void*, Stream stream) {
    with_float_type(type, [&]<class T>() {
      const bool aligned = shape.cols % kWide<T> == 0;
      if (forward) {
        aligned ? launch_gather<uint4>(shape, shape.cols / kWide<T>, b, stream)
                : launch_gather<T>(shape, shape.cols, b, stream);
      } else {
        aligned ? launch_scatter<T, kWide<T>>(shape, b, stream)
                : launch_scatter<T, 1>(shape, b, stream);
      }
    });
  };
  return made;
}

}  // namespace

extern const Kernel kEmbedding{.op = "embedding",
                               .variant = "tile",
                               .summary = "rows of a table by id; gradients added into the table",
                               .parameters = reference::embedding_parameters(),
                               .make = make};

}  // namespace foreplan::kernels::cuda
