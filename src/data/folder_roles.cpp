// Recognises, by their names, folders that are parts of a dataset ("train", "images", "masks") and
// not classes. Without this, a folder of train/ and val/ would silently be a dataset of two
// classes.
//
// refuse_roles_as_classes is called once, when a tree of class folders has been found (build.cpp).
// It throws an error that proposes commands, each of which reads one sensible part; Choices looks
// through the tree for them. Nothing is opened here: the names in the scan decide everything.
//
// Names of classes may contain such words ("freight_train", "with_mask"), so a word within a name
// counts less than a name that is the word.

#include "folder_roles.hpp"

#include <algorithm>
#include <array>
#include <forebay/error.hpp>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "base/text.hpp"

namespace forebay::data {
namespace {

// The role that a folder's name suggests. Each word stands for one part of a dataset, in any
// spelling.
struct Role {
  std::string_view word;   // "train", "images"; "" if it says nothing
  bool is_target = false;  // what belongs to images, such as masks
  bool is_exact = false;   // the whole name, not a part of it as in "freight_train" or "train_images"
};

struct Spellings {
  std::string_view word;
  bool is_target = false;
  std::string_view names;  // with a blank around each
};

// From datasets in use: Market-1501 has bounding_box_train and query; GTSRB Final_Training;
// Cityscapes leftImg8bit and gtFine; CamVid trainannot; Oxford Pets trimaps.
constexpr std::array kSpellings{
    Spellings{"train", false, " train training trainset traindata trainval trn final_training bounding_box_train "},
    Spellings{"val", false, " val valid validation valset minival dev "},
    Spellings{"test", false,
              " test testing testset testdata pred prediction predictions final_test bounding_box_test eval evaluation "
              "holdout "},
    Spellings{"extra", false, " extra "},
    Spellings{"labeled", false, " labeled labelled "},
    Spellings{"query", false, " query "},
    Spellings{"gallery", false, " gallery "},
    Spellings{"fold", false, " fold "},
    Spellings{"split", false, " split "},
    Spellings{"part", false, " part "},
    Spellings{"unlabeled", false, " unlabeled unlabelled "},
    Spellings{"images", false, " image images img imgs jpegimages leftimg8bit rightimg8bit frames "},
    Spellings{"labels", true, " label labels "},
    Spellings{"masks", true, " mask masks "},
    Spellings{"annotations", true, " annot annots annotation annotations trainannot valannot testannot "},
    Spellings{"truth", true, " gt gtfine gtcoarse ground_truth groundtruth "},
    Spellings{"segmentation", true, " segmentation segmentations segmentationclass segmentationobject trimaps "},
};

// "Train2017" becomes "train", "fold_3" becomes "fold": digits at the end are years or numbers of
// folds.
std::string plain_name(std::string_view name) {
  std::string text = lower_case(name);
  std::ranges::replace_if(
      text, [](char c) { return c == '-' || c == ' ' || c == '.'; }, '_');
  const auto last = text.find_last_not_of("_0123456789");
  if (last != std::string::npos) text.resize(last + 1);
  return text;
}

// `name` has no blanks.
const Spellings* find_spellings(std::string_view name) {
  const std::string whole = " " + std::string(name) + " ";
  const auto found = std::ranges::find_if(
      kSpellings, [&](const Spellings& each) { return each.names.find(whole) != std::string_view::npos; });
  return found == kSpellings.end() ? nullptr : &*found;
}

// A word for targets wins over one for splits, and that over "images": "train_masks" holds masks, and "image_train" is
// a split.
Role role_of(std::string_view name) {
  const std::string text = plain_name(name);
  if (const Spellings* whole = find_spellings(text)) return {whole->word, whole->is_target, true};
  Role role;
  for (const std::string_view each : split(text, '_')) {
    const Spellings* const part = find_spellings(each);
    if (part == nullptr) continue;
    if (role.word.empty() || role.word == "images" || part->is_target) role.word = part->word;
    role.is_target = role.is_target || part->is_target;
  }
  return role;
}

// Exact roles must be more than half of the names, or a quarter of them with two different words.
// Chosen so that one class called "test" or "train" among many is not refused.
bool are_roles(const std::vector<std::string_view>& names) {
  std::size_t exact = 0;
  std::size_t any = 0;
  std::set<std::string_view> exact_words;
  std::set<std::string_view> words;
  std::set<std::string> stems;
  for (const std::string_view name : names) {
    const Role role = role_of(name);
    if (role.word.empty()) continue;
    ++any;
    words.insert(role.word);
    stems.insert(plain_name(name));
    if (!role.is_exact) continue;
    ++exact;
    exact_words.insert(role.word);
  }
  if (exact * 2 > names.size() || (exact_words.size() > 1 && exact * 4 >= names.size())) return true;
  // "freight_train" and "with_mask" are classes; "train_images" and "test_images", "part_1" and "part_2" are not.
  return names.size() > 1 && any == names.size() && (words.size() > 1 || stems.size() == 1);
}

// Whether the folders in `folder` would be wrong classes, because of their names or those of the
// folders in them. Two levels are enough: train/cat and images/train/cat are both common.
bool would_mislead(const Scan& scan, std::string_view folder) {
  const std::vector<std::string_view> names = folders_with_images(scan, folder);
  if (are_roles(names)) return true;
  return std::ranges::any_of(names, [&](std::string_view name) {
    const auto below = folders_with_images(scan, join_path(folder, name));
    // n01440764/images is one class of Tiny ImageNet.
    return (names.size() == 1 || below.size() > 1) && are_roles(below);
  });
}

std::string as_argument(const std::string& text) { return "\"" + text + "\""; }

std::string first_names(const std::vector<std::string_view>& names) { return quoted_names(names, 4); }

bool lies_among_targets(std::string_view path) {
  for (std::string_view above = parent_folder(path); !above.empty(); above = parent_folder(above)) {
    if (role_of(base_name(above)).is_target) return true;
  }
  return false;
}

// "../../masks/{stem}.png" for images in `folder`, if a folder of targets holds such a file of the
// first image; the file of the same split is preferred ("trainannot" for "train"). One mask of the
// first image is enough, because the user sees the command before it is used.
std::optional<std::string> pattern_of_masks(const Scan& scan, const std::string& folder) {
  const auto first = std::ranges::lower_bound(scan.images.view(), folder + "/");
  const std::string_view stem = stem_of(*first);
  const std::string split(base_name(folder));
  auto mask = scan.images.end();
  for (auto image = scan.images.begin(); image != scan.images.end(); ++image) {
    if (!stem_of(*image).starts_with(stem) || is_jpeg_name(*image) || !lies_among_targets(*image)) continue;
    const bool is_of_split = parent_folder(*image).find(split) != std::string_view::npos;
    if (is_of_split || mask == scan.images.end()) mask = image;
    if (is_of_split) break;
  }
  if (mask == scan.images.end()) return std::nullopt;
  std::string pattern;
  for (auto levels = std::ranges::count(folder, '/') + 1; levels > 0; --levels) pattern += "../";
  const std::string_view rest = base_name(*mask).substr(stem.size());
  return pattern + join_path(parent_folder(*mask), "{stem}") + std::string(rest);
}

// Composes the proposals. Goes down through folders that are roles, to ones whose folders are
// classes or which hold images alone.
class Choices {
 public:
  Choices(const BuildContext& context, const Scan& scan) : context_(context), scan_(scan) {}

