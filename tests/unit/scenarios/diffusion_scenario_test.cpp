// Questions about diffusion transformers: pixels, frames and prompts in place of a sequence length.

#include "scenarios/launch.hpp"
#include "scenarios/scenario.hpp"
#include "tests/unit/scenarios/questions.hpp"

#include <gmock/gmock.h>

#include <string>

namespace foreplan::scenarios {
namespace {

using namespace testing_questions;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string question(const std::string& training, const std::string& model = "flux.1-dev") {
  return "model: " + model + "\ncluster: 1x8xH100\nframework: torchtitan\ntraining:\n" + training +
         "search:\n  tp: [1]\n  pp: [1]\n";
}

std::string mistakes(const std::string& text) {
  const auto scenario = parse_scenario(text, "s.yaml", {}, Purpose::search);
  return scenario ? "no mistake" : to_text(scenario.error());
}

TEST(DiffusionScenario, TakesTheMediaThatTheModelWasPublishedFor) {
  const Scenario s = asked(question("  global_batch: 64 samples\n"));
  EXPECT_EQ(s.training.sequence_length, 4096 + 512);
  EXPECT_EQ(s.training.global_batch, 64);
}

TEST(DiffusionScenario, CountsTokensFromPixelsFramesAndPrompt) {
  const Scenario picture =
      asked(question("  image: 512x768\n  text_tokens: 256\n  global_batch: 64 samples\n"));
  EXPECT_EQ(picture.training.sequence_length, 32 * 48 + 256);
  EXPECT_EQ(picture.model.diffusion->text_tokens, 256);
  // The text is read by a cross attention and is no part of the sequence.
  const Scenario video = asked(
      question("  image: 832x480\n  frames: 17\n  global_batch: 64 samples\n", "wan2.1-1.3b"));
  EXPECT_EQ(video.training.sequence_length, 5 * 30 * 52);
}

TEST(DiffusionScenario, IsAnotherQuestionWithAnotherPromptOrPicture) {
  const std::string batch = "  global_batch: 64 samples\n";
  const auto plain = resolved_json(asked(question(batch, "wan2.1-1.3b")));
  EXPECT_NE(plain, resolved_json(asked(question(batch + "  text_tokens: 256\n", "wan2.1-1.3b"))));
  // As many tokens in another shape is the same work but another question.
  EXPECT_NE(plain, resolved_json(asked(question(batch + "  image: 480x832\n", "wan2.1-1.3b"))));
}

TEST(DiffusionScenario, SaysWhatIsWrongWithTheMedia) {
  const std::string batch = "  global_batch: 64 samples\n";
  EXPECT_THAT(mistakes(question("  image: 1000x1024\n" + batch)),
              AllOf(HasSubstr("s.yaml:5"), HasSubstr("width 1000"), HasSubstr("992 or 1008")));
  EXPECT_THAT(mistakes(question("  image: large\n" + batch)),
              AllOf(HasSubstr("training.image"), HasSubstr("1024x1024")));
  EXPECT_THAT(mistakes(question("  frames: 80\n" + batch, "wan2.1-14b")),
              AllOf(HasSubstr("training.frames"), HasSubstr("77 or 81")));
  EXPECT_THAT(mistakes(question("  text_tokens: 77\n" + batch, "dit-xl-2")),
              HasSubstr("takes no text"));
  EXPECT_THAT(mistakes(question("  sequence_length: 4096 tokens\n" + batch)),
              AllOf(HasSubstr("training.sequence_length"), HasSubstr("training.image")));
  EXPECT_THAT(
      mistakes(question("  sequence_length: 4096 tokens\n  image: 512x512\n" + batch, "llama3-8b")),
      AllOf(HasSubstr("training.image"), HasSubstr("language model")));
}

TEST(DiffusionScenario, IsAnsweredWithPlansThatLaunchersOfLanguageModelsRefuse) {
  const auto refusal = [](const std::string& framework) {
    const Study study = planned({{"--model", "flux.1-dev"},
                                 {"--cluster", "1x8xH100"},
                                 {"--framework", framework},
                                 {"--global-batch", "64 samples"}},
                                {{"--tp", "1"}, {"--recompute", "full"}, {"--zero", "3"}});
    const auto& plan = study.scenario().plan.value();
    EXPECT_GT(study.model().explain(plan).time.step_time_s, 0);
    return launch_of(plan, study).refusal;
  };
  EXPECT_THAT(refusal("torchtitan"), AllOf(HasSubstr("torchtitan"), HasSubstr("flux.1-dev")));
  EXPECT_EQ(refusal("deepspeed"), "");  // its file says nothing of the model
}

}  // namespace
}  // namespace foreplan::scenarios
