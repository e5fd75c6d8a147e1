#pragma once
// The files of training frameworks that are jobs: how one is told from another, and who reads it.

#include "scenarios/jobs/imported_job.hpp"
#include "scenarios/jobs/open_values.hpp"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace foreplan::scenarios {

/// A file as read.
struct JobText {
  std::filesystem::path file;
  std::string text;
};

/// One format. A new one is a file with a constant of this type and a line in job_format.cpp.
struct JobFormat {
  std::string_view name;     ///< "torchtitan"
  std::string_view summary;  ///< "TOML of torchtitan"
  /// Whether the text is of this format, by its content.
  bool (*recognises)(std::string_view text);
  /// The job; mistakes go to `open`, and the job is then incomplete.
  ImportedJob (*read)(const JobText& job, OpenValues& open);
};

/// All formats, in the order in which they are tried; the last one takes everything.
[[nodiscard]] std::span<const JobFormat* const> job_formats();
/// The first that recognises the text.
[[nodiscard]] const JobFormat& job_format_of(std::string_view text);

extern const JobFormat kDeepspeedJob;
extern const JobFormat kMegatronJsonJob;
extern const JobFormat kAccelerateJob;
extern const JobFormat kTorchtitanJob;
extern const JobFormat kMegatronScriptJob;

/// First character that is no blank; 0 where there is none.
[[nodiscard]] char first_character(std::string_view text);
/// Whether a line begins with the word followed by a colon, as a key of a YAML mapping.
[[nodiscard]] bool has_yaml_key(std::string_view text, std::string_view word);

/// `dp` of the plan on all GPUs: what its other degrees leave. A mistake where they do not divide.
void fill_data_parallel(ImportedJob& job, OpenValues& open, const Place& place);
/// A mistake where the global batch is no multiple of micro-batch x DP.
void check_global_batch(const ImportedJob& job, OpenValues& open, const Place& place);

}  // namespace foreplan::scenarios