  std::string text() {
    add("");
    if (more_ > 0) text_ += "\n  and " + std::to_string(more_) + " more such folders";
    if (!without_classes_.empty()) {
      text_ += "\n  the images of " + first_names({without_classes_.begin(), without_classes_.end()}) +
               " lie in no class folders: name them with their labels in a list or a table (docs/data.md)";
    }
    add_files();
    add_targets();
    choice("each folder a class all the same", command("") + " --format folder");
    return std::move(text_);
  }

 private:
  void add(const std::string& folder) {
    const std::vector<std::string_view> names = folders_with_images(scan_, folder);
    if (names.empty()) return add_images(folder);
    if (!would_mislead(scan_, folder)) {
      return limited("the " + (names.size() == 1 ? "class " : std::to_string(names.size()) + " classes ") +
                         first_names(names) + " of " + printable(folder),
                     command(folder) + " --format folder");
    }
    for (const std::string_view name : names) {
      if (!role_of(name).is_target) add(join_path(folder, name));
    }
  }

  // Proposes how to read a folder whose images are in no class.
  void add_images(const std::string& folder) {
    if (const auto pattern = pattern_of_masks(scan_, folder)) {
      return limited("the images of " + printable(folder) + " with their masks",
                     command(folder) + " --format folder --set fields.mask.kind=mask --set " +
                         as_argument("fields.mask.from=" + printable(*pattern)));
    }
    without_classes_.push_back(folder);
  }

