// report: an answer as a page to send to a colleague.

#include "cli/output_file.hpp"
#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "results/store.hpp"
#include "scenarios/report/page.hpp"
#include "scenarios/report/report_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace foreplan::cli {
namespace {

using Json = nlohmann::ordered_json;

/// The number of a run, where the word is one and no file has that name.
std::optional<std::int64_t> run_number(const std::string& word) {
  std::int64_t number = 0;
  const char* end = word.data() + word.size();
  const auto parsed = std::from_chars(word.data(), end, number);
  if (parsed.ec != std::errc{} || parsed.ptr != end || word.empty()) return std::nullopt;
  std::error_code ignored;
  if (std::filesystem::exists(word, ignored)) return std::nullopt;
  return number;
}

class Report final : public Verb {
 public:
  [[nodiscard]] std::string_view name() const override { return "report"; }
  [[nodiscard]] std::string_view summary() const override {
    return "an answer as one HTML page: plan, front, breakdown, timeline, accuracy";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "Examples:\n"
           "  foreplan report scenarios/llama3-70b-64xh100.yaml --html llama.html\n"
           "  foreplan report 1 --db runs.db --html run1.html\n"
           "The page is one file that loads nothing: send it, open it from disk.";
  }
  [[nodiscard]] std::string_view exit_code_1() const override {
    return "no plan fits (the page tells the nearest that does)";
  }
  void declare(CLI::App& app) override {
    arguments_.declare(app, "RUN",
                       "number of a run in the database, or a scenario file (YAML), whose keys "
                       "options override");
    app.add_option("--db", database_, "database of the run")->capture_default_str();
    app.add_option("--html", html_, "file to write")->capture_default_str();
    app.add_flag("--json", json_, "print the outcome as JSON");
    app.add_option("--threads", threads_, "threads to search with, 0 = all cores")
        ->check(CLI::Range(0, 1024));
  }

  Result<ExitCode> run() override {
    const auto number = run_number(arguments_.file());
    auto data = number ? stored(*number) : searched();
    if (!data) return fail(std::move(data.error()));
    const std::string page = scenarios::report_page(*data);
    auto written = write_file(html_, page, "--html");
    if (!written) return fail(std::move(written.error()));
    const bool feasible = data->at("feasible").get<bool>();
    const auto title = data->at("title").get<std::string>();
    if (json_) {
      print(
          Json{{"scenario", title}, {"file", html_}, {"bytes", page.size()}, {"feasible", feasible}}
              .dump(2) +
          '\n');
    } else {
      print(fmt::format("{} -> {} ({:.0f} kB)\n", title, html_,
                        static_cast<double>(page.size()) / 1e3));
    }
    return feasible ? kDone : kNothingFits;
  }

 private:
  Result<Json> searched() {
    auto scenario = arguments_.read(scenarios::Purpose::search);
    if (!scenario) return fail(std::move(scenario.error()));
    auto study = scenarios::Study::make(std::move(*scenario));
    if (!study) return fail(std::move(study.error()));
    ProgressLine progress("searching");
    return scenarios::report_data(*study, threads_, [&](std::size_t done, std::size_t total) {
      progress.update(done, total);
    });
  }

  Result<Json> stored(std::int64_t number) {
    if (const auto given = arguments_.given(); !given.empty()) {
      return fail("a stored run has its question already; give a scenario file to ask another",
                  Place{{}, 0, 0, std::string(given.front().option->flag)});
    }
    const auto store = results::Store::open(database_, results::AccessMode::read_only);
    const auto run = store.run(results::RunId{number});
    if (!run) {
      return fail(fmt::format("no run {} in {}; foreplan show --db {} lists them", number,
                              database_, database_),
                  Place{{}, 0, 0, "RUN"});
    }
    if (run->status != results::RunStatus::finished) {
      return fail(
          fmt::format("run {} is not finished; the sweep that began it goes on with it", number),
          Place{{}, 0, 0, "RUN"});
    }
    return scenarios::report_data(store, *run);
  }

  ScenarioArguments arguments_;
  std::string database_ = "foreplan.db", html_ = "report.html";
  bool json_ = false;
  int threads_ = 0;
};

}  // namespace

std::unique_ptr<Verb> make_report() { return std::make_unique<Report>(); }

}  // namespace foreplan::cli
