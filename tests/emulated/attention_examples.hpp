#pragma once
// Shapes that every attention kernel has to answer, on the emulated device and on a real one.

#include "kernels/kernel.hpp"

#include <iosfwd>
#include <span>

namespace foreplan::kernels {

struct AttentionExample {
  const char* name = "";
  AttentionShape shape;
  DType type = DType::bf16;
  int ragged = 0;  ///< the parameter of that name
};

/// How a failed test names it.
void PrintTo(const AttentionExample& example, std::ostream* to);

/// Lengths around and off the tile sizes of 48 to 128, several heads per KV head, every compiled
/// head dimension and one between, both types, a window, sequences of several lengths.
[[nodiscard]] std::span<const AttentionExample> attention_examples();

[[nodiscard]] Question attention_question(const AttentionExample& example, Pass pass);

}  // namespace foreplan::kernels
