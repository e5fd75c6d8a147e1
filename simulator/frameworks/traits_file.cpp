#include "core/document.hpp"
#include "simulator/frameworks/trait_reader.hpp"
#include "simulator/frameworks/traits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace foreplan::simulator {
namespace {

void read_states(const TraitReader& read, FrameworkTraits& traits) {
  traits.states.parameter_bytes = read.number("parameter_bytes", 1, 8);
  traits.states.gradient_bytes = read.number("gradient_bytes", 1, 8);
  if (const auto kept = read.optional_value("computed_gradient_bytes"))
    traits.states.computed_gradient_bytes = kept->number(0, 8);
  if (const auto reduced = read.optional_value("fp16_reduced_bytes"))
    traits.fp16_reduced_bytes = reduced->number(1, 8);
  traits.states.master_bytes = read.number("master_bytes", 0, 8);
  traits.states.moment_bytes = read.number("moment_bytes", 0, 16);
}

RecomputePolicy recompute_of(const Node& node) {
  auto policy = parse_recompute(node.text(), node.place());
  if (policy) return *policy;
  node.error(policy.error().front().message);
  return {};
}

void read_projections(const TraitReader& read, FrameworkTraits& traits) {
  const auto flag = [&](std::string_view key, bool unstated) {
    const auto node = read.optional_value(key);
    return node ? node->boolean() : unstated;
  };
  traits.separate_projections = flag("separate_projections", false);
  traits.keeps_gathered_input = flag("keeps_gathered_input", false);
  traits.reduces_each_projection = flag("reduces_each_projection", false);
  traits.recomputes_last_product = flag("recomputes_last_product", true);
}

void read_kernels(const TraitReader& read, FrameworkTraits& traits) {
  traits.attention =
      static_cast<models::AttentionKernel>(read.value("attention").one_of({"fused", "unfused"}));
  if (const auto architectures = read.optional_value("unfused_latent_on")) {
    for (const Node& item : architectures->items()) traits.unfused_latent_on.push_back(item.text());
  }
  traits.attention_generation = static_cast<AttentionGeneration>(
      read.value("attention_generation").one_of({"current", "flash2", "triton"}));
  traits.loss = static_cast<models::LossKernel>(
      read.value("loss").one_of({"unfused", "fused", "eager_fp32", "eager", "compiled", "native"}));
  if (const auto kernels = read.optional_value("elementwise_kernels"))
    traits.elementwise =
        static_cast<models::ElementwiseKernels>(kernels->one_of({"fused", "modules", "operators"}));
  traits.gathers_logits = read.flag("gathers_logits");
  traits.shard_is_master = read.flag("shard_is_master");
  traits.reshards_root = read.flag("reshards_root");
  traits.context_parallel = static_cast<models::ContextParallelKind>(
      read.value("context_parallel_kind").one_of({"ring", "all_gather", "ulysses", "torch_ring"}));
  traits.vocabulary_multiple =
      static_cast<int>(read.value("vocabulary_multiple").integer(1, 65536));
  traits.keeps_narrow_operands = read.flag("keeps_narrow_operands");
  read_projections(read, traits);
  traits.dropout = read.number("dropout", 0, 0.9);
  traits.unstated_recompute = recompute_of(read.value("unstated_recompute"));
  if (const auto unfused = read.optional_value("unstated_recompute_unfused"))
    traits.unstated_recompute_unfused = recompute_of(*unfused);
  if (const auto latent = read.optional_value("unstated_recompute_latent"))
    traits.unstated_recompute_latent = recompute_of(*latent);
  traits.host_time_per_kernel_s = read.value("host_time_per_kernel").seconds().value;
  traits.elementwise_traffic = read.number("elementwise_traffic", 1, 10);
  traits.tp_collective_skew = read.number("tp_collective_skew", 1, 10);
  const auto compiled = read.optional_value("compiled_traffic");
  traits.compiled_traffic = compiled ? compiled->number(1, 10) : traits.elementwise_traffic;
  const auto host = [&](std::string_view key) {
    const auto node = read.optional_value(key);
    return node ? node->seconds().value : 0.0;
  };
  traits.tp_collective_host_s = host("tp_collective_host_time");
  traits.dp_collective_host_s = host("dp_collective_host_time");
  const auto copies = [&](std::string_view key) {
    const auto node = read.optional_value(key);
    return node ? node->number(0, 10) : 0.0;
  };
  traits.gather_copies = copies("gather_copies");
  traits.reduce_copies = copies("reduce_copies");
  traits.gradient_sink = static_cast<models::GradientSink>(
      read.value("gradient_accumulation").one_of({"in_gemm", "own_kernel", "handed_on"}));
  traits.memory_error = read.number("memory_error", 0.001, 5);
  if (const auto context = read.optional_value("context"))
    traits.context_bytes = context->bytes().value;
  if (const auto more = read.optional_value("more_communicators"))
    traits.more_communicators = static_cast<int>(more->integer(0, 100));
  if (const auto buckets = read.optional_value("buckets"))
    traits.bucket_bytes = buckets->bytes().value;
  traits.dummy_weight_gradients = read.flag("dummy_weight_gradients");
  traits.attention_mask_tensor = read.flag("attention_mask_tensor");
}

std::vector<Precision> precisions_of(const Node& list) {
  std::vector<std::string_view> known;
  for (const PrecisionTraits& row : kPrecisions) known.push_back(row.name);
  std::vector<Precision> precisions;
  for (const Node& item : list.items())
    precisions.push_back(kPrecisions[item.one_of(known)].precision);
  return precisions;
}

void read_recipes(const TraitReader& read, FrameworkTraits& traits) {
  const auto names = [&](std::string_view key, std::vector<std::string>& models) {
    if (const auto list = read.optional_value(key)) {
      for (const Node& model : list->items()) models.push_back(model.text());
    }
  };
  names("trains_prediction_of", traits.trains_prediction_of);
  if (const auto depth = read.optional_value("prediction_depth"))
    traits.prediction_depth = static_cast<int>(depth->integer(1, 16));
  names("fills_front_of", traits.fills_front_of);
  names("counts_ends_of", traits.counts_ends_of);
}

void read_recompute_modules(const Node& list, FrameworkTraits& traits) {
  std::vector<std::string_view> known;
  for (const RecomputeModule& module : recompute_modules()) known.push_back(module.name);
  traits.recompute_modules.emplace();
  for (const Node& item : list.items()) {
    traits.recompute_modules->push_back(recompute_modules()[item.one_of(known)].parts);
  }
}

void read_parallelism(const TraitReader& read, FrameworkTraits& traits) {
  traits.supports_tensor_parallel = read.flag("tensor_parallel");
  traits.supports_pipeline = read.flag("pipeline_parallel");
  traits.supports_context_parallel = read.flag("context_parallel");
  traits.supports_expert_parallel = read.flag("expert_parallel");
  for (const Node& item : read.value("zero_stages").items()) {
    traits.zero_stages.push_back(static_cast<ZeroStage>(item.integer(0, 3)));
  }
  traits.max_zero_with_pipeline =
      static_cast<ZeroStage>(read.value("max_zero_with_pipeline").integer(0, 3));
  if (const auto replicas = read.optional_value("replica_reduction")) {
    traits.replica_reduction =
        static_cast<ReplicaReduction>(replicas->one_of({"none", "in_line", "own_stream"}));
  }
  if (const auto modules = read.optional_value("recompute_modules")) {
    read_recompute_modules(*modules, traits);
  }
}

void read_overlap(const TraitReader& read, FrameworkTraits& traits) {
  traits.overlap_grad_reduce = read.flag("overlap_grad_reduce");
  traits.overlap_param_gather = read.flag("overlap_param_gather");
  traits.accumulates_unsharded = read.flag("accumulates_unsharded");
  traits.overlap_tp_backward = read.flag("overlap_tp_backward");
  traits.overlap_cp = read.flag("overlap_cp");
  traits.overlap_p2p_interleaved = read.flag("overlap_p2p_interleaved");
  if (const auto split = read.optional_value("splits_experts_unasked"))
    traits.splits_experts_unasked = split->boolean();
  if (const auto overlap = read.optional_value("overlap_ep_interleaved"))
    traits.overlap_ep_interleaved = overlap->boolean();
  if (const auto gather = read.optional_value("parameter_gather"))
    traits.gathers_by_broadcast = gather->one_of({"all_gather", "broadcasts"}) == 1;
  if (const auto smallest = read.optional_value("gathers_tensors_from")) {
    traits.tensor_gathers = {smallest->number(1, 1e9), read.number("reuse_distance", 0, 1e15)};
  }
  if (const auto reduction = read.optional_value("gradient_reduction"))
    traits.reduces_whole_gradients = reduction->one_of({"reduce_scatter", "all_reduce"}) == 1;
  if (const auto grouped = read.optional_value("grouped_gemm"))
    traits.experts_one_by_one = grouped->one_of({"one_kernel", "expert_by_expert"}) == 1;
  if (const auto dispatcher = read.optional_value("token_dispatcher"))
    traits.token_dispatcher =
        static_cast<models::TokenDispatcher>(dispatcher->one_of({"by_expert", "by_rank"}));
  if (const auto fused = read.optional_value("fused_expert_precisions"))
    traits.fused_expert_precisions = precisions_of(*fused);
  if (const auto stashed = read.optional_value("stashed_expert_precisions"))
    traits.stashed_expert_precisions = precisions_of(*stashed);
  if (const auto narrow = read.optional_value("narrow_attention_precisions"))
    traits.narrow_attention_precisions = precisions_of(*narrow);
  if (const auto fuses = read.optional_value("fuses_scaled_rotary"))
    traits.fuses_scaled_rotary = fuses->boolean();
  if (const auto overlap = read.optional_value("overlap_ep_unpipelined"))
    traits.overlap_ep_unpipelined = precisions_of(*overlap);
  if (const auto unlisted = read.optional_value("unlisted_products"))
    traits.unlisted_products = precisions_of(*unlisted);
  traits.scatter_gather_transfers = read.flag("scatter_gather_transfers");
  const auto set = [&](std::string_view key) {
    const auto node = read.optional_value(key);
    return node && node->boolean();
  };
  traits.zeroes_gradients = set("zeroes_gradients");
  traits.scales_gradients = set("scales_gradients");
  if (const auto update = read.optional_value("update_bytes"))
    traits.update_bytes = update->number(1, 1000);
  traits.hidden_cost_fraction = read.number("hidden_cost_fraction", 0, 1);
  const auto validates = read.optional_value("post_validates_optimizer");
  traits.post_validates_optimizer = validates && validates->boolean();
}

void check_keys(const Node& root) {
  root.only({"name",
             "based_on",
             "summary",
             "runs_as",
             "parameter_bytes",
             "gradient_bytes",
             "master_bytes",
             "moment_bytes",
             "attention",
             "unfused_latent_on",
             "attention_generation",
             "loss",
             "gathers_logits",
             "keeps_narrow_operands",
             "separate_projections",
             "keeps_gathered_input",
             "reduces_each_projection",
             "recomputes_last_product",
             "dropout",
             "unstated_recompute",
             "unlisted_products",
             "unstated_recompute_unfused",
             "unstated_recompute_latent",
             "shard_is_master",
             "reshards_root",
             "context_parallel_kind",
             "vocabulary_multiple",
             "host_time_per_kernel",
             "tp_collective_host_time",
             "dp_collective_host_time",
             "gather_copies",
             "reduce_copies",
             "tp_collective_skew",
             "elementwise_kernels",
             "elementwise_traffic",
             "compiled_traffic",
             "computed_gradient_bytes",
             "fp16_reduced_bytes",
             "buckets",
             "memory_error",
             "gradient_copy_bytes",
             "optimizer_temporary_bytes",
             "flat_partitions",
             "reduction_copy_bytes",
             "gathers_run_ahead",
             "keeps_stage_outputs",
             "frees_gradients",
             "replicates_embedding",
             "logs_reserved",
             "runs_rotary",
             "runs_noted",
             "context",
             "more_communicators",
             "gradient_accumulation",
             "dummy_weight_gradients",
             "dummy_head_gradient",
             "attention_mask_tensor",
             "tensor_parallel",
             "pipeline_parallel",
             "context_parallel",
             "expert_parallel",
             "zero_stages",
             "max_zero_with_pipeline",
             "replica_reduction",
             "recompute_modules",
             "overlap_grad_reduce",
             "overlap_param_gather",
             "accumulates_unsharded",
             "overlap_tp_backward",
             "overlap_cp",
             "overlap_p2p_interleaved",
             "splits_experts_unasked",
             "overlap_ep_interleaved",
             "parameter_gather",
             "gathers_tensors_from",
             "reuse_distance",
             "gradient_reduction",
             "grouped_gemm",
             "token_dispatcher",
             "fused_expert_precisions",
             "stashed_expert_precisions",
             "narrow_attention_precisions",
             "fuses_scaled_rotary",
             "overlap_ep_unpipelined",
             "runs_before",
             "runs_models",
             "trains_prediction_of",
             "prediction_depth",
             "fills_front_of",
             "counts_ends_of",
             "scatter_gather_transfers",
             "zeroes_gradients",
             "scales_gradients",
             "update_bytes",
             "post_validates_optimizer",
             "hidden_cost_fraction",
             "offload_optimizer",
             "offload_optimizer_from",
             "offload_share_from",
             "offload_parameters",
             "offload_parameters_from",
             "offload_activations",
             "offload_gradients_follow",
             "offload_last_gradient_bytes",
             "offload_overlaps_passes",
             "offload_overlaps_activations",
             "offload_overlaps_update"});
}

/// A file and those that it is based on, nearest first.
Result<std::vector<Document>> read_chain(const std::filesystem::path& file) {
  constexpr std::size_t kLongest = 5;
  std::vector<Document> chain;
  std::filesystem::path next = file;
  while (true) {
    auto document = Document::read_yaml(next);
    if (!document) return fail(std::move(document.error()));
    const Node root = document->root();
    check_keys(root);
    const auto base = root.find("based_on");
    chain.push_back(std::move(*document));
    if (!base) return chain;
    const std::string name = base->text();
    next = file.parent_path() / (name + ".yaml");
    if (chain.size() >= kLongest || !std::filesystem::exists(next)) {
      base->error(chain.size() >= kLongest ? "goes round in a circle, or through too many files"
                                           : fmt::format("no traits file {}.yaml", name));
      return fail(chain.back().errors());
    }
  }
}

}  // namespace

