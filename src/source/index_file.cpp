#include "dataset_idx.hpp"
#include "dataset_table.hpp"
#include "file_io.hpp"
#include "index_build.hpp"

#include <filesystem>
#include <forebay/error.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay {
namespace {

constexpr std::size_t kLargestIndex = std::size_t{1} << 40U;

std::vector<std::byte> load_bytes(const std::string& file) {
  try {
    return load_file(file, kLargestIndex);
  } catch (const SampleError& error) {
    throw Error("index " + file + ": " + error.what());
  }
}

std::unique_ptr<Dataset> restore(const OpenedIndex& index) {
  const std::string& format = index.record.origin.format;
  if (format == "idx") return restore_idx_dataset(index);
  if (format == "voc" || format == "filelist" || format == "folder") return restore_file_dataset(index);
  throw Error("an index of the unknown format \"" + format + "\"; delete it to have it built again");
}

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
  if (wanted.source_hash != built.source_hash) return "other contents of the list";
  return {};
}

}  // namespace

std::uint64_t fingerprint(const Dataset& dataset) {
  const std::vector<std::byte> bytes = dataset.serialize();
  const auto content = index_content(bytes);
  return XXH3_64bits(content.data(), content.size());
}

std::unique_ptr<Dataset> restore_dataset(std::span<const std::byte> bytes, std::string_view origin) {
  try {
    return restore(open_index(bytes));
  } catch (const Error& error) {
    throw Error(std::string(origin) + ": " + error.what());
  }
}

void save_index(const Dataset& dataset, const std::string& file) {
  try {
    write_file_atomically(file, dataset.serialize());
  } catch (const Error& error) {
    throw Error("index " + std::string(error.what()));
  }
}

std::unique_ptr<Dataset> load_index(const std::string& file) {
  return restore_dataset(load_bytes(file), "index " + file);
}

std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options, const IndexProgress& progress) {
  const std::string& file = options.index;
  if (file.empty()) return build_dataset(options, progress);
  if (!std::filesystem::exists(file)) {
    auto dataset = build_dataset(options, progress);
    save_index(*dataset, file);
    return dataset;
  }
  const std::vector<std::byte> bytes = load_bytes(file);
  auto dataset = restore_dataset(bytes, "index " + file);
  if (const auto what = difference(open_index(bytes).record.origin, options); !what.empty()) {
    throw ConfigError("dataset.index = \"" + file + "\" was built for " + what +
                      "; delete it to have it built again, or name another file");
  }
  return dataset;
}

}  // namespace forebay
