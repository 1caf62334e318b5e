#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace forebay::model {

[[nodiscard]] std::string_view order_name(std::memory_order order) noexcept;

// The places in the sources that name a memory order. They are found by the addresses from which
// the operations are called, so no source has to change, neither to learn an order nor to weaken
// it.
class Sites {
 public:
  enum class Kind : std::uint8_t { load, store, modify, fence };
  struct Site {
    std::string file;  // relative to the top of the tree: "src/ring/slot_ring.cpp"
    unsigned line = 0;
    Kind kind = Kind::load;
    std::memory_order order = std::memory_order_seq_cst;
    std::set<std::string> scenarios;  // that get here
  };
  struct Orders {
    std::memory_order effective;
    bool is_library;  // it belongs to the C++ library, not to these sources
  };

  // The order that an operation is executed with. Notes that the current scenario gets here.
  Orders orders(const void* code, std::memory_order named, Kind kind) {
    Place& place = places_[code];
    if (!place.is_known) meet(place, code, named, kind);
    return {place.weakened.value_or(named), place.is_library};
  }
  // Sets the scenario that orders() is called for from now on.
  void enter(std::string_view scenario) { scenario_ = scenario; }
  // Finds the file and line of each place that was met since the last call.
  void resolve();
  [[nodiscard]] const std::vector<Site>& all() const noexcept { return sites_; }
  // From now on, operations at that site are executed with this order; nullopt = the order that the
  // source names. Only one site at a time is weakened.
  void weaken(std::size_t site, std::optional<std::memory_order> order);
  // The file and line of each of these addresses in the scenarios' code, such as
  // "src/ring/slot_ring.cpp:58". Takes a tenth of a second.
  [[nodiscard]] static std::vector<std::string> names(const std::vector<const void*>& codes);

 private:
  static constexpr std::size_t kNone = SIZE_MAX;

  struct Place {
    bool is_known = false;
    bool is_library = false;
    std::memory_order named = std::memory_order_seq_cst;
    Kind kind = Kind::load;
    std::optional<std::memory_order> weakened;
    std::size_t site = kNone;
    std::set<std::string> scenarios;
  };

  void meet(Place& place, const void* code, std::memory_order named, Kind kind);

  std::unordered_map<const void*, Place> places_;
  std::vector<const void*> unresolved_;
  std::vector<Site> sites_;
  std::string scenario_;
  std::size_t weakened_site_ = kNone;
  std::optional<std::memory_order> weakened_order_;
};

}  // namespace forebay::model
