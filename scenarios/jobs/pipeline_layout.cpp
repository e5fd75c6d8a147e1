#include "scenarios/jobs/pipeline_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

namespace foreplan::scenarios {

using simulator::ChunkLayout;

namespace {

constexpr std::string_view kLayout = "pipeline-model-parallel-layout";
constexpr std::string_view kFirst = "decoder-first-pipeline-num-layers";
constexpr std::string_view kLast = "decoder-last-pipeline-num-layers";
constexpr std::string_view kEmbedding = "account-for-embedding-in-pipeline-split";
constexpr std::string_view kLoss = "account-for-loss-in-pipeline-split";
constexpr std::string_view kPerChunk = "num-layers-per-virtual-pipeline-stage";
constexpr std::string_view kChunks = "num-virtual-stages-per-pipeline-rank";

/// More than any pipeline has: a slip of a repetition should not fill memory.
constexpr std::size_t kLongestLayout = 100'000;

/// The number after "*" at `at`, which is moved behind it; 0 where there is none.
std::size_t repetitions(std::string_view text, std::size_t& at) {
  if (at >= text.size() || text[at] != '*') return 0;
  std::size_t end = at + 1, times = 0;
  while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) {
    times = std::min(kLongestLayout, times * 10 + static_cast<std::size_t>(text[end++] - '0'));
  }
  if (end == at + 1) return 0;
  at = end;
  return times;
}

void repeat(std::string_view what, std::size_t times, std::string& out) {
  for (std::size_t i = 0; i < times && out.size() <= kLongestLayout; ++i) out += what;
}

/// Groups in parentheses first, then single letters, as the framework unrolls them.
std::string unrolled(std::string_view text, bool groups) {
  std::string out;
  for (std::size_t i = 0; i < text.size() && out.size() <= kLongestLayout;) {
    const auto close = groups && text[i] == '(' ? text.find(')', i) : std::string_view::npos;
    const bool group = close != std::string_view::npos && close > i + 1;
    std::size_t behind = group ? close + 1 : i + 1;
    const std::string_view what = group ? text.substr(i + 1, close - i - 1) : text.substr(i, 1);
    const std::size_t times = group || !groups ? repetitions(text, behind) : 0;
    if (group && times == 0) {  // not a repeated group: its letters as they stand
      out += text[i++];
      continue;
    }
    repeat(what, std::max<std::size_t>(times, 1), out);
    i = behind;
  }
  return out;
}

/// The order in which Megatron-LM wants its letters, and how many of each.
std::string layout_mistake(std::string_view letters, const PipelinedModel& model) {
  const auto count = [&](char letter) {
    return static_cast<int>(std::count(letters.begin(), letters.end(), letter));
  };
  const auto unknown = letters.find_first_not_of("EtmL|");
  if (unknown != std::string_view::npos)
    return fmt::format("\"{}\" is none of E, t, m, L, |", letters[unknown]);
  if (letters.empty() || letters.front() != 'E' || count('E') != 1)
    return "the embedding (E) must stand first, once";
  if (letters.back() != 'L' || count('L') != 1) return "the loss (L) must stand last, once";
  if (count('t') != model.layers)
    return fmt::format("{} layers (t), the model has {}", count('t'), model.layers);
  if (count('m') != model.mtp_depth)
    return fmt::format("{} prediction modules (m), mtp-num-layers is {}", count('m'),
                       model.mtp_depth);
  const auto first = letters.find('m');
  if (first == std::string_view::npos) return {};
  if (letters.find('t', first) != std::string_view::npos)
    return "layers (t) must stand before prediction modules (m)";
  if (letters.substr(first, static_cast<std::size_t>(model.mtp_depth)).find_first_not_of('m') !=
      std::string_view::npos)
    return "all prediction modules (m) must stand in one chunk";
  return {};
}

/// Layers of each stage, first and last as the launch says, the others evenly; each stage's are
/// dealt over its chunks.
ChunkLayout by_stages(ArgumentReader& arguments, int vpp, const PipelinedModel& model) {
  const int given = int{arguments.has(kFirst)} + int{arguments.has(kLast)};
  const auto first = static_cast<int>(arguments.count(kFirst, 1));
  const auto last = static_cast<int>(arguments.count(kLast, 1));
  const int middle =
      model.layers - (arguments.has(kFirst) ? first : 0) - (arguments.has(kLast) ? last : 0);
  const int stages = model.pp - given;
  const bool fits = stages > 0 ? middle >= 0 && middle % stages == 0 : middle == 0;
  const auto of_stage = [&](int stage) {
    if (stage == 0 && arguments.has(kFirst)) return first;
    if (stage == model.pp - 1 && arguments.has(kLast)) return last;
    return middle / std::max(stages, 1);
  };
  ChunkLayout layout;
  for (int chunk = 0; fits && chunk < model.pp * vpp; ++chunk) {
    const int layers = of_stage(chunk % model.pp);
    if (layers % vpp != 0) {
      layout.layers.clear();
      break;
    }
    layout.layers.push_back(layers / vpp);
  }
  if (layout.layers.empty()) {
    arguments.error(arguments.has(kFirst) ? kFirst : kLast,
                    fmt::format("{} layers are not left over for {} stages of {} chunks evenly",
                                middle, stages, vpp));
  }
  return layout;
}

}  // namespace

