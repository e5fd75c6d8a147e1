#include "cli/completion_script.hpp"

#include <fmt/format.h>

#include <map>

namespace foreplan::cli {
namespace {

using Kind = ValueWords::Kind;

std::string joined(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += separator;
    text += word;
  }
  return text;
}

/// In single quotes, for either shell.
std::string single_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + '\'';
}

/// Lists of words by number, so that a script holds each once.
class WordLists {
 public:
  int number(const std::vector<std::string>& words) {
    return numbers_.emplace(words, static_cast<int>(numbers_.size())).first->second;
  }
  /// "local words0='...'" lines.
  [[nodiscard]] std::string declarations() const {
    std::map<int, const std::vector<std::string>*> sorted;
    for (const auto& [words, number] : numbers_) sorted.emplace(number, &words);
    std::string text;
    for (const auto& [number, words] : sorted)
      text += fmt::format("  local words{}={}\n", number, single_quoted(joined(*words, " ")));
    return text;
  }

 private:
  std::map<std::vector<std::string>, int> numbers_;
};

/// What bash does where a value is expected.
std::string bash_action(const ValueWords& value, WordLists& lists) {
  switch (value.kind) {
    case Kind::none:
    case Kind::free: return "return";
    case Kind::files: return "_foreplan_files";
    case Kind::one: return fmt::format("_foreplan_one \"$words{}\"", lists.number(value.words));
    case Kind::list: return fmt::format("_foreplan_list \"$words{}\"", lists.number(value.words));
  }
  return "return";
}

constexpr std::string_view kBashFunctions = R"sh(
# One of the words, or a file where none begins like that.
_foreplan_one() {
  COMPREPLY=($(compgen -W "$1" -- "$cur"))
  ((${#COMPREPLY[@]})) || _foreplan_files
}
# The item after the last comma.
_foreplan_list() {
  local before=''
  [[ $cur == *,* ]] && before=${cur%,*},
  COMPREPLY=($(compgen -P "$before" -W "$1" -- "${cur##*,}"))
  compopt -o nospace 2>/dev/null
}
_foreplan_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$cur")
}
)sh";

}  // namespace

std::string bash_completion(std::string_view program, const std::vector<VerbWords>& verbs) {
  WordLists lists;
  std::vector<std::string> names;
  std::string cases;
  for (const VerbWords& verb : verbs) {
    names.push_back(verb.name);
    std::vector<std::string> flags;
    std::string values;
    for (const OptionWords& option : verb.options) {
      flags.insert(flags.end(), option.flags.begin(), option.flags.end());
      if (option.value.kind == Kind::none) continue;
      values += fmt::format("        {}) {}; return ;;\n", joined(option.flags, "|"),
                            bash_action(option.value, lists));
    }
    cases += fmt::format("    {})\n", verb.name);
    if (!values.empty()) cases += "      case $option in\n" + values + "      esac\n";
    cases += fmt::format(
        "      [[ $cur == -* ]] && {{ COMPREPLY=($(compgen -W {} -- \"$cur\")); return; }}\n",
        single_quoted(joined(flags, " ")));
    cases += fmt::format("      {} ;;\n", bash_action(verb.argument, lists));
  }
  return fmt::format("# Completion of {0} for bash: source <({0} completion bash)\n", program) +
         std::string(kBashFunctions) +
         fmt::format(R"sh(
_foreplan() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} option=${{COMP_WORDS[COMP_CWORD-1]}}
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W {} -- "$cur"))
    return
  fi
  # "--option=value" comes as three words.
  if [[ $cur == '=' ]]; then
    cur=''
  elif [[ $option == '=' ]]; then
    option=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
{}  case ${{COMP_WORDS[1]}} in
{}  esac
}}
complete -F _foreplan {}
)sh",
                     single_quoted(joined(names, " ") + " --help --version"), lists.declarations(),
                     cases, program);
}

namespace {

/// Text inside a bracket or between colons of an `_arguments` specification.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const ValueWords& value) {
  switch (value.kind) {
    case Kind::none: return "";
    case Kind::free: return ":value: ";
    case Kind::files: return ":file:_files";
    case Kind::one: return ":value:_foreplan_one " + joined(value.words, " ");
    case Kind::list: return ":values:_sequence -s , compadd - " + joined(value.words, " ");
  }
  return "";
}

}  // namespace

std::string zsh_completion(std::string_view program, const std::vector<VerbWords>& verbs) {
  std::string names, cases;
  for (const VerbWords& verb : verbs) {
    names += "    " + single_quoted(fmt::format("{}:{}", verb.name, zsh_text(verb.summary))) + '\n';
    std::string arguments;
    for (const OptionWords& option : verb.options) {
      for (const std::string& flag : option.flags) {
        const bool takes = option.value.kind != Kind::none;
        arguments += " \\\n        " +
                     single_quoted(fmt::format("{}{}[{}]{}", flag,
                                               takes && flag.starts_with("--") ? "=" : "",
                                               zsh_text(option.help), zsh_action(option.value)));
      }
    }
    if (verb.argument.kind != Kind::none)
      arguments += " \\\n        " + single_quoted("*" + zsh_action(verb.argument));
    cases += fmt::format("    {})\n      _arguments{} ;;\n", verb.name, arguments);
  }
  return fmt::format(R"sh(#compdef {0}
# Completion of {0} for zsh: a file _{0} on fpath, or source <({0} completion zsh)
_foreplan_one() {{
  compadd -- "$@"
  _files
}}
_foreplan() {{
  local -a verbs
  verbs=(
{1}  )
  if (( CURRENT == 2 )); then
    _describe verb verbs
    return
  fi
  local verb=$words[2]
  shift words
  (( CURRENT-- ))
  case $verb in
{2}  esac
}}
# An autoloaded file runs as the function itself the first time.
if [[ $funcstack[1] == _foreplan ]]; then
  _foreplan "$@"
else
  compdef _foreplan {0}
fi
)sh",
                     program, names, cases);
}

}  // namespace foreplan::cli
