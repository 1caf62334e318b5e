#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coco_file.hpp"

namespace forebay::data {

inline constexpr std::uint32_t kNoElement = UINT32_MAX;

// Looks up the elements of a list in a COCO file by id.
class CocoIds {
 public:
  template <typename Element>
  explicit CocoIds(const std::vector<Element>& elements) {
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (elements[i].place.has_id) ids_.emplace_back(elements[i].place.id, static_cast<std::uint32_t>(i));
    }
    std::ranges::sort(ids_);
  }
  // The first element with this id, or kNoElement.
  [[nodiscard]] std::uint32_t find(std::int64_t id) const noexcept {
    const auto found = std::ranges::lower_bound(ids_, std::pair{id, std::uint32_t{0}});
    return found == ids_.end() || found->first != id ? kNoElement : found->second;
  }
  // Whether several elements have this id.
  [[nodiscard]] bool is_shared(std::int64_t id) const noexcept {
    const auto found = std::ranges::lower_bound(ids_, std::pair{id, std::uint32_t{0}});
    return ids_.end() - found >= 2 && found[0].first == id && found[1].first == id;
  }

 private:
  std::vector<std::pair<std::int64_t, std::uint32_t>> ids_;
};

// The classes of the objects in a COCO file, and the class of each category. If categories share a name, the one that
// has objects is the class, or the last if none has: Roboflow exports a top-level category without objects, which may
// have the same name as another.
class CocoClasses {
 public:
  // `given`: dataset.classes. Several categories that share a name and have objects are one class if `given` contains
  // the name. Throws SampleError if it does not, or if an id occurs twice: the classes of objects would be ambiguous.
  CocoClasses(const CocoFile& coco, const std::vector<std::string>& given);

  // Index into the list of categories; kNoElement if none has the id.
  [[nodiscard]] std::uint32_t category(std::int64_t id) const noexcept { return ids_.find(id); }
  // The class of a category, or -1 if dataset.classes leaves it out.
  [[nodiscard]] std::int32_t number_of(std::uint32_t category) const noexcept { return numbers_[category]; }
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }

 private:
  // The category that stands for each name.
  [[nodiscard]] std::map<std::string_view, std::uint32_t> by_name(const CocoFile& coco,
                                                                  const std::vector<std::string>& given) const;

  CocoIds ids_;
  std::vector<std::string> names_;
  std::vector<std::int32_t> numbers_;  // by category
};

}  // namespace forebay::data
