// A job from torchtitan's TOML (pytorch/torchtitan v0.2.2, torchtitan/config/job_config.py; the
// later releases read Python instead).

#include "models/catalogue.hpp"
#include "scenarios/jobs/job_format.hpp"
#include "scenarios/jobs/torchtitan_models.hpp"
#include "scenarios/jobs/torchtitan_schedules.hpp"
#include "scenarios/jobs/torchtitan_table.hpp"
#include "simulator/plan/stage_layout.hpp"
#include "simulator/schedule/schedule.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace foreplan::scenarios {
namespace {

using simulator::Precision;
using simulator::RecomputeGranularity;
using simulator::ZeroStage;

/// Layers per chunk as torchtitan deals them out: the embedding counts as `first` layers, the loss
/// as `last`, the first chunks get what does not divide (distributed/pipeline_parallel.py).
std::vector<int> torchtitan_chunks(int layers, int chunks, int first, int last) {
  const int all = layers + first + last;
  std::vector<int> sizes(static_cast<std::size_t>(chunks), all / chunks);
  for (int i = 0; i < all % chunks; ++i) ++sizes[static_cast<std::size_t>(i)];
  sizes.front() -= first;
  sizes.back() -= last;
  return sizes;
}

bool is_torchtitan(std::string_view text) {
  for (const std::string_view section :
       {"[training]", "[parallelism]", "[activation_checkpoint]"}) {
    const auto at = text.find(section);
    if (at != std::string_view::npos && (at == 0 || text[at - 1] == '\n')) return true;
  }
  return false;
}

class TorchtitanReader {
 public:
  TorchtitanReader(const Document& document, OpenValues& open)
      : root_(document.root()), open_(open) {}

  ImportedJob read() {
    check_settings(root_, torchtitan_settings(), job_.notices);
    auto framework = simulator::find_framework("torchtitan");
    if (!framework) {
      open_.add(std::move(framework.error()));
      return {};
    }
    job_.framework = std::move(*framework);
    read_model();
    read_degrees();
    read_pipeline();
    read_batch();
    read_recompute();
    read_precision();
    read_kernels();
    return std::move(job_);
  }

