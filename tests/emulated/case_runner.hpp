#pragma once
// Runs one kernel at one shape on the emulated device and compares its outputs with its reference.

#include "kernels/kernel.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace foreplan::kernels {

/// Fails where the case cannot be made, the launch reports an error, bytes outside of the buffers
/// change, an input changes, or an output is not what the reference says. Runs under all thread
/// orders.
[[nodiscard]] testing::AssertionResult agrees_with_reference(const Kernel& kernel,
                                                             const Question& question,
                                                             std::uint64_t seed = 1);

/// Runs under all thread orders and compares the outputs byte by byte.
[[nodiscard]] testing::AssertionResult gives_the_same_bits_in_any_order(const Kernel& kernel,
                                                                        const Question& question);

/// "rms_norm/row forward 7x129 bf16"
[[nodiscard]] std::string text(const Kernel& kernel, const Question& question);

}  // namespace foreplan::kernels
