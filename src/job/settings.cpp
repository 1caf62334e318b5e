// What a job states of itself: settings that determine its batches, by full name of the key, and hashes of what is in
// its files. A state or a recording belongs to a run that states the same. At the start and when a state is made, on
// the trainer's thread.

#include "settings.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <variant>

#include "base/text.hpp"
#include "config/schema.hpp"
#include "config/values.hpp"
#include "data/index_image.hpp"
#include "order/selection.hpp"

namespace forebay::job {
namespace {

constexpr std::array<std::string_view, 5> kBatches{"seed", "dataset.batch_size", "dataset.shuffle", "dataset.drop_last",
                                                   "mpi.virtual_shards"};
constexpr std::array<std::string_view, 3> kWindows{"dataset.order", "dataset.window", "dataset.run"};
constexpr std::array<std::string_view, 3> kParts{"dataset.order", "dataset.nodes", "dataset.exchange"};

// Only compared where both know it: states of before and of data in a store have none.
constexpr std::string_view kContents = "the contents of its files";

template <typename IsWanted>
void add_if(Settings& settings, const Options& options, IsWanted&& is_wanted) {
  for (const config::Key& key : config::keys()) {
    // An empty list of numbers is left out, so that states from before there was such a key go on.
    const auto* const list = std::get_if<config::WholeList>(&key.kind);
    if (!is_wanted(key) || (list != nullptr && list->field.get(options).empty())) continue;
    settings.emplace(config::full_name(key), config::value_text(key, options));
  }
}

// The value of a key that a job does not state, because nothing in it needed the key; nothing for what is no key.
std::optional<std::string> default_text(std::string_view name) {
  for (const config::Key& key : config::keys()) {
    if (config::full_name(key) == name) return config::value_text(key, Options());
  }
  return std::nullopt;
}

std::string stated(const std::string& key, const std::string& value) {
  return printable(key) + " = " + printable(value);
}

std::string unstated(const std::string& key) {
  const auto value = default_text(key);
  return value ? stated(key, *value) + " (the default)" : "no " + printable(key);
}

// Whether both name files of weights, whose contents are compared: where they lie may differ.
bool are_files(std::string_view key, std::string_view a, std::string_view b) {
  const auto is_file = [](std::string_view value) { return value != R"("balanced")" && value != R"("")"; };
  return key == "dataset.weights" && is_file(a) && is_file(b);
}

}  // namespace

void add_settings(Settings& settings, const Options& options, std::span<const std::string_view> names) {
  add_if(settings, options,
         [&](const config::Key& key) { return std::ranges::find(names, config::full_name(key)) != names.end(); });
}

// By sections rather than keys: a new key of them counts without anybody
// thinking of it.
Settings batch_settings(const Options& options) {
  Settings settings;
  add_if(settings, options, [](const config::Key& key) {
    const auto section = std::ranges::find(config::sections(), key.section, &config::Section::name);
    return section != config::sections().end() && section->of_samples;
  });
  add_settings(settings, options, kBatches);
  if (options.dataset.order == SampleOrder::shards) add_settings(settings, options, kWindows);
  if (options.dataset.order == SampleOrder::local) add_settings(settings, options, kParts);
  return settings;
}

void add_data(Settings& settings, const Options& options, const Dataset& dataset, const Selection* selection) {
  if (const std::uint64_t sum = data::sum_of_files(dataset); sum != 0) settings.emplace(kContents, hex(sum, 16));
  if (selection == nullptr || selection->is_given()) return;
  constexpr std::array<std::string_view, 4> kKeys{"dataset.split", "dataset.part", "dataset.fraction",
                                                  "dataset.weights"};
  add_settings(settings, options, kKeys);
  settings.emplace("the contents of dataset.weights", hex(selection->fingerprint(), 16));
}

std::optional<Difference> first_difference(const Settings& theirs, const Settings& ours) {
  for (const auto& [key, value] : ours) {
    if (key == kContents) continue;
    const auto found = theirs.find(key);
    const bool is_there = found != theirs.end();
    if (is_there ? found->second == value || are_files(key, found->second, value) : value == default_text(key))
      continue;
    return Difference{is_there ? stated(key, found->second) : unstated(key), stated(key, value)};
  }
  for (const auto& [key, value] : theirs) {
    if (key == kContents || ours.contains(key) || value == default_text(key)) continue;
    return Difference{stated(key, value), unstated(key)};
  }
  return std::nullopt;
}

std::optional<Difference> other_contents(const Settings& theirs, const Settings& ours) {
  const auto saved = theirs.find(std::string(kContents));
  const auto found = ours.find(std::string(kContents));
  if (saved == theirs.end() || found == ours.end() || saved->second == found->second) return std::nullopt;
  return Difference{printable(saved->second), found->second};
}

}  // namespace forebay::job
