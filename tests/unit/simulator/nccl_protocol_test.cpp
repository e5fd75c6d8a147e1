// The oracle is what nccl-tests measured (results/calibration/collectives.fpm, source `aic`): where
// a library changes its protocol the time jumps between two neighbouring sizes, where it does not
// the time grows by less than the size.

#include "simulator/calibration/collective/nccl_protocol.hpp"

#include "core/quantity.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string_view>

namespace foreplan::simulator::calibration {
namespace {

using enum CollectiveOp;

struct MeasuredPair {
  std::string_view link, version;
  CollectiveOp op;
  int ranks;
  double below_mib, below_us, above_mib, above_us;
  bool jumps;  ///< the two times lie on different lines
};

// Microseconds of fp16 messages; A100 has NVLink3, H100 NVLink4, B200 NVLink5.
constexpr MeasuredPair kMeasured[] = {
    {"NVLink3", "2.27.3", all_reduce, 2, 0.5, 19.8, 1, 42.4, true},
    {"NVLink3", "2.27.3", all_gather, 2, 0.5, 15.8, 2, 38.2, true},
    {"NVLink3", "2.27.3", all_gather, 4, 1, 22.6, 2, 52.8, true},
    {"NVLink3", "2.27.3", reduce_scatter, 4, 1, 21.6, 2, 51.5, true},
    {"NVLink3", "2.27.3", all_gather, 8, 8, 73.7, 16, 134.8, true},
    {"NVLink3", "2.27.3", all_gather, 8, 0.25, 20.9, 1, 26.5, false},
    {"NVLink4", "2.29.2", all_reduce, 2, 1, 14.4, 2, 27.6, true},
    {"NVLink4", "2.29.2", all_gather, 4, 2, 19.0, 4, 37.0, true},
    {"NVLink4", "2.29.2", reduce_scatter, 4, 2, 17.7, 4, 34.6, true},
    {"NVLink4", "2.29.2", reduce_scatter, 2, 1, 10.9, 2, 15.9, false},
    {"NVLink5", "2.29.2", all_reduce, 2, 2, 18.9, 4, 36.6, true},
    {"NVLink5", "2.29.2", all_reduce, 4, 2, 23.8, 8, 85.1, true},
    {"NVLink5", "2.29.2", all_gather, 4, 4, 25.1, 8, 50.7, true},
    {"NVLink5", "2.29.2", all_gather, 8, 8, 44.3, 16, 101.9, true},
    {"NVLink5", "2.29.2", reduce_scatter, 8, 8, 44.4, 16, 98.1, true},
    {"NVLink5", "2.29.2", reduce_scatter, 8, 2, 21.6, 4, 27.5, false},
    // An older release has another table: it stays with LL128 where 2.29 turns to Simple.
    {"NVLink5", "2.27.5", all_gather, 8, 16, 51.2, 64, 140.5, true},
};

NcclCall call(const MeasuredPair& row) {
  return {.op = row.op,
          .ranks = row.ranks,
          .link = row.link,
          .link_rate = {},
          .version = row.version,
          .multicast = true};
}

TEST(NcclProtocol, ChangesBetweenTheSizesWhereMeasuredTimesJump) {
  for (const MeasuredPair& row : kMeasured) {
    SCOPED_TRACE(testing::Message() << row.link << " " << row.version << " " << name(row.op)
                                    << " of " << row.ranks << " above " << row.below_mib << " MiB");
    const bool changes =
        nccl_path(call(row), row.below_mib * kMiB) != nccl_path(call(row), row.above_mib * kMiB);
    EXPECT_EQ(changes, row.jumps);
  }
}

TEST(NcclProtocol, OfReleasesDiffersAsMeasured) {
  // All-gather of 16 MiB among eight B200: 51 us with 2.27 and 2.28, 102 us with 2.29.
  NcclCall gather{.op = all_gather,
                  .ranks = 8,
                  .link = "NVLink5",
                  .link_rate = {},
                  .version = "2.27.5",
                  .multicast = true};
  EXPECT_EQ(nccl_path(gather, 16 * kMiB), NcclPath::ring_ll128);
  gather.version = "2.28.9";
  EXPECT_EQ(nccl_path(gather, 16 * kMiB), NcclPath::ring_ll128);
  gather.version = "2.29.2";
  EXPECT_EQ(nccl_path(gather, 16 * kMiB), NcclPath::ring_simple);
}

TEST(NcclProtocol, TheSwitchDoesNotAddBytes) {
  // 128 MiB among eight H100: 579 us in fp16, reduced in the switch; 722 us in int8, by a ring.
  NcclCall reduce{.op = all_reduce,
                  .ranks = 8,
                  .link = "NVLink4",
                  .link_rate = {},
                  .version = "2.29.2",
                  .multicast = true};
  EXPECT_EQ(nccl_path(reduce, 128 * kMiB), NcclPath::nvls);
  reduce.multicast = false;
  EXPECT_EQ(nccl_path(reduce, 128 * kMiB), NcclPath::ring_simple);
}

TEST(NcclProtocol, IsUnknownForWhatTheLibrarysModelDoesNotDescribe) {
  const NcclCall send{.op = all_to_all,
                      .ranks = 8,
                      .link = "NVLink4",
                      .link_rate = {},
                      .version = "",
                      .multicast = true};
  EXPECT_EQ(nccl_path(send, kMiB), NcclPath::unknown);
  NcclCall other = send;
  other.op = all_gather;
  other.link = "xGMI 7x64";
  EXPECT_EQ(nccl_path(other, kMiB), NcclPath::unknown);
  other.link = "NVLink5 (NVL72)";
  EXPECT_NE(nccl_path(other, kMiB), NcclPath::unknown);
  other.ranks = 72;
  EXPECT_EQ(nccl_path(other, kMiB), NcclPath::unknown);
  other.ranks = 1;
  EXPECT_EQ(nccl_path(other, kMiB), NcclPath::unknown);
}

TEST(NcclProtocol, SwitchesAreTheSizesOnWhoseSidesThePathsDiffer) {
  for (const MeasuredPair& row : kMeasured) {
    double last = 10;
    const auto found = nccl_switches(call(row), 10, 32);
    EXPECT_FALSE(found.empty());
    for (const double at : found) {
      EXPECT_GT(at, last);
      EXPECT_NE(nccl_path(call(row), std::exp2(at - 0.01)),
                nccl_path(call(row), std::exp2(at + 0.01)));
      EXPECT_EQ(nccl_path(call(row), std::exp2(last + 0.01)),
                nccl_path(call(row), std::exp2(at - 0.01)));
      last = at;
    }
  }
}

}  // namespace
}  // namespace foreplan::simulator::calibration
