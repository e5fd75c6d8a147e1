#include "core/document.hpp"
#include "tests/fuzz/read_everything.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  foreplan::check(foreplan::Document::parse_yaml(std::move(text), "input"));
  return 0;
}
