#include "scenarios/jobs/job_format.hpp"

#include <fmt/format.h>

#include <array>

namespace foreplan::scenarios {

std::span<const JobFormat* const> job_formats() {
  static constexpr std::array kFormats = {&kDeepspeedJob, &kMegatronJsonJob, &kAccelerateJob,
                                          &kTorchtitanJob, &kMegatronScriptJob};
  return kFormats;
}

const JobFormat& job_format_of(std::string_view text) {
  for (const JobFormat* format : job_formats()) {
    if (format->recognises(text)) return *format;
  }
  return kMegatronScriptJob;
}

char first_character(std::string_view text) {
  const auto at = text.find_first_not_of(" \t\r\n");
  return at == std::string_view::npos ? '\0' : text[at];
}

bool has_yaml_key(std::string_view text, std::string_view word) {
  for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool starts_line = at == 0 || text[at - 1] == '\n';
    if (starts_line && text.substr(at + word.size()).starts_with(':')) return true;
  }
  return false;
}

void fill_data_parallel(ImportedJob& job, OpenValues& open, const Place& place) {
  simulator::ParallelPlan& plan = job.plan;
  const std::int64_t ranks = std::int64_t{plan.tp} * plan.pp * plan.cp;
  if (ranks > open.devices() || open.devices() % ranks != 0) {
    open.error(fmt::format("TP {} x PP {} x CP {} does not divide {} GPUs", plan.tp, plan.pp,
                           plan.cp, open.devices()),
               place);
    return;
  }
  plan.dp = static_cast<int>(open.devices() / ranks);
}

void check_global_batch(const ImportedJob& job, OpenValues& open, const Place& place) {
  const std::int64_t least = std::int64_t{job.plan.micro_batch} * job.plan.dp;
  if (job.training.global_batch % least == 0) return;
  open.error(fmt::format("a global batch of {} sequences is no multiple of micro-batch {} x DP {}",
                         job.training.global_batch, job.plan.micro_batch, job.plan.dp),
             place);
}

}  // namespace foreplan::scenarios
