#include "cli/output_file.hpp"

#include <fstream>
#include <string>

namespace foreplan::cli {

Result<void> write_file(const std::filesystem::path& file, std::string_view text,
                        std::string_view option) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  if (out.flush()) return {};
  return fail("cannot be written", Place{file.string(), 0, 0, std::string(option)});
}

}  // namespace foreplan::cli
