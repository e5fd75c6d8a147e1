#include "cli/verb.hpp"

namespace foreplan::cli {

void ScenarioArguments::declare(CLI::App& app, const std::string& name, const std::string& help) {
  file_option_ = app.add_option(name, file_, help);
  const auto all = scenarios::options();
  values_.resize(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto* option = app.add_option(std::string(all[i].flag), values_[i], std::string(all[i].help));
    option->group("Scenario keys");
    option->type_name(all[i].type == scenarios::Option::Type::text ||
                              all[i].type == scenarios::Option::Type::number
                          ? "VALUE"
                          : "A,B,...");
    given_.push_back(option);
  }
}

std::vector<scenarios::GivenOption> ScenarioArguments::given() const {
  const auto all = scenarios::options();
  std::vector<scenarios::GivenOption> given;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (given_[i]->count() > 0) given.push_back({&all[i], values_[i]});
  }
  return given;
}

Result<scenarios::Scenario> ScenarioArguments::read(
    scenarios::Purpose purpose, const std::vector<scenarios::GivenOption>& given) const {
  std::optional<std::filesystem::path> file;
  if (file_option_->count() > 0) file = file_;
  return scenarios::read_scenario(file, given, purpose);
}

}  // namespace foreplan::cli
