// Finds the images of a YOLO dataset, given a data.yaml (or one part of it), a list of images, or a
// folder; and the names of its classes.
//
// It follows ultralytics where that is consistent, and copes with what exporters write: "path" of
// another machine, Roboflow's "../train/images", classes.txt in place of data.yaml. A dataset of
// several parts (train, val) is refused unless one is named, because mixing them would train on
// validation data.
//
// It runs on the calling thread, except for listing folders. Paths in the result are absolute and
// normalized, sorted, each once, whatever the order in lists was.

#include "yolo_images.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <forebay/error.hpp>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "base/text.hpp"
#include "formats.hpp"
#include "store/files.hpp"

namespace forebay::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestImageList = std::size_t{1} << 30U;
// How many folders above a folder of images its data.yaml may be: three for images/train/part.
constexpr int kFoldersAbove = 3;
// Chosen: some entries of a list may be missing.
constexpr std::size_t kEntriesTried = 8;

bool path_exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool path_is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

std::string normal_path(const std::string& path) {
  std::string normal = fs::path(absolute_path(path)).lexically_normal().string();
  while (normal.size() > 1 && normal.ends_with('/')) normal.pop_back();
  return normal;
}

std::string path_below(const std::string& folder, const std::string& path) {
  return normal_path(path.starts_with('/') ? path : join_path(folder, path));
}

std::string lines_joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text.append("\n  ").append(line);
  return text;
}

// The file in a folder that names the classes; "" if there is none. Of several configurations
// data.yaml is chosen; if none has that name, it is an error, because only one can be meant.
std::string file_of_classes(const std::string& folder) {
  std::vector<std::string> found;
  const Scan listing = scan_folder(folder, "");
  for (const auto name : listing.others) {
    if (is_yaml_name(name) && is_yolo_config(join_path(folder, name))) found.push_back(join_path(folder, name));
  }
  const auto usual = std::ranges::find_if(found, [](const std::string& file) { return stem_of(file) == "data"; });
  if (usual != found.end()) return *usual;
  if (found.size() == 1) return found.front();
  if (found.size() > 1) {
    throw ConfigError(folder + " has several files such as data.yaml:" + lines_joined(found) +
                      "\nname the one you mean in dataset.path, or the classes in dataset.classes");
  }
  for (const auto name : listing.others) {
    if (name == "classes.txt" || name == "obj.names") return join_path(folder, name);
  }
  return {};
}

// The same for a folder of images, the folder of their labels, and those above them. "x.jpg" is a
// made-up image in the folder, used to find where its labels would be.
std::string file_of_classes_above(const std::string& images) {
  std::string folder = images;
  for (int level = 0; level <= kFoldersAbove && folder.size() > 1; ++level) {
    const std::string labels(parent_folder(places_of_labels(join_path(folder, "x.jpg")).front()));
    for (const std::string& place : {folder, labels}) {
      if (std::string file = file_of_classes(place); !file.empty()) return file;
    }
    folder = std::string(parent_folder(folder));
  }
  return {};
}

void take_classes(const std::string& file, YoloImages& images) {
  if (is_yaml_name(file)) {
    YoloConfig config = read_yolo_config(file);
    images.names = std::move(config.names);
    images.keypoint_numbers = config.keypoint_numbers;
  } else if (!file.empty()) {
    images.names = store::lines_of_file(file, std::size_t{16} << 20U);
  }
}

// The folder to which the places of a configuration are relative. The path was often written for
// another machine. If it is relative, it is tried from the file's folder and then from the working
// directory. If neither exists but its last component is that of the file's folder, the dataset was
// moved.
std::string folder_of_config(const YoloConfig& config, const std::string& file) {
  std::string here(parent_folder(file));
  if (config.path.empty()) return here;
  for (const std::string& folder : {path_below(here, config.path), normal_path(config.path)}) {
    if (path_is_folder(folder)) return folder;
  }
  if (fs::path(normal_path(config.path)).filename() == fs::path(here).filename()) return here;
  throw ConfigError(file + ": path = \"" + config.path + "\" is no folder, neither from there nor from here; leave " +
                    "\"path\" out if the file lies in the dataset's folder");
}

// Roboflow writes "../train/images" for train/images beside the file.
std::string place_in(const std::string& folder, const std::string& place, const std::string& where) {
  std::string path = path_below(folder, place);
  if (path_exists(path)) return path;
  std::string without_dots = place.starts_with("../") ? path_below(folder, place.substr(3)) : path;
  if (path_exists(without_dots)) return without_dots;
  throw ConfigError(where + ": there is no " + path);
}

