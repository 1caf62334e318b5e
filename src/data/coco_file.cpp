// Parses a COCO file into compact lists with nlohmann's SAX parser, because COCO's own file has
// half a gigabyte, and a tree of JSON values would take many times as much memory.
//
// CocoReader gets one event per bracket, key and value. It tracks the depth and the last key of an
// element, and keeps the few members that matter in `values_` until the element's closing brace,
// when the element is added or refused. The three lists may come in any order, and so may the
// members of an element, so everything that concerns two lists (ids) is left to dataset_coco.cpp.
//
// Wrong elements are reported and left out; only damaged JSON or another kind of file is an error.
// One thread parses, reading the file piece by piece.

#include "coco_file.hpp"

#include <algorithm>
#include <cmath>
#include <forebay/error.hpp>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "class_text.hpp"
#include "coco_segmentation.hpp"
#include "json_bytes.hpp"

namespace forebay::data {
namespace {

// Chosen: COCO's own files are nested five deep, down to the polygons of a segmentation.
constexpr unsigned kDeepestJson = 64;
// No system opens a longer path.
constexpr std::size_t kLongestName = 4096;

// The value of one member of an element.
struct CocoValue {
  enum class Kind : std::uint8_t { absent, whole, real, text, other };

  Kind kind = Kind::absent;
  std::int64_t whole = 0;
  double real = 0;
  std::string text;
};

// Handles the parser's events. The three lists are at depth 2, their elements at depth 3, and boxes
// and segmentations at depth 4; everything else is ignored.
class CocoReader {
 public:
  CocoReader(CocoFile& file, const PiecewiseBytes& bytes, CocoMasks masks) : file_(file), bytes_(bytes) {
    if (masks == CocoMasks::all) segmentation_.emplace();
  }

  // Values that are neither numbers nor texts are mostly ignored, but directly in a list they stand
  // where an object should be.
  bool null() {
    if (depth_ == 2 && is_list_) bad_element();
    return set(CocoValue::Kind::other);
  }
  // "iscrowd": false is common, although the specification says 0 or 1.
  bool boolean(bool value) {
    const bool is_number = depth_ == 2 || (is_in_element(3) && member_ == iscrowd);
    return set(is_number ? CocoValue::Kind::whole : CocoValue::Kind::other, value ? 1 : 0);
  }
  bool number_integer(std::int64_t value) { return set(CocoValue::Kind::whole, value, static_cast<double>(value)); }
  // An id above 2^63 - 1 is kept as a real number, which is then refused as an id with a message of
  // its own.
  bool number_unsigned(std::uint64_t value) {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    const auto real = static_cast<double>(value);
    if (value > kMost) return set(CocoValue::Kind::real, 0, real);
    return set(CocoValue::Kind::whole, static_cast<std::int64_t>(value), real);
  }
  // Some programs write ids as 17.0. Below 1e15 every whole double is exact.
  bool number_float(double value, const std::string& /*text*/) {
    constexpr double kWhole = 1e15;
    const bool is_whole = std::trunc(value) == value && std::fabs(value) < kWhole;
    return set(is_whole ? CocoValue::Kind::whole : CocoValue::Kind::real,
               is_whole ? static_cast<std::int64_t>(value) : 0, value);
  }
  // Texts are cut one byte beyond the limit, so that overlong ones are recognised but not kept.
  bool string(std::string& text) {
    if (is_segmentation_) {
      segmentation_->text(text);
      return true;
    }
    set(CocoValue::Kind::text);
    if (!is_in_element(3)) return true;
    if (is_text(member_)) values_[member_].text = text.substr(0, kLongestName + 1);
    // Some programs write ids in quotes.
    if (const auto number = whole_number_in(text); is_id(member_) && number) set(CocoValue::Kind::whole, *number);
    return true;
  }
  bool binary(std::vector<std::uint8_t>& /*bytes*/) { return true; }

