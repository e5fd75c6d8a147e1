// What the CUDA target decides before any device is asked: data of collectives, sets of operands,
// which kernel, which smaller question is compared. Oracles: definitions, closed forms.

#include "harness/checked_question.hpp"
#include "harness/targets/cuda/candidates.hpp"
#include "harness/targets/cuda/exact_values.hpp"
#include "harness/targets/cuda/rotation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace foreplan::harness::cuda {
namespace {

TEST(ExactValues, SumOverAnyNumberOfRanksToNumbersThatBf16Holds) {
  constexpr int kLargestOfBf16 = 256;
  for (const int ranks : {1, 2, 8, 63, 64, 65, 512, 4096}) {
    for (std::int64_t i = 0; i < 200; ++i) {
      int sum = 0;
      for (int rank = 0; rank < ranks; ++rank) sum += exact_value(i, rank, ranks);
      EXPECT_LE(sum, kLargestOfBf16) << ranks << " ranks, element " << i;
    }
  }
}

TEST(ExactValues, DifferBetweenElementsAndBetweenRanks) {
  std::vector<int> of_element(4), of_rank(4);
  for (int i = 0; i < 1000; ++i) {
    ++of_element[static_cast<std::size_t>(exact_value(i, 3, 8))];
    ++of_rank[static_cast<std::size_t>(exact_value(12345, i % 64, 64))];
  }
  EXPECT_THAT(of_element, testing::Each(testing::Gt(150)));
  EXPECT_THAT(of_rank, testing::Each(testing::Gt(0)));
}

/// The collective done by hand over the ranks' send buffers: what `rank` receives.
std::vector<int> by_hand(CollectiveKind kind, int rank, int ranks, std::int64_t elements) {
  const std::int64_t part = elements / ranks;
  const auto send = [&](int of, std::int64_t i) { return exact_value(i, of, ranks); };
  std::vector<int> got;
  const auto sum = [&](std::int64_t i) {
    int all = 0;
    for (int of = 0; of < ranks; ++of) all += send(of, i);
    return all;
  };
  switch (kind) {
    case CollectiveKind::all_reduce:
      for (std::int64_t i = 0; i < elements; ++i) got.push_back(sum(i));
      break;
    case CollectiveKind::reduce_scatter:
      for (std::int64_t i = 0; i < part; ++i) got.push_back(sum(rank * part + i));
      break;
    case CollectiveKind::all_gather:
      for (int of = 0; of < ranks; ++of) {
        for (std::int64_t i = 0; i < part; ++i) got.push_back(send(of, i));
      }
      break;
    case CollectiveKind::all_to_all:
      for (int of = 0; of < ranks; ++of) {
        for (std::int64_t i = 0; i < part; ++i) got.push_back(send(of, rank * part + i));
      }
      break;
    case CollectiveKind::broadcast:
      for (std::int64_t i = 0; i < elements; ++i) got.push_back(send(0, i));
      break;
    case CollectiveKind::send_recv:
      for (std::int64_t i = 0; i < elements; ++i)
        got.push_back(send((rank + ranks - 1) % ranks, i));
      break;
  }
  return got;
}

TEST(ExactValues, ExpectWhatTheCollectiveDoneByHandGives) {
  constexpr int kRanks = 4;
  constexpr std::int64_t kElements = 24;
  for (const CollectiveTraits& traits : kCollectives) {
    const bool parts = traits.kind == CollectiveKind::all_gather ||
                       traits.kind == CollectiveKind::reduce_scatter ||
                       traits.kind == CollectiveKind::all_to_all;
    for (int rank = 0; rank < kRanks; ++rank) {
      const Expected expected{traits.kind, rank, kRanks, parts ? kElements / kRanks : 0};
      const std::vector<int> right = by_hand(traits.kind, rank, kRanks, kElements);
      for (std::size_t i = 0; i < right.size(); ++i) {
        EXPECT_EQ(expected_value(expected, static_cast<std::int64_t>(i)), right[i])
            << traits.name << " rank " << rank << " element " << i;
      }
    }
  }
}

constexpr std::size_t kCache = 50'000'000, kMemory = 80'000'000'000;

TEST(Rotation, HotLaunchesHaveOneSetAndNoFlush) {
  const Rotation hot = plan_rotation(1000, kCache, kMemory, CacheMode::hot);
  EXPECT_EQ(hot.sets, 1);
  EXPECT_EQ(hot.cold_launches, 0);
}

TEST(Rotation, SetsHoldThreeCachesTogetherAndThenNeedNoMoreFlushes) {
  const Rotation cold = plan_rotation(10'000'000, kCache, kMemory, CacheMode::cold);
  EXPECT_GE(cold.sets * 10'000'000.0, 3.0 * kCache);
  EXPECT_EQ(cold.sets, 16);
  EXPECT_EQ(cold.cold_launches, std::numeric_limits<int>::max());
}

TEST(Rotation, SmallSetsAreFlushedWhenAllOfThemWereUsed) {
  const Rotation cold = plan_rotation(4096, kCache, kMemory, CacheMode::cold);
  EXPECT_EQ(cold.sets, kMostSets);
  EXPECT_EQ(cold.cold_launches, kMostSets);
}

TEST(Rotation, LargeSetsStandAloneAndSetsNeverTakeMoreThanHalfOfMemory) {
  EXPECT_EQ(plan_rotation(400'000'000, kCache, kMemory, CacheMode::cold).sets, 1);
  const Rotation tight = plan_rotation(40'000'000, kCache, 100'000'000, CacheMode::cold);
  EXPECT_EQ(tight.sets, 1);
  EXPECT_EQ(tight.cold_launches, 1);
}

Result<kernels::Case> never(const kernels::Question&) { return fail("not here"); }
const kernels::Kernel kA{"gemm", "cublaslt", "", {}, never};
const kernels::Kernel kB{"gemm", "cublaslt_tuned", "", {}, never};
const kernels::Kernel kC{"attention", "mma", "", {}, never};
const kernels::Kernel kD{"attention", "wgmma", "", {}, never};
const kernels::Kernel kE{"attention", "mma_deterministic", "", {}, never};
const kernels::Kernel kF{"attention", "cudnn", "", {}, never};
const kernels::Kernel* const kSix[] = {&kA, &kB, &kC, &kD, &kE, &kF};

std::vector<const kernels::Kernel*> chosen(const char* op, const std::string& variant,
                                           Selection selection) {
  kernels::Question question;
  question.op = op;
  return candidates(kSix, question, variant, selection)
      .value_or(std::vector<const kernels::Kernel*>{});
}

TEST(Candidates, AreTheOnesThatThePointAsksForWithTheNewestFirst) {
  using testing::ElementsAre;
  EXPECT_THAT(chosen("gemm", "", Selection::heuristic), ElementsAre(&kA));
  EXPECT_THAT(chosen("gemm", "", Selection::autotuned), ElementsAre(&kB));
  EXPECT_THAT(chosen("gemm", "cublaslt", Selection::autotuned), ElementsAre(&kA, &kB));
  EXPECT_THAT(chosen("attention", "", Selection::heuristic), ElementsAre(&kD, &kC));
  EXPECT_THAT(chosen("attention", "mma", Selection::heuristic), ElementsAre(&kC));
}

TEST(Candidates, AreDeterministicOnlyWhereThePointSaysSo) {
  using testing::ElementsAre;
  EXPECT_THAT(chosen("attention", "", Selection::heuristic), ElementsAre(&kD, &kC));
  EXPECT_THAT(chosen("attention", "mma_deterministic", Selection::heuristic), ElementsAre(&kE));
}

TEST(Candidates, AreALibrarysAttentionOnlyWhereThePointSaysSo) {
  EXPECT_THAT(chosen("attention", "cudnn", Selection::heuristic), testing::ElementsAre(&kF));
}

TEST(Candidates, RefuseInWordsThatNameWhatThereIs) {
  kernels::Question question;
  question.op = "attention";
  const auto tuned = candidates(kSix, question, "", Selection::autotuned);
  ASSERT_FALSE(tuned.has_value());
  EXPECT_THAT(to_text(tuned.error()), testing::HasSubstr("nothing to tune; variants: mma, wgmma"));
  const auto other = candidates(kSix, question, "flash", Selection::heuristic);
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(to_text(other.error()), testing::HasSubstr("no variant \"flash\""));
  question.op = "fft";
  EXPECT_THAT(to_text(candidates(kSix, question, "", Selection::heuristic).error()),
              testing::HasSubstr("no CUDA kernel computes \"fft\""));
}

kernels::Question asked(OperatorShape shape) {
  kernels::Question question;
  question.shape = shape;
  return question;
}

TEST(CheckedQuestion, SmallShapesStayAsTheyAre) {
  const GemmShape small{256, 128, 512, 2};
  EXPECT_EQ(std::get<GemmShape>(checked_question(asked(small)).shape), small);
}

TEST(CheckedQuestion, LargeProductsAreCutUntilTheReferenceCanComputeThem) {
  const auto cut =
      std::get<GemmShape>(checked_question(asked(GemmShape{16384, 57344, 8192, 1})).shape);
  EXPECT_LE(flops(cut).value, kMostCheckedFlops);
  for (const std::int64_t size : {cut.m, cut.n, cut.k}) {
    EXPECT_GE(size, 128);
    EXPECT_EQ(size % 16, 0);
  }
}

TEST(CheckedQuestion, RowsBecomeFewerAndKeepTheirLength) {
  const auto cut = std::get<RowShape>(checked_question(asked(RowShape{1 << 20, 8192})).shape);
  EXPECT_EQ(cut.cols, 8192);
  EXPECT_LE(static_cast<double>(cut.rows * cut.cols), kMostCheckedElements);
  EXPECT_GE(cut.rows, 16);
}

TEST(CheckedQuestion, AttentionKeepsItsGroupsOfQueriesAndItsHeadDimensions) {
  const AttentionShape large{4, 32, 8, 16384, 16384, 192, 128, 0, true};
  const auto cut = std::get<AttentionShape>(checked_question(asked(large)).shape);
  EXPECT_EQ(cut.heads_q / cut.heads_kv, 4);
  EXPECT_EQ(cut.head_dim_qk, 192);
  EXPECT_GE(cut.q_len, 64);
  EXPECT_LT(cut.q_len, 16384);
}

TEST(CheckedQuestion, ARowThatIsTooLongAloneEndsTheCutting) {
  const auto cut = std::get<RowShape>(checked_question(asked(RowShape{64, 1 << 27})).shape);
  EXPECT_EQ(cut.rows, 1);
}

}  // namespace
}  // namespace foreplan::harness::cuda
