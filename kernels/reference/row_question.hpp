#pragma once
// What the makers of cases over rows share: reading a question, naming buffers, bounding errors.

#include "kernels/kernel.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::kernels::reference {

/// What an operator is defined for.
struct Accepted {
  std::vector<Pass> passes;
  std::vector<DType> inputs;
  std::vector<DType> outputs{};  ///< empty: the same as the input
};

/// A question about rows that has been found right.
struct RowQuestion {
  Pass pass{};
  RowShape shape;
  DType input{}, output{};
  std::map<std::string, std::int64_t, std::less<>> parameters;  ///< all of them, with fallbacks

  [[nodiscard]] std::int64_t parameter(std::string_view name) const;
  [[nodiscard]] std::int64_t elements() const { return shape.rows * shape.cols; }
  [[nodiscard]] bool is_forward() const { return pass == Pass::forward; }
};

/// Fails with all that is wrong: another kind of shape, no rows or columns, a pass or type that the
/// operator has not, a parameter that is unknown or out of range.
[[nodiscard]] Result<RowQuestion> read_rows(const Question& question,
                                            std::span<const Parameter> parameters,
                                            const Accepted& accepted);

/// The question's value of a declared parameter, or its fallback.
[[nodiscard]] std::int64_t parameter_of(const Question& question,
                                        std::span<const Parameter> parameters,
                                        std::string_view name);

/// How a DType lies in memory; tf32 as fp32. Not for fp4 and int8, which no kernel takes.
[[nodiscard]] Storage storage_of(DType type);

/// Largest relative error of rounding to nearest, and half the smallest subnormal number.
[[nodiscard]] double rounding(Storage storage);
[[nodiscard]] double smallest_error(Storage storage);

inline constexpr double kFp32Error = 0x1p-24;
/// Relative error of the device's fast exponential, logarithm and reciprocal square root together
/// over the arguments that occur (2 + |1.2 x| units in the last place each; CUDA C++ Programming
/// Guide, "Mathematical Functions", intrinsic functions).
inline constexpr double kFastMathError = 0x1p-18;

/// Error of an fp32 sum of `terms` numbers whose magnitudes add up to `total`: every addition on
/// the longest path errs by one rounding. A thread adds what it holds (at most 48 of them, or 1/512
/// of long rows), a tree joins the threads.
[[nodiscard]] double sum_error(std::int64_t terms, double total);

[[nodiscard]] Operand input(std::string_view name, std::int64_t elements, Storage storage,
                            Fill fill = Fill::normal, double scale = 1);
/// `absolute` and `relative` are what the arithmetic before the final rounding may err.
[[nodiscard]] Operand output(std::string_view name, std::int64_t elements, Storage storage,
                             double absolute, double relative);

inline constexpr std::int64_t kMostCols = std::int64_t{1} << 28;
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

}  // namespace foreplan::kernels::reference
