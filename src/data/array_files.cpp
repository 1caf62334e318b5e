// Finds NumPy arrays by name, in an .npz archive or among the .npy files of a folder, for
// dataset_npy.cpp and its labels and fields.
//
// find() reads a header and checks that the elements fit into the file; load() reads all elements,
// in C order. Files stay open until the index is built. One thread at a time.

#include "array_files.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include <forebay/error.hpp>

#include "base/file_io.hpp"
#include "base/retry.hpp"
#include "base/text.hpp"
#include "build.hpp"
#include "class_text.hpp"
#include "container_bytes.hpp"
#include "npy.hpp"
#include "store/files.hpp"

namespace forebay::data {
namespace {

constexpr std::string_view kNpyEnding = ".npy";
// Far larger than any real header, although the format permits more.
constexpr std::size_t kLongestNpyHeader = std::size_t{1} << 16U;

std::string without_npy(std::string name) {
  if (name.ends_with(kNpyEnding)) name.resize(name.size() - kNpyEnding.size());
  return name;
}

// Adds the array's name to errors. Their type must not change, because transient errors are retried
// and truncated files have a message of their own.
template <typename Work>
auto naming_array(const std::string& name, Work&& work) {
  try {
    return work();
  } catch (const UnfitArray& error) {
    throw UnfitArray("array \"" + name + "\": " + error.what());
  } catch (const SampleError& error) {
    const SampleError named("array \"" + name + "\": " + error.what(),
                            error.is_transient() ? SampleError::Kind::transient : SampleError::Kind::permanent);
    if (is_truncated(error)) throw TruncatedFile(named);
    throw SampleError(named);
  }
}

}  // namespace

std::size_t ArrayFiles::Loaded::entry_bytes() const noexcept {
  return elements.size() / static_cast<std::size_t>(std::max<std::int64_t>(array.shape[0], 1));
}

std::span<const std::byte> ArrayFiles::Loaded::entry(std::uint64_t i) const noexcept {
  return std::span(elements).subspan(static_cast<std::size_t>(i) * entry_bytes(), entry_bytes());
}

// A file that is not .npy is assumed to be an archive; if it is not, ZipFile's constructor says
// so.
ArrayFiles::ArrayFiles(const std::string& path) : path_(path) {
  const auto& file = *files_.emplace("", std::make_unique<OpenFile>(store::open_patiently(path))).first->second;
  std::vector<std::byte> head(std::min<std::size_t>(file.size, 8));
  read_at_patiently(file, 0, head);
  if (starts_as_npy(head)) {
    own_name_ = without_npy(std::filesystem::path(path).filename().string());
  } else {
    read_patiently(path, [&] { archive_.emplace(file); });
  }
}

std::vector<std::string> ArrayFiles::names() const {
  std::vector<std::string> names;
  if (!archive_) return names;
  for (const ZipMember& member : archive_->members()) names.push_back(without_npy(member.name));
  return names;
}

bool ArrayFiles::has(const std::string& name) const {
  if (archive_) return std::ranges::count(names(), without_npy(name)) > 0;
  return name == own_name_ || store::problem_of_file(path_of(name)).empty();
}

std::string ArrayFiles::path_of(const std::string& name) const {
  return (std::filesystem::path(path_).parent_path() / (without_npy(name) + std::string(kNpyEnding))).string();
}

const OpenFile& ArrayFiles::open(const std::string& name) {
  if (archive_ || name == own_name_) return file();
  const std::string path = path_of(name);
  auto& file = files_[path];
  if (file == nullptr) file = std::make_unique<OpenFile>(store::open_patiently(path));
  return *file;
}

void ArrayFiles::read(const Found& found, std::span<std::byte> to) const {
  read_patiently(path_, [&] {
    if (found.member != nullptr) {
      archive_->read(*found.member, to);
    } else {
      read_at(*found.file, 0, to);
    }
  });
}

// Inflates only the beginning of a compressed member.
ArrayFiles::Found ArrayFiles::find(const std::string& name) {
  return naming_array(name, [&] {
    Found found{.name = name, .file = &open(name), .member = nullptr, .array = {}};
    if (archive_) found.member = &find_array(*archive_, without_npy(name));
    const std::uint64_t all = archive_ ? found.member->bytes : found.file->size;
    std::vector<std::byte> head(static_cast<std::size_t>(std::min<std::uint64_t>(all, kLongestNpyHeader)));
    read(found, head);
    found.array = parse_npy_header(head, found.begin, NpyTexts::read);
    const std::uint64_t wanted = element_bytes_of(found.array);
    if (all - found.begin < wanted) {
      throw SampleError("byte " + std::to_string(all) + ": it ends early: " + std::to_string(all - found.begin) +
                        " of the " + std::to_string(wanted) + " bytes of its elements are there");
    }
    return found;
  });
}

ArrayFiles::Loaded ArrayFiles::load(const Found& found) const {
  return naming_array(found.name, [&] {
    const std::uint64_t elements = element_bytes_of(found.array);
    if (elements > largest_inflated(found.file->size)) {
      throw SampleError(std::to_string(elements) + " bytes are more than an index holds");
    }
    // Not the member's stated size, which may be far more than its array needs.
    std::vector<std::byte> bytes(found.begin + static_cast<std::size_t>(elements));
    read(found, bytes);
    const NpyArray array = parse_npy(bytes, NpyTexts::read);
    Loaded loaded{.array = array, .elements = std::vector<std::byte>(array.elements.size())};
    copy_in_c_order(array, loaded.elements);
    loaded.array.elements = loaded.elements;
    loaded.array.big_endian = loaded.array.fortran_order = false;
    return loaded;
  });
}

std::uint64_t ArrayFiles::offset_of(const Found& found) const {
  return naming_array(found.name, [&] {
    if (found.member == nullptr) return std::uint64_t{found.begin};
    return found.begin + read_patiently(path_, [&] { return archive_->stored_at(*found.member); });
  });
}

// Labels from a NumPy array: class numbers of any type, texts, or one-hot rows. As in lists
// (class_text.cpp), up to a tenth of the class numbers may be unusable, which costs only their
// samples. If there are more, or a row is not one-hot, the array does not hold labels (UnfitArray).
// That is an error only if the user named the array or set dataset.classes.

namespace {

// At most one label in this many may be unusable, as in lists and tables (LabelCensus).
constexpr std::size_t kNearlyAllLabels = 10;

std::vector<std::string> classes_up_to(const std::vector<std::int32_t>& numbers,
                                       const std::vector<std::string>& given) {
  if (!given.empty()) return ClassList(given, {}).names();
  return numbered_classes(numbers.empty() ? 0 : std::int64_t{*std::ranges::max_element(numbers)} + 1);
}

std::string element_text(const NpyArray& array, std::size_t i) {
  if (array.kind == 'f') return shortest(array.real(i));
  return array.kind == 'i' ? std::to_string(array.whole(i))
                           : std::to_string(static_cast<std::uint64_t>(array.whole(i)));
}

// An element as a class number from -1 to `most`; nothing if it is not one.
std::optional<std::int32_t> class_at(const NpyArray& array, std::size_t i, std::int64_t most) {
  if (array.kind != 'f') {
    const std::int64_t whole = array.whole(i);
    const std::int64_t least = array.kind == 'i' ? -1 : 0;  // unsigned numbers from 2^63 on come as negative ones
    return whole >= least && whole <= most ? std::optional(static_cast<std::int32_t>(whole)) : std::nullopt;
  }
  const double real = array.real(i);
  const bool is_class = real >= -1 && real <= static_cast<double>(most) && std::floor(real) == real;
  return is_class ? std::optional(static_cast<std::int32_t>(real)) : std::nullopt;
}

// Class numbers are bounded as in containers (shard_merger.cpp), so that one damaged element does
// not create a million classes.
ArrayLabels from_numbers(const NpyArray& array, const std::vector<std::string>& given) {
  // A larger number counts as damage. With dataset.classes, only numbers of given classes are
  // valid.
  const auto most = given.empty() ? std::max<std::int64_t>(65535, 16 * static_cast<std::int64_t>(array.count()))
                                  : static_cast<std::int64_t>(given.size()) - 1;
  ArrayLabels labels;
  for (std::size_t i = 0; i < array.count(); ++i) {
    const auto label = class_at(array, i, most);
    labels.numbers.push_back(label.value_or(-1));
    if (label) continue;
    labels.bad.emplace_back(i, "label " + element_text(array, i) + " is no class from 0 to " + std::to_string(most));
    if (labels.bad.size() * kNearlyAllLabels > array.count()) {
      throw UnfitArray(labels.bad.front().second + " (image " + std::to_string(labels.bad.front().first) + ")");
    }
  }
  labels.classes = classes_up_to(labels.numbers, given);
  return labels;
}

ArrayLabels from_texts(const NpyArray& array, const std::vector<std::string>& given) {
  std::vector<std::string> texts(array.count());
  LabelCensus census(given);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    texts[i] = without_blanks(array.text(i));
    census.add(texts[i]);
  }
  ArrayLabels labels;
  labels.numbers.assign(texts.size(), -1);
  const auto bad = [&](std::size_t i, std::string problem) { labels.bad.emplace_back(i, std::move(problem)); };
  if (census.are_numbers("the labels")) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto number = class_number_in(texts[i]);
      const auto limit = given.empty() ? kMostClassNumbers : static_cast<std::int64_t>(given.size());
      if (number && *number < limit) {
        labels.numbers[i] = static_cast<std::int32_t>(*number);
      } else {
        bad(i, texts[i].empty() ? "its label is empty" : problem_of_class(texts[i], limit));
      }
    }
    labels.classes = classes_up_to(labels.numbers, given);
    return labels;
  }
  std::vector<std::string> found = texts;
  std::erase(found, "");
  const ClassList classes(given, std::move(found));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    labels.numbers[i] = classes.number_of(texts[i]);
    if (labels.numbers[i] >= 0) continue;
    bad(i, texts[i].empty() ? "its label is empty" : "class \"" + printable(texts[i]) + "\" is not in dataset.classes");
  }
  labels.classes = classes.names();
  return labels;
}

