#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/given_order.hpp>
#include <forebay/options.hpp>

namespace forebay {

// Which samples of a dataset an epoch serves, and how often: those of one part of a split and a
// fraction of that part, each once or as often as its weight says. An epoch has as many places as
// the selection has samples. Immutable, except for an order given by the program; any thread may
// call.
class Selection {
 public:
  // Null if every sample is served once. `eval`: weights are ignored. Reads the weights file, and
  // asks for the name of every sample. Throws ConfigError, naming the key, or file and line, for
  // what cannot be honoured or leaves no sample.
  [[nodiscard]] static std::shared_ptr<const Selection> make(const Dataset& dataset, const DatasetOptions& options,
                                                             std::uint64_t seed, bool eval);

  // A selection in the order given by the program.
  explicit Selection(std::shared_ptr<const GivenOrder> given) noexcept : seed_(0), given_(std::move(given)) {}

  // The number of places in an epoch.
  [[nodiscard]] std::uint64_t size() const noexcept { return given_ ? given_->places() : ids_.size(); }
  // The number of samples in the selection.
  [[nodiscard]] std::uint64_t samples() const noexcept { return given_ ? given_->samples() : ids_.size(); }
  [[nodiscard]] bool is_given() const noexcept { return given_ != nullptr; }
  // Whether the order of that epoch is known: the program has given it, or does not give any.
  [[nodiscard]] bool knows(std::uint64_t epoch) const noexcept { return !given_ || given_->has(epoch); }
  // The number within the selection of the sample at a place. With weights, a sample of share s
  // (its weight over the mean weight) has floor(s) or ceil(s) adjacent places, which are drawn for
  // each epoch. Numbers ascend with the places. REQUIRES: place < size(); knows(epoch).
  [[nodiscard]] std::uint64_t at(std::uint64_t epoch, std::uint64_t place) const noexcept;
  // The id in the dataset of a sample. REQUIRES: number < samples().
  [[nodiscard]] std::uint64_t id(std::uint64_t number) const noexcept { return given_ ? number : ids_[number]; }
  // Of samples with absolute names: the folder that all share, below which their names decide; else empty.
  [[nodiscard]] const std::string& folder() const noexcept { return folder_; }
  // Equal for equal selections.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept;

 private:
  Selection(std::vector<std::uint32_t> ids, const std::vector<double>& weights, std::uint64_t seed);

  // Where the stretches of the first `count` samples end.
  [[nodiscard]] std::uint64_t end_of(std::uint64_t count) const noexcept { return count == 0 ? 0 : ends_[count - 1]; }

  // Shares are counted in units of 2^-kPlaceBits of a place.
  static constexpr int kPlaceBits = 20;

  std::uint64_t seed_;
  std::string folder_ = {};
  std::vector<std::uint32_t> ids_;
  std::shared_ptr<const GivenOrder> given_ = nullptr;
  std::vector<std::uint64_t> ends_;  // cumulative ends of the samples' shares; empty: each has one place
};

}  // namespace forebay
