// Schedules that split backward, against the figures of their papers and the orders of PyTorch.

#include "tests/property/schedule_samples.hpp"
#include "tests/published/golden_rows.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace foreplan::simulator {
namespace {

using namespace samples;

/// Forward, input gradient and weight gradient of a stage.
ChunkTime parts(double f, double b, double w) { return {f, b + w, w}; }

double stage_work(const ChunkTime& t) { return t.forward_s + t.backward_s; }

/// What the three parts of transformer layers may take, from equal to far apart.
const ChunkTime kParts[] = {parts(1, 1, 1), parts(1, 1.2, 0.8), parts(1, 1.4, 0.9),
                            parts(1, 1, 0.5)};

// Qi et al. 2024, section 2.3, table 2: the bubble of ZB-H1 is (p-1)(F+B-W), of ZB-H2
// (p-1)(F+B-2W), with m >= 2p-1 micro-batches, per stage (consecutive steps close up, section 4).
TEST(ZeroBubble, LeavesTheBubbleOfThePaper) {
  for (const ChunkTime& t : kParts) {
    const double f = t.forward_s, w = t.weight_s, b = t.backward_s - w;
    for (const int p : {2, 4, 8, 12}) {
      for (const int m : {2 * p, 3 * p, 50}) {
        const PipelineShape shape{p, 1, m};
        const auto stages = equal_stages(shape, t);
        const double work = m * stage_work(t);
        EXPECT_NEAR(run_schedule(named("zb-h1"), shape, stages, 0).end_s,
                    work + (p - 1) * (f + b - w), 1e-9)
            << p << " " << m;
        EXPECT_NEAR(run_schedule(named("zb-h2"), shape, stages, 0).longest_stage_s,
                    work + (p - 1) * (f + b - 2 * w), 1e-9)
            << p << " " << m;
      }
    }
  }
}

// Section 6: where forward, input gradient and weight gradient take equally long, no stage of ZB-V
// idles between its first and its last slot.
TEST(ZeroBubble, VHasNoBubbleWhenThePartsAreEqual) {
  for (const int p : {2, 3, 4, 8}) {
    for (const int m : {2 * p - 1, 2 * p, 5 * p}) {
      const PipelineShape shape{p, 2, m};
      const Timeline timeline =
          run_schedule(named("zbv"), shape, equal_stages(shape, parts(1, 1, 1)), 0);
      EXPECT_NEAR(timeline.longest_stage_s, 3 * m, 1e-9) << p << " " << m;
    }
  }
}

// DeepSeek-V3, table 2: the bubble is (PP/2-1)(F&B + B - 3W), B the whole backward of a chunk, F&B
// the time of two chunks that run as one. Here F = B - W; PP counts chunks, p = PP/2 ranks of the
// cut half.
TEST(DualPipe, LeavesTheBubbleOfTheReport) {
  for (const double w : {1.0, 0.5, 0.25}) {
    for (const int p : {2, 4, 8}) {
      for (const int m : {2 * p, 3 * p, 40}) {
        const PipelineShape shape{p, 2, m};
        const double f = 0.5, back = 0.5 + w / 2;  // of one chunk
        const auto stages = equal_stages(shape, parts(1, 1, w));
        const Timeline timeline = run_schedule(named("dualpipev"), shape, stages, 0);
        EXPECT_NEAR(timeline.end_s, m * 2 * (f + back) + (p - 1) * (f + back + back - 3 * w / 2),
                    1e-9)
            << p << " " << m << " " << w;
      }
    }
  }
}

TEST(DualPipe, IsWorkedThroughAsTwoHalves) {
  EXPECT_EQ(worked_shape(named("dualpipe"), {16, 1, 64}), (PipelineShape{8, 2, 32}));
  EXPECT_EQ(worked_shape(named("dualpipev"), {8, 2, 32}), (PipelineShape{8, 2, 32}));
  EXPECT_EQ(worked_shape(named("zb-h1"), {8, 2, 32}), (PipelineShape{8, 2, 32}));
}

TEST(DualPipe, AForwardBesideABackwardSavesWhatTheyHideOfEachOther) {
  const PipelineShape shape{4, 2, 40};
  ChunkTime t = parts(1, 1, 1);
  const double before = run_schedule(named("dualpipev"), shape, equal_stages(shape, t), 0).end_s;
  t.saved_s = 0.2;
  const double after = run_schedule(named("dualpipev"), shape, equal_stages(shape, t), 0).end_s;
  // Each of the m - 2p + 1 .. m pairs of a rank saves 0.1 per chunk.
  EXPECT_LT(after, before - 2 * 0.1 * (40 - 2 * 4));
  EXPECT_GT(after, before - 2 * 0.1 * 40);
}

double most_kept_of(const char* name, const PipelineShape& worked, int stage, double weights_only) {
  ScheduleProgram program;
  program.prepare(named(name), worked);
  return program.most_kept_bytes(stage, 1.0, weights_only);
}

// Activations of a micro-batch on a stage are 1, of a chunk 1/v. Qi et al. 2024, section 2.3: ZB-H1
// peaks at p like 1F1B, ZB-H2 at 2p-1, where what a weight gradient needs is at most what its
// backward did; section 6: ZB-V at p. DeepSeek-V3, table 2: DualPipe at PP+1 chunks.
TEST(InFlight, IsThatOfThePapers) {
  for (const int p : {2, 4, 8}) {
    const int m = 6 * p;
    for (int stage = 0; stage < p; ++stage) {
      for (const double held : {0.5, 1.0}) {
        EXPECT_LE(most_kept_of("zb-h1", {p, 1, m}, stage, held), p);
        EXPECT_LE(most_kept_of("zb-h2", {p, 1, m}, stage, held), 2 * p - 1);
        EXPECT_LE(most_kept_of("zbv", {p, 2, m}, stage, held), 2 * p);
        EXPECT_LE(most_kept_of("dualpipev", {p, 2, m}, stage, held), 2 * p + 1);
      }
      // Where nothing is let go with the input gradient, all stages hold equally much.
      EXPECT_EQ(most_kept_of("zb-h1", {p, 1, m}, stage, 1.0), p);
      EXPECT_EQ(most_kept_of("zb-h2", {p, 1, m}, stage, 1.0), 2 * p - 1);
      EXPECT_EQ(most_kept_of("zbv", {p, 2, m}, stage, 1.0), 2 * p);
    }
    EXPECT_EQ(most_kept_of("zb-h1", {p, 1, m}, 0, 0.5), p);
    EXPECT_EQ(most_kept_of("dualpipev", {p, 2, m}, 0, 0.5), 2 * p + 1);
  }
}

// tests/data/torch_schedules: written by scripts/make_torch_schedules.py from PyTorch's own
// classes.
struct TorchOrder {
  std::string schedule;
  PipelineShape shape;
  int rank = 0;
  std::string slots;
};

std::vector<TorchOrder> torch_orders() {
  std::vector<TorchOrder> orders;
  for (const auto& fields :
       golden_rows(std::string(FOREPLAN_SOURCE_DIR) + "/tests/data/torch_schedules/orders.csv")) {
    orders.push_back({fields.at(0),
                      {std::stoi(fields.at(1)), std::stoi(fields.at(2)), std::stoi(fields.at(3))},
                      std::stoi(fields.at(4)),
                      fields.at(5)});
  }
  return orders;
}

/// Our order as the file writes it.
std::string written(const PipelineSchedule& schedule, const PipelineShape& shape, int rank) {
  std::string text;
  bool joined = true;
  for (const ScheduleSlot& slot : schedule.order(shape, rank)) {
    const int position = position_of(schedule.placement, shape.pp, rank, slot.chunk);
    text += joined ? "" : " ";
    text += "FBIW"[static_cast<std::size_t>(slot.work)] + std::to_string(position) + "." +
            std::to_string(slot.micro_batch);
    joined = slot.with_next;
    if (joined) text += "+";
  }
  return text;
}

TEST(Order, IsThatOfPyTorch) {
  const std::map<std::string, std::string> ours = {{"Interleaved1F1B", "interleaved"},
                                                   {"InterleavedZeroBubble", "zb-h1"},
                                                   {"ZBVZeroBubble", "zbv"},
                                                   {"DualPipeV", "dualpipev"}};
  std::set<std::string> seen;
  for (const TorchOrder& torch : torch_orders()) {
    EXPECT_EQ(written(named(ours.at(torch.schedule)), torch.shape, torch.rank), torch.slots)
        << torch.schedule << " rank " << torch.rank << " of " << torch.shape.pp;
    seen.insert(torch.schedule);
  }
  EXPECT_EQ(seen.size(), ours.size());
}

}  // namespace
}  // namespace foreplan::simulator
