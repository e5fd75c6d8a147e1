// A job from DeepSpeed's JSON (DeepSpeed 0.19.8, deepspeed/runtime/config.py), alone or inside of
// the Hugging Face Trainer's arguments, which then say what it leaves at "auto".

#include "scenarios/jobs/deepspeed_table.hpp"
#include "scenarios/jobs/hugging_face_name.hpp"
#include "scenarios/jobs/job_format.hpp"
#include "scenarios/lookup.hpp"
#include "simulator/schedule/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreplan::scenarios {
namespace {

using simulator::Precision;
using simulator::ZeroStage;

constexpr std::string_view kAuto = "auto";

/// Its own keys, or the Trainer's with a `deepspeed` among them, in JSON or YAML.
/// (Megatron-DeepSpeed has a flag of that name.)
bool is_deepspeed(std::string_view text) {
  const auto holds = [&](std::string_view key) { return text.find(key) != std::string_view::npos; };
  if (first_character(text) != '{') {
    return has_yaml_key(text, "deepspeed") && has_yaml_key(text, "model_name_or_path");
  }
  return holds("\"zero_optimization\"") || holds("\"train_micro_batch_size_per_gpu\"") ||
         holds("\"train_batch_size\"") ||
         (holds("\"deepspeed\"") &&
          (holds("\"model_name_or_path\"") || holds("\"per_device_train_batch_size\"")));
}

/// The configuration, and the Trainer's arguments around it where it stands in some.
class DeepspeedReader {
 public:
  DeepspeedReader(Node config, std::optional<Node> trainer, OpenValues& open)
      : config_(std::move(config)), trainer_(std::move(trainer)), open_(open) {}

  ImportedJob read() {
    auto framework = simulator::find_framework("deepspeed");
    if (!framework) {
      open_.add(std::move(framework.error()));
      return {};
    }
    job_.framework = std::move(*framework);
    check_settings(config_, deepspeed_settings(), job_.notices);
    if (trainer_) check_trainer();
    read_model();
    read_degrees();
    read_zero();
    read_mics();
    read_batch();
    read_rest();
    read_offload();
    return std::move(job_);
  }

