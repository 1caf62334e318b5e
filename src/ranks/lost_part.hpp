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

// A class, or the samples in one folder or container file, of which hardly anything can be served.
struct LostPart {
  std::string what;                  // "26 of the 50 samples of class \"b\" are bad"
  std::vector<std::uint64_t> first;  // a few of its bad samples
};

// Tells bad samples here and there from a part of the dataset that is gone: a disk that is not mounted, a shard that
// was copied halfway. A part is lost when more than half of it is bad, 10 samples at least, or all of it, 3 at least:
// fewer would be chance in a dataset of many small classes (docs/decisions/0026-bad-samples-have-a-limit.md). Used by
// one thread; the same for equal datasets and samples.
class LostParts {
 public:
  static constexpr std::uint64_t kLeast = 3;
  static constexpr std::uint64_t kLeastForHalf = 10;

  // The dataset must outlive it. `selection`: what a run serves of it; null: all.
  explicit LostParts(const Dataset& dataset, std::shared_ptr<const Selection> selection = nullptr) noexcept
      : dataset_(dataset), selection_(std::move(selection)) {}

  // A lost part, a class rather than a place; nothing if there is none. Looks at samples until as many whole ones are
  // found as show that a part is not lost: few, unless one is. Throws what the dataset throws.
  [[nodiscard]] std::optional<LostPart> find(const std::unordered_set<std::uint64_t>& bad);

  // A container file that the index could read no more than half of, compared with the mean of its files; nothing if
  // there is none. Of the entries that the index left out, so without samples to name.
  [[nodiscard]] std::optional<std::string> unreadable_file() const;

  // Both for a command: throws Error, with an example and what to do, if there is one.
  void refuse(const std::unordered_set<std::uint64_t>& bad);

  // The classes with the most of them: `3 of class "b", 1 of class "a"`; empty if they have no classes.
  [[nodiscard]] std::string by_class(const std::unordered_set<std::uint64_t>& bad) const;

 private:
  // A class and no place, or a place: a folder, or a container file.
  using Part = std::pair<std::int64_t, std::string>;
  struct Members {
    std::vector<std::uint64_t> bad;
    std::uint64_t whole = 0;  // found so far
  };
  [[nodiscard]] std::map<Part, Members> suspects(const std::unordered_set<std::uint64_t>& bad) const;
  void clear(std::map<Part, Members>& suspects, const std::unordered_set<std::uint64_t>& bad) const;
  [[nodiscard]] std::string title(const Part& part) const;

  const Dataset& dataset_;
  std::shared_ptr<const Selection> selection_;
  std::map<Part, std::size_t> cleared_;  // with so many bad samples
};

}  // namespace forebay::ranks
