// bench: the measuring program, and the points that a scenario needs measured.

#include "cli/bench_for.hpp"
#include "cli/output_file.hpp"
#include "cli/sibling_program.hpp"
#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "harness/bench_file.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>

namespace foreplan::cli {
namespace {

/// A file in memory that the program which this process becomes can still open.
std::string file_in_memory(const std::string& text) {
  const int file = ::memfd_create("points", 0);
  if (file < 0 || ::write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error("cannot hold the list of points in memory");
  }
  return fmt::format("/proc/self/fd/{}", file);
}

class Bench final : public Verb {
 public:
  [[nodiscard]] std::string_view name() const override { return "bench"; }
  [[nodiscard]] std::string_view summary() const override {
    return "measure this machine (runs foreplan-bench)";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "All other options go to foreplan-bench; see foreplan-bench --help.\n\n"
           "Examples:\n"
           "  foreplan bench --budget 5min --db runs.db\n"
           "  foreplan bench --for scenarios/llama3-8b-8xh100.yaml --budget 2min\n"
           "  foreplan bench --for scenarios/llama3-8b-8xh100.yaml --write points.yaml";
  }
  [[nodiscard]] std::string_view exit_code_1() const override {
    return "some points failed or were wrong";
  }
  void declare(CLI::App& app) override {
    app_ = &app;
    app.allow_extras();
    app.add_option("--for", scenario_, "measure what the best plans of this scenario run");
    app.add_option("--write", out_, "with --for: write the points to this bench file and end");
  }
  Result<ExitCode> run() override {
    std::vector<std::string> arguments = app_->remaining();
    if (scenario_.empty()) {
      if (!out_.empty()) return fail("needs --for SCENARIO", Place{{}, 0, 0, "--write"});
      become_sibling("foreplan-bench", arguments);
    }
    auto scenario = scenarios::read_scenario(scenario_, {}, scenarios::Purpose::search);
    if (!scenario) return fail(std::move(scenario.error()));
    auto study = scenarios::Study::make(std::move(*scenario));
    if (!study) return fail(std::move(study.error()));
    const auto points = points_for(*study);
    if (points.empty()) return fail("no plan of it fits", Place{scenario_, 0, 0, "--for"});
    const std::string text =
        harness::bench_file_text(study->scenario().cluster.device.name, points);
    if (out_.empty()) {
      arguments.insert(arguments.end(), {"--bench", file_in_memory(text)});
      become_sibling("foreplan-bench", arguments);
    }
    auto written = write_file(out_, text, "--write");
    if (!written) return fail(std::move(written.error()));
    print(fmt::format("{} points -> {}\n", points.size(), out_));
    return kDone;
  }

 private:
  CLI::App* app_ = nullptr;
  std::string scenario_, out_;
};

}  // namespace

std::unique_ptr<Verb> make_bench() { return std::make_unique<Bench>(); }

}  // namespace foreplan::cli
