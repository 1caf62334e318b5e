// dataset.weights as a file: lines with a name and a number. Each rank parses it once at the start
// and looks up every sample on several threads: by its own name, then its file's, then its class's.
// A line that matches no sample is refused, because a misspelt name would silently leave weights
// unchanged. One that begins with '#' is then a comment.

#include "sample_weights.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string_view>
#include <unordered_map>

#include <forebay/error.hpp>

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "data/index_image.hpp"
#include "data/parallel.hpp"
#include "data/record_table.hpp"
#include "store/url.hpp"

namespace forebay::order {
namespace {

// A choice: sums over 2^32 samples stay precise enough, and finite.
constexpr double kLargestWeight = 1e9;
constexpr std::size_t kLargestWeightFile = std::size_t{1} << 30U;
constexpr std::size_t kLongestWeightLine = std::size_t{64} << 10U;

// The line number is kept for messages.
struct Weight {
  Weight(double of, std::size_t in_line) : value(of), line(in_line) {}

  double value;
  std::size_t line;
  std::atomic<bool> is_used{false};  // relaxed: read only after all threads have ended
};
using Weights = std::unordered_map<std::string, Weight>;

[[noreturn]] void refuse(const std::string& file, std::size_t line, const std::string& what) {
  throw ConfigError("dataset.weights: " + printable(file) + ":" + std::to_string(line) + ": " + what);
}

// A list may name the same file as "./cat/0.jpg" or "cat//0.jpg".
std::string plain_path(std::string name) {
  const bool is_plain =
      !name.starts_with("./") && name.find("//") == std::string::npos && name.find("/./") == std::string::npos;
  return is_plain || store::is_url(name) ? std::move(name) : std::filesystem::path(name).lexically_normal().string();
}

std::optional<double> weight_in(std::string_view text) {
  const auto value = parse_number<double>(text);
  return value && *value >= 0 && *value <= kLargestWeight ? value : std::nullopt;
}

// "cat/0001.jpg 0.5" or "cat,2": the number is the last word. The name may contain blanks and
// commas; only the last of them separates.
void add_line(Weights& weights, std::string_view text, const std::string& file, std::size_t line) {
  text = without_blanks(text);
  const bool may_be_comment = text.starts_with('#');
  const auto before = text.find_last_of(" \t,");
  const auto value = before == std::string_view::npos ? std::nullopt : weight_in(text.substr(before + 1));
  if (!value) {
    if (text.empty() || may_be_comment) return;
    refuse(file, line,
           "\"" + printable(text) + R"(" is not a name and a weight from 0 to 10^9, as in "cat/0001.jpg 0.5")");
  }
  std::string_view name = without_blanks(text.substr(0, before));
  if (name.ends_with(',')) name = without_blanks(name.substr(0, name.size() - 1));
  const auto [known, is_new] = weights.try_emplace(plain_path(std::string(name)), *value, line);
  if (is_new || may_be_comment) return;
  refuse(file, line,
         "\"" + printable(name) + "\" is listed twice, first in line " + std::to_string(known->second.line));
}

Weights parse(const std::string& file) {
  Weights weights;
  try {
    const std::vector<std::byte> bytes = load_file(file, kLargestWeightFile);
    std::string_view rest = as_text(bytes);
    if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);  // a byte order mark
    for (std::size_t line = 1; !rest.empty(); ++line) {
      const std::string_view text = take_line(rest);
      if (text.size() > kLongestWeightLine) {
        refuse(file, line, "a line of more than " + std::to_string(kLongestWeightLine) + " bytes");
      }
      add_line(weights, text, file, line);
    }
  } catch (const ConfigError&) {
    throw;
  } catch (const Error& error) {
    throw ConfigError("dataset.weights: " + printable(file) + ": " + error.what());
  }
  return weights;
}

// Marks the entry with this name as used; null if the file has none.
const Weight* use(Weights& weights, const std::string& name) {
  const auto found = weights.find(plain_path(name));
  if (found == weights.end()) return nullptr;
  found->second.is_used.store(true, std::memory_order_relaxed);
  return &found->second;
}

// The first entry that no sample has matched; null if there is none.
const Weights::value_type* first_unused(const Weights& weights) {
  const Weights::value_type* first = nullptr;
  for (const auto& entry : weights) {
    if (!entry.second.is_used && !entry.first.starts_with('#') &&
        (first == nullptr || entry.second.line < first->second.line))
      first = &entry;
  }
  return first;
}

}  // namespace

SampleNames::SampleNames(const Dataset& dataset) : dataset_(dataset) {
  if (const data::IndexImage* image = data::image_of(dataset)) below_ = image->record().root;
  if (!below_.empty() && !below_.ends_with('/')) below_ += '/';
}

std::string SampleNames::of(std::uint64_t id) const {
  if (auto original = data::original_name(dataset_, id)) return *std::move(original);
  std::string name = dataset_.name(id);
  if (!below_.empty() && name.starts_with(below_)) name.erase(0, below_.size());
  return plain_path(std::move(name));
}

std::string SampleNames::of_source(std::uint64_t id) const {
  std::string name = of(id);
  const Sample sample = dataset_.sample(id);
  if (sample.encoding == Encoding::video && name.ends_with(']'))
    name.erase(std::min(name.rfind("[frame "), name.size()));
  if (sample.box) name.erase(std::min(name.rfind("#object "), name.size()));
  return name;
}

// In chunks, so that threads do not share a cache line per sample. The order of calls is
// unspecified.
void for_each_sample(const Dataset& dataset, const std::function<void(std::uint64_t id)>& call) {
  data::run_parallel({.count = dataset.size(), .threads = data::index_threads(), .at_once = 4096}, call);
}

std::vector<double> read_weights(const std::string& file, const Dataset& dataset, std::span<const std::uint32_t> ids) {
  Weights known = parse(file);
  const SampleNames names(dataset);
  // Looks up all samples, not only those of `ids`, because one file may serve all parts of a split.
  std::vector<double> of_all(dataset.size(), 1.0);
  for_each_sample(dataset, [&](std::uint64_t id) {
    const std::int64_t label = dataset.sample(id).label;
    const bool has_class = label >= 0 && label < static_cast<std::int64_t>(dataset.classes().size());
    const Weight* const by_class = has_class ? use(known, dataset.classes()[static_cast<std::size_t>(label)]) : nullptr;
    const Weight* const by_source = use(known, names.of_source(id));
    const Weight* weight = use(known, names.of(id));
    if (weight == nullptr) weight = by_source != nullptr ? by_source : by_class;
    if (weight != nullptr) of_all[id] = weight->value;
  });
  for (const std::string& name : dataset.classes()) (void)use(known, name);
  if (const auto* unused = first_unused(known)) {
    refuse(file, unused->second.line,
           "no sample and no class is called \"" + printable(unused->first) + "\"; a sample is called like \"" +
               printable(names.of(0)) + "\"");
  }
  std::vector<double> weights;
  weights.reserve(ids.size());
  for (const std::uint32_t id : ids) weights.push_back(of_all[id]);
  return weights;
}

}  // namespace forebay::order