 private:
  [[nodiscard]] int number(std::string_view path, int fallback) const {
    return number_setting(root_, path, fallback);
  }
  [[nodiscard]] std::string text(std::string_view path, std::string_view fallback) const {
    return text_setting(root_, path, fallback);
  }
  /// A degree for which -1 means "what is left".
  [[nodiscard]] int number_or_rest(std::string_view path) const {
    const auto node = setting(root_, path);
    return node ? static_cast<int>(node->integer(-1, 1'000'000'000)) : -1;
  }
  [[nodiscard]] Place place(std::string_view path) const {
    const auto node = setting(root_, path);
    return node ? node->place() : Place{.file = root_.place().file, .key = std::string(path)};
  }

  void read_model() {
    const std::string name = text("model.name", "llama3"),
                      flavor = text("model.flavor", "debugmodel");
    if (auto given = open_.model()) {
      job_.model = std::move(*given);
      return;
    }
    const TorchtitanModel* known = find_torchtitan_model(name, flavor);
    if (known == nullptr) {
      job_.model = open_.required_model(fmt::format("{} {} is not in the catalogue", name, flavor));
      return;
    }
    auto model = models::find_model(known->catalogue);
    if (model) {
      job_.model = std::move(*model);
    } else {
      open_.add(std::move(model.error()));
    }
    if (!known->pipelines && number("parallelism.pipeline_parallel_degree", 1) > 1) {
      open_.error(fmt::format("torchtitan's {} does not support pipelining", name),
                  place("parallelism.pipeline_parallel_degree"));
    }
  }

  [[nodiscard]] bool has_experts() const {
    return std::any_of(job_.model.layer_kinds.begin(), job_.model.layer_kinds.end(),
                       [](const auto& kind) { return kind.moe.has_value(); });
  }

  void read_degrees() {
    simulator::ParallelPlan& plan = job_.plan;
    plan.tp = number("parallelism.tensor_parallel_degree", 1);
    plan.pp = number("parallelism.pipeline_parallel_degree", 1);
    plan.cp = number("parallelism.context_parallel_degree", 1);
    plan.sequence_parallel = plan.tp > 1;
    fill_data_parallel(job_, open_, place("parallelism.tensor_parallel_degree"));
    read_experts();
    const int replicas = number("parallelism.data_parallel_replicate_degree", 1);
    const int shards = number_or_rest("parallelism.data_parallel_shard_degree");
    if (plan.dp % replicas != 0 || (shards > 0 && replicas * shards != plan.dp)) {
      open_.error(
          fmt::format("dp_replicate {} x dp_shard {} is not the data-parallel degree {} that"
                      " {} GPUs leave",
                      replicas, shards, plan.dp, open_.devices()),
          place("parallelism.data_parallel_shard_degree"));
    }
    plan.dp_replicate = replicas;
    if (replicas > 1 && plan.dp * plan.cp == replicas) {
      open_.error("is not modelled for torchtitan: replicas without shards (DDP)",
                  place("parallelism.data_parallel_replicate_degree"));
    }
    const std::string reshard = text("parallelism.fsdp_reshard_after_forward", "default");
    if (reshard != "default" && reshard != "always" && reshard != "never") {
      open_.error(fmt::format("{}; allowed: default, always, never", in_quotes(reshard)),
                  place("parallelism.fsdp_reshard_after_forward"));
    }
    const bool keeps = reshard == "never" || (reshard == "default" && plan.pp > 1);
    plan.zero = keeps ? ZeroStage::gradients : ZeroStage::parameters;
    if (flag_setting(root_, "training.enable_cpu_offload", false))
      plan.offload.optimizer = plan.offload.parameters = 1;
  }

  /// Without expert parallelism the tensor-parallel ranks share out the experts.
  void read_experts() {
    simulator::ParallelPlan& plan = job_.plan;
    if (!has_experts()) return;
    plan.ep = number("parallelism.expert_parallel_degree", 1);
    plan.etp = plan.ep > 1 ? number("parallelism.expert_tensor_parallel_degree", 1) : plan.tp;
    if (plan.etp != 1 && plan.etp != plan.tp) {
      open_.error("torchtitan supports an expert tensor parallel degree of 1 or that of the rest",
                  place("parallelism.expert_tensor_parallel_degree"));
    }
  }

  void read_pipeline() {
    simulator::ParallelPlan& plan = job_.plan;
    if (plan.pp == 1) return;
    const std::string name = text("parallelism.pipeline_parallel_schedule", "1F1B");
    const TorchtitanSchedule* schedule = nullptr;
    std::vector<std::string_view> known;
    for (const TorchtitanSchedule& row : kTorchtitanSchedules) {
      known.push_back(row.torch);
      if (row.torch == name) schedule = &row;
    }
    if (schedule == nullptr) {
      open_.error(fmt::format("{} is not modelled; known: {}", in_quotes(name), join(known)),
                  place("parallelism.pipeline_parallel_schedule"));
      return;
    }
    plan.schedule = static_cast<std::uint8_t>(simulator::schedule_named(schedule->schedule));
    read_chunks(schedule->single_stage);
  }

  void read_chunks(bool single_stage) {
    simulator::ParallelPlan& plan = job_.plan;
    const int layers = job_.model.layer_count();
    const int first = less_layers("parallelism.pipeline_parallel_first_stage_less_layers");
    const int last = less_layers("parallelism.pipeline_parallel_last_stage_less_layers");
    int chunks = plan.pp * (single_stage ? 1 : 2);
    std::vector<int> sizes;
    std::string_view key = "parallelism.pipeline_parallel_layers_per_stage";
    if (const auto listed = setting(root_, "parallelism.module_fqns_per_model_part")) {
      key = "parallelism.module_fqns_per_model_part";
      sizes = listed_chunks(*listed);
      chunks = static_cast<int>(sizes.size());
    } else if (setting(root_, key)) {
      const int size = number(key, 1);
      chunks = (layers + first + last + size - 1) / size;
    }
    if (chunks % plan.pp != 0 || (single_stage && chunks != plan.pp) ||
        (!single_stage && chunks < 2 * plan.pp)) {
      open_.error(
          fmt::format("{} model chunks on {} stages; the schedule needs {}", chunks, plan.pp,
                      single_stage ? "one for each" : "the same number, two or more, for each"),
          place(key));
      return;
    }
    plan.vpp = chunks / plan.pp;
    if (layers == 0 || chunks > layers + simulator::kStandaloneChunks) return;  // told elsewhere
    if (sizes.empty()) sizes = torchtitan_chunks(layers, chunks, first, last);
    if (sizes != simulator::chunk_sizes(layers, chunks)) {
      job_.notices.push_back(fmt::format(
          "layers per model chunk are {} in torchtitan and modelled as {}", fmt::join(sizes, ", "),
          fmt::join(simulator::chunk_sizes(layers, chunks), ", ")));
    }
  }

  [[nodiscard]] int less_layers(std::string_view path) const {
    const auto node = setting(root_, path);
    return node ? static_cast<int>(node->integer(0, 1000)) : 1;
  }

  /// Layers in each list of module names.
  [[nodiscard]] static std::vector<int> listed_chunks(const Node& lists) {
    std::vector<int> sizes;
    for (const Node& list : lists.items()) {
      int layers = 0;
      for (const Node& module : list.items())
        layers += module.text().starts_with("layers.") ? 1 : 0;
      sizes.push_back(layers);
    }
    return sizes;
  }

  void read_batch() {
    simulator::TrainingSetup& training = job_.training;
    training.sequence_length = number("training.seq_len", 2048);
    const int local = number("training.local_batch_size", 8);
    job_.plan.micro_batch = local;
    if (job_.plan.pp > 1) {
      job_.plan.micro_batch = number("parallelism.pipeline_parallel_microbatch_size", 1);
      if (local % job_.plan.micro_batch != 0) {
        open_.error(
            fmt::format("a local batch of {} is no multiple of the pipeline's micro-batch {}",
                        local, job_.plan.micro_batch),
            place("training.local_batch_size"));
      }
    }
    const std::int64_t step = std::int64_t{local} * job_.plan.dp;
    const int global = number_or_rest("training.global_batch_size");
    training.global_batch = global > 0 ? global : step;
    if (training.global_batch % step != 0) {
      open_.error(fmt::format("{} is no multiple of local_batch_size {} x DP {}",
                              training.global_batch, local, job_.plan.dp),
                  place("training.global_batch_size"));
    } else if (job_.plan.pp > 1 && training.global_batch != step) {
      job_.notices.push_back(fmt::format(
          "{} gradient accumulation steps, each with a pipeline of its own, are modelled as one",
          training.global_batch / step));
    }
  }

  void read_recompute() {
    simulator::RecomputePolicy& policy = job_.plan.recompute;
    const std::string mode = text("activation_checkpoint.mode", "selective");
    if (mode == "none") return;
    if (mode == "full") {
      policy.granularity = RecomputeGranularity::full;
      return;
    }
    if (mode != "selective") {
      open_.error(fmt::format("{} is not modelled; known: none, selective, full", in_quotes(mode)),
                  place("activation_checkpoint.mode"));
      return;
    }
    if (text("activation_checkpoint.selective_ac_option", "2") == "op") {
      if (auto parsed = simulator::parse_recompute("op_sac")) policy = *parsed;
      return;
    }
    recompute_every(number("activation_checkpoint.selective_ac_option", 2));
  }

  /// Whole layers, one of each `every`. A chunk recomputes its first ones instead: the same number.
  void recompute_every(int every) {
    simulator::RecomputePolicy& policy = job_.plan.recompute;
    const int chunks = job_.plan.pp * job_.plan.vpp;
    const int size = (job_.model.layer_count() + chunks - 1) / chunks;
    if (every > 1 && size / every == 0) return;
    policy.granularity = RecomputeGranularity::full;
    policy.layers_per_chunk = every > 1 ? size / every : 0;
    if (every > 1) {
      job_.notices.push_back(fmt::format(
          "every {}th layer is recomputed; modelled as the first {} of each model chunk of {}",
          every, policy.layers_per_chunk, size));
    }
  }

  void read_precision() {
    Precision& precision = job_.plan.precision;
    const std::string narrow = text("training.mixed_precision_param", "bfloat16");
    precision = narrow == "float32" ? Precision::fp32 : Precision::bf16;
    if (narrow != "float32" && narrow != "bfloat16") {
      open_.error(fmt::format("{}; allowed: bfloat16, float32", in_quotes(narrow)),
                  place("training.mixed_precision_param"));
    }
    if (text("training.dtype", "float32") == "bfloat16") {
      job_.notices.emplace_back(
          "training.dtype bfloat16 is not modelled: optimizer state without an fp32 copy");
    }
    const auto converters = setting(root_, "model.converters");
    if (!converters) return;
    for (const Node& item : converters->items(true)) {
      const std::string name = item.text();
      if (name == "quantize.linear.float8" || name == "float8") {
        precision = read_float8();
      } else if (name == "quantize.linear.mx" || name == "mx") {
        precision = Precision::mxfp8;
      } else if (!name.starts_with("quantize.grouped_mm.")) {
        job_.notices.push_back(fmt::format("model.converters {} is unknown and left out", name));
      }
    }
  }

  Precision read_float8() {
    constexpr std::string_view kRecipe = "quantize.linear.float8.recipe_name";
    constexpr std::string_view kGather = "quantize.linear.float8.enable_fsdp_float8_all_gather";
    const std::string recipe = text(kRecipe, "");
    job_.framework.gathers_narrow_weights = flag_setting(root_, kGather, false);
    if (job_.framework.gathers_narrow_weights && !recipe.empty())
      open_.error("torchtitan does not combine this with a recipe_name", place(kGather));
    if (recipe == "rowwise") return Precision::fp8_rowwise;
    if (recipe == "rowwise_with_gw_hp") return Precision::fp8_rowwise_gw_hp;
    if (!recipe.empty() && recipe != "tensorwise") {
      open_.error(
          fmt::format("{}; allowed: tensorwise, rowwise, rowwise_with_gw_hp", in_quotes(recipe)),
          place(kRecipe));
    }
    return Precision::fp8_current;
  }

  /// Inductor cuts gathers and scatters into pieces, so that it takes a compiled model.
  void read_async_tensor_parallelism() {
    constexpr std::string_view kAsync = "parallelism.enable_async_tensor_parallel";
    if (!flag_setting(root_, kAsync, false)) return;
    job_.framework.overlap_tp_backward = true;
    if (job_.framework.elementwise_traffic > job_.framework.compiled_traffic)
      open_.error("needs compile.enable with \"model\" among compile.components", place(kAsync));
  }

  /// Where nothing is said, model and loss are what `enable` compiles.
  void read_compile() {
    if (!flag_setting(root_, "compile.enable", false)) return;
    bool model = true, loss = true;
    if (const auto components = setting(root_, "compile.components")) {
      model = loss = false;
      for (const Node& item : components->items(true)) {
        model = model || item.text() == "model";
        loss = loss || item.text() == "loss";
      }
    }
    if (model) job_.framework.compile_blocks();
    if (loss) job_.framework.loss = models::LossKernel::compiled;
  }

  void read_kernels() {
    simulator::FrameworkTraits& traits = job_.framework;
    traits.deterministic = flag_setting(root_, "debug.deterministic", false);
    traits.gathers_logits = flag_setting(root_, "parallelism.disable_loss_parallel", false);
    const std::string rotate = text("parallelism.context_parallel_rotate_method", "allgather");
    if (rotate == "alltoall") traits.context_parallel = models::ContextParallelKind::ring;
    read_compile();
    read_async_tensor_parallelism();
    const std::string optimizer = text("optimizer.name", "AdamW");
    if (optimizer != "AdamW" && optimizer != "Adam") {
      open_.error(fmt::format("{} is not modelled; known: Adam, AdamW", in_quotes(optimizer)),
                  place("optimizer.name"));
    }
  }

  Node root_;
  OpenValues& open_;
  ImportedJob job_;
};

ImportedJob read(const JobText& text, OpenValues& open) {
  auto document = Document::parse_toml(text.text, text.file.string());
  if (!document) {
    open.add(std::move(document.error()));
    return {};
  }
  ImportedJob job = TorchtitanReader(*document, open).read();
  open.add(document->errors());
  return job;
}

}  // namespace

const JobFormat kTorchtitanJob = {"torchtitan", "TOML of torchtitan", &is_torchtitan, &read};

}  // namespace foreplan::scenarios
