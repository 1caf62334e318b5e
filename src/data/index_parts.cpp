#include <algorithm>
#include <filesystem>
#include <forebay/error.hpp>

#include "base/file_io.hpp"
#include "formats.hpp"
#include "index_build.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay {
namespace {

constexpr std::size_t kNotes = 1000;
constexpr std::size_t kExtensionsNamed = 8;
constexpr std::size_t kLongestExtension = 12;

std::string extension_of(std::string_view path) {
  const auto name = base_name(path);
  const auto dot = name.rfind('.');
  const auto extension = dot == std::string_view::npos ? std::string_view{} : name.substr(dot);
  return extension.empty() || extension.size() > kLongestExtension ? "other names" : std::string(extension);
}

std::string comparable(const std::string& path) {
  if (path.empty()) return path;
  std::string normal = std::filesystem::path(absolute_path(path)).lexically_normal().string();
  while (normal.size() > 1 && normal.ends_with('/')) normal.pop_back();
  return normal;
}

}  // namespace

std::string absolute_path(const std::string& path) {
  // Not normalized: with links, "a/../b" need not be "b".
  return path.starts_with('/') ? path : (std::filesystem::current_path() / path).string();
}

PlaceInParent place_in_parent(const std::string& path) {
  namespace fs = std::filesystem;
  fs::path folder = fs::path(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  return {folder.parent_path().string(), folder.filename().string()};
}

void add_below(PathList& paths, std::string_view folder, const PathList& from) {
  for (const auto path : from) paths.add(join_path(folder, path));
}

ConfigError path_error(const DatasetOptions& options, const std::string& problem) {
  ConfigError error("dataset.path = \"" + options.path + "\": " + problem);
  return error;
}

IndexOrigin origin_of(const DatasetOptions& options, std::string format) {
  IndexOrigin origin;
  origin.path = comparable(options.path);
  origin.labels = comparable(options.labels);
  origin.classes = options.classes;
  origin.difficult = options.difficult;
  const Format* known = find_format(format);
  if (known != nullptr && known->hash != nullptr) origin.source_hash = known->hash(options);
  origin.format = std::move(format);
  return origin;
}

// In pieces: a list of gigabytes is hashed at every start.
std::uint64_t hash_file(const std::string& path, const char* key, std::uint64_t seed) {
  try {
    const OpenFile file = open_regular(path);
    std::vector<std::byte> piece(std::min(file.size, std::size_t{1} << 20U));
    XXH3_state_t state;
    XXH3_64bits_reset_withSeed(&state, seed);
    for (std::size_t at = 0; at < file.size; at += piece.size()) {
      const auto next = std::span(piece).first(std::min(piece.size(), file.size - at));
      read_at(file.descriptor, at, next);
      XXH3_64bits_update(&state, next.data(), next.size());
    }
    return XXH3_64bits_digest(&state);
  } catch (const SampleError& error) {
    throw ConfigError(std::string(key) + " = \"" + path + "\": " + error.what());
  }
}

ClassList::ClassList(std::vector<std::string> given, std::vector<std::string> found) : names_(std::move(given)) {
  if (names_.empty()) {
    names_ = std::move(found);
    std::sort(names_.begin(), names_.end());
    names_.erase(std::unique(names_.begin(), names_.end()), names_.end());
  }
  for (const auto& name : names_) {
    if (name.empty()) throw ConfigError("dataset.classes: a class without a name");
    const bool is_new = numbers_.emplace(name, static_cast<std::int32_t>(numbers_.size())).second;
    if (!is_new) throw ConfigError("dataset.classes: \"" + name + "\" stands there twice");
  }
}

std::int32_t ClassList::number_of(std::string_view name) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? -1 : found->second;
}

void SkipLog::add_bad(std::string path, std::string reason) {
  bad_.push_back({.path = std::move(path), .reason = std::move(reason), .bad = true});
}

void SkipLog::add_note(std::string path, std::string reason) {
  if (notes_.size() < kNotes) {
    notes_.push_back({.path = std::move(path), .reason = std::move(reason), .bad = false});
  } else {
    ++more_[extension_of(path)];
  }
}

std::vector<Skipped> SkipLog::take(const std::string& root) {
  if (!more_.empty()) {
    std::vector<std::pair<std::string, std::uint64_t>> counts(more_.begin(), more_.end());
    std::stable_sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    std::uint64_t all = 0;
    std::string named;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      all += counts[i].second;
      if (i < kExtensionsNamed)
        named += (i == 0 ? "" : ", ") + std::to_string(counts[i].second) + " x " + counts[i].first;
    }
    if (counts.size() > kExtensionsNamed) named += ", ...";
    notes_.push_back({.path = root, .reason = "and " + std::to_string(all) + " more: " + named, .bad = false});
  }
  std::vector<Skipped> entries = std::move(bad_);
  std::move(notes_.begin(), notes_.end(), std::back_inserter(entries));
  return entries;
}

std::string SkipLog::first_bad() const {
  return bad_.empty() ? "" : ", the first problem: " + bad_.front().path + ": " + bad_.front().reason;
}

}  // namespace forebay
