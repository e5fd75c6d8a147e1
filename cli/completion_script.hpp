#pragma once
// Scripts that teach a shell the program's words.

#include <string>
#include <string_view>
#include <vector>

namespace foreplan::cli {

/// What may stand after an option, or as an argument of a verb.
struct ValueWords {
  enum class Kind : std::uint8_t {
    none,   ///< a flag
    free,   ///< a number or text that no shell can know
    files,  ///< the path of a file
    one,    ///< one of `words`, or a path
    list,   ///< some of `words`, joined by commas
  };
  Kind kind = Kind::free;
  std::vector<std::string> words{};
};

struct OptionWords {
  std::vector<std::string> flags;  ///< "--json", "-h"
  std::string help;
  ValueWords value;
};

struct VerbWords {
  std::string name, summary;
  std::vector<OptionWords> options;
  ValueWords argument;  ///< of the words that are no options; `none` where the verb takes none
};

/// For bash 4 and later: `source <(foreplan completion bash)`.
[[nodiscard]] std::string bash_completion(std::string_view program,
                                          const std::vector<VerbWords>& verbs);
/// For zsh: a file `_foreplan` on `fpath`, or `source <(foreplan completion zsh)` after compinit.
[[nodiscard]] std::string zsh_completion(std::string_view program,
                                         const std::vector<VerbWords>& verbs);

}  // namespace foreplan::cli
