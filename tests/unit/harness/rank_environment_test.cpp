// Rank and meeting point from the variables that launchers set. Oracle: the variables as the
// manuals of torchrun, Open MPI, MPICH and Slurm name them.

#include "harness/launch/rank_environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace foreplan::harness {
namespace {

using Environment = std::map<std::string, std::string>;

Variables variables(Environment environment) {
  return [environment = std::move(environment)](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  };
}

/// Place and meeting point, as ranks that talk over TCP need them.
Result<RankPlace> meeting(const Variables& variable) {
  const auto place = rank_place(variable);
  if (!place) return fail(place.error());
  return with_meeting_point(*place, variable);
}

TEST(RankEnvironment, AProcessWithoutALauncherIsAlone) {
  const auto place = rank_place(variables({}));
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->world_size, 1);
  EXPECT_EQ(place->launcher, "");
}

TEST(RankEnvironment, ReadsWhatTorchrunSets) {
  const auto place = meeting(variables({{"RANK", "11"},
                                        {"WORLD_SIZE", "16"},
                                        {"LOCAL_RANK", "3"},
                                        {"LOCAL_WORLD_SIZE", "8"},
                                        {"MASTER_ADDR", "node0"},
                                        {"MASTER_PORT", "29500"}}));
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->rank, 11);
  EXPECT_EQ(place->world_size, 16);
  EXPECT_EQ(place->local_rank, 3);
  EXPECT_EQ(place->local_size, 8);
  EXPECT_EQ(place->master_host, "node0");
  EXPECT_EQ(place->master_port, 29500);
}

TEST(RankEnvironment, ReadsWhatOpenMpiSetsAndAgreesOnAPort) {
  const auto of_rank = [](const char* rank) {
    return meeting(variables({{"OMPI_COMM_WORLD_RANK", rank},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", rank},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                              {"PMIX_NAMESPACE", "12345.1"}}));
  };
  const auto first = of_rank("0"), last = of_rank("3");
  ASSERT_TRUE(first.has_value() && last.has_value());
  EXPECT_EQ(last->rank, 3);
  EXPECT_EQ(last->launcher, "mpirun");
  EXPECT_EQ(last->master_host, "127.0.0.1");
  EXPECT_EQ(first->master_port, last->master_port);
  EXPECT_GT(first->master_port, 1024);
}

TEST(RankEnvironment, ReadsWhatMpichSets) {
  const auto place = rank_place(variables({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}));
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->local_rank, 1);
}

TEST(RankEnvironment, ReadsWhatMvapichSets) {
  const auto place =
      rank_place(variables({{"MV2_COMM_WORLD_RANK", "5"}, {"MV2_COMM_WORLD_SIZE", "8"}}));
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->rank, 5);
  EXPECT_EQ(place->launcher, "mpirun");
}

// srun sets its own variables for what mpirun starts through it.
TEST(RankEnvironment, MpirunUnderSlurmIsMpirun) {
  const auto place = rank_place(variables({{"SLURM_PROCID", "0"},
                                           {"SLURM_STEP_NUM_TASKS", "8"},
                                           {"OMPI_COMM_WORLD_RANK", "1"},
                                           {"OMPI_COMM_WORLD_SIZE", "2"}}));
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->launcher, "mpirun");
  EXPECT_EQ(place->world_size, 2);
}

TEST(RankEnvironment, ABatchScriptOfSlurmIsAlone) {
  const auto place = rank_place(variables({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "16"}}));
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->world_size, 1);
}

// MPI finds its ranks by itself: on several nodes, and without a first host, the place is known.
TEST(RankEnvironment, APlaceNeedsNoMeetingPoint) {
  const auto place = rank_place(variables({{"OMPI_COMM_WORLD_RANK", "1"},
                                           {"OMPI_COMM_WORLD_SIZE", "4"},
                                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}));
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->local_size, 2);
}

TEST(RankEnvironment, ReadsWhatSrunSetsAndFindsTheFirstNode) {
  const auto place = meeting(variables({{"SLURM_PROCID", "9"},
                                        {"SLURM_STEP_NUM_TASKS", "16"},
                                        {"SLURM_LOCALID", "1"},
                                        {"SLURM_NTASKS_PER_NODE", "8(x2)"},
                                        {"SLURM_NODELIST", "gpu[03-04]"},
                                        {"SLURM_JOB_ID", "77"}}));
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->rank, 9);
  EXPECT_EQ(place->local_size, 8);
  EXPECT_EQ(place->master_host, "gpu03");
}

TEST(RankEnvironment, NamesTheFirstHostOfEveryFormOfANodeList) {
  EXPECT_EQ(first_host("login1"), "login1");
  EXPECT_EQ(first_host("a1,b2"), "a1");
  EXPECT_EQ(first_host("gpu[003-010,12]"), "gpu003");
  EXPECT_EQ(first_host("gpu[7],x[1-2]"), "gpu7");
}

TEST(RankEnvironment, AnInteractiveJobStepOfOneTaskIsAlone) {
  const auto place = rank_place(variables({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->launcher, "");
}

TEST(RankEnvironment, SaysWhichVariableIsWrong) {
  const auto place = rank_place(variables({{"RANK", "x"}, {"WORLD_SIZE", "0"}}));
  ASSERT_FALSE(place.has_value());
  const std::string text = to_text(place.error());
  EXPECT_THAT(text, testing::HasSubstr("RANK"));
  EXPECT_THAT(text, testing::HasSubstr("WORLD_SIZE"));
  EXPECT_THAT(text, testing::HasSubstr("\"x\" is not a number"));
}

TEST(RankEnvironment, RefusesNumbersThatDoNotGoTogether) {
  EXPECT_FALSE(rank_place(variables({{"RANK", "4"}, {"WORLD_SIZE", "4"}})).has_value());
  EXPECT_FALSE(
      rank_place(variables({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "8"}}))
          .has_value());
}

TEST(RankEnvironment, AsksForTheFirstNodeWhereNothingNamesIt) {
  const auto place = meeting(variables({{"OMPI_COMM_WORLD_RANK", "1"},
                                        {"OMPI_COMM_WORLD_SIZE", "4"},
                                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}));
  ASSERT_FALSE(place.has_value());
  EXPECT_THAT(to_text(place.error()), testing::HasSubstr("MASTER_ADDR"));
}

}  // namespace
}  // namespace foreplan::harness
