// Copy, fill and strided copy of any type. Bound by memory.

#include "kernels/host/rows.hpp"
#include "kernels/operand_values.hpp"
#include "kernels/reference/cases.hpp"

#include <array>

namespace foreplan::kernels::host {
namespace {

/// Large enough that a call costs nothing, small enough that threads share evenly.
constexpr std::size_t kBlock = std::size_t{1} << 16;

template <class Body>
void in_blocks(std::size_t bytes, const Body& body) {
  const auto blocks = static_cast<std::int64_t>((bytes + kBlock - 1) / kBlock);
  in_parts(blocks, static_cast<std::int64_t>(bytes / sizeof(float)),
           [&](std::int64_t first, std::int64_t last) {
             const std::size_t begin = static_cast<std::size_t>(first) * kBlock;
             const std::size_t end = std::min(static_cast<std::size_t>(last) * kBlock, bytes);
             for (std::size_t at = begin; at < end; at += kBlock) {
               body(at, std::min(kBlock, end - at));
             }
           });
}

Result<Case> make_copy(const Question& question) {
  auto made = reference::copy(question);
  if (!made) return made;
  made->algorithm = "memcpy";
  made->launch = [bytes = made->operands.front().bytes()](std::span<void* const> b, void*, Stream) {
    in_blocks(bytes, [&](std::size_t at, std::size_t n) {
      std::memcpy(static_cast<std::byte*>(b[1]) + at, static_cast<const std::byte*>(b[0]) + at, n);
    });
  };
  return made;
}

Result<Case> make_fill(const Question& question) {
  auto made = reference::fill(question);
  if (!made) return made;
  const Operand& target = made->operands.front();
  const std::size_t size = kernels::bytes_per_element(target.storage);
  std::array<std::byte, 8> element{};
  encode(std::array{reference::kFillValue}, target.storage, element.data());
  made->algorithm = "vectorised loop";
  made->launch = [bytes = target.bytes(), size, element](std::span<void* const> b, void*, Stream) {
    std::array<std::byte, 4096> pattern;
    for (std::size_t i = 0; i < pattern.size(); ++i) pattern[i] = element[i % size];
    in_blocks(bytes, [&](std::size_t at, std::size_t n) {
      auto* const to = static_cast<std::byte*>(b[0]) + at;
      for (std::size_t i = 0; i < n; i += pattern.size()) {
        std::memcpy(to + i, pattern.data(), std::min(pattern.size(), n - i));
      }
    });
  };
  return made;
}

Result<Case> make_copy_strided(const Question& question) {
  auto made = reference::copy_strided(question);
  if (!made) return made;
  const auto& shape = std::get<RowShape>(question.shape);
  const std::size_t size = kernels::bytes_per_element(made->operands.front().storage);
  const std::size_t row = static_cast<std::size_t>(shape.cols) * size;
  const std::size_t pitch =
      static_cast<std::size_t>(made->operands.front().elements / shape.rows) * size;
  made->algorithm = "memcpy";
  made->launch = [shape, row, pitch](std::span<void* const> b, void*, Stream) {
    in_parts(shape.rows, shape.rows * shape.cols, [&](std::int64_t first, std::int64_t last) {
      for (auto r = static_cast<std::size_t>(first); r < static_cast<std::size_t>(last); ++r) {
        std::memcpy(static_cast<std::byte*>(b[1]) + r * row,
                    static_cast<const std::byte*>(b[0]) + r * pitch, row);
      }
    });
  };
  return made;
}

}  // namespace

extern const Kernel kCopy{.op = "copy",
                          .variant = "memcpy",
                          .summary = "one buffer into another",
                          .parameters = {},
                          .make = make_copy};
extern const Kernel kFill{.op = "fill",
                          .variant = "loop",
                          .summary = "one value into a buffer",
                          .parameters = {},
                          .make = make_fill};
extern const Kernel kCopyStrided{.op = "copy_strided",
                                 .variant = "memcpy",
                                 .summary = "rows of a wider matrix, packed",
                                 .parameters = reference::copy_strided_parameters(),
                                 .make = make_copy_strided};

}  // namespace foreplan::kernels::host
