#include "list.hpp"

#include <algorithm>
#include <filesystem>
#include <forebay/error.hpp>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "folder_roles.hpp"
#include "store/url.hpp"

namespace forebay::data {
namespace {

namespace fs = std::filesystem;

// Whether the second column only numbers the lines, as in ILSVRC's lists.
bool are_line_numbers(const std::vector<ListRecord>& records) {
  std::size_t number = 0;
  return std::ranges::all_of(records,
                             [&](const ListRecord& record) { return record.second == std::to_string(++number); });
}

// Whether the second column is -1, 0 or 1, perhaps after blanks, as in VOC's lists of a single
// class.
bool says_whether_shown(const ListRecord& record) {
  std::string_view text = record.second;
  while (text.starts_with(' ')) text.remove_prefix(1);
  return text == "-1" || text == "0" || text == "1" || text == "+1";
}

// The existing folder of a list's images, relative to `root`; "" if there is none. VOC has
// ImageSets/Main/train.txt and JPEGImages, ILSVRC has ImageSets/CLS-LOC/train_cls.txt and
// Data/CLS-LOC/train.
std::string folder_of_images(const fs::path& root, const std::string& kind, const std::string& list) {
  const std::string split = list.substr(0, list.find('_'));
  for (const std::string& folder :
       {std::string("JPEGImages"), std::string("Data/").append(kind).append("/").append(split), "Data/" + kind}) {
    std::error_code error;
    if (fs::is_directory(root / folder, error)) return folder;
  }
  return {};
}

}  // namespace

// Lists of VOC and ILSVRC name images without folder and extension, so the tree of images is listed
// once and the names are looked up in it, JPEG files first. VOC's lists per class ("dog_train.txt")
// have a second column that is not a class, and are refused.
std::string resolve_split_list(const BuildContext& context, std::vector<ListRecord>& records,
                               std::deque<std::string>& texts, SkipLog& skipped) {
  if (store::is_url(context.options.path)) return {};
  const fs::path file = fs::path(absolute_path(context.options.path)).lexically_normal();
  const bool names_files =
      std::ranges::any_of(records, [](const ListRecord& record) { return is_picture_name(record.first); });
  if (!is_split_list(file.string()) || names_files || records.empty()) return {};
  const fs::path root = file.parent_path().parent_path().parent_path();
  const std::string kind = file.parent_path().filename().string();
  const std::string images = folder_of_images(root, kind, file.stem().string());
  if (images.empty()) {
    throw path_error(context.options, "a list of images without folder and extension, whose images should be in " +
                                          (root / "JPEGImages").string() + ", which is not there");
  }
  const bool has_column = std::ranges::any_of(records, &ListRecord::has_second);
  if (has_column && !are_line_numbers(records)) {
    const bool is_one_class = std::ranges::all_of(records, says_whether_shown);
    throw path_error(context.options,
                     std::string(is_one_class ? "says of each image whether it shows one class (1), does not (-1) or "
                                                "only a difficult one (0)"
                                              : "has a second column, which is no class of an image") +
                         ". The list of a split has one column: name that one (" +
                         (file.parent_path() / "train.txt").string() +
                         "), or write a list JPEGImages/x.jpg,LABEL of your own (docs/recipes.md)");
  }
  const Scan scan = scan_tree((root / images).string(), context.threads, context.progress);
  std::unordered_map<std::string_view, std::string_view> paths;  // by the path without its extension
  for (const std::string_view image : scan.images) {
    const auto [known, is_new] = paths.emplace(without_extension(image), image);
    if (!is_new && is_jpeg_name(image)) known->second = image;
  }
  std::erase_if(records, [&](ListRecord& record) {
    const auto found = paths.find(record.first);
    if (found == paths.end()) {
      skipped.add_bad(context.options.path + ":" + std::to_string(record.line),
                      "no image " + join_path(images, record.first) + ".jpg (" + std::string(kImageEndings) + ")");
      return true;
    }
    record.first = texts.emplace_back(join_path(images, found->second));
    record.second = {};
    record.has_second = false;
    return false;
  });
  return root.string();
}

}  // namespace forebay::data
