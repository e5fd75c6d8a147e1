#include "cli/bench_options.hpp"

#include "core/units_text.hpp"
#include "core/version.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>

namespace foreplan::cli {
namespace {

constexpr std::string_view kFooter =
    "Points are measured in the order of their worth per second and stored one by one. Ctrl-C, "
    "kill\n"
    "or a crash loses nothing that was stored; the same command goes on where it ended, until "
    "every\n"
    "point is done. Of Google Benchmark, --benchmark_filter, --benchmark_format, --benchmark_out\n"
    "and --benchmark_out_format work too.\n\n"
    "Examples:\n"
    "  foreplan-bench --budget 5min --db runs.db\n"
    "  foreplan-bench --target host --bench points.yaml --check\n"
    "  foreplan-bench --for scenarios/llama3-8b-8xh100.yaml\n"
    "  mpirun -n 4 foreplan-bench --target host\n\n"
    "Exit codes: 0 done, 1 some points failed or were wrong, 2 bad input, 3 no such machine here,\n"
    "128 + signal when interrupted.";

void declare(CLI::App& app, BenchOptions& o, std::string& budget, std::string& noise,
             std::string& spent) {
  app.set_version_flag("--version", fmt::format("foreplan {} {}", program_version(), git_commit()));
  app.footer(std::string{kFooter});
  app.add_option("--target", o.target, "kind of machine, or auto; --targets lists them")
      ->capture_default_str();
  app.add_flag("--targets", o.list_targets, "list the kinds of machines and what each found here");
  app.add_option("--budget", budget, "time for all points, \"5min\"; none = until all are done");
  app.add_option("--db", o.database, "database file")->capture_default_str();
  app.add_option("--bench", o.bench_file, "YAML list of points; none = the standard list");
  app.add_flag("--list", o.list, "print the points in their order, as a bench file, and end");
  app.add_flag("--check", o.check,
               "compare every point with its reference; otherwise one per kernel is");
  app.add_flag("--fresh", o.fresh, "begin a new run even where an unfinished one could go on");
  app.add_option("--noise", noise,
                 "relative error of the median at which a point is done, \"1 %\"");
  app.add_option("--seed", o.seed, "of the random data")->capture_default_str();
  app.add_option("--device-name", o.device_name, "store rows under this device name");
  app.add_option("--spent", spent, "of the budget, by the process that this one replaces")
      ->group("");
}

template <class Q, class Parse>
void read(const std::string& text, std::string_view option, Parse parse, Q& field, Errors& errors) {
  if (text.empty()) return;
  const auto value = parse(text);
  if (value) {
    field = *value;
  } else {
    errors.push_back({value.error().front().message, Place{{}, 0, 0, std::string{option}}});
  }
}

/// One error per word that nobody knows, with the option that was probably meant.
Errors unknown_words(const CLI::App& app) {
  std::vector<std::string> owned;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_name().starts_with("--") && !option->get_group().empty()) {
      owned.push_back(option->get_name());
    }
  }
  const std::vector<std::string_view> names(owned.begin(), owned.end());
  Errors errors;
  for (const std::string& word : app.remaining()) {
    const std::string name = word.substr(0, word.find('='));
    const auto near = nearest(name, names);
    errors.push_back(
        {fmt::format("unknown option {}{}; options: {}", in_quotes(name),
                     near.empty() ? "" : fmt::format(", did you mean \"{}\"", near), join(names)),
         {}});
  }
  return errors;
}

}  // namespace

Result<BenchRequest> read_bench_options(int argc, char** argv) {
  BenchRequest request;
  BenchOptions& options = request.options;
  options.arguments.assign(argv + 1, argv + argc);
  std::vector<std::string> ours;
  for (const std::string& word : options.arguments) {
    (word.starts_with("--benchmark_") ? options.benchmark_arguments : ours).push_back(word);
  }
  CLI::App app{"foreplan-bench: measures what this machine really does", "foreplan-bench"};
  app.allow_extras();
  std::string budget, noise, spent;
  declare(app, options, budget, noise, spent);
  std::reverse(ours.begin(), ours.end());  // CLI11 takes words from the back
  try {
    app.parse(ours);
  } catch (const CLI::CallForHelp&) {
    request.answer = app.help();
    return request;
  } catch (const CLI::CallForVersion&) {
    request.answer = app.version() + '\n';
    return request;
  } catch (const CLI::ParseError& error) {
    return fail(error.what());
  }
  Errors errors = unknown_words(app);
  Seconds limit{0};
  read(budget, "--budget", parse_seconds, limit, errors);
  read(spent, "--spent", parse_seconds, options.spent, errors);
  read(
      noise, "--noise", [](std::string_view text) { return parse_percent(text); }, options.noise,
      errors);
  if (!budget.empty() && errors.empty() && limit <= Seconds{0}) {
    errors.push_back({"must be longer than nothing", Place{{}, 0, 0, "--budget"}});
  }
  if (!errors.empty()) return fail(std::move(errors));
  if (!budget.empty()) options.budget = limit;
  return request;
}

std::vector<std::string> arguments_to_go_on(const BenchOptions& options, Seconds spent) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < options.arguments.size(); ++i) {
    if (options.arguments[i] == "--fresh") continue;  // the run is begun by now
    if (options.arguments[i] == "--spent") {
      ++i;
      continue;
    }
    words.push_back(options.arguments[i]);
  }
  words.insert(words.end(), {"--spent", fmt::format("{:.6f} s", spent.value)});
  return words;
}

}  // namespace foreplan::cli