  bool start_object(std::size_t /*size*/) {
    open(false);
    if (depth_ != 3 || list_ == List::none || !is_list_) return true;
    is_element_ = true;
    std::ranges::fill(values_, CocoValue{});
    box_count_ = 0;
    if (segmentation_) segmentation_->begin();
    return true;
  }
  bool end_object() {
    close_segmentation();
    if (depth_ == 3 && is_element_) end_element();
    --depth_;
    return true;
  }
  // The size is not used: for JSON the parser always passes -1.
  bool start_array(std::size_t /*size*/) {
    if (depth_ == 0) {
      throw SampleError(
          "it is a list, such as a file of results is; a COCO file of instances is an object with "
          "\"images\", \"annotations\" and \"categories\"");
    }
    if (depth_ == 2 && is_list_) bad_element();
    open(true);
    if (depth_ == 2) is_list_ = true;
    is_box_ = is_in_element(4) && member_ == box;
    return true;
  }
  bool end_array() {
    is_box_ = false;
    close_segmentation();
    if (depth_ == 2) is_list_ = false;
    --depth_;
    return true;
  }
  // A key of the top-level object selects the list. Keys deeper than elements are ignored, except
  // in a segmentation.
  bool key(std::string& text) {
    if (depth_ == 1) {
      list_ = text == "images"        ? List::images
              : text == "annotations" ? List::annotations
              : text == "categories"  ? List::categories
                                      : List::none;
      number_ = 0;
      file_.has_images = file_.has_images || list_ == List::images;
    } else if (is_segmentation_) {
      segmentation_->key(text);
    } else if (is_in_element(3)) {
      if (text == "segments_info" && list_ == List::annotations) {
        throw SampleError(
            "its annotations have \"segments_info\": it is a file of COCO's panoptic task, whose masks are not read; "
            "use the file of instances");
      }
      const auto known = std::ranges::find(kMembers, std::string_view(text));
      member_ = static_cast<std::size_t>(known - kMembers.begin());
    }
    return true;
  }
  // The library's messages begin with "[json.exception...] ", which users need not see.
  bool parse_error(std::size_t position, const std::string& /*token*/, const nlohmann::json::exception& error) {
    constexpr std::size_t kLongest = 200;
    std::string_view what = error.what();
    what.remove_prefix(std::min(what.find("] ") + 2, what.size()));
    throw SampleError("byte " + std::to_string(position) + ": damaged JSON" +
                      (is_element_ ? ", in " + here() : std::string()) + ": " + printable(what.substr(0, kLongest)));
  }

  [[nodiscard]] std::uint64_t elements() const noexcept { return file_.all_images + file_.all_objects; }

 private:
  enum class List : std::uint8_t { none, images, annotations, categories };
  // In the order of kMembers. kOthers is the index of the value that stands for all other members
  // and is never read.
  enum Member : std::size_t {
    id,
    image_id,
    category_id,
    iscrowd,
    width,
    height,
    file_name,
    coco_url,
    name,
    box,
    segmentation,
    kOthers
  };
  static constexpr std::array<std::string_view, kOthers> kMembers{"id",    "image_id", "category_id", "iscrowd",
                                                                  "width", "height",   "file_name",   "coco_url",
                                                                  "name",  "bbox",     "segmentation"};

  [[nodiscard]] static bool is_id(std::size_t member) noexcept {
    return member == id || member == image_id || member == category_id;
  }
  [[nodiscard]] static bool is_text(std::size_t member) noexcept {
    return member == file_name || member == coco_url || member == name;
  }
  [[nodiscard]] bool is_in_element(unsigned depth) const noexcept { return is_element_ && depth_ == depth; }

  void open(bool is_list) {
    if (!is_segmentation_) set(CocoValue::Kind::other);
    if (++depth_ > kDeepestJson) {
      throw SampleError("byte " + std::to_string(bytes_.passed()) + ": lists and objects are nested more than " +
                        std::to_string(kDeepestJson) + " deep");
    }
    if (segmentation_ && is_in_element(4) && member_ == segmentation && list_ == List::annotations) {
      segmentation_->begin();
      is_segmentation_ = true;
    }
    if (is_segmentation_) segmentation_->open(is_list);
  }

  // Called before the depth is decremented: the segmentation's own brackets are at depth 4.
  void close_segmentation() {
    if (!is_segmentation_) return;
    segmentation_->close();
    if (depth_ == 4) is_segmentation_ = false;
  }

