#pragma once
// The mixer of a Mamba-2 layer: what one rank executes and keeps.

#include "models/rank/graph_builder.hpp"

namespace foreplan::models {

/// Input projection, causal convolution, chunked scan, gated norm and output projection, kernel by
/// kernel as Megatron-LM runs them (core/ssm/mamba_mixer.py, _ssm_training) over mamba_ssm's
/// MambaSplitConv1dScanCombinedFn: forward keeps the projection's output and the scan's, backward
/// convolves and scans again. Tensor parallelism splits heads and groups; context parallelism
/// exchanges the sequence for heads before the convolution and back after the scan, whatever
/// attention does (core/ssm/mamba_context_parallel.py). Returns the bytes alive at the worst moment
/// of the backward beyond the saved ones.
[[nodiscard]] Bytes add_mamba(GraphBuilder& builder, const MambaSpec& mamba);

}  // namespace foreplan::models
