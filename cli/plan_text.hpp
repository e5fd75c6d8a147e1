#pragma once
// A report as people read it: shared by recommend and simulate.

#include "scenarios/study.hpp"

#include <string>

namespace foreplan::cli {

/// The question: model, cluster, job, profile.
[[nodiscard]] std::string question_text(const scenarios::Study& study);
/// Step time with its interval, throughput, utilisation, peak memory, fit.
[[nodiscard]] std::string headline_text(const simulator::StepReport& report,
                                        const scenarios::Study& study);
/// Where the step time goes, by kind.
[[nodiscard]] std::string breakdown_text(const simulator::StepBreakdown& time);
/// Memory of the fullest rank, by component.
[[nodiscard]] std::string memory_text(const simulator::StepReport& report,
                                      const scenarios::Study& study);
/// One line per pipeline stage.
[[nodiscard]] std::string stages_text(const simulator::StepReport& report);
/// What makes `other` slower (or larger) than `best`: the largest differences by kind.
[[nodiscard]] std::string comparison_text(const simulator::StepReport& best,
                                          const simulator::StepReport& other);
/// What would fit instead: GPUs, assumptions, headline.
[[nodiscard]] std::string nearest_fit_text(const scenarios::NearestFit& nearest,
                                           const scenarios::Study& study);
/// Parallelism arguments of the plan's framework, ready to paste, or why there are none; empty
/// where no format is known.
[[nodiscard]] std::string launch_text(const simulator::ParallelPlan& plan,
                                      const scenarios::Study& study);
/// What a launch file says and the answer leaves out; empty where that is nothing.
[[nodiscard]] std::string notices_text(const std::vector<std::string>& notices);
/// One line per plan: number, plan, step time, tokens/s/GPU, MFU, peak memory, headroom.
[[nodiscard]] std::string plan_table(const std::vector<simulator::StepReport>& reports,
                                     const scenarios::Study& study);

}  // namespace foreplan::cli
