// Writes a generated dataset: JPEG images with shapes, and labels in one of several layouts.
//
// First the shapes of each image are chosen from numbered random streams (Contents). Then several
// threads paint and write images in any order. An image depends only on the seed and its number, so
// the number of threads never changes a file.

#include "made_dataset.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/random.hpp>

#include "base/output_file.hpp"
#include "data/parallel.hpp"
#include "made_video.hpp"
#include "report/plot.hpp"

namespace forebay::cli {
namespace {

namespace fs = std::filesystem;

// Keys of the independent random streams of a dataset.
enum class Stream : std::uint8_t { counts, classes, pictures };

// Pascal VOC counts pixels from 1, and its maximum is inclusive.
std::string annotation(const std::string& file, const Scene& scene) {
  const auto element = [](const char* name, const std::string& value) {
    return std::string("<") + name + ">" + value + "</" + name + ">";
  };
  const auto number = [&](const char* name, int value) { return element(name, std::to_string(value)); };
  std::string xml = "<annotation>\n  " + element("folder", "JPEGImages") + "\n  " + element("filename", file) + "\n";
  xml += "  <size>" + number("width", scene.image.width) + number("height", scene.image.height) + number("depth", 3) +
         "</size>\n  " + number("segmented", 0) + "\n";
  for (const PaintedObject& object : scene.objects) {
    const Box& box = object.box;
    xml += "  <object>\n    " + element("name", std::string(shapes()[object.shape].name)) + "\n    " +
           element("pose", "Unspecified") + number("truncated", 0) + number("difficult", 0) + "\n    <bndbox>" +
           number("xmin", box.left + 1) + number("ymin", box.top + 1) + number("xmax", box.right) +
           number("ymax", box.bottom) + "</bndbox>\n  </object>\n";
  }
  return xml + "</annotation>\n";
}

// Decides the contents of each image, without painting it.
class Contents {
 public:
  // Each image has 1 to most_objects objects. first_ accumulates their counts, so that every object
  // has a number.
  explicit Contents(const DatasetPlan& plan) : plan_(plan), first_(plan.images + 1) {
    for (std::uint64_t image = 0; image < plan.images; ++image) {
      Random random(key64(plan.seed, Stream::counts, image));
      first_[image + 1] = first_[image] + 1 + random.below(plan.most_objects);
    }
  }

  [[nodiscard]] std::uint64_t objects() const noexcept { return first_.back(); }

  // Shapes of the image's objects.
  [[nodiscard]] std::vector<std::size_t> of(std::uint64_t image) const {
    std::vector<std::size_t> chosen;
    for (std::uint64_t object = first_[image]; object < first_[image + 1]; ++object) {
      chosen.push_back(shape_of(object));
    }
    return chosen;
  }

 private:
  // Each group of `classes` consecutive objects contains every class once, which keeps the classes
  // balanced: a Fisher-Yates shuffle of the classes, keyed by the group's number.
  [[nodiscard]] std::size_t shape_of(std::uint64_t object) const {
    std::vector<std::size_t> order(plan_.classes);
    std::iota(order.begin(), order.end(), std::size_t{0});
    Random random(key64(plan_.seed, Stream::classes, object / plan_.classes));
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    return order[object % plan_.classes];
  }

  const DatasetPlan& plan_;
  std::vector<std::uint64_t> first_;  // number of an image's first object among all objects
};

// Writes the files of a dataset.
class Writer {
 public:
  Writer(const DatasetPlan& plan, const Contents& contents, std::uint64_t training)
      : plan_(plan), folder_(plan.directory), contents_(contents), training_(training) {
    picture_ = {.width = plan.width,
                .height = plan.height,
                .close_up = plan.layout == DatasetPlan::Layout::folder,
                .colours = plan.colours};
    for (std::size_t shape = 0; shape < plan.classes; ++shape) palette_.push_back(colour_of(shape));
  }

  void make_folders() const {
    for (const fs::path& root : roots()) {
      switch (plan_.layout) {
        case DatasetPlan::Layout::voc:
          make_folder(root / "JPEGImages");
          make_folder(root / "Annotations");
          break;
        case DatasetPlan::Layout::folder:
        case DatasetPlan::Layout::videos:
          for (std::size_t number = 0; number < plan_.classes; ++number) make_folder(root / class_name(number));
          break;
        case DatasetPlan::Layout::masks: make_folder(root / "masks"); [[fallthrough]];
        case DatasetPlan::Layout::table: make_folder(root / "images");
      }
    }
  }

  // Writes an image and the files that belong only to it. Any thread may call; several do at once.
  // Returns the size of the JPEG file or the video in bytes.
  [[nodiscard]] std::uint64_t write(std::uint64_t image) const {
    const std::vector<std::size_t> chosen = contents_.of(image);
    if (plan_.layout == DatasetPlan::Layout::videos) {
      constexpr int kFrames = 40;
      const std::string video =
          made_video(picture_, chosen.front(), kFrames, plan_.quality, key64(plan_.seed, Stream::pictures, image));
      write(root_of(image) / class_name(chosen.front()) / (number_of(image) + ".avi"), video);
      return video.size();
    }
    const Scene scene = paint_scene(picture_, chosen, key64(plan_.seed, Stream::pictures, image));
    const std::vector<std::byte> jpeg = encode_jpeg(scene.image, plan_.quality);
    const fs::path root = root_of(image);
    const std::string name = number_of(image);
    write(root / folder_of_images(chosen.front()) / (name + ".jpg"), jpeg);
    if (plan_.layout == DatasetPlan::Layout::voc) {
      write(root / "Annotations" / (name + ".xml"), annotation(name + ".jpg", scene));
    } else if (plan_.layout == DatasetPlan::Layout::masks) {
      write(root / "masks" / (name + ".png"), report::encode_palette_png(plan_.width, scene.mask, palette_));
    }
    return jpeg.size();
  }

