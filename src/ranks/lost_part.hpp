#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <forebay/dataset.hpp>

#include "order/selection.hpp"

namespace forebay::ranks {

// A class, or the samples in one folder or container file, that can hardly be served at all.
struct LostPart {
  std::string what;                  // "26 of the 50 samples of class \"b\" are bad"
  std::vector<std::uint64_t> first;  // a few of its bad samples
};

// Distinguishes scattered bad samples from a missing part of the dataset: a disk that is not mounted, a shard that was
// only partly copied. A part is lost if more than half of it and at least 10 samples are bad, or all of it and at least
// 3: fewer could be chance in a dataset of many small classes (docs/decisions/0026-bad-samples-have-a-limit.md). Used
// by one thread; deterministic for equal datasets and samples.
class LostParts {
 public:
  static constexpr std::uint64_t kLeast = 3;
  static constexpr std::uint64_t kLeastForHalf = 10;

  // The dataset must outlive it. `selection`: the part of it that a run serves; null: all.
  explicit LostParts(const Dataset& dataset, std::shared_ptr<const Selection> selection = nullptr) noexcept
      : dataset_(dataset), selection_(std::move(selection)) {}

  // A lost part, preferably a class rather than a place; nothing if there is none. Examines samples until it finds
  // enough good ones to rule each part out: few, unless one is lost. Throws what the dataset throws.
  [[nodiscard]] std::optional<LostPart> find(const std::unordered_set<std::uint64_t>& bad);

  // A container file of which the index could read at most half, compared with the mean of its files; nothing if there
  // is none. It is found from the entries that the index left out, so there are no samples to name.
  [[nodiscard]] std::optional<std::string> unreadable_file() const;

  // Applies both checks for a command: throws Error, with an example and advice, if either finds something.
  void refuse(const std::unordered_set<std::uint64_t>& bad);

  // The classes with the most of them: `3 of class "b", 1 of class "a"`; empty if they have no classes.
  [[nodiscard]] std::string by_class(const std::unordered_set<std::uint64_t>& bad) const;

 private:
  // A class and no place, or a place: a folder, or a container file.
  using Part = std::pair<std::int64_t, std::string>;
  struct Members {
    std::vector<std::uint64_t> bad;
    std::uint64_t whole = 0;  // good samples found so far
  };
  [[nodiscard]] std::map<Part, Members> suspects(const std::unordered_set<std::uint64_t>& bad) const;
  void clear(std::map<Part, Members>& suspects, const std::unordered_set<std::uint64_t>& bad) const;
  // -1 also for a label that is no class, as damaged samples may have.
  [[nodiscard]] std::int64_t class_of(std::uint64_t id) const;
  [[nodiscard]] std::string title(const Part& part) const;

  const Dataset& dataset_;
  std::shared_ptr<const Selection> selection_;
  std::map<Part, std::size_t> cleared_;  // at this number of bad samples
};

}  // namespace forebay::ranks
