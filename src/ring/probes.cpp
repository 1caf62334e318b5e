// Chooses the words by which a batch that a program has written to is recognised (probes.hpp). The
// places are drawn once per run, when the slots are made, and one in each equal part of a range: so
// a change of a connected region cannot fall between them all, whatever the seed. Called by
// SlotStore's constructor.

#include "probes.hpp"

#include <forebay/random.hpp>

namespace forebay::ring {

std::vector<std::size_t> probe_places(std::span<const ProbedRange> ranges, std::uint32_t places, std::uint32_t compared,
                                      std::uint64_t seed) {
  std::vector<std::size_t> in_order;
  if (ranges.empty()) {
    in_order.resize(places);
    return in_order;
  }
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    const auto& [begin, end] = ranges[r];
    // A mask matters as much as its image, however much smaller it is.
    const std::size_t left = places - in_order.size();
    // Half of the places go to the images, which come first. The fields share the rest evenly, and
    // the last range takes what the divisions left over.
    const std::size_t parts = r + 1 == ranges.size() ? left : r == 0 ? places / 2 : left / (ranges.size() - r);
    for (std::size_t i = 0; i < parts; ++i) {
      // 53 random bits, which is what a double in [0, 1) holds.
      const double share = static_cast<double>(key64(seed, in_order.size()) >> 11U) * 0x1p-53;
      const double at =
          (static_cast<double>(i) + share) * static_cast<double>(end - begin) / static_cast<double>(parts);
      in_order.push_back(std::min(begin + static_cast<std::size_t>(at), end - sizeof(std::uint64_t)));
    }
  }
  const std::uint32_t uses = places / compared;
  std::vector<std::size_t> by_use;
  // The words of one use are `uses` parts apart, so each use looks at all regions of the batch.
  for (std::uint32_t use = 0; use < uses; ++use) {
    for (std::uint32_t i = 0; i < compared; ++i) by_use.push_back(in_order[use + std::size_t{i} * uses]);
  }
  return by_use;
}

}  // namespace forebay::ring
