// A program whose Python plug-in is not there: everything works but hooks, and these say why not.

#include "tests/integration/program.hpp"
#include "tests/unit/results/store_fixture.hpp"

#include <gmock/gmock.h>

namespace foreplan::testing_program {
namespace {

using results::testing_rows::snapshot;
using results::testing_rows::TemporaryFolder;
using ::testing::HasSubstr;

class WithoutPython : public ::testing::Test {
 protected:
  WithoutPython() {
    fs::create_directory(folder_.path() / "bin");
    fs::copy_file(FOREPLAN_PROGRAM, program_);
    write_file(folder_.path() / "cost.py", "def objective(plans):\n    return plans['tp']\n");
    write_file(folder_.path() / "asked.yaml",
               "model: llama3-8b\ncluster: 8xH100\nhooks: cost.py\n"
               "training: {sequence_length: 8192 tokens, global_batch: 128 sequences}\n");
  }
  Outcome run(std::vector<std::string> arguments) const {
    return run_program(
        {.arguments = std::move(arguments), .folder = folder_.path(), .program = program_.c_str()});
  }

  TemporaryFolder folder_;
  fs::path program_ = folder_.path() / "bin" / "foreplan";
};

TEST_F(WithoutPython, AScenarioThatAsksForHooksIsRefusedWithTheWayToGetThem) {
  const auto before = snapshot(folder_.path());
  for (const char* verb : {"recommend", "sweep"}) {
    const Outcome outcome = run({verb, "asked.yaml"});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err,
                HasSubstr("foreplan: asked.yaml:3:8 hooks: this program was built without Python, "
                          "which hooks need: install python3-dev and pybind11-dev"));
  }
  EXPECT_EQ(snapshot(folder_.path()), before);
}

TEST_F(WithoutPython, EverythingElseIsAnswered) {
  const Outcome outcome = run({"simulate", "asked.yaml", "--tp", "2"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

TEST_F(WithoutPython, APlugInThatIsNoneIsRefused) {
  write_file(folder_.path() / "bin" / "foreplan-python.so", "no library");
  const Outcome outcome = run({"recommend", "asked.yaml"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("foreplan-python.so cannot be loaded"));
}

}  // namespace
}  // namespace foreplan::testing_program
