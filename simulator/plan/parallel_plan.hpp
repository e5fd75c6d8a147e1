#pragma once
// How one training step is spread over a cluster.

#include "core/operator.hpp"
#include "core/result.hpp"
#include "models/rank_graph.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::simulator {

/// What data-parallel ranks share out: 0 nothing, 1 optimizer state (Megatron's distributed
/// optimizer), 2 + gradients, 3 + parameters (FSDP full sharding). Rajbhandari et al. 2020,
/// section 5.
enum class ZeroStage : std::uint8_t { replicated, optimizer, gradients, parameters };
constexpr int number(ZeroStage stage) { return static_cast<int>(stage); }

enum class RecomputeGranularity : std::uint8_t { none, selective, full };

/// What backward rebuilds instead of keeping.
struct RecomputePolicy {
  RecomputeGranularity granularity = RecomputeGranularity::none;
  PartSet parts = 0;  ///< selective only
  /// full only: layers per model chunk that are recomputed (Megatron-LM `--recompute-method block
  /// --recompute-num-layers`); 0 = every layer.
  int layers_per_chunk = 0;
  friend constexpr bool operator==(const RecomputePolicy&, const RecomputePolicy&) = default;
};

/// Names of parts that can be recomputed on their own, as Megatron-LM's `--recompute-modules`
/// spells them, and the parts each stands for.
struct RecomputeModule {
  std::string_view name;
  PartSet parts;
};
[[nodiscard]] const std::vector<RecomputeModule>& recompute_modules();

/// "none", "full", "full:4" (4 layers per chunk), "core_attn", "core_attn+layernorm", ...
[[nodiscard]] std::string to_text(const RecomputePolicy& policy);
[[nodiscard]] Result<RecomputePolicy> parse_recompute(std::string_view text, Place place = {});

/// Compute precision of the linear layers; state dtypes are the framework's.
enum class Precision : std::uint8_t {
  bf16,
  fp16,
  fp8,  ///< delayed scaling, per tensor
  fp32,
  fp8_current,        ///< per tensor, scaled by the tensor's own maximum
  fp8_block,          ///< 1 x 128 activations, 128 x 128 weights (DeepSeek-V3)
  mxfp8,              ///< blocks of 32 (OCP microscaling)
  nvfp4,              ///< 4-bit, blocks of 16
  fp8_rowwise,        ///< torchao: a scale per row of each product's operands
  fp8_rowwise_gw_hp,  ///< the same, weight gradients in bf16
};
inline constexpr int kPrecisionCount = 10;

struct PrecisionTraits {
  Precision precision;
  std::string_view name;
  DType activation;  ///< hidden states, attention core, parameters
  models::GemmPrecision gemm;
};
inline constexpr std::array kPrecisions = {
    PrecisionTraits{Precision::bf16, "bf16", DType::bf16, models::GemmPrecision::native},
    PrecisionTraits{Precision::fp16, "fp16", DType::fp16, models::GemmPrecision::native},
    PrecisionTraits{Precision::fp8, "fp8", DType::bf16, models::GemmPrecision::fp8_delayed},
    PrecisionTraits{Precision::fp32, "fp32", DType::fp32, models::GemmPrecision::native},
    PrecisionTraits{Precision::fp8_current, "fp8_current", DType::bf16,
                    models::GemmPrecision::fp8_current},
    PrecisionTraits{Precision::fp8_block, "fp8_block", DType::bf16,
                    models::GemmPrecision::fp8_block},
    PrecisionTraits{Precision::mxfp8, "mxfp8", DType::bf16, models::GemmPrecision::mxfp8},
    PrecisionTraits{Precision::nvfp4, "nvfp4", DType::bf16, models::GemmPrecision::nvfp4},
    PrecisionTraits{Precision::fp8_rowwise, "fp8_rowwise", DType::bf16,
                    models::GemmPrecision::fp8_rowwise},
    PrecisionTraits{Precision::fp8_rowwise_gw_hp, "fp8_rowwise_gw_hp", DType::bf16,
                    models::GemmPrecision::fp8_rowwise_gw_hp},
};
static_assert(kPrecisions.size() == kPrecisionCount);
constexpr const PrecisionTraits& traits(Precision p) {
  return kPrecisions[static_cast<std::size_t>(p)];
}
constexpr std::string_view name(Precision p) { return traits(p).name; }

/// Shares of what a rank holds that stay in host memory instead.
struct Offload {
  double optimizer = 0;    ///< of the optimizer state; its update then runs on the host
  double parameters = 0;   ///< of the sharded parameters, which are fetched for every gather
  double activations = 0;  ///< of the layers, counted by what each keeps for backward
  [[nodiscard]] constexpr bool any() const {
    return optimizer > 0 || parameters > 0 || activations > 0;
  }
  friend constexpr bool operator==(const Offload&, const Offload&) = default;
};

/// "optimizer", "optimizer=0.5+activations=0.25", ...; "none" where nothing is offloaded.
[[nodiscard]] std::string to_text(const Offload& offload);

/// One plan. `world_size()` is derived; validity against a model, a cluster and a framework is
/// checked by `violated` (simulator/plan/validity.hpp).
struct ParallelPlan {
  int tp = 1, pp = 1, vpp = 1, dp = 1, cp = 1, ep = 1;
  int etp = 1;  ///< tensor parallelism inside an expert
  /// Copies of what `zero` shares out, each over the same number of data-parallel ranks: hybrid
  /// sharding (HSDP; Megatron-LM's optimizer instances). 1 = shared out over all of them.
  int dp_replicate = 1;
  bool sequence_parallel = false;
  ZeroStage zero = ZeroStage::replicated;
  int micro_batch = 1;  ///< sequences
  /// Interleaved: consecutive micro-batches that go through one model chunk before the next chunk's
  /// turn (Megatron-LM `--microbatch-group-size-per-virtual-pipeline-stage`); 0 = pp.
  int micro_batch_group = 0;
  RecomputePolicy recompute;
  Precision precision = Precision::bf16;
  Offload offload;
  std::uint8_t schedule = 0;   ///< index into simulator/schedule's registry
  std::uint8_t framework = 0;  ///< index into the question's frameworks

  [[nodiscard]] constexpr int world_size() const { return tp * pp * dp * cp; }
  /// Ranks that share an expert's gradients: tp*cp*dp / (etp*ep).
  [[nodiscard]] constexpr int expert_dp() const { return tp * cp * dp / (etp * ep); }
  /// Data-parallel ranks that share out one copy of the states; CP ranks share it out, too.
  [[nodiscard]] constexpr int dp_shard() const { return dp / dp_replicate; }
  friend constexpr bool operator==(const ParallelPlan&, const ParallelPlan&) = default;
};

/// Short text of the degrees that matter: "TP8 PP4 VPP5 DP2 MBS1 SP ZeRO-1 recompute none bf16".
[[nodiscard]] std::string to_text(const ParallelPlan& plan);

}  // namespace foreplan::simulator