// The folder to which the entries of a list are relative: the first of four in which one of a few
// entries exists; if there is none, the list's own. Darknet's lists are relative to where darknet
// ran, others to the list's folder or the dataset's root.
std::string folder_of_entries(const std::string& list, const std::string& root, std::vector<std::string>& entries) {
  std::string here(parent_folder(list));
  for (const std::string& folder : {here, root, std::string(parent_folder(here)), normal_path(".")}) {
    for (std::size_t i = 0; i < std::min(kEntriesTried, entries.size()); ++i) {
      if (path_exists(path_below(folder, entries[i * (entries.size() / std::min(kEntriesTried, entries.size()))]))) {
        return folder;
      }
    }
  }
  return here;
}

class YoloFinder {
 public:
  YoloFinder(PathContents& contents, SkipLog& skipped) : contents_(contents), skipped_(skipped) {}

  // The places of a split may overlap, so duplicate images and folders are removed at the end.
  YoloImages find() {
    if (!contents_.is_folder() && is_yaml_name(contents_.files().front())) {
      take_config(contents_.files().front(), contents_.part().empty() ? "train" : contents_.part());
    } else if (!contents_.is_folder()) {
      found_.root = std::string(parent_folder(normal_path(contents_.root())));
      take_list(normal_path(contents_.root()));
      take_classes(file_of_classes_above(found_.root), found_);
    } else {
      take_root(normal_path(contents_.root()));
    }
    std::ranges::sort(found_.paths);
    const auto again = std::unique(found_.paths.begin(), found_.paths.end());
    if (again != found_.paths.end()) {
      note(std::to_string(found_.paths.end() - again) + " images are named a second time");
    }
    found_.paths.erase(again, found_.paths.end());
    std::ranges::sort(found_.listed, {}, &ListedFolder::path);
    const auto is_same = [](const ListedFolder& one, const ListedFolder& other) { return one.path == other.path; };
    found_.listed.erase(std::unique(found_.listed.begin(), found_.listed.end(), is_same), found_.listed.end());
    return std::move(found_);
  }

 private:
  void note(const std::string& text) { skipped_.add_note(contents_.root(), text); }

  // Takes one part of a data.yaml.
  void take_config(const std::string& file, const std::string& wanted) {
    const YoloConfig config = read_yolo_config(file);
    const YoloConfig::Split* const split = config.find(wanted);
    if (split == nullptr) {
      const std::string there = joined(config.splits, ", ", &YoloConfig::Split::name);
      throw ConfigError(file + " has no \"" + wanted + "\"; it has " + (there.empty() ? "no images at all" : there) +
                        (there.empty() ? "" : ": dataset.path = \"" + file + ":" + config.splits.front().name + "\""));
    }
    for (const auto& other : config.splits) {
      if (other.name == wanted || other.places == split->places) continue;
      skipped_.add_note(file + ":" + other.name, "another part of the dataset than " + wanted);
    }
    found_.root = folder_of_config(config, file);
    found_.names = config.names;
    found_.keypoint_numbers = config.keypoint_numbers;
    for (const std::string& place : split->places) {
      const std::string path = place_in(found_.root, place, std::string(file).append(": ").append(wanted));
      path_is_folder(path) ? take_folder(path) : take_list(path);
    }
  }

  // Checks that every file exists, because the format promises that (Format::finds_files); images
  // found in a folder are known to exist.
  void take_list(const std::string& list) {
    std::vector<std::string> entries = store::lines_of_file(list, kLargestImageList);
    const auto is_other = [&](const std::string& entry) {
      if (is_image_name(entry)) return false;
      skipped_.add_bad(list,
                       "\"" + printable(entry.substr(0, 80)) + "\" is no image (" + std::string(kImageEndings) + ")");
      return true;
    };
    std::erase_if(entries, is_other);
    const std::string folder = folder_of_entries(list, found_.root, entries);
    for (const std::string& entry : entries) {
      std::string path = path_below(folder, entry);
      if (std::string problem = store::problem_of_file(path); !problem.empty()) {
        skipped_.add_bad(path, std::move(problem));
      } else {
        found_.paths.push_back(std::move(path));
      }
    }
  }

  void take_folder(const std::string& folder) {
    Scan scan = scan_tree(folder, contents_.context().threads, contents_.context().progress);
    leave_out_masks(scan, [&](std::string_view image) {
      return std::ranges::any_of(places_of_labels(join_path(folder, image)),
                                 [](const std::string& place) { return store::problem_of_file(place).empty(); });
    });
    take_scan(folder, scan);
  }

  // Leaves out .npy files, in which ultralytics caches decoded images beside the originals.
  void take_scan(const std::string& folder, const Scan& scan) {
    for (const ListedFolder& each : scan.listed) {
      ListedFolder& listed = found_.listed.emplace_back(each);
      listed.path = each.path.empty() ? folder : join_path(folder, each.path);
    }
    skipped_.add_all(folder, scan.unusable);
    for (const auto image : scan.images) {
      if (image.ends_with(".npy")) {
        skipped_.add_note(join_path(folder, image), "an array, which ultralytics keeps of an image");
      } else {
        found_.paths.push_back(join_path(folder, image));
      }
    }
  }

