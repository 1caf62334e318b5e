#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace forebay {

// The order of each epoch as given by the program, for example by another library's sampler: the sample at each place.
// Nothing of an epoch is read before its order has been given. Each feeder needs its own object.
class GivenOrder {
 public:
  // For a dataset of `samples` samples. Every epoch has `places` places, at which a sample may occur any number of
  // times.
  GivenOrder(std::uint64_t samples, std::uint64_t places) noexcept : samples_(samples), places_(places) {}

  [[nodiscard]] std::uint64_t samples() const noexcept { return samples_; }
  [[nodiscard]] std::uint64_t places() const noexcept { return places_; }

  // Called once per epoch, after the previous one has ended and before next_epoch() begins this one, on the same
  // thread. Discards the order of the epoch before last. Throws ConfigError for a wrong number of places or a sample
  // that the dataset does not have, and Error if the order of that epoch was already given.
  void give(std::uint64_t epoch, std::vector<std::uint32_t> ids);
  [[nodiscard]] bool has(std::uint64_t epoch) const noexcept {
    return held_[epoch % 2].load(std::memory_order_acquire) == epoch;
  }
  // REQUIRES: has(epoch), and place < places().
  [[nodiscard]] std::uint64_t at(std::uint64_t epoch, std::uint64_t place) const noexcept {
    return ids_[epoch % 2][place];
  }

 private:
  std::uint64_t samples_;
  std::uint64_t places_;
  // The epochs whose orders are in ids_. Release in give() pairs with acquire in has(): a thread that sees the epoch
  // sees ids_.
  std::array<std::atomic<std::uint64_t>, 2> held_{UINT64_MAX, UINT64_MAX};
  std::array<std::vector<std::uint32_t>, 2> ids_;
};

// A second base class for a dataset whose epochs have a given order. For a single rank only.
class InGivenOrder {
 public:
  virtual ~InGivenOrder() = default;
  // Null: the order follows from dataset.shuffle.
  [[nodiscard]] virtual std::shared_ptr<const GivenOrder> given_order() const noexcept = 0;
};

}  // namespace forebay
