#pragma once
// What a framework's memory holds beside states and activations: copies that the optimizer makes,
// blocks that come back late, tensors that the pipeline engine keeps.

namespace foreplan::simulator {

/// Part of FrameworkTraits; most frameworks have none of it.
struct MemoryTraits {
  /// Bytes per element of this rank's optimizer share that the step makes out of 16-bit gradients
  /// (flattened, in fp32). Where gradients are kept in fp32 the step reads them as they are.
  double gradient_copy_bytes = 0;
  /// The same for what the update itself writes beside its states; 0 = one fused kernel.
  double optimizer_temporary_bytes = 0;
  /// These are whole partitions, one tensor each, which no block that activations have left can
  /// hold: the allocator takes new memory for them.
  bool flat_partitions = false;
  /// Bytes per parameter of the copy in which fp32 gradients are all-reduced, one flat tensor.
  double reduction_copy_bytes = 0;
  /// Gathered parameters (ZeRO-3) are released by the host while the device still works towards
  /// them, on a stream that waits for no compute: as many as the model has may be held at once.
  bool gathers_run_ahead = false;
  /// A pipeline stage keeps its output from a micro-batch's forward until its backward.
  bool keeps_stage_outputs = false;
  /// The output layer, too, keeps a spare weight gradient where the layers do.
  bool dummy_head_gradient = false;
  /// Gradients are freed after every update, so that a backward that follows no other makes them
  /// while it gives kept activations back.
  bool frees_gradients = false;
  /// The token embedding is whole on every tensor-parallel rank.
  bool replicates_embedding = false;
  /// What it logs as peak memory is what the allocator had reserved.
  bool logs_reserved = false;
};

}  // namespace foreplan::simulator
