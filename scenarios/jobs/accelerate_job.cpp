// A job from Accelerate's YAML with FSDP (accelerate 1.15.0, commands/config/config_args.py and
// utils/dataclasses.py). Model, batch and sequence length are the program's.

#include "scenarios/jobs/job_format.hpp"
#include "scenarios/jobs/settings.hpp"
#include "simulator/schedule/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace foreplan::scenarios {
namespace {

using simulator::Precision;
using simulator::ZeroStage;
using enum ArgumentUse;

constexpr auto kSettings = std::to_array<Setting>({
    {"compute_environment", read, ""},
    {"debug", neutral, ""},
    {"deepspeed_config.*", neutral, ""},
    {"distributed_type", read, ""},
    {"downcast_bf16", neutral, ""},
    {"dynamo_config.*", ignored, "torch.compile"},
    {"enable_cpu_affinity", neutral, ""},
    {"fp8_config.*", neutral, ""},
    {"fp8_config.backend", read, ""},
    {"fp8_config.enable_fsdp_float8_all_gather", ignored, "parameters are gathered in FP8"},
    {"fsdp_config.fsdp_activation_checkpointing", read, ""},
    {"fsdp_config.fsdp_activation_checkpointing_offload", read, ""},
    {"fsdp_config.fsdp_auto_wrap_policy", read, ""},
    {"fsdp_config.fsdp_backward_prefetch", ignored, "what is gathered ahead in backward"},
    {"fsdp_config.fsdp_cpu_ram_efficient_loading", neutral, ""},
    {"fsdp_config.fsdp_forward_prefetch", ignored, "what is gathered ahead in forward"},
    {"fsdp_config.fsdp_offload_params", read, ""},
    {"fsdp_config.fsdp_reshard_after_forward", read, ""},
    {"fsdp_config.fsdp_sharding_strategy", read, ""},
    {"fsdp_config.fsdp_state_dict_type", neutral, ""},
    {"fsdp_config.fsdp_sync_module_states", neutral, ""},
    {"fsdp_config.fsdp_transformer_layer_cls_to_wrap", neutral, ""},
    {"fsdp_config.fsdp_use_orig_params", neutral, ""},
    {"fsdp_config.fsdp_version", read, ""},
    {"gpu_ids", neutral, ""},
    {"machine_rank", neutral, ""},
    {"main_process_ip", neutral, ""},
    {"main_process_port", neutral, ""},
    {"main_training_function", neutral, ""},
    {"mixed_precision", read, ""},
    {"num_machines", read, ""},
    {"num_processes", read, ""},
    {"parallelism_config.parallelism_config_cp_backend", neutral, ""},
    {"parallelism_config.parallelism_config_cp_comm_strategy", ignored, "how CP moves K and V"},
    {"parallelism_config.parallelism_config_cp_size", read, ""},
    {"parallelism_config.parallelism_config_dp_replicate_size", read, ""},
    {"parallelism_config.parallelism_config_dp_shard_size", read, ""},
    {"parallelism_config.parallelism_config_tp_size", read, ""},
    {"rdzv_backend", neutral, ""},
    {"same_network", neutral, ""},
    {"tpu_env", neutral, ""},
    {"tpu_use_cluster", neutral, ""},
    {"tpu_use_sudo", neutral, ""},
    {"use_cpu", read, ""},
});

bool is_accelerate(std::string_view text) {
  return first_character(text) != '{' && has_yaml_key(text, "distributed_type");
}

class AccelerateReader {
 public:
  AccelerateReader(Node root, OpenValues& open) : root_(std::move(root)), open_(open) {}

  ImportedJob read() {
    auto framework = simulator::find_framework("accelerate-fsdp");
    if (!framework) {
      open_.add(std::move(framework.error()));
      return {};
    }
    job_.framework = std::move(*framework);
    if (!is_fsdp()) return {};
    check_settings(root_, kSettings, job_.notices);
    job_.model = open_.required_model("Accelerate takes it from the program");
    read_degrees();
    read_sharding();
    read_precision();
    read_training();
    return std::move(job_);
  }

 private:
  [[nodiscard]] std::string text(std::string_view path, std::string_view fallback) const {
    return text_setting(root_, path, fallback);
  }
  [[nodiscard]] Place place(std::string_view path) const {
    const auto node = setting(root_, path);
    return node ? node->place() : Place{.file = root_.place().file, .key = std::string(path)};
  }
  [[nodiscard]] int parallelism(std::string_view what) const {
    return number_setting(root_, fmt::format("parallelism_config.parallelism_config_{}_size", what),
                          1);
  }

  bool is_fsdp() {
    const std::string type = text("distributed_type", "");
    if (type == "FSDP") return true;
    open_.error(type == "DEEPSPEED"
                    ? std::string("DEEPSPEED: give the JSON file of deepspeed_config itself")
                    : fmt::format("{} is not modelled; known: FSDP", in_quotes(type)),
                place("distributed_type"));
    return false;
  }

