#pragma once
// Rows in a kernel's own type, seen as fp32; and work shared out between threads.

#include "kernels/host/row_math.hpp"
#include "kernels/kernel.hpp"
#include "kernels/reference/row_question.hpp"

#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

namespace foreplan::kernels::host {

/// Below so many elements a team of threads costs more than it saves (PyTorch's
/// at::internal::GRAIN_SIZE).
inline constexpr std::int64_t kLeastShared = 32768;

/// Calls body(first, last) on parts of 0..items, one part per thread; `elements` in all of them.
template <class Body>
void in_parts(std::int64_t items, std::int64_t elements, const Body& body) {
#pragma omp parallel if (elements >= kLeastShared)
  {
    const std::int64_t part = omp_get_thread_num(), parts = omp_get_num_threads();
    body(items * part / parts, items * (part + 1) / parts);
  }
}

/// A buffer of fp32 or bf16 numbers that is read and written in pieces.
class Numbers {
 public:
  Numbers(void* data, Storage storage)
      : data_(static_cast<std::byte*>(data)), size_(kernels::bytes_per_element(storage)) {}

  /// `count` numbers from `first` on; `room` holds them where they have to be converted.
  [[nodiscard]] const float* read(std::int64_t first, std::size_t count, float* room) const {
    if (size_ == sizeof(float)) return reinterpret_cast<const float*>(at(first));
    widen_bf16(reinterpret_cast<const std::uint16_t*>(at(first)), room, count);
    return room;
  }
  /// Where to put numbers before write(): their place itself, or `room`.
  [[nodiscard]] float* place(std::int64_t first, float* room) const {
    return size_ == sizeof(float) ? reinterpret_cast<float*>(at(first)) : room;
  }
  void write(std::int64_t first, std::size_t count, const float* values) const {
    if (size_ != sizeof(float)) {
      narrow_bf16(values, reinterpret_cast<std::uint16_t*>(at(first)), count);
    } else if (values != reinterpret_cast<const float*>(at(first))) {
      std::memcpy(at(first), values, count * sizeof(float));
    }
  }

 private:
  [[nodiscard]] std::byte* at(std::int64_t first) const {
    return data_ + static_cast<std::size_t>(first) * size_;
  }
  std::byte* data_;
  std::size_t size_;
};

/// Rooms of `count` numbers each, for the calling thread.
class Rooms {
 public:
  Rooms(std::size_t rooms, std::size_t count) : count_(count), data_(rooms * count) {}
  [[nodiscard]] float* operator[](std::size_t room) { return data_.data() + room * count_; }

 private:
  std::size_t count_;
  std::vector<float> data_;
};

/// Pieces in which elements without rows are worked on: they stay in a core's first cache.
inline constexpr std::int64_t kPiece = 2048;
/// Calls body(first, count) on pieces of 0..n within one part.
template <class Body>
void in_pieces(std::int64_t first, std::int64_t last, const Body& body) {
  for (; first < last; first += kPiece) {
    body(first, static_cast<std::size_t>(std::min(kPiece, last - first)));
  }
}

/// `made`, unless an operand is of a type that the host's loops do not convert: fp32 and bf16 they
/// do, whole numbers they read as they are.
[[nodiscard]] Result<Case> in_host_types(Result<Case> made);

/// Sums of columns, one vector per thread while rows are worked on.
class ColumnSums {
 public:
  ColumnSums(std::size_t vectors, std::size_t cols);
  /// Vector `which` of the calling thread.
  [[nodiscard]] float* own(std::size_t which);
  /// All threads' vectors `which`, added up.
  void total(std::size_t which, float* to) const;

 private:
  std::size_t vectors_, cols_;
  std::vector<std::vector<float>> of_thread_;
};

}  // namespace foreplan::kernels::host
