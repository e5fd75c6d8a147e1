// completion: what a shell needs to complete the program's words, read from the command line
// itself.

#include "cli/completion_script.hpp"
#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "models/catalogue.hpp"
#include "scenarios/cluster_file.hpp"
#include "scenarios/profiles.hpp"
#include "simulator/frameworks/traits.hpp"
#include "simulator/schedule/schedule.hpp"

#include <algorithm>

namespace foreplan::cli {
namespace {

using Kind = ValueWords::Kind;
using Words = std::vector<std::string>;

Words devices() {
  Words names;
  if (const auto catalogue = scenarios::device_catalogue()) {
    for (const DeviceSpec& device : *catalogue) names.push_back(device.name);
  }
  return names;
}

Words precisions() {
  Words names;
  for (const auto& precision : simulator::kPrecisions) names.emplace_back(precision.name);
  return names;
}

Words recompute_policies() {
  Words names = {"none", "full"};
  for (const auto& module : simulator::recompute_modules()) names.emplace_back(module.name);
  return names;
}

Words schedule_names() {
  Words names;
  for (const auto* schedule : simulator::schedules()) names.emplace_back(schedule->name);
  return names;
}

/// Words for the options that take names. A catalogue that cannot be read offers none.
Words words_of(const std::string& flag) {
  if (flag == "--model") return models::catalogue_names().value_or(Words{});
  if (flag == "--cluster") return scenarios::cluster_names().value_or(Words{});
  if (flag == "--framework") return simulator::framework_names().value_or(Words{});
  if (flag == "--device" || flag == "--prior") return devices();
  if (flag == "--precision") return precisions();
  if (flag == "--recompute") return recompute_policies();
  if (flag == "--schedule") return schedule_names();
  if (flag == "--sequence-parallel") return {"true", "false"};
  if (flag == "--profile") return {"best", "datasheet", "calibrated"};
  if (flag == "--objective") {
    return {std::begin(scenarios::kObjectiveNames), std::end(scenarios::kObjectiveNames)};
  }
  return {};
}

/// The words of a check that lists them: "TEXT:{best,all}".
Words listed_in(const std::string& type) {
  const auto open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  Words words;
  for (std::size_t at = open + 1; at < close;) {
    const auto end = std::min(type.find(',', at), close);
    words.push_back(type.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

ValueWords value_of(const CLI::Option& option, const std::string& flag) {
  if (option.get_items_expected_max() == 0) return {Kind::none, {}};
  const std::string type = option.get_type_name();
  if (Words words = listed_in(type); !words.empty()) return {Kind::one, std::move(words)};
  if (Words words = words_of(flag); !words.empty())
    return {type.starts_with("A,B") ? Kind::list : Kind::one, std::move(words)};
  const bool text = type == "TEXT";
  return {text ? Kind::files : Kind::free, {}};
}

/// What may stand as an argument of a verb.
ValueWords argument_of(const std::string& verb, const CLI::App& app) {
  const auto all = app.get_options();
  const auto at = std::find_if(all.begin(), all.end(),
                               [](const CLI::Option* option) { return option->get_positional(); });
  if (at == all.end()) return {Kind::none, {}};
  if (verb == "models") return {Kind::one, words_of("--model")};
  if (verb == "devices") return {Kind::one, words_of("--device")};
  if (verb == "clusters") return {Kind::one, words_of("--cluster")};
  return value_of(**at, "");
}

VerbWords words_of(const CLI::App& app) {
  VerbWords verb{app.get_name(), app.get_description(), {}, argument_of(app.get_name(), app)};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() || option->get_group().empty()) continue;
    OptionWords words{{}, option->get_description(), {}};
    for (const std::string& name : option->get_lnames()) words.flags.push_back("--" + name);
    for (const std::string& name : option->get_snames()) words.flags.push_back("-" + name);
    words.value = value_of(*option, words.flags.front());
    verb.options.push_back(std::move(words));
  }
  return verb;
}

class Completion final : public Verb {
 public:
  [[nodiscard]] std::string_view name() const override { return "completion"; }
  [[nodiscard]] std::string_view summary() const override {
    return "a script that completes verbs, options and names in bash or zsh";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "Examples:\n"
           "  source <(foreplan completion bash)          # in ~/.bashrc\n"
           "  foreplan completion zsh > ~/.zfunc/_foreplan   # a folder on fpath\n";
  }
  void declare(CLI::App& app) override {
    app_ = &app;
    app.add_option("SHELL", shell_, "bash or zsh")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh"}));
  }
  Result<ExitCode> run() override {
    const CLI::App& program = *app_->get_parent();
    std::vector<VerbWords> verbs;
    for (const CLI::App* verb : program.get_subcommands([](const CLI::App*) { return true; }))
      verbs.push_back(words_of(*verb));
    print(shell_ == "bash" ? bash_completion(program.get_name(), verbs)
                           : zsh_completion(program.get_name(), verbs));
    return kDone;
  }

 private:
  CLI::App* app_ = nullptr;
  std::string shell_;
};

}  // namespace

std::unique_ptr<Verb> make_completion() { return std::make_unique<Completion>(); }

}  // namespace foreplan::cli
