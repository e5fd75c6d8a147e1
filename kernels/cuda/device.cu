#include "kernels/cuda/device.cuh"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/row.cuh"
#include "kernels/cuda/tile.cuh"

#include <algorithm>

namespace foreplan::kernels::cuda {

#if defined(FOREPLAN_CUDA_EMULATED)

void check(cudaError_t, const char*) {}
int multiprocessors() { return 2; }  // few, so that strides are taken in small cases

#else

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(std::string(call) + ": " + cudaGetErrorName(status) + ", " +
                           cudaGetErrorString(status));
}

int multiprocessors() {
  int device = 0, count = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute(MultiProcessorCount)");
  return count;
}

#endif

unsigned strided_grid(std::int64_t work_items, std::int64_t per_block, int waves) {
  const std::int64_t blocks = (work_items + per_block - 1) / per_block;
  const std::int64_t most = std::int64_t{multiprocessors()} * waves;
  return static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, most));
}

RowPlan plan_rows(std::int64_t cols, std::size_t element_bytes) {
  const auto wide = static_cast<std::int64_t>(16 / element_bytes);
  const bool aligned = cols % wide == 0;
  const std::int64_t vectors = aligned ? cols / wide : cols;
  std::int64_t threads = kWarp;
  while (vectors > 2 * threads && threads < kMostRowThreads) threads *= 2;
  const std::int64_t held = (vectors + threads - 1) / threads;
  RowPlan plan;
  plan.width = aligned ? static_cast<int>(wide) : 1;
  if (aligned && held <= kMostHeld) plan.held = static_cast<int>(held == 3 ? 4 : held);
  plan.block = dim3(static_cast<unsigned>(threads), threads == kWarp ? 4U : 1U);
  return plan;
}

std::string RowPlan::text() const {
  const std::string share =
      held > 0 ? std::to_string(held) + " vectors a thread in registers" : "read at each visit";
  return std::to_string(block.y) + " rows a block, " + std::to_string(block.x) +
         " threads a row, " + std::to_string(width) + " elements an access, " + share;
}

TilePlan plan_tiles(std::int64_t rows, std::int64_t vectors) {
  constexpr unsigned kThreads = 256;
  unsigned across = 8;
  while (across < kThreads && across < vectors) across *= 2;
  TilePlan plan;
  plan.block = dim3(across, kThreads / across);
  plan.tiles = static_cast<unsigned>((vectors + across - 1) / across);
  const std::int64_t row_blocks = (rows + plan.block.y - 1) / plan.block.y;
  plan.grid = dim3(static_cast<unsigned>(row_blocks * plan.tiles));
  return plan;
}

}  // namespace foreplan::kernels::cuda
