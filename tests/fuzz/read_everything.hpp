#pragma once
// What the YAML and the JSON target do with a document: every reader on every node.

#include "core/document.hpp"

#include <cstdint>
#include <cstdlib>
#include <limits>

namespace foreplan {

/// Aborts, which is what a fuzzer takes for a crash.
inline void expect(bool condition) {
  if (!condition) std::abort();
}

/// Nodes still to visit are limited: an alias may show a small file a million times.
inline void read_everything(const Node& node, int& visits) {
  if (--visits < 0) return;
  expect(node.place().line >= 1 && node.place().column >= 1);
  if (node.is_map()) {
    node.only({"a", "tp", "name"});
    for (const std::string& key : node.keys()) read_everything(node.required(key), visits);
  } else if (node.is_list()) {
    for (const Node& item : node.items()) read_everything(item, visits);
  }
  if (visits < 0) return;
  expect(node.integer(1, 64) >= 1 && node.integer(1, 64) <= 64);
  const double number = node.number(0, std::numeric_limits<double>::max());
  expect(number >= 0 && number <= std::numeric_limits<double>::max());
  expect(node.bytes().value > 0 && node.bandwidth().value > 0 && node.flop_rate().value > 0);
  expect(node.seconds().value >= 0 && node.hertz() > 0);
  expect(node.percent() >= 0 && node.percent() <= 1);
  expect(node.one_of({"none", "full"}) < 2);
  (void)node.text();
  (void)node.boolean();
  (void)node.items(true);
  expect(!(node.is_text() && node.is_number()));
}

inline void check(const Result<Document>& document) {
  if (!document) {
    expect(!document.error().empty() && !to_text(document.error()).empty());
    return;
  }
  expect(document->ok());
  int visits = 2000;
  read_everything(document->root(), visits);
  // No node satisfies all readers.
  expect(!document->ok());
  const Errors errors = document->errors();
  expect(!errors.empty());
  for (const Error& error : errors) expect(!error.message.empty() && error.place.line >= 1);
}

}  // namespace foreplan