  // Names the folders of targets, if no command above uses one.
  void add_targets() {
    if (text_.find("{stem}") != std::string::npos) return;
    std::vector<std::string_view> folders = folders_with_images(scan_, "");
    std::erase_if(folders, [](std::string_view name) { return !role_of(name).is_target; });
    if (folders.empty()) return;
    text_ += "\n  " + first_names(folders) + " may hold masks: make them a field (docs/recipes.md)";
  }

  // Proposes files that may say what the images show.
  void add_files() {
    constexpr std::size_t kMost = 4;
    std::vector<std::string_view> files;
    const auto is_json = [](std::string_view path) { return path.ends_with(".json"); };
    const auto others = scan_.others.view();
    const auto json = std::ranges::find_if(others, is_json);
    // A JSON file that is called like an image is labelme's, and so are the others.
    const bool are_of_images = json != others.end() && std::ranges::find(scan_.images.view(), stem_of(*json),
                                                                         stem_of) != scan_.images.view().end();
    const auto add = [&](std::string_view path, bool may_say) {
      if (may_say && std::ranges::count(path, '/') < 2) files.push_back(path);
    };
    for (const std::string_view path : others) add(path, path.ends_with(".csv") || (is_json(path) && !are_of_images));
    for (const std::string_view path : scan_.annotations) add(path, base_name(path) == "annotations.xml");  // of CVAT
    if (are_of_images) choice("images with JSON files of labelme", command("") + " --format labelme");
    for (std::size_t i = 0; i < std::min(files.size(), kMost); ++i) {
      choice(i == 0 ? "a file that may name images with their labels or boxes" : "", command(std::string(files[i])));
    }
  }

  [[nodiscard]] std::string command(const std::string& below) const {
    const std::string& path = context_.options.path;
    return "forebay index " + as_argument(printable(below.empty() ? path : join_path(path, below)));
  }
  // Chosen: nobody reads more than six commands.
  void limited(const std::string& meaning, const std::string& command) {
    constexpr int kMost = 6;
    ++shown_ <= kMost ? choice(meaning, command) : static_cast<void>(++more_);
  }
  void choice(const std::string& meaning, const std::string& command) {
    if (!meaning.empty()) text_ += "\n  " + meaning + ":";
    text_ += "\n      " + command;
  }

