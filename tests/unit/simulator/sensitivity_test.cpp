// Shares of a step that hang on single costs, against what fixed-time costs make exact.

#include "simulator/step/sensitivity.hpp"

#include "tests/unit/simulator/sample_questions.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace foreplan::simulator {
namespace {

class Dependences : public testing::Test {
 protected:
  Dependences() {
    cost_.gemm_s = 1e-3;
    cost_.attention_s = 2e-3;
    cost_.bandwidth_s = 1e-4;
    cost_.collective_s = 2e-4;
    plan_.tp = 2;
    plan_.dp = 4;
  }
  [[nodiscard]] std::vector<Dependence> of(const std::vector<ParallelPlan>& plans) const {
    const StepModel model({&model_, &cluster_, training_}, cost_, frameworks_, {{}});
    return dependences(model, plans);
  }

  models::ModelSpec model_ = samples::dense_model(12);
  ClusterSpec cluster_ = samples::cluster(1);
  TrainingSetup training_ = samples::training(64);
  samples::FixedCost cost_;
  std::vector<FrameworkTraits> frameworks_ = {samples::plain_framework()};
  ParallelPlan plan_;
};

double sum_of_shares(const std::vector<Dependence>& all, std::size_t plan) {
  double sum = 0;
  for (const Dependence& d : all) sum += d.share[plan];
  return sum;
}

// The step is a sum of costs (a framework without overlap and hosts that do not wait), so it is
// homogeneous of degree one in them: Euler's theorem says that the shares add up to one.
TEST_F(Dependences, SharesOfAPlanWithoutOverlapAddUpToOne) {
  EXPECT_NEAR(sum_of_shares(of({plan_}), 0), 1, 0.02);
}

TEST_F(Dependences, EachCostStandsOnceAndTheLargestFirst) {
  const auto all = of({plan_});
  ASSERT_GT(all.size(), 5u);
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_LE(all[i].share[0], all[i - 1].share[0]);
  const auto attention = std::count_if(all.begin(), all.end(), [](const Dependence& d) {
    const auto* op = std::get_if<Operator>(&d.what);
    return op != nullptr && op->kind == OperatorKind::attention;
  });
  EXPECT_EQ(attention, 2);  // forward and backward, all layers alike
}

TEST_F(Dependences, ADearerCostWeighsMore) {
  const auto share_of_attention = [&] {
    double sum = 0;
    for (const Dependence& d : of({plan_})) {
      const auto* op = std::get_if<Operator>(&d.what);
      if (op != nullptr && op->kind == OperatorKind::attention) sum += d.share[0];
    }
    return sum;
  };
  const double before = share_of_attention();
  cost_.attention_s *= 10;
  EXPECT_GT(share_of_attention(), 2 * before);
}

TEST_F(Dependences, CostsOfAllPlansAreListedAndOnlyUsedOnesHaveAShare) {
  ParallelPlan other = plan_;
  other.tp = 1;
  other.dp = 8;
  const auto both = of({plan_, other});
  EXPECT_GT(both.size(), of({plan_}).size());
  for (const Dependence& d : both) {
    ASSERT_EQ(d.share.size(), 2u);
    EXPECT_GE(d.share[0], 0);
    EXPECT_GE(d.share[1], 0);
  }
  EXPECT_NEAR(sum_of_shares(both, 1), 1, 0.02);
}

}  // namespace
}  // namespace foreplan::simulator
