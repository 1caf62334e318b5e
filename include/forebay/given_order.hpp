#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace forebay {

// The order of each epoch as the program says it, such as that of another library's sampler: the sample at each place.
// Nothing of an epoch is read before its order is there. Of one feeder: another one needs another order.
class GivenOrder {
 public:
  // Of a dataset of so many samples; every epoch has `places`, at which a sample may be several times or never.
  GivenOrder(std::uint64_t samples, std::uint64_t places) noexcept : samples_(samples), places_(places) {}

  [[nodiscard]] std::uint64_t samples() const noexcept { return samples_; }
  [[nodiscard]] std::uint64_t places() const noexcept { return places_; }

  // Once, when the epoch before has ended and before next_epoch() begins this one, on the thread that calls it. The
  // order of the epoch before last is forgotten. Throws ConfigError for another number of places, and for a sample that
  // the dataset does not have; Error where the order of that epoch is there.
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
  // The epochs of which ids_ are the orders. Release in give() pairs with acquire in has(): who sees the epoch sees
  // ids_.
  std::array<std::atomic<std::uint64_t>, 2> held_{UINT64_MAX, UINT64_MAX};
  std::array<std::vector<std::uint32_t>, 2> ids_;
};

// What a dataset is besides, if its epochs have such an order. It is for one rank.
class InGivenOrder {
 public:
  virtual ~InGivenOrder() = default;
  // Null: dataset.shuffle decides.
  [[nodiscard]] virtual std::shared_ptr<const GivenOrder> given_order() const noexcept = 0;
};

}  // namespace forebay
