// Every configuration in docs/recipes.md feeds the data described above it, with the fields that
// its C++ snippets use.
#include <forebay/feeder.hpp>

#include "container_files.hpp"
#include "dataset_support.hpp"
#include "field_dataset.hpp"
#include "test.hpp"
#include "video_support.hpp"
#include "zip_files.hpp"

namespace forebay {
namespace {

using namespace testing;

// A block of TOML, and the blocks of C++ between it and the next.
struct Recipe {
  std::string heading;
  std::string toml;
  std::string cpp;
};

std::vector<Recipe> recipes() {
  std::istringstream page(read_text(source_dir() / "docs" / "recipes.md"));
  std::vector<Recipe> found;
  std::string heading;
  std::string* block = nullptr;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("```")) {
      const std::string_view kind = std::string_view(line).substr(3);
      if (kind == "toml") {
        block = &found.emplace_back(Recipe{.heading = heading, .toml = {}, .cpp = {}}).toml;
      } else {
        block = kind == "cpp" && !found.empty() && found.back().heading == heading ? &found.back().cpp : nullptr;
      }
    } else if (block != nullptr) {
      *block += line + "\n";
    } else if (line.starts_with("##")) {
      heading = line;
    }
  }
  return found;
}

std::string text_of(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// An array of bytes of value 1, of a shape such as "(2, 8, 8)" with `bytes` bytes.
std::string npy(const std::string& type, const std::string& shape, std::size_t bytes) {
  return npy_of(type, shape, std::string(bytes, '\1'));
}

// The data that the page describes, in the current folder. A file called .jpg may be a PNG.
class Workplace {
 public:
  Workplace() : before_(std::filesystem::current_path()) { std::filesystem::current_path(folder_.path()); }
  ~Workplace() { std::filesystem::current_path(before_); }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  void fill() {
    write_trees();
    write_coco();
    write_annotation_tools();
    write_tables();
    write_records();
    write_containers();
    has_videos_ = write_videos();
  }
  // Whether videos could be made.
  [[nodiscard]] bool has_videos() const noexcept { return has_videos_; }

 private:
  void write(const std::string& name, const std::string& content) { write_file(folder_ / name, content); }

  void write_trees() {
    for (int i = 1; i <= 40; ++i) {
      const std::string name = (i <= 20 ? "cat/" : "dog/") + std::to_string(i);
      write("photos/" + name + ".jpg", image_);
      write("photos/" + name + ".npy", npy("<f4", "(2, 8, 8)", 512));
      write("photos/" + name + ".txt", "a caption");
      write("photos/" + name + ".npz", zip_of({{"flow.npy", npy("<f4", "(2, 8, 8)", 512)}}));
      write("masks/" + name + ".png", mask_);
      write("depth/" + name + ".png", mask_);
      write("arrays/" + name + ".npy", npy("|u1", "(8, 9, 3)", 216));
    }
    write("weights.txt", "cat 5\n");
    std::vector<std::uint8_t> road;
    for (int i = 0; i < kWidth * kHeight; ++i) road.insert(road.end(), {128, 64, 128});
    for (const std::string name : {"1", "2", "3"}) {
      write("street/images/" + name + ".jpg", image_);
      write("street/masks/" + name + ".png", mask_);
      write("camvid/images/" + name + ".png", image_);
      write("camvid/labels/" + name + "_L.png", text_of(png_of(kWidth, kHeight, road, false)));
      write("stereo/left/" + name + ".png", image_);
      write("stereo/right/" + name + ".png", image_);
      write("VOC2012/JPEGImages/" + name + ".jpg", image_);
      write("VOC2012/SegmentationClass/" + name + ".png", mask_);
      write("VOC2012/Annotations/" + name + ".xml", annotation(object("dog") + object("cat")));
    }
    write("VOC2012/ImageSets/Segmentation/train.txt", "1\n3\n");
  }

  void write_coco() {
    write("coco/train2017/7.jpg", image_);
    write("coco/annotations/instances_train2017.json",
          R"({"images": [{"id": 7, "file_name": "7.jpg", "width": 96, "height": 64}],)"
          R"( "annotations": [{"id": 1, "image_id": 7, "category_id": 3, "bbox": [1, 2, 30, 40], "iscrowd": 0,)"
          R"( "segmentation": [[1, 2, 31, 2, 31, 42]]}],)"
          R"( "categories": [{"id": 3, "name": "dog"}]})");
  }

  void write_annotation_tools() {
    write("coco8/images/train/1.jpg", image_);
    write("coco8/labels/train/1.txt", "1 0.5 0.5 0.25 0.5\n0 0.25 0.5 0.25 0.5\n");
    write("coco8/data.yaml", "train: images/train\nval: images/val\nnames:\n  0: cat\n  1: dog\n");
    write("labelled/1.jpg", image_);
    write("labelled/1.json",
          R"({"shapes": [{"label": "dog", "points": [[1, 2], [30, 40]], "shape_type": "rectangle"}],)"
          R"( "imagePath": "1.jpg", "imageData": null})");
    write("task/images/1.jpg", image_);
    write("task/annotations.xml",
          "<annotations><version>1.1</version><image id=\"0\" name=\"1.jpg\"><box label=\"dog\" "
          "xtl=\"1\" ytl=\"2\" xbr=\"30\" ybr=\"40\"/></image></annotations>");
  }

  void write_tables() {
    const auto table = [&](const std::string& name, const std::string& header, const std::string& cells) {
      std::string rows = header + "\n";
      for (const std::string image : {"cat/1", "cat/2", "dog/30"}) rows += "photos/" + image + ".jpg," + cells + "\n";
      write(name, rows);
    };
    write("train.txt", "photos/cat/1.jpg 0\nphotos/dog/30.jpg 1\n");
    write("species.csv", "photo,species\nphotos/cat/1.jpg,cat\nphotos/dog/30.jpg,dog\n");
    table("findings.csv", "image,findings", "Mass|Edema");
    table("findings01.csv", "image,Mass,Edema", "1,0");
    table("boxes.csv", "image,xmin,ymin,xmax,ymax,class", "1,2,30,40,dog");
    table("ages.csv", "image,age,x,y", "31,0.5,0.25");
  }

  void write_records() {
    const std::string shape = std::string("\0\0\x08\x03\0\0\0\4\0\0\0\2\0\0\0\3", 16);
    write("mnist/train-images-idx3-ubyte", shape + std::string(24, 'x'));
    write("cifar-10-batches-bin/data_batch_1.bin", std::string(4 * (1 + 3 * 32 * 32), '\3'));
    write("mnist/train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\4\0\1\2\0", 12));
    write("mnist.npz", zip_of({{"x_train.npy", npy("|u1", "(4, 2, 3)", 24)}, {"y_train.npy", npy("|u1", "(4,)", 4)}}));
  }

  void write_containers() {
    const std::string example = tf_record(image_example(image_, 1));
    write("imagenet/train-00000-of-00002", example + example);
    write("imagenet/train-00001-of-00002", example);
    const auto side = [](float at) { return float_feature({at, at}); };
    write("detection/train.record", tf_record(testing::example({{"image/encoded", bytes_feature({image_})},
                                                                {"image/width", int64_feature({kWidth})},
                                                                {"image/height", int64_feature({kHeight})},
                                                                {"image/object/bbox/xmin", side(0.1F)},
                                                                {"image/object/bbox/ymin", side(0.1F)},
                                                                {"image/object/bbox/xmax", side(0.9F)},
                                                                {"image/object/bbox/ymax", side(0.9F)},
                                                                {"image/object/class/label", int64_feature({1, 2})}})));
    for (const std::string number : {"0000", "0001", "0002"}) {
      write("shards/train-" + number + ".tar", tar_sample(number, image_, "1") + tar_end());
      write("fields/train-" + number + ".tar",
            tar_member(number + ".jpg", image_) + tar_member(number + ".seg.png", mask_) +
                tar_member(number + ".json", R"({"age": 30, "boxes": [[0, 0, 8, 8, 1]]})") + tar_end());
    }
    write("recordio/train.rec", record_part(image_record(image_, 1)) + record_part(image_record(image_, 2)));
    write("ilsvrc12_train_lmdb/data.mdb",
          LmdbFile::of({{"00000000", encoded_datum(image_, 1)}, {"00000001", encoded_datum(image_, 2)}}));
  }

  bool write_videos() {
    const Videos videos;
    const auto made = videos.can_make() ? videos.make("video.mp4", "-c:v mpeg4", 70) : std::nullopt;
    for (const std::string name : {"archery", "bowling"}) {
      if (made) write("actions/" + name + "/1.mp4", read_text(*made));
    }
    write("films.csv", "film,genre\nactions/archery/1.mp4,western\nactions/bowling/1.mp4,comedy\n");
    write("actions.csv",
          "video,start_frame,stop_frame,verb\nactions/archery/1.mp4,5,50,shoot\nactions/bowling/1.mp4,0,9,roll\n");
    return made.has_value();
  }

  bool has_videos_ = false;
  std::filesystem::path before_;
  TemporaryDirectory folder_;
  std::string image_ = text_of(png_of(kWidth, kHeight, ramp(), false));
  std::string mask_ = text_of(mask_png());
};

