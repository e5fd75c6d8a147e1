// Which measured network stands in for one without rows, and at what rate. The networks are made
// up, so that the oracle is the rate of their NICs.

#include "core/quantity.hpp"
#include "simulator/calibration/collective/collective_model.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <string>
#include <vector>

namespace foreplan::simulator::calibration {
namespace {

constexpr const char* kDevice = "made-up";
constexpr const char* kFabric = "made-up fabric";
constexpr double kNic = 50e9;  // of kFabric, for one rank
constexpr double kMessage = 512 * kMiB;

/// Seconds of an all-reduce over `nodes` nodes of `g` ranks, each with a NIC of its own.
double truth_s(int g, int nodes, double bytes, double nic) {
  return 30e-6 + bytes * 2 * (nodes - 1.0) / nodes / g / nic;
}

void add_fabric(std::vector<CollectiveSample>& rows, const std::string& fabric, double nic,
                std::initializer_list<int> nodes_measured) {
  for (int octave = 10; octave <= 29; ++octave) {
    for (const int g : {1, 8}) {
      for (const int nodes : nodes_measured) {
        CollectiveSample& row = rows.emplace_back();
        row.op = CollectiveOp::all_reduce;
        row.device = kDevice;
        row.fabric = fabric;
        row.library = "nccl";
        row.ngpus = g * nodes;
        row.nodes = nodes;
        row.ranks_per_node = g;
        row.size = Bytes{std::exp2(octave)};
        row.time = Seconds{truth_s(g, nodes, row.size.value, nic)};
      }
    }
  }
}

/// How one node's ranks use its NICs.
struct Sharing {
  int g = 1;       ///< ranks of a group in a node
  int groups = 1;  ///< at the same time
  int nics = 1;
};

/// Seconds of an all-reduce of `kMessage` between two nodes of a cluster whose network nobody
/// measured.
double lent_s(const std::vector<CollectiveSample>& rows, double nic, const Sharing& sharing) {
  const auto model = CollectiveModel::fit(
      rows, {{kDevice, "NVLink4", BytesPerSecond{450e9}, BytesPerSecond{kNic}}},
      {{kFabric, BytesPerSecond{kNic}}});
  EXPECT_TRUE(model);
  CollectiveSelector asked;
  asked.device = kDevice;
  asked.fabric = "any";
  asked.op = CollectiveOp::all_reduce;
  asked.nic = BytesPerSecond{nic};
  CollectiveQuery query;
  query.bytes = kMessage;
  query.ngpus = 2 * sharing.g;
  query.ranks_per_node = sharing.g;
  query.concurrency = sharing.groups;
  query.nics_per_node = sharing.nics;
  return model->predict(asked, query).time_s;
}

// A fabric whose rate nobody states was ten times slower; it has more rows, and the same device.
TEST(CollectiveChoice, AFabricOfNoKnownRateLendsOnlyWhereNoOtherDoes) {
  std::vector<CollectiveSample> rows;
  add_fabric(rows, "somewhere", kNic / 10, {2, 4, 8});
  EXPECT_NEAR(lent_s(rows, kNic, {}) / truth_s(1, 2, kMessage, kNic / 10), 1, 0.05);
  add_fabric(rows, kFabric, kNic, {2, 4});
  EXPECT_NEAR(lent_s(rows, kNic, {}) / truth_s(1, 2, kMessage, kNic), 1, 0.05);
}

// Eight ranks that share four NICs get what eight with NICs of half the rate get, however they are
// split into groups.
TEST(CollectiveChoice, RanksThatShareNicsGetTheirPartOfThem) {
  std::vector<CollectiveSample> rows;
  add_fabric(rows, kFabric, kNic, {2, 4});
  for (const int g : {1, 2, 8}) {
    const double shared_s = lent_s(rows, kNic / 2, {.g = g, .groups = 8 / g, .nics = 4});
    const double own_s = lent_s(rows, kNic / 4, {.g = g, .groups = 8 / g, .nics = 8});
    EXPECT_NEAR(shared_s / own_s, 1, 1e-9) << g;
    EXPECT_NEAR(own_s / truth_s(g, 2, kMessage, kNic / 4), 1, 0.1) << g;
  }
}

}  // namespace
}  // namespace foreplan::simulator::calibration