  // Takes a folder, either with a data.yaml or of images. Splits with the same places count once,
  // because some configurations name one folder for train and val.
  void take_root(const std::string& root) {
    const std::string file = file_of_classes(root);
    if (is_yaml_name(file)) {
      const YoloConfig config = read_yolo_config(file);
      std::set<std::vector<std::string>> different;
      std::vector<std::string> commands;
      for (const auto& split : config.splits) {
        if (different.insert(split.places).second) commands.push_back(file + ":" + split.name);
      }
      if (commands.size() == 1) return take_config(file, config.splits.front().name);
      if (!commands.empty()) refuse_parts(commands);
    }
    found_.root = root;
    const Scan& scan = contents_.tree();
    if (contents_.options().format == "auto") {
      std::vector<std::string> parts = parts_of(root, scan);
      if (parts.size() > 1) refuse_parts(parts);
    }
    take_scan(root, scan);
    take_classes(file.empty() ? file_of_classes_above(root) : file, found_);
  }

  // The folders below the root that are called train, val and the like.
  static std::vector<std::string> parts_of(const std::string& root, const Scan& scan) {
    std::set<std::string> parts;
    for (const auto image : scan.images) {
      for (auto end = image.find('/'); end != std::string_view::npos; end = image.find('/', end + 1)) {
        const std::string_view folder = image.substr(0, end);
        if (!is_name_of_part(base_name(folder))) continue;
        parts.insert(join_path(root, folder));
        break;
      }
    }
    return {parts.begin(), parts.end()};
  }

  // "train2017" and "val_1" are parts, too.
  static bool is_name_of_part(std::string_view name) {
    std::string word = lower_case(name);
    while (!word.empty() && (std::isdigit(static_cast<unsigned char>(word.back())) != 0 || word.back() == '_')) {
      word.pop_back();
    }
    constexpr std::array<std::string_view, 8> kParts{"train",      "training", "val",     "valid",
                                                     "validation", "test",     "minival", "dev"};
    return std::ranges::find(kParts, word) != kParts.end();
  }

  [[noreturn]] void refuse_parts(const std::vector<std::string>& parts) const {
    std::vector<std::string> commands;
    commands.reserve(commands.size() + parts.size());
    for (const std::string& part : parts) commands.push_back("forebay index \"" + part + "\"");
    throw path_error(contents_.options(),
                     "is a YOLO dataset of several parts; name one of them:" + lines_joined(commands));
  }

  PathContents& contents_;
  SkipLog& skipped_;
  YoloImages found_;
};

}  // namespace

// As in ultralytics, the last "/images/" of the path becomes "/labels/". Labels beside the image
// are Darknet's way.
std::vector<std::string> places_of_labels(std::string_view image) {
  constexpr std::string_view kImages = "/images/";
  const std::string stem(without_extension(image));
  std::vector<std::string> places;
  const auto at = stem.rfind(kImages);
  if (at != std::string::npos)
    places.push_back(stem.substr(0, at) + "/labels/" + stem.substr(at + kImages.size()) + ".txt");
  places.push_back(stem + ".txt");
  return places;
}

YoloImages find_yolo_images(PathContents& contents, SkipLog& skipped) { return YoloFinder(contents, skipped).find(); }

// For the hash of a saved index. Makes the same decisions as YoloFinder, without listing images.
YoloSources yolo_sources(const DatasetOptions& options) {
  const auto [path, part] = part_of_yaml(normal_path(options.path));
  const bool is_folder = path_is_folder(path);
  YoloSources sources;
  std::string classes = path;
  if (is_folder || !is_yaml_name(path)) {
    classes = file_of_classes_above(is_folder ? path : std::string(parent_folder(path)));
    if (!is_folder) sources.files.push_back(path);
  }
  if (classes.empty()) return sources;
  sources.files.push_back(classes);
  // A data.yaml above a folder or a list only names the classes.
  if (!is_yaml_name(classes) || (classes != path && (!is_folder || parent_folder(classes) != path))) return sources;
  const YoloConfig config = read_yolo_config(classes);
  const YoloConfig::Split* split = config.find(part.empty() ? "train" : part);
  if (is_folder) split = config.splits.empty() ? nullptr : &config.splits.front();
  for (const std::string& place : split == nullptr ? std::vector<std::string>{} : split->places) {
    std::string found = place_in(folder_of_config(config, classes), place, classes);
    (path_is_folder(found) ? sources.folders : sources.files).push_back(std::move(found));
  }
  return sources;
}

}  // namespace forebay::data
