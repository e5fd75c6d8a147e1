#pragma once
// Attention whose code is a library's: apart from our own, which also run on the emulated device.

#include "kernels/kernel.hpp"

#include <span>
#include <string>

namespace foreplan::kernels::cuda {

/// Fused attention and its gradients by cuDNN ("cudnn"), to hold our own against. Without the
/// library `make` fails with the reason.
[[nodiscard]] std::span<const Kernel* const> library_attention_kernels();

struct AttentionLibrary {
  std::string version;  ///< empty = it is not there
  std::string reason;   ///< what is missing, in words
};
[[nodiscard]] AttentionLibrary attention_library();

}  // namespace foreplan::kernels::cuda