  void read_degrees() {
    simulator::ParallelPlan& plan = job_.plan;
    plan.tp = parallelism("tp");
    plan.cp = parallelism("cp");
    fill_data_parallel(job_, open_, place("num_processes"));
    const int processes = number_setting(root_, "num_processes", open_.devices());
    if (processes != open_.devices()) {
      open_.error(
          fmt::format("{} processes, but the cluster has {} GPUs", processes, open_.devices()),
          place("num_processes"));
    }
    if (!setting(root_, "parallelism_config")) return;
    const int replicas = parallelism("dp_replicate"), shards = parallelism("dp_shard");
    if (replicas * shards * plan.tp * plan.cp != processes) {
      open_.error(fmt::format("total_size {} does not match num_processes {}",
                              replicas * shards * plan.tp * plan.cp, processes),
                  place("parallelism_config"));
    }
    if (shards * plan.cp == 1) {
      open_.error("leaves FSDP nothing to shard across: dp_shard_size and cp_size are both 1",
                  place("parallelism_config"));
    }
    plan.dp_replicate = replicas;
  }

  /// FSDP 1 has strategies by name or number, FSDP 2 a flag.
  void read_sharding() {
    const int version = number_setting(root_, "fsdp_config.fsdp_version", 1);
    if (version == 2) {
      const bool reshard = flag_setting(root_, "fsdp_config.fsdp_reshard_after_forward", true);
      job_.plan.zero = reshard ? ZeroStage::parameters : ZeroStage::gradients;
      return;
    }
    if (setting(root_, "parallelism_config")) {
      open_.error("needs fsdp_version: 2", place("parallelism_config"));
    }
    const std::string_view key = "fsdp_config.fsdp_sharding_strategy";
    const std::string strategy = text(key, "FULL_SHARD");
    constexpr std::string_view kNames[] = {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD",
                                           "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"};
    std::size_t index = 0;
    while (index < std::size(kNames) && strategy != kNames[index] &&
           strategy != std::to_string(index + 1)) {
      ++index;
    }
    if (index >= std::size(kNames) || index == 2) {
      open_.error(fmt::format("{} is not modelled; known: FULL_SHARD, SHARD_GRAD_OP, HYBRID_SHARD, "
                              "HYBRID_SHARD_ZERO2",
                              in_quotes(strategy)),
                  place(key));
      return;
    }
    job_.plan.zero = index == 0 || index == 3 ? ZeroStage::parameters : ZeroStage::gradients;
    // A replica is a node.
    if (index >= 3) job_.plan.dp_replicate = number_setting(root_, "num_machines", 1);
  }

  void read_offload() {
    simulator::Offload& offload = job_.plan.offload;
    if (flag_setting(root_, "fsdp_config.fsdp_offload_params", false))
      offload.optimizer = offload.parameters = 1;
    constexpr std::string_view kCheckpoints = "fsdp_config.fsdp_activation_checkpointing_offload";
    if (!flag_setting(root_, kCheckpoints, false)) return;
    offload.activations = 1;
    if (job_.plan.recompute.granularity != simulator::RecomputeGranularity::full)
      open_.error("requires fsdp_activation_checkpointing", place(kCheckpoints));
  }

  void read_precision() {
    Precision& precision = job_.plan.precision;
    const std::string name = text("mixed_precision", "no");
    if (name == "fp8") {
      const std::string backend = text("fp8_config.backend", "TE");
      precision = backend == "AO" ? Precision::fp8_current : Precision::fp8;
      if (backend != "AO" && backend != "TE") {
        open_.error(fmt::format("{} is not modelled; known: TE, AO", in_quotes(backend)),
                    place("fp8_config.backend"));
      }
      return;
    }
    static constexpr std::array<std::pair<std::string_view, Precision>, 3> kNames = {
        {{"no", Precision::fp32}, {"fp16", Precision::fp16}, {"bf16", Precision::bf16}}};
    const auto* known = std::find_if(kNames.begin(), kNames.end(),
                                     [&](const auto& row) { return row.first == name; });
    if (known == kNames.end()) {
      open_.error(fmt::format("{}; allowed: no, fp16, bf16, fp8", in_quotes(name)),
                  place("mixed_precision"));
    } else {
      precision = known->second;
    }
  }

  void read_training() {
    simulator::TrainingSetup& training = job_.training;
    training.sequence_length = open_.sequence_length();
    job_.plan.micro_batch = open_.required_number("search.micro_batch", "the micro-batch", 1);
    training.global_batch = open_.required_global_batch(training.sequence_length);
    check_global_batch(job_, open_, Place{.key = "--global-batch"});
    if (flag_setting(root_, "fsdp_config.fsdp_activation_checkpointing", false)) {
      job_.plan.recompute.granularity = simulator::RecomputeGranularity::full;
    }
    read_offload();
    job_.plan.schedule = static_cast<std::uint8_t>(simulator::default_schedule(1));
  }

  Node root_;
  OpenValues& open_;
  ImportedJob job_;
};

ImportedJob read_job(const JobText& text, OpenValues& open) {
  auto document = Document::parse_yaml(text.text, text.file.string());
  if (!document) {
    open.add(std::move(document.error()));
    return {};
  }
  ImportedJob job = AccelerateReader(document->root(), open).read();
  open.add(document->errors());
  return job;
}

}  // namespace

const JobFormat kAccelerateJob = {"accelerate", "YAML of Accelerate with FSDP", &is_accelerate,
                                  &read_job};

}  // namespace foreplan::scenarios
