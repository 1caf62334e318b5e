#include "base/replace_file.hpp"
#include "formats.hpp"
#include "index_build.hpp"
#include "index_image.hpp"

#include <algorithm>
#include <filesystem>
#include <forebay/error.hpp>
#include <system_error>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay {
namespace {

// What was asked for differs from what the index was built from; "" when it does not.
std::string difference(const IndexOrigin& built, const DatasetOptions& options) {
  if (options.format != "auto" && options.format != built.format) {
    return "format " + built.format + ", not " + options.format;
  }
  const IndexOrigin wanted = origin_of(options, built.format);
  if (wanted.path != built.path) return "path " + built.path;
  if (wanted.labels != built.labels) return built.labels.empty() ? "no labels file" : "labels " + built.labels;
  if (wanted.classes != built.classes) return "other classes";
  if (wanted.difficult != built.difficult) return std::string("difficult = ") + (built.difficult ? "true" : "false");
  if (wanted.source_hash != built.source_hash) {
    return "other contents of " + std::string(find_format(built.format)->hashed);
  }
  return {};
}

}  // namespace

std::uint64_t fingerprint(const Dataset& dataset) {
  if (const IndexImage* image = image_of(dataset)) return image->fingerprint();
  const std::vector<std::byte> bytes = dataset.serialize();
  if (begins_as_index(bytes)) {
    const auto header = std::span(bytes).first(std::min(bytes.size(), kIndexHeader));
    return read_index_layout(header, bytes.size(), "the index of a dataset").fingerprint;
  }
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::unique_ptr<Dataset> restore_dataset(std::span<const std::byte> bytes, std::string_view origin) {
  return restore_index(index_in_memory(owned_bytes({bytes.begin(), bytes.end()}), std::string(origin)));
}

void save_index(const Dataset& dataset, const std::string& file) {
  try {
    replace_file(replaceable(file), dataset.serialize(), ".");
  } catch (const Error& error) {
    throw Error("index " + file + ": " + error.what());
  }
}

std::unique_ptr<Dataset> load_index(const std::string& file) { return restore_index(open_index_file(file)); }

std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options, const IndexProgress& progress) {
  const std::string& file = options.index;
  if (file.empty()) return build_dataset(options, progress);
  // What was just saved is used from the file too: a large one is there once for all ranks of a node.
  // A file that cannot be looked at is not missing: opening it says why.
  std::error_code unknown;
  if (!std::filesystem::exists(file, unknown) && !unknown) save_index(*build_dataset(options, progress), file);
  auto dataset = load_index(file);
  if (const auto what = difference(image_of(*dataset)->record().origin, options); !what.empty()) {
    throw ConfigError("dataset.index = \"" + file + "\" was built for " + what +
                      "; delete it to have it built again, or name another file");
  }
  return dataset;
}

}  // namespace forebay
