// Rows out of a table, and their gradients added into it. Bound by memory.

#include "kernels/host/rows.hpp"
#include "kernels/reference/cases.hpp"

namespace foreplan::kernels::host {
namespace {

struct Sizes {
  std::int64_t rows, cols, vocabulary;
  Storage storage;
  [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(cols); }
};

void forward(const Sizes& s, std::span<void* const> b) {
  const auto* const table = static_cast<const std::byte*>(b[0]);
  const auto* const ids = static_cast<const std::int64_t*>(b[1]);
  auto* const rows = static_cast<std::byte*>(b[2]);
  const std::size_t bytes = s.width() * kernels::bytes_per_element(s.storage);
  in_parts(s.rows, s.rows * s.cols, [&](std::int64_t first, std::int64_t last) {
    for (auto r = static_cast<std::size_t>(first); r < static_cast<std::size_t>(last); ++r) {
      std::memcpy(rows + r * bytes, table + static_cast<std::size_t>(ids[r]) * bytes, bytes);
    }
  });
}

/// Each thread owns a part of the table: no two add to the same row, and the order is that of the
/// ids.
void backward(const Sizes& s, std::span<void* const> b) {
  const Numbers dy(b[0], s.storage);
  const auto* const ids = static_cast<const std::int64_t*>(b[1]);
  auto* const dtable = static_cast<float*>(b[2]);
  in_parts(s.vocabulary, s.rows * s.cols, [&](std::int64_t first, std::int64_t last) {
    Rooms room(1, s.width());
    for (std::int64_t r = 0; r < s.rows; ++r) {
      if (ids[r] < first || ids[r] >= last) continue;
      accumulate(dy.read(r * s.cols, s.width(), room[0]), dtable + ids[r] * s.cols, s.width());
    }
  });
}

Result<Case> make(const Question& question) {
  auto made = in_host_types(reference::embedding(question));
  if (!made) return made;
  const auto& shape = std::get<RowShape>(question.shape);
  const Sizes sizes{
      shape.rows, shape.cols,
      reference::parameter_of(question, reference::embedding_parameters(), "vocabulary"),
      made->operands.front().storage};
  made->algorithm = "vectorised loop";
  made->launch = [sizes, way = question.pass == Pass::forward ? forward : backward](
                     std::span<void* const> b, void*, Stream) { way(sizes, b); };
  return made;
}

}  // namespace

extern const Kernel kEmbedding{.op = "embedding",
                               .variant = "loop",
                               .summary = "rows of a table by number, and gradients added into it",
                               .parameters = reference::embedding_parameters(),
                               .make = make};

}  // namespace foreplan::kernels::host
