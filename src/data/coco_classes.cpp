#include "coco_classes.hpp"

#include <forebay/error.hpp>
#include <numeric>

#include "build.hpp"

namespace forebay::data {
namespace {

// For each category, whether it has objects.
std::vector<bool> used_categories(const CocoFile& coco, const CocoIds& ids) {
  std::vector<bool> are_used(coco.categories.size());
  for (const CocoFile::Object& object : coco.objects) {
    const std::uint32_t category = ids.find(object.category);
    if (category != kNoElement) are_used[category] = true;
  }
  return are_used;
}

std::vector<std::uint32_t> in_order_of_ids(const CocoFile& coco, std::vector<std::uint32_t> categories) {
  std::ranges::stable_sort(categories, {}, [&](std::uint32_t i) { return coco.categories[i].place.id; });
  return categories;
}

}  // namespace

// Classes are in the order of category ids, as in other programs, and are numbered from 0 without
// the gaps that COCO's ids have.
CocoClasses::CocoClasses(const CocoFile& coco, const std::vector<std::string>& given) : ids_(coco.categories) {
  std::vector<std::uint32_t> standing;
  for (const auto& [name, category] : by_name(coco, given)) standing.push_back(category);
  for (const std::uint32_t category : in_order_of_ids(coco, std::move(standing))) {
    names_.push_back(coco.categories[category].name);
  }
  std::map<std::string_view, std::int32_t> numbers;
  for (std::size_t i = 0; i < names_.size(); ++i) numbers[names_[i]] = static_cast<std::int32_t>(i);
  const ClassList classes(given, names_);
  for (const auto& [place, name] : coco.categories) {
    numbers_.push_back(given.empty() ? numbers.at(name) : classes.number_of(name));
  }
  if (!given.empty()) names_ = given;
}

// Goes through the categories by id, so that the result does not depend on their order in the file.
std::map<std::string_view, std::uint32_t> CocoClasses::by_name(const CocoFile& coco,
                                                               const std::vector<std::string>& given) const {
  std::vector<std::uint32_t> all(coco.categories.size());
  std::iota(all.begin(), all.end(), 0U);
  const std::vector<bool> are_used = used_categories(coco, ids_);
  std::map<std::string_view, std::uint32_t> named;
  for (const std::uint32_t i : in_order_of_ids(coco, std::move(all))) {
    const auto& [place, name] = coco.categories[i];
    if (ids_.find(place.id) != i) throw SampleError("two categories have the id " + std::to_string(place.id));
    const auto [same, is_new] = named.emplace(name, i);
    if (is_new) continue;
    if (are_used[i] && are_used[same->second] && std::ranges::find(given, name) == given.end()) {
      throw SampleError("the categories " + std::to_string(coco.categories[same->second].place.id) + " and " +
                        std::to_string(place.id) + " are both called \"" + name + "\" and both have objects; rename " +
                        "one of them in the file, or name the classes in dataset.classes, which makes them one");
    }
    if (are_used[i] || !are_used[same->second]) same->second = i;
  }
  return named;
}

}  // namespace forebay::data
