#include "index_build.hpp"

#include <algorithm>
#include <forebay/error.hpp>
#include <ranges>

#include "formats.hpp"
#include "index_parallel.hpp"
#include "path_contents.hpp"

namespace forebay {
namespace {

// "auto, voc and idx"
std::string list_choices() {
  std::string text(kFormatChoices.front());
  for (const auto name : std::span(kFormatChoices).subspan(1)) {
    text.append(name == kFormatChoices.back() ? " and " : ", ").append(name);
  }
  return text;
}

ConfigError unrecognised_file(PathContents& contents) {
  if (contents.head().empty()) return path_error(contents.options(), "the file is empty");
  std::string wanted;
  for (const auto& [name, format] : kFormats) {
    if (format->path != Format::Path::folder)
      wanted.append(wanted.empty() ? "neither " : " nor ").append(format->needs);
  }
  return path_error(contents.options(), "the file is " + wanted);
}

ConfigError unrecognised_folder(PathContents& contents) {
  const Scan& tree = contents.tree();
  std::string files;
  for (const auto& [name, format] : kFormats) {
    if (format->path == Format::Path::either) files.append(files.empty() ? " and no " : " or ").append(name);
  }
  return path_error(contents.options(), "found " + std::to_string(tree.others.size()) + " files and " +
                                            std::to_string(tree.annotations.size()) +
                                            " XML files, but no image (.jpg, .jpeg, .jpe)" + files + " file");
}

const Format& detect_format(PathContents& contents) {
  for (const auto& [name, format] : std::ranges::reverse_view(kFormats)) {
    if (format->detect(contents)) return *format;
  }
  throw contents.is_folder() ? unrecognised_folder(contents) : unrecognised_file(contents);
}

const Format& format_of(PathContents& contents) {
  const DatasetOptions& options = contents.options();
  if (options.format == "auto") return detect_format(contents);
  const Format* format = find_format(options.format);
  if (format == nullptr) {
    throw ConfigError("dataset.format = \"" + options.format + "\": known are " + list_choices());
  }
  const auto wanted = contents.is_folder() ? Format::Path::folder : Format::Path::file;
  if (format->path == Format::Path::either || format->path == wanted) return *format;
  throw path_error(options, std::string(contents.is_folder() ? "is a folder" : "is a file") + ", but format = \"" +
                                options.format + "\" needs " + std::string(format->needs));
}

}  // namespace

const Format* find_format(std::string_view name) noexcept {
  const auto found = std::ranges::find(kFormats, name, &NamedFormat::name);
  return found == kFormats.end() ? nullptr : found->format;
}

std::unique_ptr<Dataset> build_dataset_with(const BuildContext& context) {
  PathContents contents(context);
  return format_of(contents).build(contents);
}

std::unique_ptr<Dataset> build_dataset(const DatasetOptions& options, const IndexProgress& progress) {
  return build_dataset_with({.options = options, .progress = progress, .threads = index_threads()});
}

}  // namespace forebay
