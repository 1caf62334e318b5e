#include "index_build.hpp"

#include <algorithm>
#include <forebay/error.hpp>

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
  for (const auto& [name, help, format] : kFormats) {
    if (format->path != Format::Path::folder)
      wanted.append(wanted.empty() ? "neither " : " nor ").append(format->needs);
  }
  return path_error(contents.options(), "the file is " + wanted);
}

ConfigError unrecognised_folder(PathContents& contents) {
  const Scan& tree = contents.tree();
  std::string files;
  for (const auto& [name, help, format] : kFormats) {
    if (format->path == Format::Path::either) files.append(files.empty() ? " and no " : " or ").append(name);
  }
  return path_error(contents.options(), "found " + std::to_string(tree.others.size()) + " files and " +
                                            std::to_string(tree.annotations.size()) +
                                            " XML files, but no image (.jpg, .jpeg, .jpe)" + files + " file");
}

const NamedFormat& detect_format(PathContents& contents) {
  const auto takes_it = [&](const NamedFormat& known) { return known.format->detect(contents); };
  const auto found = std::find_if(kFormats.rbegin(), kFormats.rend(), takes_it);
  if (found != kFormats.rend()) return *found;
  throw contents.is_folder() ? unrecognised_folder(contents) : unrecognised_file(contents);
}

const NamedFormat& format_of(PathContents& contents) {
  const DatasetOptions& options = contents.options();
  if (options.format == "auto") return detect_format(contents);
  const auto known = std::ranges::find(kFormats, options.format, &NamedFormat::name);
  if (known == kFormats.end()) {
    throw ConfigError("dataset.format = \"" + options.format + "\": known are " + list_choices());
  }
  const auto wanted = contents.is_folder() ? Format::Path::folder : Format::Path::file;
  if (known->format->path == Format::Path::either || known->format->path == wanted) return *known;
  throw path_error(options, std::string(contents.is_folder() ? "is a folder" : "is a file") + ", but format = \"" +
                                options.format + "\" needs " + std::string(known->format->needs));
}

}  // namespace

const Format* find_format(std::string_view name) noexcept {
  const auto found = std::ranges::find(kFormats, name, &NamedFormat::name);
  return found == kFormats.end() ? nullptr : found->format;
}

std::unique_ptr<Dataset> build_dataset_with(const BuildContext& context) {
  PathContents contents(context);
  const auto& [name, help, format] = format_of(contents);
  IndexDraft draft = format->build(contents);
  IndexRecord record;
  record.origin = origin_of(context.options, std::string(name));
  record.root = std::move(draft.root);
  record.skipped = draft.skipped.take(contents.root());
  record.counts = draft.counts;
  return make_dataset(record, std::move(draft.table));
}

std::unique_ptr<Dataset> build_dataset(const DatasetOptions& options, const IndexProgress& progress) {
  return build_dataset_with({.options = options, .progress = progress, .threads = index_threads()});
}

}  // namespace forebay
