#include "core/operator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace foreplan {
namespace {

/// Oracle: counts the pairs one by one, by the definition in the header.
double counted_pairs(const AttentionShape& shape) {
  double pairs = 0;
  for (std::int64_t query = 0; query < shape.q_len; ++query) {
    // The last query stands at the last key.
    const std::int64_t own_key = query + shape.kv_len - shape.q_len;
    std::int64_t seen = 0;
    for (std::int64_t key = 0; key < shape.kv_len; ++key) {
      if (shape.causal && key > own_key) continue;
      if (shape.causal && shape.window > 0 && key <= own_key - shape.window) continue;
      ++seen;
    }
    if (!shape.causal && shape.window > 0) seen = std::min(seen, shape.window);
    pairs += static_cast<double>(seen);
  }
  return pairs;
}

TEST(AttentionPairs, AgreeWithCountingOneByOne) {
  for (std::int64_t q_len = 0; q_len <= 9; ++q_len) {
    for (std::int64_t kv_len = 0; kv_len <= 9; ++kv_len) {
      for (std::int64_t window = 0; window <= 11; ++window) {
        for (bool causal : {false, true}) {
          const AttentionShape shape{
              .q_len = q_len, .kv_len = kv_len, .window = window, .causal = causal};
          EXPECT_EQ(attention_pairs(shape), counted_pairs(shape))
              << "q " << q_len << " kv " << kv_len << " window " << window << " causal " << causal;
        }
      }
    }
  }
}

TEST(AttentionPairs, OfASquareCausalMaskAreTheTriangle) {
  const std::int64_t s = 1 << 20;
  EXPECT_EQ(attention_pairs({.q_len = s, .kv_len = s}),
            static_cast<double>(s) * static_cast<double>(s + 1) / 2);
}

TEST(AttentionPairs, StayExactForALongSequenceWithAWindow) {
  // 4096 keys each, less the triangle of the first 4095 queries that see fewer.
  EXPECT_EQ(attention_pairs({.q_len = 131072, .kv_len = 131072, .window = 4096}),
            131072.0 * 4096.0 - 4095.0 * 4096.0 / 2);
}

TEST(Flops, OfAGemmAreTwoPerMultiplyAdd) {
  EXPECT_EQ(flops(GemmShape{.m = 3, .n = 5, .k = 7, .batch = 2}), Flops{420});
  // Beyond 2^63: the product must not be made in integers.
  EXPECT_EQ(flops(GemmShape{.m = 1 << 20, .n = 1 << 20, .k = 1 << 20, .batch = 1 << 10}),
            Flops{0x1p71});
}

TEST(Flops, OfAttentionAreTwoProductsForwardAndFiveBackward) {
  const AttentionShape shape{.batch = 2,
                             .heads_q = 4,
                             .heads_kv = 2,
                             .q_len = 8,
                             .kv_len = 8,
                             .head_dim_qk = 24,
                             .head_dim_v = 16};
  const double score_product = 2.0 * 2 * 4 * 36 * 24;
  const double value_product = 2.0 * 2 * 4 * 36 * 16;
  EXPECT_EQ(flops(shape, Pass::forward), Flops{score_product + value_product});
  EXPECT_EQ(flops(shape, Pass::dgrad), Flops{2.5 * (score_product + value_product)});
  EXPECT_EQ(flops(shape, Pass::wgrad), Flops{0});
}

TEST(Part, NamesFollowTheEnum) {
  EXPECT_EQ(name(Part::attention_norm), "attention_norm");
  EXPECT_EQ(name(Part::core_attention), "core_attention");
  EXPECT_EQ(name(Part::ffn_norm), "ffn_norm");
  EXPECT_EQ(name(Part::fc2), "fc2");
  EXPECT_EQ(name(Part::router), "router");
  EXPECT_EQ(name(Part::permute), "permute");
  EXPECT_EQ(name(Part::expert_fc2), "expert_fc2");
  EXPECT_EQ(name(Part::shared_activation), "shared_activation");
  EXPECT_EQ(name(Part::residual), "residual");
  EXPECT_EQ(name(Part::final_norm), "final_norm");
  EXPECT_EQ(name(Part::loss), "loss");
  std::set<std::string_view> names;
  for (int part = 0; part < kPartCount; ++part) names.insert(name(static_cast<Part>(part)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kPartCount));
}

TEST(Part, BitsAreDistinct) {
  PartSet all = 0;
  for (int part = 0; part < kPartCount; ++part) {
    EXPECT_FALSE(contains(all, static_cast<Part>(part)));
    all |= part_bit(static_cast<Part>(part));
    EXPECT_TRUE(contains(all, static_cast<Part>(part)));
  }
}

TEST(OperatorTraits, StandInTheOrderOfTheEnum) {
  for (std::size_t i = 0; i < kOperators.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(kOperators[i].kind), i) << kOperators[i].name;
  }
}

}  // namespace
}  // namespace foreplan
