// Copy, fill and copy of rows out of a wider matrix: what memory gives at best. 16 bytes per thread
// and step, 2048 threads a multiprocessor; no shared memory. The copy rate is the yardstick of
// every other kernel here; it is not measured here.

#include "kernels/cuda/flat.cuh"
#include "kernels/cuda/tile.cuh"
#include "kernels/operand_values.hpp"
#include "kernels/reference/cases.hpp"

#include <cstring>

namespace foreplan::kernels::cuda {
namespace {

__global__ void copy_bytes(const uint4* source, uint4* target, std::int64_t vectors, int tail) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::int64_t v = thread; v < vectors; v += step) __stcg(target + v, __ldcg(source + v));
  if (thread < tail) {
    reinterpret_cast<unsigned char*>(target + vectors)[thread] =
        reinterpret_cast<const unsigned char*>(source + vectors)[thread];
  }
}

/// `pattern` repeats every 4 bytes.
__global__ void fill_bytes(uint4* target, std::int64_t vectors, int tail, unsigned pattern) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::int64_t v = thread; v < vectors; v += step) {
    __stcg(target + v, make_uint4(pattern, pattern, pattern, pattern));
  }
  if (thread < tail) {
    reinterpret_cast<unsigned char*>(target + vectors)[thread] =
        static_cast<unsigned char>(pattern >> (thread % 4 * 8));
  }
}

/// Rows of `units` accesses each, `pitch` accesses apart in the source.
template <class Unit>
__global__ void copy_rows(const Unit* source, Unit* target, std::int64_t rows, int units,
                          std::int64_t pitch, unsigned tiles) {
  const auto [row, unit] = tile_place(tiles);
  if (row >= rows || unit >= units) return;
  target[row * units + unit] = source[row * pitch + unit];
}

struct Bytes16 {
  std::int64_t vectors;
  int tail;
  explicit Bytes16(std::size_t bytes)
      : vectors(static_cast<std::int64_t>(bytes / 16)), tail(static_cast<int>(bytes % 16)) {}
  [[nodiscard]] unsigned grid() const { return strided_grid(vectors, kFlatThreads, kFlatBlocks); }
};

Result<Case> make_copy(const Question& question) {
  auto made = reference::copy(question);
  if (!made) return made;
  made->algorithm = "flat, 16-byte vectors";
  made->launch = [n = Bytes16(made->operands[0].bytes())](std::span<void* const> b, void*,
                                                          Stream stream) {
    launch(copy_bytes, n.grid(), kFlatThreads, 0, stream, as<uint4>(b[0]), as<uint4>(b[1]),
           n.vectors, n.tail);
  };
  return made;
}

Result<Case> make_fill(const Question& question) {
  auto made = reference::fill(question);
  if (!made) return made;
  const Operand& target = made->operands[0];
  std::byte bytes[4];
  const std::vector<double> values(4 / bytes_per_element(target.storage), reference::kFillValue);
  encode(values, target.storage, bytes);
  unsigned pattern = 0;
  std::memcpy(&pattern, bytes, sizeof pattern);
  made->algorithm = "flat, 16-byte vectors";
  made->launch = [n = Bytes16(target.bytes()), pattern](std::span<void* const> b, void*,
                                                        Stream stream) {
    launch(fill_bytes, n.grid(), kFlatThreads, 0, stream, as<uint4>(b[0]), n.vectors, n.tail,
           pattern);
  };
  return made;
}

template <class Unit>
void launch_rows(RowShape shape, std::int64_t pitch, std::size_t element_bytes,
                 std::span<void* const> b, Stream stream) {
  const auto in_units = [&](std::int64_t elements) {
    return elements * static_cast<std::int64_t>(element_bytes) /
           static_cast<std::int64_t>(sizeof(Unit));
  };
  const TilePlan plan = plan_tiles(shape.rows, in_units(shape.cols));
  launch(copy_rows<Unit>, plan.grid, plan.block, 0, stream, as<Unit>(b[0]), as<Unit>(b[1]),
         shape.rows, static_cast<int>(in_units(shape.cols)), in_units(pitch), plan.tiles);
}

Result<Case> make_copy_strided(const Question& question) {
  auto made = reference::copy_strided(question);
  if (!made) return made;
  const auto shape = std::get<RowShape>(question.shape);
  const std::int64_t pitch = made->operands[0].elements / shape.rows;
  const std::size_t size = bytes_per_element(made->operands[0].storage);
  const auto aligned = [size](std::int64_t elements) {
    return elements * static_cast<std::int64_t>(size) % 16 == 0;
  };
  const std::size_t unit = aligned(shape.cols) && aligned(pitch) ? 16 : size;
  made->algorithm = std::to_string(unit) + " bytes an access";
  made->launch = [=](std::span<void* const> b, void*, Stream stream) {
    switch (unit) {
      case 16: return launch_rows<uint4>(shape, pitch, size, b, stream);
      case 4: return launch_rows<std::uint32_t>(shape, pitch, size, b, stream);
      case 2: return launch_rows<std::uint16_t>(shape, pitch, size, b, stream);
      default: return launch_rows<std::uint8_t>(shape, pitch, size, b, stream);
    }
  };
  return made;
}

}  // namespace

extern const Kernel kCopy{.op = "copy",
                          .variant = "flat",
                          .summary = "copy of memory to memory",
                          .parameters = {},
                          .make = make_copy};
extern const Kernel kFill{.op = "fill",
                          .variant = "flat",
                          .summary = "one value into memory",
                          .parameters = {},
                          .make = make_fill};
extern const Kernel kCopyStrided{.op = "copy_strided",
                                 .variant = "tile",
                                 .summary = "rows out of a wider matrix",
                                 .parameters = reference::copy_strided_parameters(),
                                 .make = make_copy_strided};

}  // namespace foreplan::kernels::cuda
