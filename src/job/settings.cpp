#include "settings.hpp"

#include <algorithm>

#include "config/values.hpp"

namespace forebay {
namespace {

constexpr std::array<std::string_view, 5> kBatches{"seed", "dataset.batch_size", "dataset.shuffle", "dataset.drop_last",
                                                   "mpi.virtual_shards"};

template <typename IsWanted>
void add_if(std::map<std::string, std::string>& settings, const Options& options, IsWanted&& is_wanted) {
  for (const config::Key& key : config::keys()) {
    if (is_wanted(key)) settings.emplace(config::full_name(key), config::value_text(key, options));
  }
}

}  // namespace

void add_settings(std::map<std::string, std::string>& settings, const Options& options,
                  std::span<const std::string_view> names) {
  add_if(settings, options,
         [&](const config::Key& key) { return std::ranges::find(names, config::full_name(key)) != names.end(); });
}

std::map<std::string, std::string> batch_settings(const Options& options) {
  std::map<std::string, std::string> settings;
  add_if(settings, options, [](const config::Key& key) {
    return key.section == "transform" || key.section == "colour" || key.section == "erase";
  });
  add_settings(settings, options, kBatches);
  return settings;
}

}  // namespace forebay
