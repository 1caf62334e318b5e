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

// The places in the sources that name a memory order: found by the addresses that the operations are called from, so
// that no source has to be changed, neither to see an order nor to weaken it.
class Sites {
 public:
  enum class Kind : std::uint8_t { load, store, modify, fence };
  struct Site {
    std::string file;  // from the top of the tree: "src/ring/slot_ring.cpp"
    unsigned line = 0;
    Kind kind = Kind::load;
    std::memory_order order = std::memory_order_seq_cst;
    std::set<std::string> scenarios;  // that come here
  };
  struct Orders {
    std::memory_order effective;
    bool is_library;  // of the C++ library, not of these sources
  };

  // The order with which an operation is done. Notes that the present scenario comes here.
  Orders orders(const void* code, std::memory_order named, Kind kind) {
    Place& place = places_[code];
    if (!place.is_known) meet(place, code, named, kind);
    return {place.weakened.value_or(named), place.is_library};
  }
  // The scenario that orders() is asked about from now on.
  void enter(std::string_view scenario) { scenario_ = scenario; }
  // Finds file and line of what was met since the last call.
  void resolve();
  [[nodiscard]] const std::vector<Site>& all() const noexcept { return sites_; }
  // Operations of that site are done with this order from now on; nothing = as it is named. One at a
  // time.
  void weaken(std::size_t site, std::optional<std::memory_order> order);
  // "src/ring/slot_ring.cpp:58" of each of these addresses in the scenarios' code. Takes a tenth of a second.
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
