#include "scenarios/runs/run_framework.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace foreplan::scenarios {

using simulator::FrameworkTraits;
using simulator::Precision;
using simulator::RecomputePolicy;

namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool has(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

/// All shipped traits, read once; they do not change while a program runs.
const Result<std::vector<FrameworkTraits>>& all_frameworks() {
  static const Result<std::vector<FrameworkTraits>> all =
      []() -> Result<std::vector<FrameworkTraits>> {
    const auto names = simulator::framework_names();
    if (!names) return fail(names.error());
    std::vector<FrameworkTraits> traits;
    for (const std::string& name : *names) {
      auto one = simulator::find_framework(name);
      if (!one) return fail(std::move(one.error()));
      traits.push_back(std::move(*one));
    }
    return traits;
  }();
  return all;
}

/// "26.04.01" as numbers, which compare as releases do.
std::vector<int> release(std::string_view text) {
  std::vector<int> numbers;
  while (!text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) != 0) {
    int number = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), number).ptr;
    numbers.push_back(number);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.starts_with('.')) text.remove_prefix(1);
  }
  return numbers;
}

/// The release of the vendor's container that the notes name; empty where they name none.
std::vector<int> container_release(std::string_view notes) {
  constexpr std::string_view kWord = "nemo container ";
  const auto at = notes.find(kWord);
  return at == std::string_view::npos ? std::vector<int>{}
                                      : release(notes.substr(at + kWord.size()));
}

/// Letters and digits, in lower case.
std::string plain(std::string_view text) {
  std::string out = lower(text);
  std::erase_if(out, [](unsigned char c) { return std::isalnum(c) == 0; });
  return out;
}

/// Whether the model's name contains one of these texts.
bool named_as(std::string_view model, const std::vector<std::string>& texts) {
  return std::any_of(texts.begin(), texts.end(),
                     [name = plain(model)](const std::string& text) { return has(name, text); });
}

bool holds(const FrameworkTraits& traits, const std::vector<int>& container, const RunKind& kind) {
  if (traits.runs_rotary && !kind.rotary) return false;
  if (!traits.runs_models.empty() && !named_as(kind.model, traits.runs_models)) return false;
  return traits.runs_before.empty() ||
         (!container.empty() && container < release(traits.runs_before));
}

/// " (2025)" of a source whose key holds a date ("torchtitan-202506-h200"); empty for others.
std::string year_of(std::string_view source) {
  constexpr std::string_view kCentury = "-20";
  const auto at = source.find(kCentury);
  if (at == std::string_view::npos || source.size() < at + 5) return {};
  const std::string_view year = source.substr(at + 1, 4);
  const bool digits =
      std::all_of(year.begin(), year.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  return digits ? fmt::format(" ({})", year) : std::string();
}

/// Whether the framework can shard parameters, or can do without.
bool can_shard(const FrameworkTraits& traits, bool parameters) {
  return parameters ? traits.zero_stages.back() == simulator::ZeroStage::parameters
                    : traits.zero_stages.front() != simulator::ZeroStage::parameters;
}

/// Only frameworks that can shard what the run shards are asked. Traits of a release or for a model
/// go before those of all, and a release that the notes name before everything.
const FrameworkTraits* best_fit(const std::vector<FrameworkTraits>& all, std::string_view text,
                                std::string_view notes, const RunKind& kind) {
  const FrameworkTraits* best = nullptr;
  const std::vector<int> container = container_release(notes);
  std::tuple<std::size_t, bool, bool, bool, bool> closest{};
  for (const FrameworkTraits& traits : all) {
    if (!can_shard(traits, kind.shards_parameters)) continue;
    if (!holds(traits, container, kind)) continue;
    for (const std::string& noted : traits.runs_noted) {
      if (has(notes, noted)) return &traits;
    }
    for (const std::string& word : traits.runs_as) {
      const bool shards = traits.zero_stages.back() == simulator::ZeroStage::parameters;
      const std::tuple close{word.size(), !traits.runs_before.empty(), traits.runs_rotary,
                             !traits.runs_models.empty(), shards == kind.shards_parameters};
      if (close > closest && has(text, word)) {
        best = &traits;
        closest = close;
      }
    }
  }
  return best;
}

const FrameworkTraits* named(const std::vector<FrameworkTraits>& all, std::string_view name) {
  const auto at = std::find_if(all.begin(), all.end(),
                               [&](const FrameworkTraits& t) { return t.name == name; });
  return at == all.end() ? nullptr : &*at;
}

}  // namespace

