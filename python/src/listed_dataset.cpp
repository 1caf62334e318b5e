// What datasets made of Python lists have in common: labels, classes and columns of fields, and
// reading a file without Python. Reader threads call without the GIL.

#include "listed_dataset.hpp"

#include <algorithm>
#include <utility>

#include <forebay/error.hpp>

#include "base/file_io.hpp"
#include "data/scan.hpp"
#include "store/objects.hpp"
#include "store/url.hpp"

namespace forebay::python {
namespace {

void check_labels(std::uint64_t size, const SampleList& list) {
  if (!list.labels.empty() && list.labels.size() != size) {
    throw ConfigError("there are " + std::to_string(size) + " samples and " + std::to_string(list.labels.size()) +
                      " labels; give one label for each sample, or none");
  }
  if (list.classes.empty()) return;
  const auto count = static_cast<std::int64_t>(list.classes.size());
  const auto wrong =
      std::ranges::find_if(list.labels, [count](std::int64_t label) { return label < -1 || label >= count; });
  if (wrong == list.labels.end()) return;
  throw ConfigError("sample " + std::to_string(wrong - list.labels.begin()) + " has the label " +
                    std::to_string(*wrong) + ", but there are " + std::to_string(count) +
                    " classes; labels are their numbers from 0, or -1 for none");
}

// A column has `ends` if its values differ in size; otherwise all have the same size.
void check_column(std::uint64_t size, const Column& column) {
  const bool fits = (column.paths.empty() || column.paths.size() == size) &&
                    (column.ends.empty() ? column.values.empty() || column.values.size() % size == 0
                                         : column.ends.size() == size && column.ends.back() == column.values.size());
  if (!fits) throw ConfigError("the field \"" + column.field.name + "\" has not one value for each sample");
}

template <typename Values>
void append(std::string& text, const Values& values) {
  if (values.empty()) return;
  text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values.front()));
}

}  // namespace

bool error_may_pass(int error) noexcept { return system_failure("read", error).is_transient(); }

void read_file(const std::string& path, ReadTarget& target) {
  try {
    if (store::is_url(path)) {
      (void)store::read_object(path, [&](std::size_t bytes) { return target.reserve(bytes); });
      return;
    }
    const OpenFile file = open_regular(path);
    read_at(file, 0, target.reserve(file.size));
  } catch (const SampleError& error) {
    using Kind = SampleError::Kind;
    throw SampleError(path + ": " + error.what(), error.is_transient() ? Kind::transient : Kind::permanent);
  }
}

// Paths are relative to their common folder: data that was moved as a whole is still the same data.
void append_paths(std::string& text, const std::vector<std::string>& paths) {
  const std::size_t common = data::common_folder(paths).size();
  for (const std::string& path : paths) text.append(path, common).push_back('\0');
}

ListedDataset::ListedDataset(std::uint64_t size, SampleList list) : size_(size), list_(std::move(list)) {
  if (size_ == 0) throw ConfigError("the dataset has no samples");
  check_labels(size_, list_);
  for (const Column& column : list_.columns) {
    check_column(size_, column);
    fields_.push_back(column.field);
  }
}

std::string ListedDataset::field_name(std::uint64_t id, std::size_t field) const {
  const Column& column = list_.columns[field];
  return column.paths.empty() ? std::string() : column.paths[id];
}

void ListedDataset::read_field(std::uint64_t id, std::size_t field, ReadTarget& target) const {
  const Column& column = list_.columns[field];
  if (!column.paths.empty()) return read_file(column.paths[id], target);
  const std::span<const std::byte> from = values(id, column);
  std::ranges::copy(from, target.reserve(from.size()).begin());
}

std::span<const std::byte> ListedDataset::values(std::uint64_t id, const Column& column) const noexcept {
  const std::span<const std::byte> all = column.values;
  if (column.ends.empty()) {
    const std::size_t bytes = all.size() / static_cast<std::size_t>(size_);
    return all.subspan(static_cast<std::size_t>(id) * bytes, bytes);
  }
  const std::uint64_t begin = id == 0 ? 0 : column.ends[id - 1];
  return all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(column.ends[id] - begin));
}

// Serialises for the fingerprint. Texts end with a NUL, which no name contains.
std::vector<std::byte> ListedDataset::serialized(std::string text) const {
  for (const std::string& name : list_.classes) text.append(name).push_back('\0');
  append(text, list_.labels);
  for (const Column& column : list_.columns) {
    text.append(column.field.name).push_back('\0');
    for (const std::string& name : column.field.classes) text.append(name).push_back('\0');
    append(text, column.values);
    append(text, column.ends);
    if (!column.paths.empty()) append_paths(text, column.paths);
  }
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace forebay::python