  const BuildContext& context_;
  const Scan& scan_;
  std::string text_;
  std::vector<std::string> without_classes_;
  int shown_ = 0;
  int more_ = 0;
};

}  // namespace

// The scan's images are sorted: one search finds the first below the folder, and images with the
// same first component are adjacent.
std::vector<std::string_view> folders_with_images(const Scan& scan, std::string_view folder) {
  const std::string prefix = folder.empty() ? "" : std::string(folder) + "/";
  const auto images = scan.images.view();
  std::vector<std::string_view> names;
  for (auto at = std::ranges::lower_bound(images, prefix); at != images.end() && at->starts_with(prefix); ++at) {
    const std::string_view below = at->substr(prefix.size());
    if (below.find('/') == std::string_view::npos) continue;
    const std::string_view name = first_component(below);
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

bool is_split_list(std::string_view path) noexcept {
  constexpr std::string_view kSets = "imagesets";
  const std::string_view sets = base_name(parent_folder(parent_folder(path)));
  return path.ends_with(".txt") && equals_ignoring_case(sets, kSets);
}

// "part" is left to files that are pieces of one set, "part-00000".
std::string part_in_name(std::string_view name) {
  const std::string text = plain_name(name);
  for (const std::string_view word : split(text, '_')) {
    const std::string_view plain = word.substr(0, word.find_last_not_of("0123456789") + 1);
    // Of folders these are languages.
    if (plain == "tr" || plain == "te") return plain == "tr" ? "train" : "test";
    const Spellings* const found = find_spellings(plain);
    if (plain.empty() || found == nullptr || found->is_target || found->word == "images" || found->word == "part") {
      continue;
    }
    const bool is_numbered = found->word == "fold" || found->word == "split";
    return std::string(is_numbered ? word : found->word);
  }
  return "";
}

std::string remark_on_parts(std::span<const std::string> paths, std::string pattern) {
  std::ranges::replace_if(
      pattern, [](char c) { return std::string_view("{},*?[]/").find(c) != std::string_view::npos; }, '_');
  if (!part_in_name(pattern).empty()) return "";
  std::map<std::string, std::string_view> parts;  // the first file of each
  for (const std::string& path : paths) parts.emplace(part_in_name(base_name(path)), base_name(path));
  if (parts.size() < 2) return "";
  const std::size_t others = parts.size() - std::min<std::size_t>(parts.size(), 3);
  parts.erase(std::prev(parts.end(), static_cast<std::ptrdiff_t>(others)), parts.end());
  return "its files are all read, though their names say different parts of a dataset (" +
         joined(parts, ", ", [](const auto& each) { return printable(each.second); }) +
         (others > 0 ? " and " + counted(others, "other") : "") +
         "); a pattern of names in dataset.path reads some of them";
}

// VOC and ILSVRC come as one tree with lists of its splits; reading the tree means reading all
// splits.
std::string remark_on_splits(const DatasetOptions& options, const Scan& scan) {
  const auto is_split = [](std::string_view path) {
    const Role role = role_of(stem_of(path));
    const std::string_view kind = base_name(parent_folder(path));
    // "dog_train.txt" says which images of a split show a dog; "train_cls.txt" is a split of ILSVRC.
    return is_split_list(path) && (role.is_exact || (!role.word.empty() && kind != "Main" && kind != "Action"));
  };
  const std::string place = "serves the images of all its splits";
  std::vector<std::string_view> lists;
  for (const std::string_view path : scan.others) {
    if (is_split(path)) lists.push_back(path);
  }
  if (!lists.empty()) {
    return place + " (" + joined(lists, ", ", printable) + "); for one of them set dataset.path = \"" +
           printable(join_path(options.path, lists.front())) + "\"";
  }
  std::map<std::string_view, std::string_view> folders;  // by word: the first folder of each
  for (const std::string_view image : scan.images) {
    for (std::string_view above = parent_folder(image); !above.empty(); above = parent_folder(above)) {
      const Role role = role_of(base_name(above));
      if (role.is_exact && (role.word == "train" || role.word == "val" || role.word == "test")) {
        folders.emplace(role.word, above);
      }
    }
  }
  if (folders.size() < 2) return {};
  return place + " (" + joined(folders, ", ", [](const auto& each) { return printable(each.second); }) +
         "); for one of them set dataset.path = \"" + printable(join_path(options.path, folders.begin()->second)) +
         "\"";
}

void refuse_roles_as_classes(const BuildContext& context, const Scan& scan) {
  if (!would_mislead(scan, "")) return;
  throw path_error(context.options,
                   "its folders " + first_names(folders_with_images(scan, "")) +
                       ", or those in them, are named like the parts of a dataset, not like classes; " +
                       "read the part that you mean:" + Choices(context, scan).text());
}

}  // namespace forebay::data
