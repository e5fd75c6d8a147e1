#pragma once
// The three norms over rows. Forward: one pass over memory, mean and variance from registers in two
// steps (no cancellation). Backward: a block walks over rows, keeps its part of the weights'
// gradients in registers, and writes one partial sum of them; a second kernel adds the partial sums
// in a fixed order. Traffic beyond the least: the partial sums, below 5 % at 8192 rows.

#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/row.cuh"
#include "kernels/reference/cases.hpp"

#include <algorithm>

namespace foreplan::kernels::cuda {

/// xhat w; xhat w + b; xhat (1 + w) + b with w and b of the row's sample.
enum class NormForm : std::uint8_t { rms, layer, modulate };

template <class T>
struct NormForward {
  const T *x, *gain, *shift;
  T* y;
  float *mean, *rstd;
  std::int64_t rows, rows_per_sample;
  int cols;
};

template <NormForm form, class T, int Width, int Held>
__global__ void __launch_bounds__(kMostRowThreads) norm_forward(NormForward<T> p) {
  __shared__ float scratch[kWarp];
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= p.rows) return;  // with several rows to a block, no warp waits for another
  const Row<T, Width, Held> x(p.x + row * p.cols, p.cols);
  const float n = static_cast<float>(p.cols);
  float mean = 0;
  if constexpr (form != NormForm::rms) {
    float sum = 0;
    x.visit([&](int, int, float(&v)[Width]) {
      for (int i = 0; i < Width; ++i) sum += v[i];
    });
    mean = row_sum(sum, scratch) / n;
  }
  float squares = 0;
  x.visit([&](int, int, float(&v)[Width]) {
    for (int i = 0; i < Width; ++i) squares += (v[i] - mean) * (v[i] - mean);
  });
  const float rstd =
      rsqrtf(row_sum(squares, scratch) / n + static_cast<float>(reference::kNormEpsilon));
  const std::int64_t sample = form == NormForm::modulate ? row / p.rows_per_sample * p.cols : 0;
  x.visit([&](int, int col, float(&v)[Width]) {
    float gain[Width], shift[Width] = {};
    load_again<Width>(p.gain + sample + col, gain);
    if constexpr (form != NormForm::rms) load_again<Width>(p.shift + sample + col, shift);
    for (int i = 0; i < Width; ++i) {
      const float factor = form == NormForm::modulate ? 1.0F + gain[i] : gain[i];
      v[i] = (v[i] - mean) * rstd * factor + shift[i];
    }
    store<Width>(p.y + row * p.cols + col, v);
  });
  if (threadIdx.x == 0) {
    if constexpr (form != NormForm::rms) p.mean[row] = mean;
    p.rstd[row] = rstd;
  }
}

template <class T>
struct NormBackward {
  const T *x, *gain, *dy;
  const float *mean, *rstd;
  T* dx;
  float* partials;  ///< [gain, shift][block][column]
  std::int64_t rows, rows_per_sample;
  int cols;
  unsigned slices;  ///< blocks that share the rows of a sample
};

/// Width x Held columns of this thread, summed over its rows.
template <int Width, int Held>
struct ColumnSums {
  float of[Held > 0 ? Held : 1][Width] = {};

  /// Adds up the rows of threads that do the same columns (in the order of threadIdx.y), then
  /// writes.
  __device__ void write(float* target, int cols, float* shared) {
    const int rows = static_cast<int>(blockDim.y);
    for (int y = 0; rows > 1 && y < rows; ++y) {
      if (static_cast<int>(threadIdx.y) == y) {
        for_each(cols, [&](int col, float(&sums)[Width]) {
          for (int i = 0; i < Width; ++i) {
            if (y > 0) sums[i] += shared[col + i];
            shared[col + i] = sums[i];
          }
        });
      }
      __syncthreads();
    }
    if (static_cast<int>(threadIdx.y) == rows - 1) {
      for_each(cols, [&](int col, float(&sums)[Width]) { store_fp32<Width>(target + col, sums); });
    }
  }

