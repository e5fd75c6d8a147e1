#pragma once
// What a training framework keeps, moves and overlaps: data files, one per framework and release.

#include "core/result.hpp"
#include "models/rank_graph.hpp"
#include "simulator/cost/conditions.hpp"
#include "simulator/frameworks/memory_traits.hpp"
#include "simulator/frameworks/offload_traits.hpp"
#include "simulator/memory/constants.hpp"
#include "simulator/memory/state_memory.hpp"
#include "simulator/plan/parallel_plan.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::simulator {

/// How the gradients of hybrid sharding get from a copy's shards to the other copies.
enum class ReplicaReduction : std::uint8_t {
  none,        ///< the framework has no hybrid sharding
  in_line,     ///< the all-reduce across copies follows each reduce-scatter on its stream
  own_stream,  ///< it runs beside the next unit's gather and reduce-scatter
};

/// ZeRO-3 that gathers parameter tensors by themselves, each into a list of as many views as there
/// are ranks, which the host makes and copies one by one, while the device waits.
struct TensorGathers {
  /// Tensors with fewer elements stay whole on every rank and are gathered once, after the update;
  /// 0 = units are gathered whole.
  double smallest = 0;
  /// After the forward that backward repeats, a tensor is given back and gathered again where as
  /// many elements are used before its backward.
  double reuse_distance = 0;
  [[nodiscard]] bool any() const { return smallest > 0; }
};

/// Traits of one framework release. Every value stands in `simulator/frameworks/<name>.yaml` with
/// its source.
struct FrameworkTraits {
  std::string name;  ///< e.g. "megatron-core"
  std::string summary;
  /// What tables of published runs call it, in lower case; parts of a name are enough.
  std::vector<std::string> runs_as;
  /// These traits hold only before that release of the vendor's container, e.g. "26.06"; empty =
  /// for every release that no other file of the same `runs_as` claims.
  std::string runs_before;
  /// What notes on runs say of a release that has these traits, in lower case.
  std::vector<std::string> runs_noted;
  /// These traits hold for the releases that have rotary positions: runs of models with them go
  /// before those of an older release.
  bool runs_rotary = false;
  /// These traits hold only for runs of models whose name, letters and digits in lower case,
  /// contains one of these texts; they go before those of all models. Empty = of every model.
  std::vector<std::string> runs_models;

  /// Published runs of models named so (as in `runs_models`) train the multi-token-prediction
  /// modules that the model has.
  std::vector<std::string> trains_prediction_of;
  /// How many further tokens those predict, by one module again and again; 0 = as many as the model
  /// has modules.
  int prediction_depth = 0;
  /// Published runs of models named so fill their chunks from the front: all are of one size but
  /// the last, which holds what is left.
  std::vector<std::string> fills_front_of;
  /// Published runs of models named so count the embedding, the loss and every module of
  /// multi-token prediction as a layer each: the first stage has one layer less, the last as many
  /// as it holds of the others.
  std::vector<std::string> counts_ends_of;

  StateRules states;
  MemoryTraits memory;
  OffloadTraits offload;
  models::AttentionKernel attention = models::AttentionKernel::fused;
  /// Architectures of devices on which latent attention has no fused backward, whatever `attention`
  /// says: its keys are wider than its values.
  std::vector<std::string> unfused_latent_on;
  AttentionGeneration attention_generation = AttentionGeneration::current;
  models::ElementwiseKernels elementwise = models::ElementwiseKernels::fused;
  models::LossKernel loss = models::LossKernel::unfused;
  bool gathers_logits = false;  ///< every TP rank works on the whole vocabulary's logits
  /// ZeRO-3: the sharded parameter is the master copy, the computing copy exists only gathered.
  bool shard_is_master = false;
  bool reshards_root = true;  ///< ZeRO-3: embedding and head are freed after forward like layers
  /// Linear layers that read the same tensor are GEMMs of their own.
  bool separate_projections = false;
  /// Sequence parallelism: the gathered input of a column-parallel layer is kept for its weight
  /// gradient (DTensor) instead of being gathered again.
  bool keeps_gathered_input = false;
  /// Each projection reduces its gradient of the shared input by itself.
  bool reduces_each_projection = false;
  /// Full recomputation runs a layer's last product again, though nothing reads what it makes.
  bool recomputes_last_product = true;
  /// FP8 scaled per tensor: weights are quantised before they are gathered.
  bool gathers_narrow_weights = false;
  models::ContextParallelKind context_parallel = models::ContextParallelKind::ring;
  int vocabulary_multiple = 128;  ///< vocabulary is padded to this times tp; 1 = not padded

