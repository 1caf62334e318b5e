#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/options.hpp>

namespace forebay {

// Which samples of a dataset an epoch serves, and how often: those in a part of a split and a fraction of that part,
// each once or as often as its weight says. An epoch has as many places as there are samples in the selection.
// Immutable; any thread may call.
class Selection {
 public:
  // Null if every sample is served once. `eval`: weights are ignored. Reads the weights file, and asks for the name of
  // every sample. Throws ConfigError naming the key, or file and line, for what cannot be honoured or leaves nothing.
  [[nodiscard]] static std::shared_ptr<const Selection> make(const Dataset& dataset, const DatasetOptions& options,
                                                             std::uint64_t seed, bool eval);

  // Samples, and places in an epoch.
  [[nodiscard]] std::uint64_t size() const noexcept { return ids_.size(); }
  // The number within the selection of the sample at a place. With weights a sample of share s (its weight over the
  // mean weight) has floor(s) or ceil(s) places, side by side: systematic sampling, whose offset is drawn for each
  // epoch. REQUIRES: place < size().
  [[nodiscard]] std::uint64_t at(std::uint64_t epoch, std::uint64_t place) const noexcept;
  // The sample's id in the dataset. REQUIRES: number < size().
  [[nodiscard]] std::uint64_t id(std::uint64_t number) const noexcept { return ids_[number]; }
  // Equal for equal selections.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept;

 private:
  Selection(std::vector<std::uint32_t> ids, const std::vector<double>& weights, std::uint64_t seed);

  // Shares are counted in units of 2^-kPlaceBits of a place.
  static constexpr int kPlaceBits = 20;

  std::uint64_t seed_;
  std::vector<std::uint32_t> ids_;
  std::vector<std::uint64_t> ends_;  // of the samples' shares, one after the other; empty: all are one place
};

}  // namespace forebay