Result<FrameworkTraits> framework_of_run(std::string_view framework, std::string_view notes,
                                         const RunKind& kind,
                                         std::vector<std::string>& assumptions) {
  const auto& all = all_frameworks();
  if (!all) return fail(all.error());
  if (const FrameworkTraits* fit =
          best_fit(*all, lower(framework) + year_of(kind.source), lower(notes), kind))
    return *fit;
  const std::string_view fallback = kind.shards_parameters ? "torchtitan" : "megatron-core";
  const FrameworkTraits* traits = named(*all, fallback);
  if (traits == nullptr) return fail(fmt::format("no traits file {}.yaml", fallback));
  assumptions.push_back(fmt::format("framework {}: traits of {}", in_quotes(framework), fallback));
  return *traits;
}

tl::expected<Precision, std::string> precision_of_run(std::string_view text) {
  const std::string t = lower(text);
  if (t.empty()) return Precision::bf16;
  if (has(t, "nvfp4") || has(t, "fp4")) return Precision::nvfp4;
  if (has(t, "mxfp8")) return Precision::mxfp8;
  if (has(t, "fp8") || has(t, "float8")) {
    if (has(t, "block") || has(t, "sub")) return Precision::fp8_block;
    if (has(t, "rowwise"))
      return has(t, "gw-hp") || has(t, "gw_hp") ? Precision::fp8_rowwise_gw_hp
                                                : Precision::fp8_rowwise;
    if (has(t, "-cs") || has(t, "current") || has(t, "tensorwise")) {
      return Precision::fp8_current;
    }
    return Precision::fp8;
  }
  if (has(t, "fp16")) return Precision::fp16;
  if (has(t, "bf16")) return Precision::bf16;
  return tl::unexpected(fmt::format("precision {} is not modelled", text));
}

tl::expected<RecomputePolicy, std::string> recompute_of_run(std::string_view text) {
  const std::string t = lower(text);
  if (t.empty() || t == "none") return RecomputePolicy{};
  if (t.starts_with("full")) {
    auto policy = simulator::parse_recompute(t);
    if (policy) return *policy;
    return *simulator::parse_recompute("full");
  }
  const auto open = t.find('(');
  std::string modules = open == std::string::npos ? t : t.substr(open + 1);
  if (!modules.empty() && modules.back() == ')') modules.pop_back();
  if (modules.starts_with("attention core") || modules == "selective")
    return *simulator::parse_recompute("core_attn");
  if (modules.starts_with("op") || modules == "selective-op") {
    return *simulator::parse_recompute("op_sac");
  }
  std::replace(modules.begin(), modules.end(), ',', '+');
  std::erase(modules, ' ');
  auto policy = simulator::parse_recompute(modules);
  if (!policy) return tl::unexpected(fmt::format("recompute {} is not modelled", text));
  return *policy;
}