 private:
  template <class F>
  __device__ void for_each(int cols, F f) {
#pragma unroll
    for (int v = 0; v < Held; ++v) {
      const int col = (v * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * Width;
      if (col < cols) f(col, of[v]);
    }
  }
};

template <NormForm form, class T, int Width, int Held>
__global__ void __launch_bounds__(kMostRowThreads) norm_backward(NormBackward<T> p) {
  __shared__ float scratch[kWarp];
  __shared__ float columns[2 * kWarp * kWide<T>];  // of a row that one warp holds
  ColumnSums<Width, Held> dgain, dshift;
  const float n = static_cast<float>(p.cols);
  const std::int64_t sample = blockIdx.x / p.slices;
  const std::int64_t end = (sample + 1) * p.rows_per_sample;
  const T* const gains = p.gain + (form == NormForm::modulate ? sample * p.cols : 0);
  std::int64_t row = sample * p.rows_per_sample +
                     static_cast<std::int64_t>(blockIdx.x % p.slices) * blockDim.y + threadIdx.y;
  for (; row < end; row += static_cast<std::int64_t>(p.slices) * blockDim.y) {
    const Row<T, Width, Held> x(p.x + row * p.cols, p.cols), dy(p.dy + row * p.cols, p.cols);
    const float mean = form == NormForm::rms ? 0.0F : p.mean[row];
    const float rstd = p.rstd[row];
    // Turns (x, dy) into (xhat, g = dL/dxhat).
    const auto normalise = [&](int col, float(&xhat)[Width], float(&g)[Width]) {
      float gain[Width];
      load_again<Width>(gains + col, gain);
      for (int i = 0; i < Width; ++i) {
        xhat[i] = (xhat[i] - mean) * rstd;
        g[i] *= form == NormForm::modulate ? 1.0F + gain[i] : gain[i];
      }
    };
    float sum = 0, product = 0;
    x.visit_with(dy, [&](int v, int col, float(&xhat)[Width], float(&g)[Width]) {
      float gradient[Width];
      for (int i = 0; i < Width; ++i) gradient[i] = g[i];
      normalise(col, xhat, g);
      for (int i = 0; i < Width; ++i) {
        sum += g[i];
        product += g[i] * xhat[i];
        if constexpr (Held > 0) {
          dgain.of[v][i] += gradient[i] * xhat[i];
          dshift.of[v][i] += gradient[i];
        }
      }
    });
    const float mean_product = row_sum(product, scratch) / n;
    const float mean_sum = form == NormForm::rms ? 0.0F : row_sum(sum, scratch) / n;
    x.visit_with(dy, [&](int, int col, float(&xhat)[Width], float(&g)[Width]) {
      normalise(col, xhat, g);
      for (int i = 0; i < Width; ++i) g[i] = rstd * (g[i] - mean_sum - xhat[i] * mean_product);
      store<Width>(p.dx + row * p.cols + col, g);
    });
  }
  if constexpr (Held > 0) {
    float* const mine = p.partials + static_cast<std::int64_t>(blockIdx.x) * p.cols;
    dgain.write(mine, p.cols, columns);
    if constexpr (form != NormForm::rms) {
      __syncthreads();
      dshift.write(mine + static_cast<std::int64_t>(gridDim.x) * p.cols, p.cols, columns);
    }
  }
}

inline constexpr unsigned kColumnTile = 32, kColumnRows = 16;

/// Sum over threadIdx.y of a (32, 16) block, in a fixed order; right where threadIdx.y is 0.
__device__ inline float sum_of_column(float value) {
  __shared__ float tile[kColumnRows][kColumnTile];
  tile[threadIdx.y][threadIdx.x] = value;
  __syncthreads();
  float sum = 0;
  if (threadIdx.y == 0) {
    for (unsigned y = 0; y < kColumnRows; ++y) sum += tile[y][threadIdx.x];
  }
  __syncthreads();
  return sum;
}

/// Partial sums of the slices of each sample: target[sample][column].
static __global__ void sum_partials(const float* partials, unsigned slices, int cols,
                                    float* target) {
  const unsigned tiles = (static_cast<unsigned>(cols) + kColumnTile - 1) / kColumnTile;
  const int col = static_cast<int>(blockIdx.x % tiles * kColumnTile + threadIdx.x);
  const std::int64_t sample = blockIdx.x / tiles;
  float sum = 0;
  for (unsigned s = threadIdx.y; s < slices && col < cols; s += kColumnRows) {
    sum += partials[(sample * slices + s) * cols + col];
  }
  sum = sum_of_column(sum);
  if (threadIdx.y == 0 && col < cols) target[sample * cols + col] = sum;
}

/// The weights' gradients where rows are not held: reads x and dy a second time, column by column.
template <NormForm form, class T>
__global__ void norm_weight_gradients(NormBackward<T> p, float* dgain, float* dshift) {
  const unsigned tiles = (static_cast<unsigned>(p.cols) + kColumnTile - 1) / kColumnTile;
  const int col = static_cast<int>(blockIdx.x % tiles * kColumnTile + threadIdx.x);
  const std::int64_t sample = blockIdx.x / tiles, end = (sample + 1) * p.rows_per_sample;
  float gain = 0, shift = 0;
  for (std::int64_t row = sample * p.rows_per_sample + threadIdx.y; row < end && col < p.cols;
       row += kColumnRows) {
    const float mean = form == NormForm::rms ? 0.0F : p.mean[row];
    const float dy = to_float(p.dy[row * p.cols + col]);
    gain += dy * (to_float(p.x[row * p.cols + col]) - mean) * p.rstd[row];
    shift += dy;
  }
  gain = sum_of_column(gain);
  if constexpr (form != NormForm::rms) shift = sum_of_column(shift);
  if (threadIdx.y != 0 || col >= p.cols) return;
  dgain[sample * p.cols + col] = gain;
  if constexpr (form != NormForm::rms) dshift[sample * p.cols + col] = shift;
}

/// Blocks that share the rows of one sample: what fills `multiprocessors` at 1024 threads each, and
/// no more than there are rows.
inline unsigned slices_on(int multiprocessors, const RowPlan& plan, std::int64_t samples,
                          std::int64_t rows_per_sample) {
  const std::int64_t resident =
      std::int64_t{multiprocessors} * 1024 / (plan.block.x * plan.block.y);
  const std::int64_t useful = (rows_per_sample + plan.block.y - 1) / plan.block.y;
  return static_cast<unsigned>(std::clamp<std::int64_t>(resident / samples, 1, useful));
}
inline constexpr int kMostMultiprocessors = 256;  // bounds the workspace; a B200 has 148

struct NormSizes {
  RowShape shape;
  std::int64_t rows_per_sample;
  RowPlan plan;
  [[nodiscard]] std::int64_t samples() const { return shape.rows / rows_per_sample; }
  [[nodiscard]] int cols() const { return static_cast<int>(shape.cols); }
};

template <NormForm form, class T>
void launch_norm_forward(const NormSizes& n, std::span<void* const> buffers, Stream stream) {
  constexpr bool kRms = form == NormForm::rms;
  const std::size_t y = kRms ? 2 : 3;
  const NormForward<T> p{.x = as<T>(buffers[0]),
                         .gain = as<T>(buffers[1]),
                         .shift = kRms ? nullptr : as<T>(buffers[2]),
                         .y = as<T>(buffers[y]),
                         .mean = kRms ? nullptr : as<float>(buffers[4]),
                         .rstd = as<float>(buffers[kRms ? 3 : 5]),
                         .rows = n.shape.rows,
                         .rows_per_sample = n.rows_per_sample,
                         .cols = n.cols()};
  with_plan<T>(n.plan, [&]<int Width, int Held>() {
    launch(norm_forward<form, T, Width, Held>, n.plan.blocks(n.shape.rows), n.plan.block, 0, stream,
           p);
  });
}

template <NormForm form, class T>
void launch_norm_backward(const NormSizes& n, std::span<void* const> buffers, void* workspace,
                          Stream stream) {
  constexpr bool kRms = form == NormForm::rms;
  const int filled = std::min(multiprocessors(), kMostMultiprocessors);
  const unsigned slices = slices_on(filled, n.plan, n.samples(), n.rows_per_sample);
  const auto blocks = static_cast<unsigned>(slices * n.samples());
  const std::size_t dx = kRms ? 4 : 5;
  const NormBackward<T> p{.x = as<T>(buffers[0]),
                          .gain = as<T>(buffers[1]),
                          .dy = as<T>(buffers[2]),
                          .mean = kRms ? nullptr : as<float>(buffers[3]),
                          .rstd = as<float>(buffers[kRms ? 3 : 4]),
                          .dx = as<T>(buffers[dx]),
                          .partials = as<float>(workspace),
                          .rows = n.shape.rows,
                          .rows_per_sample = n.rows_per_sample,
                          .cols = n.cols(),
                          .slices = slices};
  with_plan<T>(n.plan, [&]<int Width, int Held>() {
    launch(norm_backward<form, T, Width, Held>, blocks, n.plan.block, 0, stream, p);
  });
  auto* const dgain = as<float>(buffers[dx + 1]);
  auto* const dshift = kRms ? nullptr : as<float>(buffers[dx + 2]);
  const auto tiles = static_cast<unsigned>((n.shape.cols + kColumnTile - 1) / kColumnTile);
  const dim3 grid(static_cast<unsigned>(tiles * n.samples())), block(kColumnTile, kColumnRows);
  if (n.plan.held == 0) {
    return launch(norm_weight_gradients<form, T>, grid, block, 0, stream, p, dgain, dshift);
  }
  launch(sum_partials, grid, block, 0, stream, p.partials, slices, n.cols(), dgain);
  if constexpr (!kRms) {
    launch(sum_partials, grid, block, 0, stream, p.partials + std::int64_t{blocks} * n.shape.cols,
           slices, n.cols(), dshift);
  }
}

/// Completes a case of one of the norms.
template <NormForm form>
Result<Case> with_norm_kernels(Result<Case> made, const Question& question,
                               std::int64_t rows_per_sample) {
  if (!made) return made;
  const auto shape = std::get<RowShape>(question.shape);
  const NormSizes n{.shape = shape,
                    .rows_per_sample = rows_per_sample > 0 ? rows_per_sample : shape.rows,
                    .plan = plan_rows(shape.cols, bytes_per_element(made->operands[0].storage))};
  made->algorithm = n.plan.text();
  if (question.pass == Pass::forward) {
    made->launch = [n, type = question.input](std::span<void* const> buffers, void*,
                                              Stream stream) {
      with_float_type(type, [&]<class T>() { launch_norm_forward<form, T>(n, buffers, stream); });
    };
    return made;
  }
  const std::size_t outputs = form == NormForm::rms ? 1 : 2;
  if (n.plan.held > 0) {
    const std::int64_t blocks =
        n.samples() * slices_on(kMostMultiprocessors, n.plan, n.samples(), n.rows_per_sample);
    made->workspace_bytes = outputs * sizeof(float) * static_cast<std::size_t>(shape.cols * blocks);
  }
  made->launch = [n, type = question.input](std::span<void* const> buffers, void* workspace,
                                            Stream stream) {
    with_float_type(
        type, [&]<class T>() { launch_norm_backward<form, T>(n, buffers, workspace, stream); });
  };
  return made;
}

}  // namespace foreplan::kernels::cuda
