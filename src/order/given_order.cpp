#include <algorithm>
#include <string>
#include <utility>

#include <forebay/error.hpp>
#include <forebay/given_order.hpp>

namespace forebay {

// Holds two epochs: the one being served and the one planned ahead. held_ is stored last, with
// release, so that a planning thread that sees the epoch also sees its ids.
void GivenOrder::give(std::uint64_t epoch, std::vector<std::uint32_t> ids) {
  if (ids.size() != places_) {
    throw ConfigError("the order of epoch " + std::to_string(epoch) + " has " + std::to_string(ids.size()) +
                      " places, and each epoch has " + std::to_string(places_));
  }
  const auto strange = std::ranges::find_if(ids, [this](std::uint32_t id) { return id >= samples_; });
  if (strange != ids.end()) {
    throw ConfigError("the order of epoch " + std::to_string(epoch) + " has sample " + std::to_string(*strange) +
                      ", and the dataset has " + std::to_string(samples_));
  }
  if (has(epoch)) throw Error("the order of epoch " + std::to_string(epoch) + " was given before, and may be in use");
  ids_[epoch % 2] = std::move(ids);
  held_[epoch % 2].store(epoch, std::memory_order_release);
}

}  // namespace forebay