void apply_switches(std::string_view notes_text, std::string_view states_text,
                    FrameworkTraits& traits) {
  const std::string notes = lower(notes_text), states = lower(states_text);
  if (has(notes, "gradients reduced in bf16") || has(notes, "fp16 grad accumulation"))
    traits.states.gradient_bytes = 2;
  // A buffer of the computing type is what backward adds to.
  if (traits.states.gradient_bytes == 2) traits.states.computed_gradient_bytes = 0;
  // SimuMax writes "fused CE" for --cross-entropy-loss-fusion with --cross-entropy-fusion-impl te
  // (MooreThreads/SimuMax 4dcaae5 docs, cross_entropy_loss_fusion).
  if (has(notes, "fused ce")) traits.loss = models::LossKernel::fused;
  if (has(notes, "no gradient-accumulation fusion"))
    traits.gradient_sink = models::GradientSink::own_kernel;
  if (has(notes, "no torch.compile")) {
    traits.elementwise = models::ElementwiseKernels::modules;
  } else if (has(notes, "torch.compile")) {
    traits.compile_blocks();
  }
  if (has(notes, "float8 all-gather")) traits.gathers_narrow_weights = true;
  if (has(notes, "asynctp")) traits.overlap_tp_backward = true;
  if (has(states, "no fp32 master")) {
    traits.states.master_bytes = 0;
    traits.states.moment_bytes = 4;
  }
  if (has(notes, "no comm overlap") || has(notes, "no dp/tp overlap")) {
    traits.overlap_grad_reduce = traits.overlap_param_gather = false;
    traits.overlap_p2p_interleaved = traits.overlap_tp_backward = false;
  }
}

void apply_recipe(const FrameworkTraits& traits, const models::ModelSpec& model,
                  const simulator::ParallelPlan& plan, simulator::TrainingSetup& training) {
  if (named_as(model.name, traits.trains_prediction_of)) {
    training.mtp_depth = traits.prediction_depth > 0 ? traits.prediction_depth : model.mtp_depth;
  }
  const int chunks = plan.pp * plan.vpp, layers = model.layer_count();
  if (chunks == 1) return;
  std::vector<int> sizes;
  if (named_as(model.name, traits.fills_front_of)) {
    const int size = (layers + chunks - 1) / chunks;
    sizes.assign(static_cast<std::size_t>(chunks), size);
    sizes.back() = layers - size * (chunks - 1);
  } else if (named_as(model.name, traits.counts_ends_of)) {
    const int counted = layers + 2 + training.mtp_depth;
    if (counted % chunks != 0) return;
    sizes.assign(static_cast<std::size_t>(chunks), counted / chunks);
    sizes.front() -= 1;
    sizes.back() -= 1 + training.mtp_depth;
  }
  const bool fits = !sizes.empty() && sizes.front() >= 0 && sizes.back() >= 0;
  if (fits) training.chunks.layers = std::move(sizes);
}

MemoryDefinition memory_definition(std::string_view notes_text, MemoryDefinition unstated) {
  const std::string notes = lower(notes_text);
  // The clause that speaks of memory; other clauses name other figures.
  const auto at = notes.find("memory = ");
  const std::string_view rest = std::string_view(notes).substr(at == std::string::npos ? 0 : at);
  const std::string_view clause = at == std::string::npos ? rest : rest.substr(0, rest.find(';'));
  if (has(clause, "last global rank") || has(clause, "last rank")) {
    return MemoryDefinition::allocated_last_rank;
  }
  struct Word {
    std::string_view text;
    MemoryDefinition meaning;
  };
  static constexpr Word kWords[] = {
      {"allocated", MemoryDefinition::allocated}, {"reserved", MemoryDefinition::reserved},
      {"torchtitan", MemoryDefinition::reserved}, {"nvidia-smi", MemoryDefinition::device},
      {"occupancy", MemoryDefinition::device},    {"device", MemoryDefinition::device},
      {"context", MemoryDefinition::device},      {"gpu memory in use", MemoryDefinition::device}};
  std::size_t first = std::string_view::npos;
  MemoryDefinition meaning = unstated;
  for (const Word& word : kWords) {
    const auto found = clause.find(word.text);
    if (found < first) {
      first = found;
      meaning = word.meaning;
    }
  }
  return meaning;
}

}  // namespace foreplan::scenarios
