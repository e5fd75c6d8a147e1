// merge: databases of shards and of other machines become one.

#include "scenarios/merge.hpp"

#include "cli/terminal.hpp"
#include "cli/verb.hpp"
#include "scenarios/answers/stored.hpp"

#include <fmt/format.h>

namespace foreplan::cli {
namespace {

using scenarios::MergeOutcome;

class Merge final : public Verb {
 public:
  [[nodiscard]] std::string_view name() const override { return "merge"; }
  [[nodiscard]] std::string_view summary() const override {
    return "join the databases of a sweep's shards, or of several sweeps";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "Examples:\n"
           "  foreplan sweep SCENARIO --db part1.db --shard 1/2    on one machine\n"
           "  foreplan sweep SCENARIO --db part2.db --shard 2/2    on another\n"
           "  foreplan merge runs.db part1.db part2.db             the sweep, row for row";
  }
  [[nodiscard]] std::string_view exit_code_1() const override {
    return "chunks of a run are still missing";
  }
  void declare(CLI::App& app) override {
    app.add_option("OUT", out_, "database to add to, made if it does not exist")->required();
    app.add_option("INPUTS", inputs_, "databases to read")->required();
    app.add_flag("--json", json_, "print the outcome as JSON");
  }
  Result<ExitCode> run() override {
    const auto outcome = scenarios::merge(out_, {inputs_.begin(), inputs_.end()});
    if (!outcome) return fail(outcome.error());
    bool complete = true;
    for (const auto& joined : outcome->joined) complete = complete && joined.missing.empty();
    print(json_ ? scenarios::describe(*outcome, out_).dump(2) + '\n' : answer_text(*outcome));
    return complete ? kDone : kSomeRejected;
  }

 private:
  [[nodiscard]] std::string answer_text(const MergeOutcome& outcome) const {
    const results::Store store = results::Store::open(out_, results::AccessMode::read_only);
    std::string text;
    for (const auto& joined : outcome.joined) {
      const auto& run = joined.run;
      text +=
          fmt::format("  run {} of {}: {}, {} chunks added, ", static_cast<std::int64_t>(run.id),
                      out_, store.scenario(run.scenario).name, joined.chunks_added);
      text += joined.missing.empty()
                  ? fmt::format("complete: {} plans scored, {} fit\n", run.plans_scored.value_or(0),
                                run.plans_feasible.value_or(0))
                  : fmt::format("{} of {} chunks are still missing\n", joined.missing.size(),
                                run.chunk_count);
    }
    if (!outcome.copied.empty())
      text += fmt::format("  {} finished runs copied\n", outcome.copied.size());
    if (outcome.known > 0) text += fmt::format("  {} finished runs were there\n", outcome.known);
    return text.empty() ? "  no runs in the inputs\n" : text;
  }

  std::string out_;
  std::vector<std::string> inputs_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_merge() { return std::make_unique<Merge>(); }

}  // namespace foreplan::cli
