#include "cli/output_file.hpp"

#include <fstream>
#include <string>
#include <system_error>

namespace foreplan::cli {

Result<void> write_file(const std::filesystem::path& file, std::string_view text,
                        std::string_view option) {
  // Beside the old file first, so that a full disk leaves that; pipes and devices have none.
  std::error_code failed;
  const auto type = std::filesystem::status(file, failed).type();
  const bool plain =
      type == std::filesystem::file_type::not_found || type == std::filesystem::file_type::regular;
  auto fresh = file;
  if (plain) fresh += ".part";
  std::ofstream out(fresh, std::ios::binary);
  out << text;
  out.close();
  if (out && plain) std::filesystem::rename(fresh, file, failed);
  if (out && (!plain || !failed)) return {};
  if (plain) std::filesystem::remove(fresh, failed);
  return fail("cannot be written", Place{file.string(), 0, 0, std::string(option)});
}

}  // namespace foreplan::cli