 private:
  /// A number of the configuration; empty where it is "auto" or not there.
  [[nodiscard]] std::optional<std::int64_t> number(const Node& root, std::string_view path) const {
    const auto node = setting(root, path);
    if (!node || (node->is_text() && node->text() == kAuto)) return std::nullopt;
    return node->integer(1, 1'000'000'000);
  }
  [[nodiscard]] std::optional<std::int64_t> trainer_number(std::string_view path) const {
    return trainer_ ? number(*trainer_, path) : std::nullopt;
  }
  /// A flag of the configuration; "auto" is what the Trainer says.
  [[nodiscard]] bool enabled(std::string_view path, std::string_view trainer_path) const {
    const auto node = setting(config_, path);
    if (node && !(node->is_text() && node->text() == kAuto)) return node->boolean();
    return node && trainer_ && flag_setting(*trainer_, trainer_path, false);
  }
  [[nodiscard]] Place place(std::string_view path) const {
    const auto node = setting(config_, path);
    return node ? node->place() : Place{.file = config_.place().file, .key = std::string(path)};
  }

  /// Most of the Trainer's arguments are about learning and logging, so unknown ones are only told.
  void check_trainer() {
    for (const std::string& key : trainer_->keys()) {
      if (key == "deepspeed" || trainer_->find(key)->is_null()) continue;
      const auto table = trainer_settings();
      const bool known = std::any_of(table.begin(), table.end(),
                                     [&](const Setting& row) { return row.path == key; });
      if (!known) job_.notices.push_back(fmt::format("{} is not read", key));
    }
  }

  void read_model() {
    if (auto given = open_.model()) {
      job_.model = std::move(*given);
      return;
    }
    const std::string name = trainer_ ? text_setting(*trainer_, "model_name_or_path", "") : "";
    if (!name.empty()) {
      if (auto found = hugging_face_model(name, config_.place().file)) {
        job_.model = std::move(*found);
        return;
      }
    }
    job_.model =
        open_.required_model(name.empty() ? "DeepSpeed takes it from the program"
                                          : fmt::format("{} is not in the catalogue", name));
  }

  void read_degrees() {
    simulator::ParallelPlan& plan = job_.plan;
    plan.tp = static_cast<int>(number(config_, "tensor_parallel.autotp_size").value_or(1));
    plan.cp = static_cast<int>(number(config_, "sequence_parallel_size").value_or(1));
    plan.pp = open_.number("search.pp").value_or(1);
    const bool experts = std::any_of(job_.model.layer_kinds.begin(), job_.model.layer_kinds.end(),
                                     [](const auto& kind) { return kind.moe.has_value(); });
    if (experts && flag_setting(config_, "expert_parallel.enabled", false)) {
      plan.ep = number_setting(config_, "expert_parallel.autoep_size", 1);
      plan.etp = number_setting(config_, "expert_parallel.expert_tensor_parallel_size", 1);
    } else if (experts) {
      plan.etp = plan.tp;
    }
    fill_data_parallel(job_, open_, place("tensor_parallel.autotp_size"));
  }

  void read_zero() {
    const auto stage = setting(config_, "zero_optimization.stage");
    job_.plan.zero = static_cast<ZeroStage>(stage ? stage->integer(0, 3) : 0);
    // On by default for stage 3 alone (runtime/zero/config.py).
    const bool fallback = job_.plan.zero == ZeroStage::parameters;
    const auto overlap = setting(config_, "zero_optimization.overlap_comm");
    const bool is_auto = overlap && overlap->is_text() && overlap->text() == kAuto;
    job_.framework.overlap_grad_reduce = overlap && !is_auto ? overlap->boolean() : fallback;
    if (text_setting(config_, "data_types.grad_accum_dtype", "bf16") == "fp32") {
      job_.framework.states.gradient_bytes = 4;
    }
  }

  /// MiCS of DeepSpeed 0.17: copies of ZeRO-3's states in groups of this size, whose gradients
  /// are added up after each reduce-scatter (runtime/zero/mics.py, partition_grads).
  void read_mics() {
    constexpr std::string_view kShards = "zero_optimization.mics_shard_size";
    const auto node = setting(config_, kShards);
    const int shards = node ? static_cast<int>(node->integer(-1, 1'000'000'000)) : -1;
    if (shards <= 0) return;  // none asked for
    const int dp = job_.plan.dp;
    if (job_.plan.zero != ZeroStage::parameters || dp % shards != 0) {
      open_.error(
          fmt::format("needs ZeRO-3 and a data-parallel degree that it divides, not ZeRO-{} "
                      "over {} ranks",
                      simulator::number(job_.plan.zero), dp),
          place(kShards));
      return;
    }
    job_.plan.dp_replicate = dp / shards;
    job_.framework.replica_reduction = simulator::ReplicaReduction::in_line;
    job_.notices.emplace_back(
        "mics_shard_size is modelled with an all-reduce after every micro-batch, not one per step");
  }

  /// Of train batch = micro-batch x accumulation x DP two are needed; one alone means an
  /// accumulation of 1 (runtime/config.py, _set_batch_related_parameters).
  void read_batch() {
    simulator::TrainingSetup& training = job_.training;
    const auto length = trainer_number("max_seq_length");
    const auto other = trainer_number("max_length");
    training.sequence_length = length ? *length : other ? *other : open_.sequence_length();
    auto global = number(config_, "train_batch_size");
    auto micro = number(config_, "train_micro_batch_size_per_gpu");
    auto steps = number(config_, "gradient_accumulation_steps");
    if (trainer_ && !micro) micro = trainer_number("per_device_train_batch_size").value_or(8);
    if (trainer_ && !steps) steps = trainer_number("gradient_accumulation_steps").value_or(1);
    const std::int64_t dp = job_.plan.dp;
    if (!global && !micro) {
      micro = open_.required_number("search.micro_batch", "the micro-batch", 1);
    }
    if (!global && !steps) global = open_.global_batch(training.sequence_length);
    if (global && !micro) micro = *global / (steps.value_or(1) * dp);
    if (!global) global = *micro * steps.value_or(1) * dp;
    job_.plan.micro_batch = static_cast<int>(std::clamp<std::int64_t>(*micro, 1, 1'000'000'000));
    training.global_batch = *global;
    if (steps && *global != *micro * *steps * dp) {
      open_.error(fmt::format("train_batch_size {} is not micro-batch {} x accumulation {} x DP {}",
                              *global, *micro, *steps, dp),
                  place("train_batch_size"));
    } else {
      check_global_batch(job_, open_, place("train_batch_size"));
    }
  }

  void read_rest() {
    const bool bf16 = enabled("bf16.enabled", "bf16"), fp16 = enabled("fp16.enabled", "fp16");
    if (bf16 && fp16) {
      open_.error("bf16 and fp16 modes cannot be simultaneously enabled", place("fp16.enabled"));
    }
    job_.plan.precision = bf16 ? Precision::bf16 : fp16 ? Precision::fp16 : Precision::fp32;
    if (!bf16 && !fp16) job_.framework.states = {4, 4, 0, 8};
    const std::string optimizer = text_setting(config_, "optimizer.type", "AdamW");
    std::string lower = canonical_name(optimizer);
    if (lower != "adam" && lower != "adamw" && lower != kAuto) {
      open_.error(fmt::format("{} is not modelled; known: Adam, AdamW", in_quotes(optimizer)),
                  place("optimizer.type"));
    }
    const auto policy = open_.recompute();
    if (policy) {
      job_.plan.recompute = *policy;
    } else if (trainer_ && flag_setting(*trainer_, "gradient_checkpointing", false)) {
      job_.plan.recompute.granularity = simulator::RecomputeGranularity::full;
    } else if (!trainer_) {
      job_.notices.emplace_back(
          "whether the program recomputes activations is not in the file; modelled without "
          "(--recompute full)");
    }
    job_.plan.schedule = static_cast<std::uint8_t>(simulator::default_schedule(1));
  }

  /// Whether `what` is kept off the device. NVMe is beyond host memory and slower.
  bool is_offloaded(std::string_view what, std::string_view older) {
    if (flag_setting(config_, fmt::format("zero_optimization.{}", older), false)) return true;
    const std::string key = fmt::format("zero_optimization.{}.device", what);
    const std::string device = text_setting(config_, key, "none");
    if (device == "nvme") open_.error("nvme is not modelled; known: none, cpu", place(key));
    return device == "cpu";
  }

  void read_offload() {
    simulator::Offload& offload = job_.plan.offload;
    if (is_offloaded("offload_optimizer", "cpu_offload")) {
      const auto ratio = setting(config_, "zero_optimization.offload_optimizer.ratio");
      offload.optimizer = ratio ? ratio->number(0, 1) : 1;
    }
    if (is_offloaded("offload_param", "cpu_offload_params")) offload.parameters = 1;
    const bool checkpoints =
        flag_setting(config_, "activation_checkpointing.cpu_checkpointing", false);
    if (checkpoints && job_.plan.recompute.granularity == simulator::RecomputeGranularity::full) {
      offload.activations = 1;
    }
  }

  Node config_;
  std::optional<Node> trainer_;
  OpenValues& open_;
  ImportedJob job_;
};

ImportedJob read(const JobText& text, OpenValues& open) {
  auto document = first_character(text.text) == '{'
                      ? Document::parse_json(text.text, text.file.string())
                      : Document::parse_yaml(text.text, text.file.string());
  if (!document) {
    open.add(std::move(document.error()));
    return {};
  }
  const Node root = document->root();
  const auto inside = setting(root, "deepspeed");
  if (!inside || inside->is_map()) {
    ImportedJob job =
        DeepspeedReader(inside.value_or(root), inside ? std::optional(root) : std::nullopt, open)
            .read();
    open.add(document->errors());
    return job;
  }
  auto config = Document::read_json(resolve_path(inside->text(), inside->place()));
  if (!config) {
    open.add(std::move(config.error()));
    return {};
  }
  ImportedJob job = DeepspeedReader(config->root(), root, open).read();
  open.add(document->errors());
  open.add(config->errors());
  return job;
}

}  // namespace

const JobFormat kDeepspeedJob = {
    "deepspeed", "JSON of DeepSpeed, or Hugging Face Trainer arguments (JSON, YAML) with one",
    &is_deepspeed, &read};

}  // namespace foreplan::scenarios