  // Receives every value. Its position in the file decides where it goes: segmentation, bbox, a
  // member, or nowhere.
  bool set(CocoValue::Kind kind, std::int64_t whole = 0, double real = 0) {
    if (is_segmentation_) {
      const bool is_number = kind == CocoValue::Kind::whole || kind == CocoValue::Kind::real;
      if (is_number) {
        segmentation_->number(kind == CocoValue::Kind::whole, real);
      } else if (kind == CocoValue::Kind::other) {
        segmentation_->other();
      }
      return true;
    }
    if (is_box_ && depth_ == 4) {
      const bool is_number = kind == CocoValue::Kind::whole || kind == CocoValue::Kind::real;
      // A fifth element, or one that is not a number, makes the box invalid.
      if (is_number && box_count_ < box_.size()) box_[box_count_] = real;
      box_count_ += is_number ? 1 : box_.size() + 1;
    } else if (is_in_element(3)) {
      CocoValue& value = values_[std::min<std::size_t>(member_, kOthers)];
      value.kind = kind;
      value.whole = whole;
      value.real = real;
      if (member_ == box) box_count_ = 0;  // even if a repeated bbox is not a list
    } else if (depth_ == 2 && is_list_ && kind != CocoValue::Kind::other) {
      bad_element();
    }
    return true;
  }

  // Reports an element that is not an object.
  void bad_element() {
    if (list_ == List::none) return;
    count_element();
    file_.add_bad(CocoFile::name_of(kind(), {.number = number_++}), "it is no object");
  }
  void count_element() {
    if (number_ == std::numeric_limits<std::uint32_t>::max()) throw SampleError("it has more than 2^32 - 1 elements");
    file_.all_images += list_ == List::images ? 1 : 0;
    file_.all_objects += list_ == List::annotations ? 1 : 0;
  }

  [[nodiscard]] const char* kind() const noexcept {
    return list_ == List::images ? "image" : list_ == List::annotations ? "annotation" : "category";
  }
  [[nodiscard]] CocoFile::Place place() const noexcept {
    return {.id = values_[id].whole, .number = number_, .has_id = values_[id].kind == CocoValue::Kind::whole};
  }
  [[nodiscard]] std::string here() const { return CocoFile::name_of(kind(), place()); }

  void end_element() {
    is_element_ = false;
    count_element();
    std::string problem = list_ == List::images        ? add_image()
                          : list_ == List::annotations ? add_object()
                                                       : add_category();
    if (!problem.empty()) file_.add_bad(here(), std::move(problem));
    ++number_;
  }

  // What is wrong with a member that must be a whole number or a text; "" if nothing is. A missing
  // member and one of the wrong type are different mistakes, so they have different messages.
  [[nodiscard]] std::string problem_of(Member member, CocoValue::Kind wanted) const {
    const CocoValue& value = values_[member];
    const std::string member_name(kMembers[member]);
    if (value.kind == wanted) return {};
    if (value.kind == CocoValue::Kind::absent) return "it has no " + member_name;
    constexpr double kBeyond = 9e15;  // about 2^53: a larger double may differ from the number in the file
    if (value.kind == CocoValue::Kind::real && std::fabs(value.real) > kBeyond) {
      return member_name + " is " + shortest(value.real) + ", which does not fit into 64 bits or is no exact number";
    }
    return member_name + (wanted == CocoValue::Kind::whole ? " is no whole number" : " is no text");
  }

  // The width or height of an image; 0 if it is not stated.
  [[nodiscard]] std::int32_t side(Member member) const noexcept {
    const CocoValue& value = values_[member];
    const bool is_side = value.kind == CocoValue::Kind::whole && value.whole > 0 &&
                         value.whole <= std::numeric_limits<std::int32_t>::max();
    return is_side ? static_cast<std::int32_t>(value.whole) : 0;
  }

  // LVIS names its images only by coco_url, whose last two parts are folder and file ("train2017/000000000009.jpg").
  [[nodiscard]] static std::string last_two_parts(std::string_view url) {
    const std::size_t last = url.rfind('/');
    if (last == std::string_view::npos || last == 0) return std::string(url);
    const std::size_t before = url.rfind('/', last - 1);
    return std::string(url.substr(before == std::string_view::npos ? 0 : before + 1));
  }

