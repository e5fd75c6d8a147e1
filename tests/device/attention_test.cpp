// Every registered attention kernel on the device of this machine, against its reference in double
// precision: the shapes of the emulated tests. What a variant does not do, or not on this device,
// is skipped with the reason.

#include "kernels/cuda/attention_library.hpp"
#include "kernels/cuda/registry.hpp"
#include "tests/device/device_run.hpp"
#include "tests/emulated/attention_examples.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace foreplan::kernels {
namespace {

std::vector<const Kernel*> attention_kernels() {
  std::vector<const Kernel*> found;
  for (const Kernel* const kernel : cuda::kernels()) {
    if (kernel->op == "attention") found.push_back(kernel);
  }
  const auto library = cuda::library_attention_kernels();
  found.insert(found.end(), library.begin(), library.end());
  return found;
}

class DeviceAttention : public testing::TestWithParam<const Kernel*> {
 protected:
  void SetUp() override {
    if (const std::string why = no_device(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(DeviceAttention, AgreesWithItsReference) {
  int compared = 0;
  std::string refusal;
  for (const Pass pass : {Pass::forward, Pass::dgrad}) {
    for (const AttentionExample& example : attention_examples()) {
      const auto made = GetParam()->make(attention_question(example, pass));
      if (!made) {
        refusal = to_text(made.error());
        continue;
      }
      ++compared;
      EXPECT_EQ(disagreement(*made), "") << name(pass) << " " << example.name;
    }
  }
  if (compared == 0) GTEST_SKIP() << refusal;
}

TEST_P(DeviceAttention, GivesTheSameBitsInEveryRunWhereItsNamePromisesIt) {
  if (!GetParam()->variant.ends_with("_deterministic")) GTEST_SKIP() << "promises nothing";
  // More blocks than a device runs at once, of several heads and sequences.
  for (const bool causal : {true, false}) {
    const AttentionExample example{.name = "many_blocks",
                                   .shape = {.batch = 2,
                                             .heads_q = 16,
                                             .heads_kv = 8,
                                             .q_len = 2100,
                                             .kv_len = 2100,
                                             .head_dim_qk = 128,
                                             .head_dim_v = 128,
                                             .causal = causal}};
    const auto made = GetParam()->make(attention_question(example, Pass::dgrad));
    if (!made) GTEST_SKIP() << to_text(made.error());
    const auto runs = repeated(*made, 5);
    for (const auto& run : runs) EXPECT_EQ(run, runs.front()) << causal;
  }
}

TEST(AttentionOfALibrary, SaysWhatItDoesNotDoOrWhatIsMissing) {
  const cuda::AttentionLibrary library = cuda::attention_library();
  const bool built = library.reason.find("built without") == std::string::npos;
  AttentionExample example{.name = "told",
                           .shape = {.batch = 2,
                                     .heads_q = 4,
                                     .heads_kv = 2,
                                     .q_len = 128,
                                     .kv_len = 128,
                                     .head_dim_qk = 64,
                                     .head_dim_v = 64,
                                     .causal = true}};
  for (const Kernel* const kernel : cuda::library_attention_kernels()) {
    const auto told = [&kernel](const AttentionExample& asked) {
      const auto made = kernel->make(attention_question(asked, Pass::forward));
      return made ? std::string() : made.error().front().message;
    };
    AttentionExample window = example, ragged = example;
    window.shape.window = 32;
    ragged.ragged = 1;
    EXPECT_EQ(told(window),
              built ? "attention/cudnn: windows are not asked of cuDNN" : library.reason);
    EXPECT_EQ(told(ragged),
              built ? "attention/cudnn: sequences of different lengths are not asked of cuDNN"
                    : library.reason);
    if (library.reason.empty()) GTEST_SKIP() << "the library is here";
    EXPECT_TRUE(library.version.empty());
    EXPECT_EQ(told(example), library.reason);
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, DeviceAttention, testing::ValuesIn(attention_kernels()),
                         [](const auto& kernel) { return std::string(kernel.param->variant); });

}  // namespace
}  // namespace foreplan::kernels
