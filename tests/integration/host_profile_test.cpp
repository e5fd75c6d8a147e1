// From this machine's processors to a plan: measured, fitted, predicted with. Shows that the parts
// fit together and that answers obey what was measured; how exact they are depends on the machine
// and is no matter of a test.

#include "harness/targets/host/launcher.hpp"
#include "results/store.hpp"
#include "tests/integration/program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

#ifdef FOREPLAN_BENCH_PROGRAM

namespace foreplan {
namespace {

using namespace testing_program;

constexpr const char* kLauncher = "/usr/bin/mpirun";
constexpr const char* kDevice = "this-machine";
constexpr int kHidden = 128, kLayers = 2, kVocabulary = 512, kTokens = 64;

/// A few sizes of every kind of kernel that a small transformer runs, in fp32.
std::string points() {
  std::string text = "foreplan_bench: 1\npoints:\n";
  const auto add = [&text](const std::string& point) {
    text += "  - {dtype: fp32, " + point + "}\n";
  };
  for (const int tokens : {16, 64, 256}) {
    const std::string m = std::to_string(tokens);
    for (const char* sizes : {"n: 128, k: 128", "n: 512, k: 128", "n: 128, k: 512"}) {
      for (const char* pass : {"forward", "dgrad", "wgrad"}) {
        add("op: gemm, m: " + m + ", " + sizes + ", pass: " + pass);
      }
    }
    for (const char* pass : {"forward", "backward"}) {
      add("op: attention, batch: 1, heads: 2, q_len: " + m +
          ", head_dim_qk: 64, causal: true, pass: " + pass);
      add("op: layer_norm, rows: " + m + ", cols: 128, pass: " + pass);
    }
    for (const char* op : {"add", "copy", "optimizer"}) {
      add("op: " + std::string(op) + ", rows: " + m + ", cols: 128");
    }
  }
  return text;
}

std::string messages() {
  std::string text = "foreplan_bench: 1\npoints:\n";
  for (const char* op : {"all_reduce", "all_gather"}) {
    for (int bytes = 1024; bytes <= 1 << 20; bytes *= 4) {
      text += "  - {op: " + std::string(op) + ", size_bytes: " + std::to_string(bytes) +
              ", dtype: fp32}\n";
    }
  }
  return text;
}

std::string model() {
  nlohmann::json config = {{"model_type", "gpt2"},
                           {"architectures", {"GPT2LMHeadModel"}},
                           {"n_embd", kHidden},
                           {"n_layer", kLayers},
                           {"n_head", 2},
                           {"vocab_size", kVocabulary},
                           {"n_positions", kTokens},
                           {"activation_function", "gelu_new"},
                           {"tie_word_embeddings", false}};
  return config.dump();
}

class HostProfile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "foreplan-profile-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    write_file(folder_ / "points.yaml", points());
    write_file(folder_ / "messages.yaml", messages());
    write_file(folder_ / "config.json", model());
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] Outcome run(const char* program, std::vector<std::string> arguments) const {
    return run_program(
        {.arguments = std::move(arguments),
         .folder = folder_,
         .environment = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                         "HOME=" + folder_.string()},
         .program = program});
  }

  [[nodiscard]] std::string measuring(const char* target, const char* list) const {
    return std::string("--target ") + target + " --device-name " + kDevice + " --bench " + list +
           " --noise \"20 %\" --budget 60s --db host.db";
  }

  void measure_kernels() const {
    const Outcome outcome =
        run(FOREPLAN_BENCH_PROGRAM, shell_words(measuring("host:threads=1", "points.yaml")));
    if (outcome.exit_code == 3) GTEST_SKIP() << outcome.err;
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err << outcome.out;
  }

  [[nodiscard]] nlohmann::json simulate(int ranks) const {
    const std::string one = std::to_string(ranks);
    const Outcome outcome = run(
        FOREPLAN_PROGRAM,
        shell_words(
            "simulate --json --model config.json --cluster 1x" + one + "x" + kDevice +
            ".yaml --profile profile.json --sequence-length \"64 tokens\" --global-batch \"" + one +
            " sequences\" --micro-batch 1 --framework pytorch-cpu --precision "
            "fp32 --tp 1 --pp 1 --sequence-parallel false --zero 0 --recompute none"));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out, nullptr, false);
  }

  [[nodiscard]] Outcome calibrate() const {
    return run(FOREPLAN_PROGRAM, shell_words(std::string("calibrate --device ") + kDevice +
                                             ".yaml --db host.db --folds 0 --out profile.json"));
  }

  [[nodiscard]] results::MeasurementSet rows() const {
    return results::Store::open((folder_ / "host.db").string(), results::AccessMode::read_only)
        .measurements({.kind = {}, .device = kDevice, .source = {}});
  }

  fs::path folder_;
};

// The layers' products alone are 6 tokens x parameters x FLOP (forward, two backward); no answer
// may have them faster than twice the best rate that was measured.
TEST_F(HostProfile, IsMeasuredFittedAndPredictedWith) {
  measure_kernels();
  if (IsSkipped() || HasFatalFailure()) return;
  const Outcome fitted = calibrate();
  ASSERT_EQ(fitted.exit_code, 0) << fitted.err;
  double best = 0;
  for (const auto& row : rows().gemm) {
    best = std::max(best, 2.0 * static_cast<double>(row.m * row.n * row.k) / row.time.value);
  }
  const nlohmann::json answer = simulate(1);
  ASSERT_TRUE(answer.is_object());
  const double flop = 6.0 * kTokens * 12 * kHidden * kHidden * kLayers;
  EXPECT_GT(answer.at("step_time_s").get<double>(), flop / (2 * best));
  EXPECT_LT(answer.at("step_time_s").get<double>(), 60);
}

// Data-parallel training needs its gradients' all-reduce, which only ranks can measure.
TEST_F(HostProfile, RanksAddTheirMessages) {
  if (!fs::exists(kLauncher)) GTEST_SKIP() << "no " << kLauncher << " (openmpi-bin)";
  if (!fs::exists(fs::path(FOREPLAN_BENCH_PROGRAM).parent_path() /
                  harness::kMessagePassingLibrary)) {
    GTEST_SKIP() << "built without " << harness::kMessagePassingLibrary;
  }
  measure_kernels();
  if (IsSkipped() || HasFatalFailure()) return;
  const Outcome sent =
      run(kLauncher, shell_words("--oversubscribe -n 2 " FOREPLAN_BENCH_PROGRAM " " +
                                 measuring("host:threads=1", "messages.yaml")));
  ASSERT_EQ(sent.exit_code, 0) << sent.err;
  ASSERT_EQ(rows().collectives.size(), 12U);
  const Outcome fitted = calibrate();
  ASSERT_EQ(fitted.exit_code, 0) << fitted.err;
  EXPECT_THAT(fitted.out, testing::HasSubstr("12 collective"));
  const nlohmann::json alone = simulate(1), together = simulate(2);
  ASSERT_TRUE(alone.is_object() && together.is_object());
  EXPECT_GT(together.at("step_time_s").get<double>(), alone.at("step_time_s").get<double>());
}

}  // namespace
}  // namespace foreplan

#endif  // FOREPLAN_BENCH_PROGRAM
