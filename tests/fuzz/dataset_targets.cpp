#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <utility>

#include <forebay/dataset.hpp>
#include <forebay/error.hpp>

#include "data/build.hpp"
#include "data/drawn_mask.hpp"
#include "data/index_format.hpp"
#include "data/yolo_config.hpp"
#include "data/yolo_labels.hpp"
#include "dataset_support.hpp"
#include "every_container.hpp"
#include "index_support.hpp"
#include "make/mask_drawer.hpp"
#include "support.hpp"
#include "taken.hpp"
#include "targets.hpp"
#include "zip_files.hpp"

using namespace forebay::data;
using namespace forebay::make;

// The files of datasets, in every format, and the index.
namespace forebay::fuzz {
namespace {

namespace fs = std::filesystem;

bool use_path(const fs::path& path, const std::string& format) {
  return fuzz::use_path(testing::options_for(path, format));
}

// Draws a mask that the index holds as shapes.
void draw_mask(std::span<const std::byte> bytes) {
  if (!is_drawn_mask(bytes)) return;
  static MaskDrawer drawer;
  Mask mask;
  drawer.draw(bytes, {.max_pixels = 1 << 16}, mask);
}

// The kinds of every_container() that have a target, in this order.
constexpr std::array<const char*, kContainers> kNames{"tfrecord", "webdataset", "recordio", "lmdb",
                                                      "cifar",    "idx",        "npy"};

// A small dataset of this kind, one file of which is the fuzzer's.
template <int kContainer>
const testing::ContainerKind& kind() {
  return testing::container_of(kNames[kContainer]);
}

}  // namespace

void look_at(const Dataset& dataset) {
  (void)dataset.counts();
  (void)dataset.classes();
  for (std::uint64_t id = 0; id < std::min<std::uint64_t>(dataset.size(), 32); ++id) {
    try {
      (void)dataset.sample(id);
      (void)dataset.name(id);
      (void)testing::read_sample(dataset, id);
    } catch (const SampleError&) {
    }
    for (std::size_t field = 0; field < dataset.fields().size(); ++field) {
      try {
        testing::Reading reading;
        dataset.read_field(id, field, reading);
        draw_mask(reading.bytes);
      } catch (const SampleError&) {
      }
    }
  }
}

bool use_path(const DatasetOptions& options) {
  try {
    // One thread, because starting more takes longer than they save.
    const auto dataset = build_dataset_with({.options = options, .progress = {}, .threads = 1});
    look_at(*dataset);
    look_at(*restore_dataset(dataset->serialize(), "written"));
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

template <int kContainer>
bool use_container(std::string_view input) {
  struct Made {
    Made() {
      for (const auto& [name, content] : kind<kContainer>().files_of(3)) testing::write_file(folder / name, content);
    }
    testing::TemporaryDirectory folder;
  };
  static const Made made;
  const fs::path file = made.folder / kind<kContainer>().path;
  testing::replace_file(file, input);
  const std::string name = kNames[kContainer];
  return use_path(name == "lmdb" ? file.parent_path() : file, name);
}

template <int kContainer>
std::vector<std::string> container_seeds() {
  using namespace testing;
  std::vector<std::string> seeds{kind<kContainer>().files_of(3).at(kind<kContainer>().path)};
  const std::string name = kNames[kContainer];
  const std::string image = tiny_png(7);
  if (name == "webdataset") {
    seeds.push_back(tar_member("p", pax_line("path", "long/b.png"), 'x') + tar_member("b", image) +
                    tar_member("long/b.json", R"({"label": 1})") + tar_end());
  } else if (name == "recordio") {
    seeds.push_back(record_part(image_record(image, 0.0F)) + record_part(image_record(image, 1.0F), 1) +
                    record_part("last", 3) + record_part(image_record(image, std::vector<float>{1.0F, 2.0F})));
  } else if (name == "lmdb") {
    LmdbFile::Entries entries;
    for (int i = 0; i < 5; ++i)
      entries.emplace_back(std::to_string(i), encoded_datum(image + std::string(i == 3 ? 1500 : 1, 'x'), 0));
    seeds.push_back(LmdbFile::of(entries, 2));
  }
  return seeds;
}

#define FOREBAY_CONTAINER(NUMBER)                        \
  template bool use_container<NUMBER>(std::string_view); \
  template std::vector<std::string> container_seeds<NUMBER>();
FOREBAY_CONTAINER(0)
FOREBAY_CONTAINER(1)
FOREBAY_CONTAINER(2)
FOREBAY_CONTAINER(3)
FOREBAY_CONTAINER(4)
FOREBAY_CONTAINER(5)
FOREBAY_CONTAINER(6)
#undef FOREBAY_CONTAINER

// An archive as it is, or arrays in an archive whose directory and checksums are valid.
bool use_npz(std::string_view input) {
  static const testing::TemporaryDirectory folder;
  Taken taken(input);
  const std::uint8_t how = taken.byte();
  std::string archive(taken.rest());
  if (how % 4 != 0) {
    const std::size_t wanted = taken.number<std::uint16_t>();
    const std::string all(taken.rest());
    const std::size_t images = std::min(wanted, all.size());
    archive = testing::zip_of({{"images.npy", all.substr(0, images)}, {"labels.npy", all.substr(images)}},
                              {.deflate = how % 4 == 2, .wide = how % 4 == 3, .overlap = how % 64 == 63});
  }
  testing::replace_file(folder / "a.npz", archive);
  return use_path(folder / "a.npz", "npy");
}

std::vector<std::string> npz_seeds() {
  const std::string images = testing::npy_of("|u1", "(3, 2, 2)", "0123456789ab");
  const std::string labels = testing::npy_of("<i2", "(3,)", testing::little(0x100020001, 6));
  std::vector<std::string> seeds;
  for (const char how : {'\1', '\2', '\3'}) seeds.push_back(how + testing::little(images.size(), 2) + images + labels);
  for (const testing::ZipRecipe& recipe : {testing::ZipRecipe{}, {.deflate = true}, {.deflate = true, .wide = true}}) {
    seeds.push_back('\0' + testing::zip_of({{"images.npy", images}, {"labels.npy", labels}}, recipe));
  }
  return seeds;
}

bool use_table(std::string_view input) {
  static const testing::TemporaryDirectory folder;
  testing::replace_file(folder / "t.csv", input);
  return use_path(folder / "t.csv", "table");
}

std::vector<std::string> table_seeds() {
  return {"path,label\na.jpg,1\nb.jpg,2\n", "image,label\n\"a \"\"b\"\".jpg\",cat\nc.jpg,dog\n",
          "path,label,xmin,ymin,xmax,ymax\na.jpg,x,1,2,3,4\na.jpg,y,1,2,30,40\n"};
}

bool use_coco(std::string_view input) {
  static const testing::TemporaryDirectory folder;
  if (!fs::exists(folder / "a.jpg")) testing::write_file(folder / "a.jpg", testing::tiny_png(7));
  testing::replace_file(folder / "instances.json", input);
  DatasetOptions options = testing::options_for(folder / "instances.json", "coco");
  options.samples = SampleUnit::images;
  options.fields = {FieldOptions{.name = "segmentation", .kind = FieldKind::mask}};
  const bool has_masks = use_path(options);
  return use_path(folder / "instances.json", "coco") || has_masks;
}

std::vector<std::string> coco_seeds() {
  return {R"({"images":[{"id":1,"file_name":"a.jpg","width":64,"height":48}],"categories":[{"id":3,"name":"cat"}],)"
          R"("annotations":[{"id":9,"image_id":1,"category_id":3,"bbox":[1,2,30,20],"iscrowd":0}]})",
          R"({"images":[{"id":1,"file_name":"a.jpg","width":6,"height":4}],"categories":[{"id":3,"name":"cat"}],)"
          R"("annotations":[{"image_id":1,"category_id":3,"bbox":[1,2,3,2],"segmentation":[[0,0,3.5,0,3,4,0,4]]},)"
          R"({"image_id":1,"category_id":3,"bbox":[1,2,3,2],"segmentation":{"size":[4,6],"counts":"g01"}},)"
          R"({"image_id":1,"category_id":3,"bbox":[1,2,3,2],"segmentation":{"size":[4,6],"counts":[20,4]}}]})"};
}

bool use_voc(std::string_view input) {
  static const testing::TemporaryDirectory folder;
  const fs::path image = folder / "JPEGImages" / "x.jpg";
  if (!fs::exists(image)) testing::write_file(image, testing::tiny_png(7));
  testing::replace_file(folder / "Annotations" / "x.xml", input);
  return use_path(folder.path(), "voc");
}

std::vector<std::string> voc_seeds() {
  return {testing::annotation(testing::object("cat")),
          testing::annotation(testing::object("cat") + testing::object("dog"))};
}

// The labels of an image, read as every kind of line that there is, and in a dataset.
bool use_yolo(std::string_view input) {
  for (const YoloRules& rules :
       {YoloRules{}, YoloRules{.classes = 2}, YoloRules{.classes = 2, .keypoint_numbers = 6}}) {
    const YoloLabels labels = parse_yolo_labels(input, rules);
    for (const YoloObject& object : labels.objects) {
      const bool is_class = object.number >= 0 && (rules.classes == 0 || std::cmp_less(object.number, rules.classes));
      const bool is_share = std::ranges::all_of(object.sides, [](double side) { return side > -2 && side < 3; });
      if (!is_class || !is_share) throw std::logic_error("an object that no line may have");
    }
  }
  static const testing::TemporaryDirectory folder;
  if (!fs::exists(folder / "x.jpg")) testing::write_file(folder / "x.jpg", testing::tiny_png(7));
  testing::replace_file(folder / "x.txt", input);
  return use_path(folder.path(), "yolo");
}

std::vector<std::string> yolo_seeds() {
  return {"0 0.5 0.5 1 1\n1 0.25 0.5 0.5 0.25\n", "0 0.1 0.1 0.9 0.1 0.9 0.8 0.1 0.8\r\n",
          "1 0.1 0.1 0.9 0.2 0.5 0.9 0.3 0.7 0.1 0.5\n"};
}

bool use_data_yaml(std::string_view input) {
  try {
    const YoloConfig config = parse_yolo_config(input, "data.yaml");
    return !config.names.empty() || !config.splits.empty();
  } catch (const ConfigError&) {
    return false;
  }
}

std::vector<std::string> data_yaml_seeds() {
  return {"path: .\ntrain: images/train\nval: [images/val, \"more.txt\"]\nnames: [cat, 'dog'] # two\n",
          "train:\n  - a\n  - b\nnc: 2\nkpt_shape: [17, 3]\nroboflow:\n  url: x\n",
          "names:\n  0: person\n  1: \"traffic light\"\nval: ../valid/images\n"};
}

// The content of an index, behind valid checksums: an attacker would compute them too.
bool use_index(std::string_view input) {
  static const std::vector<std::byte> good = [] {
    const testing::TemporaryDirectory folder;
    testing::write_file(folder / "t.csv", table_seeds().front());
    return build_dataset(testing::options_for(folder / "t.csv", "table"))->serialize();
  }();
  const std::vector<char> content(input.begin(), input.end());
  const auto sealed =
      seal_index(testing::record_of(good), content.size(), [&](IndexWriter& to) { to.column(content); });
  try {
    look_at(*restore_dataset(sealed, "input"));
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<std::string> index_seeds() {
  const testing::TemporaryDirectory folder;
  std::vector<std::string> seeds;
  for (const std::string& table : table_seeds()) {
    testing::write_file(folder / "t.csv", table);
    const auto bytes = build_dataset(testing::options_for(folder / "t.csv", "table"))->serialize();
    seeds.push_back(testing::text_of(testing::content_of(bytes)));
  }
  return seeds;
}

}  // namespace forebay::fuzz