// The names in field_number("...").
std::vector<std::string> fields_asked_for(const std::string& cpp) {
  constexpr std::string_view kCall = "field_number(\"";
  std::vector<std::string> names;
  for (std::size_t at = cpp.find(kCall); at != std::string::npos; at = cpp.find(kCall, at + 1)) {
    const std::size_t begin = at + kCall.size();
    names.push_back(cpp.substr(begin, cpp.find('"', begin) - begin));
  }
  return names;
}

void check_feeds(const Recipe& recipe) {
  Options options = parse_options(recipe.toml, "docs/recipes.md");
  options.device = "host";
  options.dataset.batch_size = 1;
  options.queue.capacity = 2;
  // A crop could leave out a box that the test expects.
  if (options.transform.crop != Crop::random) options.transform.crop = Crop::none;
  options.telemetry.interval_s = 0;
  options.max_bad = std::int64_t{0};
  Feeder feeder(options);
  for (const std::string& name : fields_asked_for(recipe.cpp)) (void)feeder.field_number(name);
  std::size_t samples = 0;
  std::set<std::string> filled;  // fields with non-zero content
  while (const auto batch = feeder.next()) {
    samples += batch->size();
    for (const FieldOptions& field : options.dataset.fields) {
      const TensorView values = batch->field(field.name);
      const auto bytes = std::span(values.as<std::uint8_t>(), values.bytes());
      if (std::ranges::any_of(bytes, [](std::uint8_t byte) { return byte != 0; })) filled.insert(field.name);
    }
  }
  CHECK(samples > 0);
  CHECK(filled.size() == options.dataset.fields.size());
}

}  // namespace

TEST_CASE("every recipe feeds what it is about") {
  Workplace place;
  place.fill();
  const auto all = recipes();
  CHECK(all.size() > 20);
  for (const Recipe& recipe : all) {
    if (contains(recipe.toml, "[clip]") && !place.has_videos()) continue;
    CAPTURES(recipe.heading, recipe.toml);
    CHECK_NOTHROW(check_feeds(recipe));
  }
}

TEST_CASE("the page's table leads to every recipe") {
  const std::string page = read_text(source_dir() / "docs" / "recipes.md");
  for (const Recipe& recipe : recipes()) {
    std::string anchor;
    for (const char c : recipe.heading) {
      if (c == ' ' || c == '-') anchor += '-';
      if (std::isalnum(static_cast<unsigned char>(c)) != 0) anchor += static_cast<char>(std::tolower(c));
    }
    anchor.erase(0, 1);  // the blank after the marks
    CHECK_MESSAGE(contains(page, "](#" + anchor + ")"), "no link to ", recipe.heading);
  }
}

}  // namespace forebay
