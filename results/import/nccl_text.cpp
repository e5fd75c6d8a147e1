// The table that nccl-tests and rccl-tests print. Which columns it has differs from version to
// version, and is read from its own header: with or without redop and root, one or two groups of
// times, "error" or "#wrong", per-iteration columns, a time stamp.

#include "results/import/formats.hpp"
#include "results/import/nccl_run.hpp"
#include "results/import/sink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

namespace foreplan::results {
namespace {

using Words = std::vector<std::string_view>;

Words words_of(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  Words words;
  for (;;) {
    const auto start = line.find_first_not_of(kBlanks);
    if (start == std::string_view::npos) return words;
    line.remove_prefix(start);
    const auto end = std::min(line.find_first_of(kBlanks), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

bool is_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// mpirun --tag-output writes "[1,0]<stdout>:" before each line.
std::string_view without_tag(std::string_view line) {
  const auto tag = line.find(">:");
  if (!line.starts_with('[') || tag == std::string_view::npos) return line;
  line.remove_prefix(tag + 2);
  return line;
}

/// The number behind `word` in "# nThread 1 nGpus 8 minBytes ..."; 0 when there is none.
std::int64_t number_after(const Words& words, std::string_view word) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end() || found + 1 == words.end()) return 0;
  std::int64_t value = 0;
  std::from_chars((found + 1)->data(), (found + 1)->data() + (found + 1)->size(), value);
  return value;
}

class NcclTable {
 public:
  NcclTable(const SourceText& source, ImportSink& sink) : source_(source), sink_(sink) {}

  void line(std::string_view text, int number) {
    text = without_tag(text);
    const Words words = words_of(text);
    if (words.empty()) return;
    if (words[0] == "#" || words[0].starts_with("#")) {
      comment(text, words);
    } else if (is_digits(words[0]) && !columns_.empty() && words.size() > 2) {
      row(words, number);
    } else {
      name_of_run(text, words);
    }
  }

  [[nodiscard]] Result<void> finish() {
    if (empty_rows_ > 0) sink_.notice(fmt::format("{} lines of 0 bytes left out", empty_rows_));
    if (!problem_.empty()) return fail(problem_, {.file = source_.file, .line = problem_line_});
    if (!table_seen_) return fail("the file holds no table of nccl-tests", {.file = source_.file});
    return {};
  }

 private:
  void comment(std::string_view text, const Words& words) {
    if (std::find(words.begin(), words.end(), "nThread") != words.end()) return begin_run(words);
    if (std::find(words.begin(), words.end(), "Rank") != words.end()) return rank(text, words);
    if (std::find(words.begin(), words.end(), "size") != words.end()) return header(words);
    name_of_run(text, words);
  }

  void begin_run(const Words& words) {
    ranks_ = 0;
    hosts_.clear();
    run_.device.clear();
    in_one_process_ = std::max<std::int64_t>(number_after(words, "nThread"), 1) *
                      std::max<std::int64_t>(number_after(words, "nGpus"), 1);
  }

  /// "#  Rank  0 Group  0 Pid 123 on host device  0 [0000:04:00] NVIDIA H100 80GB HBM3"
  void rank(std::string_view text, const Words& words) {
    const auto on = std::find(words.begin(), words.end(), "on");
    const auto bracket = text.find("] ");
    if (on == words.end() || on + 1 == words.end() || bracket == std::string_view::npos) return;
    ++ranks_;
    hosts_.insert(std::string{*(on + 1)});
    text.remove_prefix(bracket + 2);
    while (text.ends_with(' ') || text.ends_with('\r')) text.remove_suffix(1);
    run_.device = text;
  }

  void header(const Words& words) {
    columns_.assign(words.begin(), words.end());
    if (columns_.front() == "#") columns_.erase(columns_.begin());
    table_seen_ = true;
    const auto stamp = std::find(columns_.begin(), columns_.end(), "timestamp");
    stamped_ = stamp != columns_.end();
    if (stamped_) columns_.erase(stamp);
  }

  void name_of_run(std::string_view text, const Words& words) {
    for (const std::string_view word : words) {
      if (const auto operation = nccl_operation(word); !operation.empty())
        run_.operation = operation;
      constexpr std::string_view kLibrary = "nccl-library=";
      int code = 0;
      if (word.starts_with(kLibrary)) {
        std::from_chars(word.data() + kLibrary.size(), word.data() + word.size(), code);
        run_.library_version = nccl_version(code);
      }
    }
    constexpr std::string_view kVersion = "NCCL version ";
    const auto at = text.find(kVersion);
    if (at == std::string_view::npos) return;
    const std::string_view version = text.substr(at + kVersion.size());
    run_.library_version = version.substr(0, version.find_first_of("+ \r"));
  }

  void row(const Words& words, int number) {
    const auto first_time =
        std::find_if(columns_.begin(), columns_.end(),
                     [](const std::string& c) { return c == "time" || c == "cputime"; });
    if (first_time == columns_.end()) return fail_at(number, "the table has no column \"time\"");
    const auto measures = static_cast<std::size_t>(columns_.end() - first_time);
    const std::size_t stamp = stamped_ ? 2 : 0;
    constexpr std::size_t kSizeCountType = 3;
    if (words.size() < kSizeCountType + measures + stamp) {
      return sink_.reject(number,
                          fmt::format("the line is cut off after {} columns", words.size()));
    }
    if (*first_time == "cputime")
      return sink_.reject(number, "times of the CPU (option -C) are not those of the collective");
    if (words[0] == "0") {
      ++empty_rows_;
      return;
    }
    if (!ready(number)) return;
    const std::size_t start = words.size() - measures - stamp;
    bool second = false;
    for (std::size_t i = 0; i < measures; ++i) {
      if (*(first_time + static_cast<std::ptrdiff_t>(i)) != "time") continue;
      if (i + 2 >= measures) return sink_.reject(number, "a time without bandwidths");
      const std::size_t at = start + i;
      add_nccl_timing(run_,
                      {.bytes = words[0],
                       .dtype = words[2],
                       .time_us = words[at],
                       .algbw = words[at + 1],
                       .busbw = words[at + 2],
                       .wrong = i + 3 < measures ? words[at + 3] : "",
                       .inplace = second},
                      number, sink_);
      second = true;
    }
  }

  /// What a row needs to know of its run; without it no row of the file can be used.
  bool ready(int number) {
    if (run_.operation.empty() && !sink_.options().operation) {
      fail_at(number, "the file does not say which collective it measures; name it with --op");
      return false;
    }
    if (run_.device.empty() && sink_.options().device.empty()) {
      fail_at(number,
              "the file does not say on which device it was measured; name it with --device");
      return false;
    }
    run_.ngpus = ranks_ > 0 ? ranks_ : in_one_process_;
    run_.nodes = std::max<std::int64_t>(static_cast<std::int64_t>(hosts_.size()), 1);
    return true;
  }

  void fail_at(int number, std::string problem) {
    if (!problem_.empty()) return;
    problem_ = std::move(problem);
    problem_line_ = number;
  }

  const SourceText& source_;
  ImportSink& sink_;
  NcclRun run_;
  std::vector<std::string> columns_;
  std::set<std::string> hosts_;
  std::int64_t ranks_ = 0, in_one_process_ = 1, empty_rows_ = 0;
  bool stamped_ = false, table_seen_ = false;
  std::string problem_;
  int problem_line_ = 0;
};

bool recognises(std::string_view text) {
  constexpr std::size_t kFar = 1 << 20;
  const std::string_view head = text.substr(0, kFar);
  return head.find("busbw") != std::string_view::npos &&
         head.find("algbw") != std::string_view::npos &&
         (head.find("# nThread") != std::string_view::npos ||
          head.find("out-of-place") != std::string_view::npos);
}

Result<void> read(const SourceText& source, ImportSink& sink) {
  NcclTable table(source, sink);
  std::string_view rest = source.text;
  for (int number = 1; !rest.empty(); ++number) {
    const auto end = std::min(rest.find('\n'), rest.size());
    table.line(rest.substr(0, end), number);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return table.finish();
}

}  // namespace

ImportFormat nccl_text_format() {
  return {.name = "nccl-tests",
          .summary = "what nccl-tests or rccl-tests print",
          .recognises = recognises,
          .read = read};
}

}  // namespace foreplan::results
