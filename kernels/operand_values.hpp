#pragma once
// From an operand's description to its bytes and back, and the comparison of outputs.

#include "kernels/kernel.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace foreplan::kernels {

/// `x` as `storage` keeps it: rounded to nearest, ties to even; FP8 saturates, the others overflow
/// to infinity. Integers are truncated.
[[nodiscard]] double rounded(double x, Storage storage);

/// Writes `values` as `storage` into `bytes`, which has room for them; reads them back.
void encode(std::span<const double> values, Storage storage, std::byte* bytes);
void decode(const std::byte* bytes, Storage storage, std::span<double> values);

/// What the operand holds before the first launch, already rounded to its storage: the same for the
/// same seed on every machine. NaN where it is unwritten (integers: -1).
[[nodiscard]] std::vector<double> initial_values(const Operand& operand, std::uint64_t seed);

/// Largest error over what the operand allows; above 1 the output is wrong. NaN counts as infinite.
struct Agreement {
  double worst = 0;
  std::string message;  ///< of the first wrong element: where, what was found, what was expected
};
[[nodiscard]] Agreement compare(const Operand& operand, std::span<const double> got,
                                std::span<const double> expected);

}  // namespace foreplan::kernels
