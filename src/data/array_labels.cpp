// Labels from a NumPy array: class numbers of any type, texts, or one-hot rows. The rules are those
// of lists (class_text.cpp): up to a tenth of the labels may be damaged and cost their samples;
// more, and the array is no array of labels (UnfitArray), which is an error only if the user named
// it.

#include "array_labels.hpp"

#include <algorithm>
#include <cmath>
#include <forebay/error.hpp>
#include <optional>

#include "base/text.hpp"
#include "build.hpp"
#include "class_text.hpp"

namespace forebay::data {
namespace {

// One in so many labels may be damaged, as in lists and tables (LabelCensus).
constexpr std::size_t kNearlyAllLabels = 10;

std::vector<std::string> numbered_classes(std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

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

// A class number from -1 to `most`.
std::optional<std::int32_t> class_at(const NpyArray& array, std::size_t i, std::int64_t most) {
  if (array.kind != 'f') {
    const std::int64_t whole = array.whole(i);
    return whole >= -1 && whole <= most ? std::optional(static_cast<std::int32_t>(whole)) : std::nullopt;
  }
  const double real = array.real(i);
  const bool is_class = real >= -1 && real <= static_cast<double>(most) && std::floor(real) == real;
  return is_class ? std::optional(static_cast<std::int32_t>(real)) : std::nullopt;
}

// The bound on class numbers is that of containers (shard_merger.cpp): one damaged element must not
// make a million classes.
ArrayLabels from_numbers(const NpyArray& array, const std::vector<std::string>& given) {
  // A larger number is taken for damage unless its class is named.
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

// The place of the only 1 among 0s.
// A row of zeros has no class, and makes the array something else than one-hot.
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

// (N, 1) is one number per image, as Keras saves CIFAR's.
ArrayLabels labels_of_array(const ArrayFiles::Loaded& loaded, const std::vector<std::string>& given) {
  const NpyArray& array = loaded.array;
  const bool is_single = array.dimensions == 1 || (array.dimensions == 2 && array.shape[1] == 1);
  if (is_single) return array.has_texts() ? from_texts(array, given) : from_numbers(array, given);
  if (array.dimensions == 2 && array.shape[1] > 1 && !array.has_texts()) return from_one_hot(array, given);
  throw UnfitArray("shape " + array.shape_text() + ", where labels are one number or name for each image, or one-hot " +
                   R"(rows; serve more of them as a field of kind "multilabel" or "numbers")");
}

}  // namespace forebay::data