  // Each of these three functions adds the element and returns "", or returns what is wrong with
  // it.
  std::string add_image() {
    if (auto problem = problem_of(id, CocoValue::Kind::whole); !problem.empty()) return problem;
    std::string& path = values_[file_name].text;
    if (values_[file_name].kind == CocoValue::Kind::absent && values_[coco_url].kind == CocoValue::Kind::text) {
      path = last_two_parts(values_[coco_url].text);
    } else if (auto problem = problem_of(file_name, CocoValue::Kind::text); !problem.empty()) {
      return problem;
    }
    // Tools on Windows write backslashes; elsewhere a name may hold one, but hardly without a slash in the file.
    if (path.find('/') == std::string::npos) std::ranges::replace(path, '\\', '/');
    if (path.empty()) return "file_name is empty";
    if (path.size() > kLongestName) return "file_name is longer than any path";
    if (path.find('\0') != std::string::npos) return "file_name holds a NUL";
    file_.images.push_back({.place = place(),
                            .path = static_cast<std::uint32_t>(file_.paths.size()),
                            .width = side(width),
                            .height = side(height)});
    file_.paths.add(path);
    return {};
  }
  // An object without an id is accepted, because object ids are used only in messages and to find
  // duplicates.
  std::string add_object() {
    for (const Member member : {image_id, category_id}) {
      if (auto problem = problem_of(member, CocoValue::Kind::whole); !problem.empty()) return problem;
    }
    if (values_[iscrowd].kind != CocoValue::Kind::absent) {
      if (auto problem = problem_of(iscrowd, CocoValue::Kind::whole); !problem.empty()) return problem;
    }
    if (values_[box].kind == CocoValue::Kind::absent) return "it has no bbox";
    if (box_count_ != box_.size()) return "bbox is no list of four numbers";
    if (segmentation_) {
      if (std::string problem = segmentation_->problem(); !problem.empty()) return problem;
      const std::vector<std::byte>& shapes = segmentation_->shapes();
      file_.shapes_of.push_back({.begin = file_.shapes.size(), .bytes = static_cast<std::uint32_t>(shapes.size())});
      file_.shapes.insert(file_.shapes.end(), shapes.begin(), shapes.end());
      file_.slivers = segmentation_->slivers();
    }
    file_.objects.push_back({.place = place(),
                             .is_crowd = values_[iscrowd].whole != 0,
                             .image = values_[image_id].whole,
                             .category = values_[category_id].whole,
                             .box = box_});
    return {};
  }
  std::string add_category() {
    if (auto problem = problem_of(id, CocoValue::Kind::whole); !problem.empty()) return problem;
    if (auto problem = problem_of(name, CocoValue::Kind::text); !problem.empty()) return problem;
    if (values_[name].text.empty()) return "name is empty";
    if (values_[name].text.size() > kLongestName) {
      return "name is longer than " + std::to_string(kLongestName) + " bytes";
    }
    file_.categories.push_back({.place = place(), .name = values_[name].text});
    return {};
  }

  CocoFile& file_;
  const PiecewiseBytes& bytes_;
  unsigned depth_ = 0;
  List list_ = List::none;
  bool is_list_ = false;     // within the array of `list_`
  bool is_element_ = false;  // within one of its elements
  bool is_box_ = false;      // within the element's bbox
  std::uint32_t number_ = 0;
  std::size_t member_ = kOthers;                 // the last key of an element
  std::array<CocoValue, kOthers + 1> values_{};  // by member; the last one stands for all others
  std::array<double, 4> box_{};
  std::size_t box_count_ = 0;
  std::optional<CocoSegmentation> segmentation_;  // if masks are wanted
  bool is_segmentation_ = false;                  // within a segmentation
};

}  // namespace

void CocoFile::add_bad(std::string where, std::string reason) {
  if (bad.size() < kBadNamed) {
    bad.push_back({.where = std::move(where), .reason = std::move(reason)});
  } else {
    ++more_bad;
  }
}

// By id if there is one, because the user can search the file for it; otherwise by position in its
// list.
std::string CocoFile::name_of(const char* kind, const Place& place) {
  if (place.has_id) return std::string(kind) + " " + std::to_string(place.id);
  const std::string_view list = std::string_view(kind) == "category" ? "categories" : kind;
  return std::string(list) + (list == "categories" ? "[" : "s[") + std::to_string(place.number) + "]";
}

CocoFile read_coco(const OpenFile& file, const std::function<void(std::uint64_t elements, double share)>& progress,
                   CocoMasks masks) {
  CocoFile coco;
  PiecewiseBytes bytes(file, [&](double share) { progress(coco.all_images + coco.all_objects, share); });
  CocoReader reader(coco, bytes, masks);
  (void)nlohmann::json::sax_parse(ByteIterator{&bytes}, ByteIterator{}, &reader);
  if (!coco.has_images) {
    throw SampleError(R"(it has no "images"; a COCO file of instances has "images", "annotations" and "categories")");
  }
  progress(coco.all_images + coco.all_objects, 1);
  return coco;
}

}  // namespace forebay::data
