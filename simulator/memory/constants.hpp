#pragma once
// Memory that no formula gives: calibrated constants, each with its source.

#include "core/quantity.hpp"

namespace foreplan::simulator {

/// CUDA context and loaded kernels of one process: 0.3-0.5 GiB with lazy loading (CUDA 11.7 and
/// later, public reports; 484 MiB seen on a one-rank NCCL process).
inline constexpr double kContextBytes = 0.5 * kGiB;

/// NCCL buffers of one communicator: ring 24-32 channels x 12 MiB = 288-384 MiB, tree and NVLS add
/// to it (NCCL 2.30 init.cc computeBuffSizes; NVIDIA/nccl issue 964 reports 544 MiB for a two-rank
/// group).
inline constexpr double kCommunicatorBytes = 0.4 * kGiB;

/// cuBLAS workspaces of forward and backward thread (32 MiB each on Hopper) and what else a PyTorch
/// program without TransformerEngine keeps.
inline constexpr double kWorkspaceBytes = 96 * kMiB;

/// TransformerEngine's own cuBLAS workspace from compute capability 9 on, and before it (d0067d0
/// pytorch/cpp_extensions/gemm.py, get_cublas_workspace_size_bytes).
inline constexpr double kEngineWorkspaceBytes = 32 * kMiB;
inline constexpr double kOldEngineWorkspaceBytes = 4 * kMiB;
/// Its grouped linear layers have one for each of four streams.
inline constexpr int kGroupedWorkspaces = 4;
/// PyTorch's, one in the forward and one in the backward thread of ranks that multiply without
/// TransformerEngine (output layer, router): on Hopper, elsewhere, and as deterministic programs
/// must set it (CUBLAS_WORKSPACE_CONFIG=:4096:8).
inline constexpr double kTorchWorkspaceBytes = 32 * kMiB;
inline constexpr double kOtherTorchWorkspaceBytes = 8.125 * kMiB;

/// What PyTorch's caching allocator reserves beyond live activations and transients: published
/// torchtitan runs reserve 3-10 % more than they allocate.
inline constexpr double kFragmentationFraction = 0.06;

}  // namespace foreplan::simulator
