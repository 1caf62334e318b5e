// Parses a YOLO label file. Each line has a class and a box (center x, center y, width, height), or
// the points of a polygon, or a box and keypoints, all as fractions of the image's width and
// height.
//
// These look alike: five numbers are a box; an odd count from 7 on is a polygon, unless kpt_shape
// says that keypoints follow a box. Anything else is refused. The first wrong line makes the whole
// file unusable, because an image with half of its labels would teach the network that the other
// objects are background.

#include "yolo_labels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <span>

#include "base/text.hpp"

namespace forebay::data {
namespace {

// How far beyond the image a coordinate may be, for rounding, as in ultralytics.
constexpr double kTolerance = 0.01;
// Chosen, as for lists of names; a larger number is a mistake such as a confidence or an id.
constexpr std::int32_t kMostYoloClasses = 65536;
// The class and 10,000 points. Chosen.
constexpr std::size_t kMostNumbers = 20001;

std::string shown_word(std::string_view word) {
  constexpr std::size_t kLongest = 40;
  return "\"" + printable(word.substr(0, kLongest)) + (word.size() > kLongest ? "...\"" : "\"");
}

// Parses the numbers of a line, or sets `problem`. parse_number() does not depend on the locale,
// but accepts no '+'.
void read_numbers(std::string_view line, std::vector<double>& numbers, std::string& problem) {
  constexpr std::string_view kBlanks = " \t\v\f";
  numbers.clear();
  for (auto at = line.find_first_not_of(kBlanks); at != std::string_view::npos;
       at = line.find_first_not_of(kBlanks, at)) {
    const auto end = std::min(line.find_first_of(kBlanks, at), line.size());
    std::string_view word = line.substr(at, end - at);
    at = end;
    const std::string_view digits = word.starts_with('+') ? word.substr(1) : word;
    const auto number = parse_number<double>(digits);
    if (!number || !std::isfinite(*number)) {
      problem = shown_word(word) + " is not a number";
      return;
    }
    if (numbers.size() == kMostNumbers) {
      problem = "more than " + std::to_string(kMostNumbers) + " numbers";
      return;
    }
    numbers.push_back(*number);
  }
}

std::string problem_of_class(double number, const YoloRules& rules) {
  if (number != std::floor(number) || number < 0 || number >= kMostYoloClasses) {
    return "the class " + shortest(number) + " is no whole number from 0";
  }
  if (rules.classes == 0 || number < static_cast<double>(rules.classes)) return {};
  return "the class " + shortest(number) + " is not below " + std::to_string(rules.classes) + ", the number of classes";
}

std::string problem_of_shares(std::span<const double> shares) {
  for (const double share : shares) {
    if (share >= -kTolerance && share <= 1 + kTolerance) continue;
    return shortest(share) + " is not between 0 and 1: coordinates are shares of the image's width and height";
  }
  return {};
}

// What is wrong with a line of so many numbers; "" if nothing. Lines of six are usually
// predictions, with a confidence at the end.
std::string problem_of_count(std::size_t count, const YoloRules& rules) {
  const std::string said = std::to_string(count) + " numbers";
  if (rules.keypoint_numbers > 0) {
    return count == 5 + rules.keypoint_numbers ? ""
                                               : said + ", but kpt_shape asks for a class, a box and " +
                                                     std::to_string(rules.keypoint_numbers) + " numbers of keypoints";
  }
  if (count == 5 || (count >= 7 && count % 2 == 1)) return {};
  if (count == 6) return said + ": a class and a box are 5; if the last is a confidence, these are predictions";
  return said + ": neither a class and a box (5) nor a class and the points of a polygon (7, 9, ...); " +
         "lines with keypoints need kpt_shape in data.yaml";
}

BoxSides sides_of_centred(std::span<const double> box) {
  return {box[0] - box[2] / 2, box[1] - box[3] / 2, box[0] + box[2] / 2, box[1] + box[3] / 2};
}

BoxSides extent_of_points(std::span<const double> points) {
  BoxSides sides{points[0], points[1], points[0], points[1]};
  for (std::size_t i = 0; i + 1 < points.size(); i += 2) {
    sides = {std::min(sides[0], points[i]), std::min(sides[1], points[i + 1]), std::max(sides[2], points[i]),
             std::max(sides[3], points[i + 1])};
  }
  return sides;
}

// Whether the numbers of a polygon could also be a box and two or more points in it.
// Keypoints that are not visible are 0 0 in these files.
bool may_be_box_and_points(std::span<const double> numbers) {
  const BoxSides box = sides_of_centred(numbers);
  if (numbers[2] <= 0 || numbers[3] <= 0) return false;
  for (std::size_t i = 4; i + 1 < numbers.size(); i += 2) {
    const double x = numbers[i];
    const double y = numbers[i + 1];
    const bool is_unseen = x == 0 && y == 0;
    if (!is_unseen && (x < box[0] || x > box[2] || y < box[1] || y > box[3])) return false;
  }
  return true;
}

// What identifies a line. ultralytics compares lines in the same way to find duplicates.
using YoloKey = std::array<float, 5>;

// Floats, because ultralytics compares lines as rows of float32.
YoloKey key_of(const YoloObject& object) {
  const auto [left, top, right, bottom] = object.sides;
  return {static_cast<float>(object.number), static_cast<float>(left), static_cast<float>(top),
          static_cast<float>(right), static_cast<float>(bottom)};
}

}  // namespace

// Empty lines only count for line numbers. "\r\n" is one line break.
YoloLabels parse_yolo_labels(std::string_view text, const YoloRules& rules) {
  YoloLabels labels;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<double> numbers;
  std::set<YoloKey> seen;
  bool are_all_keypoints = true;
  for (std::uint32_t line = 1; !text.empty(); ++line) {
    const auto end = std::min(text.find_first_of("\r\n"), text.size());
    const std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + (text.substr(end).starts_with("\r\n") ? 2 : 1), text.size()));
    if (without_blanks(row).empty()) continue;

    std::string problem;
    read_numbers(row, numbers, problem);
    if (problem.empty()) problem = problem_of_count(numbers.size(), rules);
    if (problem.empty()) problem = problem_of_class(numbers[0], rules);
    const bool is_polygon = rules.keypoint_numbers == 0 && numbers.size() > 5;
    const auto geometry = std::span<const double>(numbers).subspan(std::min<std::size_t>(1, numbers.size()));
    if (problem.empty()) problem = problem_of_shares(is_polygon ? geometry : geometry.first(4));
    if (!problem.empty()) {
      labels.problem = "line " + std::to_string(line) + ": " + problem;
      labels.objects.clear();
      return labels;
    }
    const YoloObject object{static_cast<std::int32_t>(numbers[0]), line,
                            is_polygon ? extent_of_points(geometry) : sides_of_centred(geometry)};
    if (is_polygon) {
      labels.has_polygons = true;
      are_all_keypoints = are_all_keypoints && may_be_box_and_points(geometry);
    }
    if (seen.insert(key_of(object)).second) {
      labels.objects.push_back(object);
    } else {
      ++labels.duplicates;
    }
  }
  labels.may_be_keypoints = labels.has_polygons && are_all_keypoints;
  return labels;
}

}  // namespace forebay::data