tl::expected<ChunkLayout, std::string> parse_pipeline_layout(std::string_view text,
                                                             const PipelinedModel& model) {
  std::string written(text);
  std::erase(written, ',');
  const std::string letters = unrolled(unrolled(written, true), false);
  if (letters.size() > kLongestLayout) return tl::unexpected(std::string("is too long"));
  if (std::string mistake = layout_mistake(letters, model); !mistake.empty())
    return tl::unexpected(std::move(mistake));
  ChunkLayout layout{{0}, -1};
  for (const char letter : letters) {
    if (letter == '|') layout.layers.push_back(0);
    if (letter == 't') ++layout.layers.back();
    if (letter == 'm') layout.mtp_chunk = static_cast<int>(layout.layers.size()) - 1;
  }
  const auto chunks = static_cast<int>(layout.layers.size());
  if (chunks % model.pp != 0) {
    return tl::unexpected(fmt::format("{} chunks are no multiple of {} stages", chunks, model.pp));
  }
  return layout;
}

int chunks_of_a_stage(ArgumentReader& arguments, const PipelinedModel& model) {
  if (model.pp == 1) return 1;
  if (arguments.has(kLayout)) {
    const auto layout = parse_pipeline_layout(arguments.text(kLayout), model);
    if (layout) return static_cast<int>(layout->layers.size()) / model.pp;
    arguments.error(kLayout, layout.error());
    return 1;
  }
  if (arguments.has(kChunks)) return static_cast<int>(arguments.count(kChunks, 1));
  if (!arguments.has(kPerChunk)) return 1;
  const int counted = model.layers + int{arguments.has(kEmbedding)} + int{arguments.has(kLoss)};
  const auto chunk =
      static_cast<int>(std::min<std::int64_t>(arguments.count(kPerChunk, 1), 1 << 20));
  if (counted % (model.pp * chunk) != 0) {
    arguments.error(kPerChunk, fmt::format("{} layers are no chunks of {} on {} stages", counted,
                                           chunk, model.pp));
    return 1;
  }
  return counted / (model.pp * chunk);
}

ChunkLayout chunk_layout(ArgumentReader& arguments, int vpp, const PipelinedModel& model) {
  if (model.pp == 1) return {};
  if (arguments.has(kLayout))
    return parse_pipeline_layout(arguments.text(kLayout), model).value_or(ChunkLayout{});
  if (arguments.has(kFirst) || arguments.has(kLast)) return by_stages(arguments, vpp, model);
  const int chunks = model.pp * vpp;
  const int embedding = int{arguments.has(kEmbedding)}, loss = int{arguments.has(kLoss)};
  const int counted = model.layers + embedding + loss;
  if (embedding + loss == 0 || counted % chunks != 0) return {};
  ChunkLayout layout;
  layout.layers.assign(static_cast<std::size_t>(chunks), counted / chunks);
  layout.layers.front() -= embedding;
  layout.layers.back() -= loss;
  return layout;
}

}  // namespace foreplan::scenarios