  // Writes the files that list the images.
  void write_tables() const {
    if (plan_.layout != DatasetPlan::Layout::table) return;
    std::uint64_t image = 0;
    for (const fs::path& root : roots()) {
      std::string table = "image,labels\n";
      for (; image < plan_.images && root_of(image) == root; ++image) {
        table += "images/" + number_of(image) + ".jpg," + names_of(contents_.of(image)) + "\n";
      }
      write(root / "labels.csv", table);
    }
  }

 private:
  [[noreturn]] void fail(const fs::path& name, int error) const {
    throw Error("cannot make " + (plan_.directory / name).string() + ": " + std::generic_category().message(error));
  }
  void make_folder(const fs::path& name) const {
    if (const int error = folder_.make_folder(name); error != 0) fail(name, error);
  }
  // Replaces a file that an earlier dataset left under the name.
  void write(const fs::path& name, std::span<const std::byte> bytes) const {
    if (const int error = folder_.write(name, bytes, OutputFolder::IfThere::replace); error != 0) fail(name, error);
  }
  void write(const fs::path& name, const std::string& text) const { write(name, std::as_bytes(std::span(text))); }

  // Relative to the dataset's folder.
  [[nodiscard]] std::vector<fs::path> roots() const {
    if (plan_.split <= 0) return {""};
    return {"train", "val"};
  }
  [[nodiscard]] fs::path root_of(std::uint64_t image) const { return roots()[image < training_ ? 0 : 1]; }

  // The folder of a class, in layouts that have one per class.
  [[nodiscard]] std::string_view class_name(std::size_t number) const {
    return plan_.layout == DatasetPlan::Layout::videos ? motion_name(number) : shapes()[number].name;
  }
  [[nodiscard]] std::string_view folder_of_images(std::size_t first_shape) const {
    if (plan_.layout == DatasetPlan::Layout::folder) return class_name(first_shape);
    return plan_.layout == DatasetPlan::Layout::voc ? "JPEGImages" : "images";
  }

  // From 1, with leading zeros, so that names sort like numbers.
  [[nodiscard]] std::string number_of(std::uint64_t image) const {
    const std::size_t digits = std::max<std::size_t>(6, std::to_string(plan_.images).size());
    const std::string number = std::to_string(image + 1);
    return std::string(digits - number.size(), '0') + number;
  }

  // "circle|star": the names of the classes, each once and in their order.
  static std::string names_of(std::vector<std::size_t> chosen) {
    std::ranges::sort(chosen);
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    std::string names;
    for (const std::size_t shape : chosen) {
      if (!names.empty()) names += '|';
      names += shapes()[shape].name;
    }
    return names;
  }

  const DatasetPlan& plan_;
  OutputFolder folder_;
  const Contents& contents_;
  std::uint64_t training_;
  ScenePlan picture_;
  std::vector<Colour> palette_{Colour{}};  // colours of masks; black is the background
};

// Throws ConfigError if there are too many classes, or so many objects that their regions would be
// too small for a shape.
void check(const DatasetPlan& plan) {
  const bool are_videos = plan.layout == DatasetPlan::Layout::videos;
  const std::size_t most = are_videos ? kMotions : shapes().size();
  if (plan.classes < 1 || plan.classes > most) {
    throw ConfigError("--classes " + std::to_string(plan.classes) + ": there are " +
                      (are_videos ? "ways to move" : "shapes") + " for 1 to " + std::to_string(most) + " classes");
  }
  const std::size_t room = most_objects(plan.width, plan.height);
  if (plan.most_objects > room) {
    throw ConfigError("--objects " + std::to_string(plan.most_objects) + ": a picture of " +
                      std::to_string(plan.width) + "x" + std::to_string(plan.height) + " has room for " +
                      std::to_string(room) + "; make --size larger or --objects smaller");
  }
}

// The number of images in the training part.
std::uint64_t training_images(const DatasetPlan& plan) {
  if (plan.split <= 0) return plan.images;
  const auto held_out = static_cast<std::uint64_t>(std::llround(static_cast<double>(plan.images) * plan.split));
  if (held_out == 0 || held_out >= plan.images) {
    throw ConfigError("--split leaves one part without images: " + std::to_string(held_out) + " of " +
                      std::to_string(plan.images) + " would be held out");
  }
  return plan.images - held_out;
}

}  // namespace

MadeDataset make_dataset(const DatasetPlan& plan, const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  check(plan);
  const Contents contents(plan);
  const std::uint64_t training = training_images(plan);
  const Writer writer(plan, contents, training);
  writer.make_folders();
  std::atomic<std::uint64_t> bytes{0};
  data::run_parallel({plan.images, plan.threads, progress}, [&](std::size_t image) { bytes += writer.write(image); });
  writer.write_tables();
  return {training, plan.images - training, contents.objects(), bytes};
}

}  // namespace forebay::cli
