#include "simulator/plan/stage_layout.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <cstring>
#include <span>

namespace foreplan::simulator {

std::vector<int> chunk_sizes(int layers, int chunks) {
  FOREPLAN_ASSERT(chunks >= 1 && chunks <= layers + kStandaloneChunks,
                  "every chunk between the first and the last holds at least one layer");
  const int full = (layers + chunks - 1) / chunks;
  int missing = full * chunks - layers;
  std::vector<int> sizes(static_cast<std::size_t>(chunks), full);
  const auto shorten = [&](int chunk) {
    if (missing > 0 && sizes[static_cast<std::size_t>(chunk)] == full) {
      --sizes[static_cast<std::size_t>(chunk)];
      --missing;
    }
  };
  shorten(chunks - 1);  // the head costs about as much as a layer or two
  shorten(0);
  for (int chunk = chunks - 2; chunk >= 1; --chunk) shorten(chunk);
  return sizes;
}

std::vector<int> chunk_sizes(int layers, int chunks, const TrainingSetup& training) {
  return training.lays_out(chunks) ? training.chunks.layers : chunk_sizes(layers, chunks);
}

namespace {

bool same_content(const StageLayers& a, const StageLayers& b) {
  return std::memcmp(a.layers, b.layers, sizeof a.layers) == 0 && a.embedding == b.embedding &&
         a.head == b.head && a.mtp == b.mtp && a.largest_chunk == b.largest_chunk;
}

/// A module holds the layers that the model names for it, else one more of its last kind. Returns
/// how many layers were added.
int add_prediction_modules(const models::ModelSpec& model, int modules, StageLayers& stage) {
  const auto module =
      model.mtp_layers.empty() ? std::span(model.layers).last(1) : std::span(model.mtp_layers);
  for (const auto kind : module)
    stage.layers[kind] = static_cast<std::uint16_t>(stage.layers[kind] + modules);
  return modules * static_cast<int>(module.size());
}

}  // namespace

std::vector<StageLayers> stage_layout(const models::ModelSpec& model, int pp, int vpp,
                                      const TrainingSetup& training, ChunkPlacement placement) {
  FOREPLAN_ASSERT(model.layer_kinds.size() <= kMaxLayerKinds, "too many kinds of layer");
  FOREPLAN_ASSERT(placement == ChunkPlacement::looped || vpp == 2, "a V has two chunks per stage");
  const auto stage_of = [&](int chunk) {
    return static_cast<std::size_t>(stage_at(placement, pp, chunk));
  };
  const int chunks = pp * vpp;
  const std::vector<int> sizes = chunk_sizes(model.layer_count(), chunks, training);
  const bool placed = training.lays_out(chunks) && training.chunks.mtp_chunk >= 0;
  const int mtp_chunk = placed ? training.chunks.mtp_chunk : chunks - 1;
  std::vector<StageLayers> stages(static_cast<std::size_t>(pp));
  std::size_t next_layer = 0;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    StageLayers& stage = stages[stage_of(chunk)];
    const int size = sizes[static_cast<std::size_t>(chunk)];
    for (int i = 0; i < size; ++i) ++stage.layers[model.layers[next_layer++]];
    int held = size;
    if (chunk == mtp_chunk && training.mtp_depth > 0) {
      stage.mtp = static_cast<std::uint16_t>(training.mtp_depth);
      held += add_prediction_modules(model, training.mtp_depth, stage);
    }
    stage.largest_chunk =
        std::max<std::uint16_t>(stage.largest_chunk, static_cast<std::uint16_t>(held));
  }
  stages.front().embedding = true;
  stages[stage_of(chunks - 1)].head = true;

  std::vector<StageLayers> merged;
  for (int stage = 0; stage < pp; ++stage) {
    StageLayers& content = stages[static_cast<std::size_t>(stage)];
    content.stage = static_cast<std::uint16_t>(stage);
    if (!merged.empty() && same_content(merged.back(), content)) {
      ++merged.back().repeats;
    } else {
      merged.push_back(content);
    }
  }
  return merged;
}

}  // namespace foreplan::simulator