Result<FrameworkTraits> read_framework(const std::filesystem::path& file) {
  const auto chain = read_chain(file);
  if (!chain) return fail(chain.error());
  std::vector<Node> roots;
  for (const Document& document : *chain) roots.push_back(document.root());
  const Node& root = roots.front();
  FrameworkTraits traits;
  traits.name = root.required("name").text();
  traits.summary = root.required("summary").text();
  if (const auto names = root.find("runs_as")) {
    for (const Node& name : names->items()) traits.runs_as.push_back(name.text());
    if (const auto before = root.find("runs_before"))
      traits.runs_before = before->required("value").text();
    if (const auto noted = root.find("runs_noted")) {
      for (const Node& text : noted->required("value").items())
        traits.runs_noted.push_back(text.text());
    }
    if (const auto rotary = root.find("runs_rotary"))
      traits.runs_rotary = rotary->required("value").boolean();
    if (const auto models = root.find("runs_models")) {
      for (const Node& model : models->required("value").items())
        traits.runs_models.push_back(model.text());
    }
  }
  const TraitReader reader(roots);
  read_states(reader, traits);
  read_kernels(reader, traits);
  traits.memory = read_memory_traits(reader);
  traits.offload = read_offload_traits(reader);
  read_parallelism(reader, traits);
  read_overlap(reader, traits);
  read_recipes(reader, traits);
  if (traits.zero_stages.empty()) root.error("zero_stages: at least one stage is needed");
  std::sort(traits.zero_stages.begin(), traits.zero_stages.end());
  for (const Document& document : *chain) {
    if (!document.ok()) return fail(document.errors());
  }
  return traits;
}

}  // namespace foreplan::simulator