  bool supports_tensor_parallel = true;
  bool supports_pipeline = true;
  bool supports_context_parallel = true;
  bool supports_expert_parallel = true;
  /// Without a word about it experts are split over the tensor-parallel ranks like everything else.
  bool splits_experts_unasked = false;
  std::vector<ZeroStage> zero_stages;  ///< in rising order
  ZeroStage max_zero_with_pipeline = ZeroStage::optimizer;
  ReplicaReduction replica_reduction = ReplicaReduction::none;
  /// What selective recomputation can name: the parts of each module. Empty optional = not stated,
  /// every module is taken.
  std::optional<std::vector<PartSet>> recompute_modules;

  /// Data-parallel gradients are reduced while the last micro-batch's backward runs.
  bool overlap_grad_reduce = true;
  /// Sharded parameters are gathered while the first micro-batch's forward runs.
  bool overlap_param_gather = true;
  /// Each rank sends its updated share to the others by a broadcast of its own, one after the
  /// other, instead of all taking part in one gather.
  bool gathers_by_broadcast = false;
  TensorGathers tensor_gathers;
  /// ZeRO-2 and 3 add up whole gradients on every rank, who then keeps its share.
  bool reduces_whole_gradients = false;
  /// Gradients of units sharded by ZeRO-2 and 3 wait unsharded until the last micro-batch instead
  /// of being reduced after each.
  bool accumulates_unsharded = false;
  /// Collectives that the program order allows beside a GEMM (async dgrad all-reduce, input gather
  /// for wgrad) really run beside it.
  bool overlap_tp_backward = true;
  /// Context-parallel exchanges run beside the attention steps.
  bool overlap_cp = true;
  /// Where the schedule is interleaved, tokens of one micro-batch are exchanged while another one's
  /// other pass computes; see `overlaps_experts`.
  bool overlap_ep_interleaved = false;
  /// Precisions in which that is done without pipeline stages, too, between micro-batches in turn.
  std::vector<Precision> overlap_ep_unpipelined;
  /// Experts' products run one after the other, each as a GEMM of its own.
  bool experts_one_by_one = false;
  models::TokenDispatcher token_dispatcher = models::TokenDispatcher::by_expert;
  /// Precisions whose grouped GEMMs take the experts' activations, biases and casts with them.
  std::vector<Precision> fused_expert_precisions;
  /// Precisions in which what the experts keep is copied away and back (see models::RankShape).
  std::vector<Precision> stashed_expert_precisions;
  /// Precisions whose attention cores multiply 8-bit operands (see models::RankShape).
  std::vector<Precision> narrow_attention_precisions;
  /// One kernel applies rotary embeddings whose sines are scaled, too.
  bool fuses_scaled_rotary = true;
  /// A stage updates its parameters before the others have ended the step, and takes the update
  /// back if the gradient norm turns out to need it: consecutive steps close up (Qi et al. 2024,
  /// section 4).
  bool post_validates_optimizer = false;
  /// Stage-to-stage transfers run beside compute when the schedule is interleaved.
  bool overlap_p2p_interleaved = true;
  /// Without sequence parallelism each TP rank sends its share of the hidden state to the next
  /// stage and the receivers gather it over the scale-up links.
  bool scatter_gather_transfers = false;
  /// The whole gradient buffer is set to zero once a step.
  bool zeroes_gradients = false;
  /// The whole gradient buffer is divided by the data-parallel ranks before it is reduced.
  bool scales_gradients = false;
  /// Bytes that the update of one element moves, with casts of its gradient before and of the
  /// parameter after; 0 = one fused kernel reads and writes the states once.
  double update_bytes = 0;
  /// Share of a hidden collective's time that the compute beside it loses to contention for SMs and
  /// memory bandwidth.
  double hidden_cost_fraction = 0;