// The position of the single 1 in a one-hot row; nothing for any other row. A row of zeros is not
// one-hot, because it has no class.
std::optional<std::int32_t> hot_place(const NpyArray& array, std::size_t begin, std::size_t count) {
  std::optional<std::int32_t> place;
  for (std::size_t k = 0; k < count; ++k) {
    const double value = array.real(begin + k);
    if (value != 0 && (value != 1 || place)) return std::nullopt;
    if (value == 1) place = static_cast<std::int32_t>(k);
  }
  return place;
}

ArrayLabels from_one_hot(const NpyArray& array, const std::vector<std::string>& given) {
  const auto count = static_cast<std::size_t>(array.shape[1]);
  ArrayLabels labels;
  for (std::size_t begin = 0; begin < array.count(); begin += count) {
    const auto place = hot_place(array, begin, count);
    if (!place) {
      throw UnfitArray("shape " + array.shape_text() + ", where labels are one number or name for each image, or " +
                       R"(one-hot rows; serve more of them as a field of kind "multilabel" or "numbers")");
    }
    labels.numbers.push_back(*place);
  }
  if (!given.empty() && given.size() != count) {
    throw UnfitArray("one-hot labels of " + std::to_string(count) + " classes, but dataset.classes has " +
                     std::to_string(given.size()) + " names");
  }
  labels.classes = given.empty() ? numbered_classes(array.shape[1]) : ClassList(given, {}).names();
  return labels;
}

}  // namespace

// Shape (N, 1) is one label per image, as Keras saves CIFAR's labels.
ArrayLabels labels_of_array(const ArrayFiles::Loaded& loaded, const std::vector<std::string>& given) {
  const NpyArray& array = loaded.array;
  const bool is_single = array.dimensions == 1 || (array.dimensions == 2 && array.shape[1] == 1);
  if (is_single) return array.has_texts() ? from_texts(array, given) : from_numbers(array, given);
  if (array.dimensions == 2 && array.shape[1] > 1 && !array.has_texts()) return from_one_hot(array, given);
  throw UnfitArray("shape " + array.shape_text() + ", where labels are one number or name for each image, or one-hot " +
                   R"(rows; serve more of them as a field of kind "multilabel" or "numbers")");
}

}  // namespace forebay::data
