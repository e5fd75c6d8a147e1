// The file that nccl-tests write with -J (versions 1 and 2 of its layout).

#include "core/document.hpp"
#include "results/import/formats.hpp"
#include "results/import/json_text.hpp"
#include "results/import/nccl_run.hpp"
#include "results/import/sink.hpp"
#include "results/measurement_text.hpp"

#include <fmt/format.h>

#include <set>

namespace foreplan::results {
namespace {

/// Decimal point or not, a whole number in a text; 0 when it is none.
std::int64_t whole(const std::string& text) {
  std::int64_t value = 0;
  return read_text(text, value).empty() ? value : 0;
}

NcclRun run_of(const Node& root) {
  NcclRun run;
  if (const auto args = root.find("args"); args && args->is_list() && !args->items().empty()) {
    run.operation = nccl_operation(scalar_text(args->items().front()));
  }
  if (const auto code = whole(text_of(root, "nccl_version")); code > 0)
    run.library_version = nccl_version(static_cast<int>(code));
  constexpr std::size_t kDay = 10;  // of "2026-02-21 10:15:00"
  run.date = text_of(root, "start_time").substr(0, kDay);
  const auto config = root.find("config");
  if (!config || !config->is_map()) return run;
  // The list has one entry per process, whatever the number of devices that each drives.
  const std::int64_t each = std::max<std::int64_t>(whole(text_of(*config, "nthreads")), 1) *
                            std::max<std::int64_t>(whole(text_of(*config, "ngpus")), 1);
  std::set<std::string> hosts;
  std::int64_t processes = 0;
  if (const auto devices = config->find("devices"); devices && devices->is_list()) {
    for (const Node& device : devices->items()) {
      if (!device.is_map()) continue;
      ++processes;
      hosts.insert(text_of(device, "hostname"));
      run.device = text_of(device, "device_info");
    }
  }
  run.ngpus = std::max<std::int64_t>(processes, 1) * each;
  run.nodes = std::max<std::int64_t>(static_cast<std::int64_t>(hosts.size()), 1);
  return run;
}

void add_half(const NcclRun& run, const Node& result, std::string_view key, bool inplace,
              ImportSink& sink) {
  const auto half = result.find(key);
  if (!half || !half->is_map()) return;  // null: not measured
  const int line = half->place().line;
  if (half->find("cpu_time"))
    return sink.reject(line, "times of the CPU (option -C) are not those of the collective");
  const std::string bytes = text_of(result, "size"), dtype = text_of(result, "type"),
                    time = text_of(*half, "time"), algbw = text_of(*half, "alg_bw"),
                    busbw = text_of(*half, "bus_bw"), wrong = text_of(*half, "nwrong");
  add_nccl_timing(run,
                  {.bytes = bytes,
                   .dtype = dtype,
                   .time_us = time,
                   .algbw = algbw,
                   .busbw = busbw,
                   .wrong = wrong,
                   .inplace = inplace},
                  line, sink);
}

bool recognises(std::string_view text) {
  return text.starts_with('{') && text.find("\"nccl_version\"") != std::string_view::npos;
}

Result<void> read(const SourceText& source, ImportSink& sink) {
  const auto document = Document::parse_json(std::string{source.text}, source.file);
  if (!document) return fail(document.error());
  const Node root = document->root();
  const auto results = root.is_map() ? root.find("results") : std::nullopt;
  if (!results || !results->is_list())
    return fail("the list \"results\" is missing", {.file = source.file});
  const NcclRun run = run_of(root);
  if (run.operation.empty() && !sink.options().operation) {
    return fail("the file does not say which collective it measures; name it with --op",
                {.file = source.file});
  }
  std::size_t empty = 0;
  for (const Node& result : results->items()) {
    if (!result.is_map()) {
      sink.reject(result.place().line, "the entry is not a mapping");
    } else if (text_of(result, "size") == "0") {
      ++empty;
    } else {
      add_half(run, result, "out_of_place", false, sink);
      add_half(run, result, "in_place", true, sink);
    }
  }
  if (empty > 0) sink.notice(fmt::format("{} entries of 0 bytes left out", empty));
  return {};
}

}  // namespace

ImportFormat nccl_json_format() {
  return {.name = "nccl-tests-json",
          .summary = "what nccl-tests -J writes",
          .recognises = recognises,
          .read = read};
}

}  // namespace foreplan::results