  /// Deterministic kernels: PyTorch's cuBLAS workspace has one size on all devices.
  bool deterministic = false;
  bool keeps_narrow_operands = true;   ///< FP8: activations and weight copies are kept narrow
  RecomputePolicy unstated_recompute;  ///< what runs without a word about it mean
  /// The same of models with latent attention, and where that has no fused kernel.
  std::optional<RecomputePolicy> unstated_recompute_latent, unstated_recompute_unfused;
  /// Precisions whose products selective recomputation by operator has no name for.
  std::vector<Precision> unlisted_products;
  double dropout = 0;  ///< hidden and attention dropout of the framework's defaults

  double host_time_per_kernel_s = 0;  ///< CPU time to launch one kernel or collective
  /// Time of a tensor-parallel collective inside a step over the measured one, whose ranks start
  /// together.
  double tp_collective_skew = 1;
  /// CPU time of what surrounds one collective in Python (DTensor dispatch, hooks), where nothing
  /// runs beside it.
  double tp_collective_host_s = 0, dp_collective_host_s = 0;
  /// Copies of the whole unit that data parallelism makes around a collective, where nothing runs
  /// beside them: gathered parameters out of the buffer, gradients into it.
  double gather_copies = 0, reduce_copies = 0;
  double elementwise_traffic = 1;  ///< traffic of norms, activations, adds over the fused minimum
  double compiled_traffic = 1;     ///< the same where blocks are compiled (torch.compile)
  /// Bytes of a gradient element as data parallelism moves it in fp16 runs; 0 = as it is kept.
  double fp16_reduced_bytes = 0;
  [[nodiscard]] double reduced_bytes(Precision precision) const {
    return precision == Precision::fp16 && fp16_reduced_bytes > 0
               ? std::min(fp16_reduced_bytes, states.gradient_bytes)
               : states.gradient_bytes;
  }
  /// The kernels of the model's attention cores on a device of that architecture.
  [[nodiscard]] models::AttentionKernel attention_on(std::string_view architecture,
                                                     const models::ModelSpec& model) const;
  models::GradientSink gradient_sink = models::GradientSink::in_gemm;
  /// Half-width of the 90 % interval of peak memory, as a fraction.
  double memory_error = 0.1;
  double context_bytes = kContextBytes;
  int more_communicators = 0;  ///< beyond one for each parallel degree
  double bucket_bytes = 0;     ///< buckets that data-parallel collectives are copied through
  bool dummy_weight_gradients = false;  ///< one spare gradient per weight shape is kept (TE fusion)
  bool attention_mask_tensor = false;   ///< s x s byte mask made by the data loader

  /// Blocks run through torch.compile, which fuses norms and activations.
  void compile_blocks() {
    elementwise_traffic = compiled_traffic;
    elementwise = models::ElementwiseKernels::fused;
  }
};

/// Tokens of the experts are exchanged beside another micro-batch's other pass. Megatron core
/// refuses it with full recomputation and with more than one depth of multi-token prediction, and
/// with one it needs stages (transformer_config.py, overlap_moe_expert_parallel_comm).
[[nodiscard]] bool overlaps_experts(const FrameworkTraits& framework, const ParallelPlan& plan,
                                    int mtp_depth);

/// Names of the shipped frameworks, sorted.
[[nodiscard]] Result<std::vector<std::string>> framework_names();

/// Traits by name; an unknown name lists the nearest and all known ones.
[[nodiscard]] Result<FrameworkTraits> find_framework(std::string_view name, Place place = {});

/// Reads one traits file: every key is `{value: ..., source: "..."}`; a missing source is an error.
[[nodiscard]] Result<FrameworkTraits> read_framework(const std::filesystem::path& file);

/// Why the framework refuses the plan, or an empty text.
[[nodiscard]] std::string refusal(const FrameworkTraits& traits, const ParallelPlan& plan,
                                  const models::ModelSpec& model);
/// Whether the framework has modules that make up what the policy recomputes. Plans with another
/// one are priced where they are asked for, but not searched by default.
[[nodiscard]] bool recomputes(const FrameworkTraits& traits, const RecomputePolicy& policy);
/// The same answer as `refusal` without the text, for the search.
[[nodiscard]] bool refuses(const FrameworkTraits& traits, const ParallelPlan& plan,
                           const models::ModelSpec& model);

}  // namespace foreplan::simulator
