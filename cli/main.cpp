// The program: finds the verb, runs it, and turns every outcome into a message and an exit code.

#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "core/version.hpp"
#include "results/database.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <sstream>

namespace foreplan::cli {
namespace {

constexpr std::string_view kFooter =
    "Start here:\n"
    "  foreplan recommend scenarios/llama3-70b-64xh100.yaml    best plan and why\n"
    "  foreplan simulate --model llama3-8b --cluster 8xH100 --sequence-length \"8192 tokens\"\n"
    "      --global-batch \"128 sequences\" --tp 2                one plan in full\n"
    "  foreplan sweep SCENARIO --db runs.db; foreplan show --db runs.db\n\n"
    "Files: scenarios are YAML (scenarios/ has examples), jobs are the frameworks' own files\n"
    "(docs/frameworks.md), databases SQLite (results/README.md), profiles JSON "
    "(docs/calibration.md).\n\n"
    "Environment:\n"
    "  FOREPLAN_DATA      folder with the shipped models, devices and measurements, where they "
    "are\n"
    "                     not beside the program\n"
    "  FOREPLAN_DEVICES   folder with device files of your own\n"
    "  NO_COLOR           no colours\n\n"
    "Exit codes: 0 done, 1 nothing fits, 2 bad input, 3 environment failed.\n"
    "docs/verbs.md has every verb by example.";

/// What a person sees who types the program's name alone.
std::string greeting() {
  const auto command = [](std::string_view line, std::string_view what) {
    return fmt::format("  {}\n      {}\n", styled(line, Style::title), what);
  };
  return "Which parallel plan trains this model on this cluster, how fast, will it fit?\n\n" +
         command("foreplan recommend scenarios/llama3-70b-64xh100.yaml",
                 "what to launch, how long a step takes, how sure that is") +
         command("foreplan sweep scenarios/llama3-70b-64xh100.yaml --db runs.db",
                 "every plan, kept: foreplan show and foreplan report read it") +
         command("foreplan bench --budget 5min --db runs.db",
                 "what this machine really does, for foreplan calibrate") +
         "\nforeplan --help lists all verbs, foreplan VERB --help explains one.\n";
}

/// What stands below a verb's options: examples, exit codes.
std::string help_end(const Verb& verb) {
  std::string text(verb.examples());
  while (text.ends_with('\n')) text.pop_back();
  const auto one = verb.exit_code_1();
  return text +
         fmt::format(
             "\n\nExit codes: 0 done{}, 2 bad input (nothing is written), 3 environment failed.",
             one.empty() ? "" : fmt::format(", 1 {}", one));
}

/// The word that was meant to be a verb, when it isn't one.
std::string unknown_verb(std::string_view word, const std::vector<std::unique_ptr<Verb>>& verbs) {
  std::vector<std::string_view> names;
  for (const auto& verb : verbs) names.push_back(verb->name());
  const auto near = nearest(word, names);
  return fmt::format("unknown verb \"{}\"{}; verbs: {}", word,
                     near.empty() ? "" : fmt::format(", did you mean \"{}\"", near), join(names));
}

/// One error for each option that the verb does not have, or, where all words are arguments, for
/// each.
Errors unexpected_words(const CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::string> owned;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_name().starts_with('-')) owned.push_back(option->get_name());
  }
  const std::vector<std::string_view> names(owned.begin(), owned.end());
  Errors options, arguments;
  for (const std::string& word : words) {
    if (!word.starts_with('-')) {
      arguments.push_back({fmt::format("unexpected argument {}; see foreplan {} --help",
                                       in_quotes(word), app.get_name()),
                           {}});
      continue;
    }
    const std::string name = word.substr(0, word.find('='));
    const auto near = nearest(name, names);
    options.push_back(
        {fmt::format("unknown option {}{}; options: {}", in_quotes(name),
                     near.empty() ? "" : fmt::format(", did you mean \"{}\"", near), join(names)),
         {}});
  }
  // An argument beside an unknown option is most likely that option's value.
  return options.empty() ? arguments : options;
}

int report(const Errors& errors) {
  for (const Error& error : errors) complain("foreplan: " + to_text(error));
  return kBadInput;
}

int run_verb(Verb& verb) {
  auto code = verb.run();
  return code ? *code : report(code.error());
}

/// `--help` and `--version`: the text, written where a failure to write is told.
int answer(const CLI::App& app, const CLI::Success& request) {
  std::ostringstream text;
  app.exit(request, text, text);
  print(text.str());
  return kDone;
}

int run(int argc, char** argv) {
  const auto verbs = make_verbs();
  CLI::App app{
      "foreplan: which parallel plan trains this model on this cluster, how fast, will it fit",
      "foreplan"};
  app.set_version_flag("--version", fmt::format("foreplan {} {}", program_version(), git_commit()));
  app.footer(std::string(kFooter));
  for (const auto& verb : verbs) {
    CLI::App* sub = app.add_subcommand(std::string(verb->name()), std::string(verb->summary()));
    sub->footer(help_end(*verb));
    verb->declare(*sub);
  }
  app.require_subcommand(0, 1);
  if (argc > 1 && argv[1][0] != '-') {
    const std::string_view word = argv[1];
    const bool known =
        std::any_of(verbs.begin(), verbs.end(), [&](const auto& v) { return v->name() == word; });
    if (!known) return report({{unknown_verb(word, verbs), {}}});
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {
    return answer(app, request);
  } catch (const CLI::ExtrasError&) {
    const auto chosen = app.get_subcommands();
    return report(unexpected_words(chosen.empty() ? app : *chosen.front(), app.remaining(true)));
  } catch (const CLI::ParseError& error) {
    return report({{error.what(), {}}});
  }
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) {
    print(greeting());
    return kDone;
  }
  for (const auto& verb : verbs) {
    if (verb->name() == chosen.front()->get_name()) return run_verb(*verb);
  }
  return kBadInput;
}

/// Every failure of the environment becomes a message and an exit code here.
int guarded_run(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const scenarios::HookError& error) {
    return report({{error.what(), {}}});
  } catch (const results::StoreError& error) {
    complain(fmt::format("foreplan: {}", error.what()));
    return kBadInput;
  } catch (const std::bad_alloc&) {
    complain("foreplan: out of memory; make the search space smaller");
    return kEnvironmentFailed;
  } catch (const std::exception& error) {
    complain(fmt::format("foreplan: {}", error.what()));
    return kEnvironmentFailed;
  }
}

}  // namespace
}  // namespace foreplan::cli

int main(int argc, char** argv) {
  // A file size limit shall be an error of write(), which the store reports, not a death.
  std::signal(SIGXFSZ, SIG_IGN);
  return foreplan::cli::guarded_run(argc, argv);
}
