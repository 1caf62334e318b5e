#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.hpp"
#include "scan.hpp"

// Classification by names alone.
namespace forebay::data {
namespace {

bool ends_with_ignoring_case(std::string_view text, std::string_view lower_case) noexcept {
  return text.size() >= lower_case.size() &&
         equals_ignoring_case(text.substr(text.size() - lower_case.size()), lower_case);
}

// Splits a list of file name extensions at compile time. It is the text shown in messages, so that
// what is documented and what is accepted cannot differ.
template <const std::string_view& kEndings>
consteval auto one_by_one() {
  constexpr std::string_view kSeparator = ", ";
  constexpr auto kCount = static_cast<std::size_t>(std::ranges::count(kEndings, ',')) + 1;
  std::array<std::string_view, kCount> endings;
  std::string_view rest = kEndings;
  for (auto& ending : endings) {
    const auto end = std::min(rest.find(kSeparator), rest.size());
    ending = rest.substr(0, end);
    rest.remove_prefix(std::min(end + kSeparator.size(), rest.size()));
  }
  return endings;
}

template <const std::string_view& kEndings>
bool has_ending_of(std::string_view name) noexcept {
  static constexpr auto kEach = one_by_one<kEndings>();
  return std::any_of(kEach.begin(), kEach.end(),
                     [&](std::string_view ending) { return ends_with_ignoring_case(name, ending); });
}

// What made such a folder; "" for any other.
std::string_view maker_of_stray(std::string_view name) noexcept {
  if (name.starts_with('_') && name.ends_with("MACOSX")) return "macOS";
  if (name == "@eaDir" || name == "#recycle" || name == "#snapshot") return "a network storage";
  if (name == "$RECYCLE.BIN" || name == "System Volume Information") return "Windows";
  return name == "lost+found" ? "a file system" : "";
}

}  // namespace

bool is_jpeg_name(std::string_view name) noexcept {
  return ends_with_ignoring_case(name, ".jpg") || ends_with_ignoring_case(name, ".jpeg") ||
         ends_with_ignoring_case(name, ".jpe") || ends_with_ignoring_case(name, ".jfif");
}

// JPEG first: nearly every name of a scan is one.
bool is_image_name(std::string_view name) noexcept {
  return is_jpeg_name(name) || has_ending_of<kOtherImageEndings>(name);
}

bool is_unread_image_name(std::string_view name) noexcept {
  static constexpr std::string_view kUnread = ".gif, .avif, .heic, .heif, .jxl, .jp2, .tga";
  return has_ending_of<kUnread>(name);
}

bool is_video_name(std::string_view name) noexcept { return has_ending_of<kVideoEndings>(name); }

bool is_annotation_name(std::string_view name) noexcept { return ends_with_ignoring_case(name, ".xml"); }

bool is_annotations_folder(std::string_view name) noexcept {
  constexpr std::string_view kName = "annotations";
  return name.size() == kName.size() && ends_with_ignoring_case(name, kName);
}

bool may_hold_annotations(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 8> kNames{"annotations", "annotation", "annots", "annot",
                                                   "labels",      "label",      "xml",    "xmls"};
  return std::any_of(kNames.begin(), kNames.end(), [&](std::string_view known) {
    return name.size() == known.size() && ends_with_ignoring_case(name, known);
  });
}

bool is_stray(std::string_view name) noexcept { return !maker_of_stray(name).empty(); }

Skipped stray_folder(const std::string& path) {
  return {path, std::string("a folder that ").append(maker_of_stray(base_name(path))).append(" made, left out"), false};
}

std::string_view first_component(std::string_view path) noexcept { return path.substr(0, path.find('/')); }

// rfind() gives npos where there is no '/', and npos + 1 is 0: the whole name.
std::string_view base_name(std::string_view path) noexcept { return path.substr(path.rfind('/') + 1); }

std::string_view parent_folder(std::string_view path) noexcept {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view{} : path.substr(0, slash);
}

// A name without a dot is its own stem, since substr(0, npos) is all of it.
std::string_view stem_of(std::string_view path) noexcept {
  const auto name = base_name(path);
  return name.substr(0, name.rfind('.'));
}

std::string_view without_extension(std::string_view path) noexcept {
  return path.substr(0, path.size() - base_name(path).size() + stem_of(path).size());
}

std::string join_path(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty() && !path.ends_with('/')) path += '/';
  return path.append(name);
}

std::string_view common_folder(std::span<const std::string> paths) noexcept {
  std::string_view common = paths.front();
  for (const std::string_view path : paths) {
    const auto [end, other] = std::ranges::mismatch(common, path);
    common = common.substr(0, static_cast<std::size_t>(end - common.begin()));
  }
  return common.substr(0, common.rfind('/') + 1);
}

}  // namespace forebay::data
