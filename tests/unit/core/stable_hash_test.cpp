#include "core/stable_hash.hpp"

#include <gtest/gtest.h>

namespace foreplan {
namespace {

// FNV's own test vectors (draft-eastlake-fnv, 64 bits), from FNV's own start.
TEST(StableHash, StepsAsFnv1aDoes) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  hash = stable_hash(hash, 'f');
  for (const char c : std::string_view("oobar")) hash = stable_hash(hash, std::uint64_t(c));
  EXPECT_EQ(hash, 0x85944171f73967e8ULL);
}

TEST(StableHash, TakesInTheBytesOfATextWithoutTheirSign) {
  EXPECT_EQ(stable_hash(""), kStableHashSeed);
  EXPECT_EQ(stable_hash("\xff"), stable_hash(kStableHashSeed, 255));
}

}  // namespace
}  // namespace foreplan
