#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace forebay::ring {

// A range of bytes, relative to the start of a batch.
struct ProbedRange {
  std::size_t begin = 0;
  std::size_t end = 0;  // at least begin + 8
};

// The offsets of `places` words, with the `compared` words of one use adjacent in the list. Each is at random within
// one of equal parts of its range, and those of one use are far apart. With several ranges the first one has half of
// the places; without any, all are the first word. REQUIRES: `places` is a multiple of `compared`.
[[nodiscard]] std::vector<std::size_t> probe_places(std::span<const ProbedRange> ranges, std::uint32_t places,
                                                    std::uint32_t compared, std::uint64_t seed);

// Detects writes to a batch that may be served again. PyTorch has no read-only tensors, so a program can write by
// `images.div_(2)`, or through a pointer that lost its const; the next use would then get the modified batch.
//
// Words at places all over a batch are kept when it is complete, and whenever it is served again kCompared of them,
// different ones each time, are compared. A change that covers the share f of a range is detected at the next use with
// a probability of about 1 - (1 - f)^n, where n is the number of compared words in that range. Bytes that a change
// leaves equal, such as halved zeros, reveal nothing.
template <std::uint32_t kPlaces, std::uint32_t kCompared>
class Probes {
  static_assert((kPlaces & (kPlaces - 1)) == 0 && (kCompared & (kCompared - 1)) == 0);

 public:
  Probes(std::span<const ProbedRange> ranges, std::uint32_t slots, std::uint64_t seed)
      : places_(probe_places(ranges, kPlaces, kCompared, seed)), words_(std::size_t{slots} * kPlaces) {}

  // Keeps words of the batch in the slot. Called before it is published, by any thread that has acquired all of it.
  void keep(std::uint32_t slot, const void* batch) noexcept {
    std::uint64_t* word = words_.data() + std::size_t{slot} * kPlaces;
    for (const std::size_t place : places_) *word++ = word_at(batch, place);
  }
  // Whether the words compared at this use are unchanged. Consumer thread.
  [[nodiscard]] bool are_unchanged(std::uint32_t slot, const void* batch, std::uint64_t use) const noexcept {
    const std::size_t first = (use * kCompared) & (kPlaces - 1);
    const std::size_t* const place = places_.data() + first;
    const std::uint64_t* const word = words_.data() + std::size_t{slot} * kPlaces + first;
    std::uint64_t difference = 0;
    for (std::uint32_t i = 0; i < kCompared; ++i) difference |= word_at(batch, place[i]) ^ word[i];
    return difference == 0;
  }
  // The first of all places that has changed; SIZE_MAX if none has.
  [[nodiscard]] std::size_t changed_at(std::uint32_t slot, const void* batch) const noexcept {
    const std::uint64_t* const words = words_.data() + std::size_t{slot} * kPlaces;
    std::size_t first = SIZE_MAX;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (word_at(batch, places_[i]) != words[i]) first = std::min(first, places_[i]);
    }
    return first;
  }

 private:
  [[nodiscard]] static std::uint64_t word_at(const void* batch, std::size_t place) noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(batch) + place, sizeof(word));
    return word;
  }

  std::vector<std::size_t> places_;
  std::vector<std::uint64_t> words_;  // by slot, as many
};

}  // namespace forebay::ring
