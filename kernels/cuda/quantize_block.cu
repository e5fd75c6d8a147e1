// Cast to FP8 with a scale per 1 x 128 or 128 x 128 elements (DeepSeek-V3, arXiv 2412.19437,
// section 3.3.2), and the transposition of FP8 bytes. See quantize.cuh.

#include "kernels/cuda/quantize.cuh"

namespace foreplan::kernels::cuda {
namespace {

template <Scale scaling>
Result<Case> with_cast(Result<Case> made, const Question& question) {
  if (!made) return made;
  made->algorithm = "128 x 128 tiles";
  made->launch = [shape = std::get<RowShape>(question.shape), in = question.input,
                  out = question.output](std::span<void* const> b, void*, Stream stream) {
    with_half_type(in, [&]<class T>() {
      Cast<T> p{};
      p.x = as<T>(b[0]);
      p.rows = shape.rows;
      p.cols = shape.cols;
      p.q = as<std::uint8_t>(b[1]);
      p.scales = as<float>(b[2]);
      if (b.size() > 3) p.transposed = as<std::uint8_t>(b[3]);
      if (b.size() > 4) p.transposed_scales = as<float>(b[4]);
      launch_cast<scaling>(p, out, stream);
    });
  };
  return made;
}

Result<Case> make_rows(const Question& question) {
  return with_cast<Scale::rows>(reference::quantize_rows(question), question);
}
Result<Case> make_blocks(const Question& question) {
  return with_cast<Scale::blocks>(reference::quantize_blocks(question), question);
}

constexpr int kByteTile = 64;

/// 64 x 64 bytes by 256 threads: four bytes of a row in, four bytes of a column out. Rows in shared
/// memory are 17 words apart, so that neither side meets a bank twice.
__global__ void transpose_bytes(const std::uint8_t* x, std::uint8_t* transposed, std::int64_t rows,
                                std::int64_t cols, unsigned tiles_across) {
  __shared__ std::uint8_t tile[kByteTile][kByteTile + 4];
  const std::int64_t top = static_cast<std::int64_t>(blockIdx.x / tiles_across) * kByteTile;
  const std::int64_t left = static_cast<std::int64_t>(blockIdx.x % tiles_across) * kByteTile;
  const int line = static_cast<int>(threadIdx.x) / 16,
            first = static_cast<int>(threadIdx.x) % 16 * 4;
  for (int row = line; row < kByteTile; row += 16) {
    const std::uint8_t* const from = x + (top + row) * cols + left + first;
    if (top + row >= rows) continue;
    if (cols % 4 == 0 && left + first < cols) {
      *reinterpret_cast<std::uint32_t*>(&tile[row][first]) =
          *reinterpret_cast<const std::uint32_t*>(from);
      continue;
    }
    for (int k = 0; k < 4 && left + first + k < cols; ++k) tile[row][first + k] = from[k];
  }
  __syncthreads();
  for (int col = line; col < kByteTile; col += 16) {
    if (left + col >= cols || top + first >= rows) continue;
    std::uint32_t four = 0;
    for (int k = 0; k < 4; ++k) four |= std::uint32_t{tile[first + k][col]} << (8 * k);
    const std::int64_t room = rows - top - first;
    store_four(transposed + (left + col) * rows + top + first, four,
               static_cast<int>(room < 4 ? room : 4), rows % 4 == 0);
  }
}

Result<Case> make_transpose(const Question& question) {
  auto made = reference::transpose(question);
  if (!made) return made;
  made->algorithm = "64 x 64 tiles";
  made->launch = [shape = std::get<RowShape>(question.shape)](std::span<void* const> b, void*,
                                                              Stream stream) {
    const auto across = static_cast<unsigned>((shape.cols + kByteTile - 1) / kByteTile);
    const auto down = static_cast<unsigned>((shape.rows + kByteTile - 1) / kByteTile);
    launch(transpose_bytes, across * down, 256, 0, stream, as<std::uint8_t>(b[0]),
           as<std::uint8_t>(b[1]), shape.rows, shape.cols, across);
  };
  return made;
}

}  // namespace

extern const Kernel kQuantizeRows{.op = "quantize",
                                  .variant = "rows_128",
                                  .summary = "cast to FP8 with a scale per 1 x 128 elements",
                                  .parameters = reference::quantize_parameters(),
                                  .make = make_rows};
extern const Kernel kQuantizeBlocks{.op = "quantize",
                                    .variant = "blocks_128",
                                    .summary = "cast to FP8 with a scale per 128 x 128 elements",
                                    .parameters = reference::quantize_parameters(),
                                    .make = make_blocks};
extern const Kernel kTranspose{.op = "transpose",
                               .variant = "tile",
                               .summary = "transposed FP8 matrix",
                               .parameters = {},
                               .make = make_transpose};

}  // namespace foreplan::kernels::cuda
