#include "run_directory.hpp"

#include <array>
#include <charconv>
#include <optional>
#include <system_error>
#include <vector>

#include <forebay/error.hpp>

#include "base/text.hpp"

namespace forebay {
namespace {

constexpr std::array<std::string_view, 4> kKinds{"steps", "intervals", "quarantine", "decisions"};

// The rank in "KIND.RANK.jsonl" and in "KIND.RANK.from-STEP.jsonl", nothing for any other name.
std::optional<std::uint32_t> rank_in(std::string_view name) {
  static constexpr std::string_view kExtension = ".jsonl";
  if (!name.ends_with(kExtension)) return std::nullopt;
  name.remove_suffix(kExtension.size());
  for (const std::string_view kind : kKinds) {
    if (!name.starts_with(kind) || name.substr(kind.size(), 1) != ".") continue;
    const std::string_view digits = name.substr(kind.size() + 1);
    std::uint32_t rank = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    const std::string_view rest(end, static_cast<std::size_t>(digits.data() + digits.size() - end));
    if (error == std::errc() && (rest.empty() || rest.starts_with(".from-"))) return rank;
  }
  return std::nullopt;
}

// Files that cannot be removed are not worth a word: those of this rank are reported when they are opened.
template <typename IsStale>
void remove_files_of(const std::string& dir, IsStale&& is_stale) {
  std::vector<std::filesystem::path> stale;
  std::error_code error;
  for (std::filesystem::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    const std::optional<std::uint32_t> rank = rank_in(it->path().filename().native());
    if (rank && is_stale(*rank)) stale.push_back(it->path());
  }
  for (const auto& path : stale) std::filesystem::remove(path, error);
}

}  // namespace

std::filesystem::path rank_file(const std::string& dir, std::string_view kind, std::uint32_t rank) {
  return std::filesystem::path(dir) / (std::string(kind) + "." + std::to_string(rank) + ".jsonl");
}

void make_run_directory(const std::string& dir) {
  if (dir.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (!error && !std::filesystem::is_directory(dir, error) && !error) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (error) {
    throw ConfigError("telemetry.dir: cannot create directory \"" + printable(dir) + "\": " + error.message() +
                      "; name a writable place, or \"\" to write no files");
  }
}

void clear_run_directory(const std::string& dir, std::uint32_t rank, std::uint32_t ranks) {
  if (dir.empty()) return;
  remove_files_of(dir, [&](std::uint32_t of) { return of == rank || (rank == 0 && of >= ranks); });
}

}  // namespace forebay
