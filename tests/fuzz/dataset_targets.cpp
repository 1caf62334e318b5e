#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include <forebay/dataset.hpp>
#include <forebay/error.hpp>

#include "data/index_format.hpp"
#include "dataset_support.hpp"
#include "every_container.hpp"
#include "index_support.hpp"
#include "support.hpp"
#include "targets.hpp"
#include "tiny_png.hpp"

namespace forebay::fuzz {
namespace {

namespace fs = std::filesystem;

// Everything that the first samples have to say.
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
  }
}

// Indexes the path, and reads what the index promises, before and after it was written and read.
bool use_path(const fs::path& path, const std::string& format) {
  try {
    const auto dataset = build_dataset(testing::options_for(path, format));
    look_at(*dataset);
    look_at(*restore_dataset(dataset->serialize(), "written"));
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

// The kinds of every_container() that a target is for, in this order.
constexpr std::array<const char*, kContainers> kNames{"tfrecord", "webdataset", "recordio", "lmdb",
                                                      "cifar",    "idx",        "npy"};

// A small dataset of it, in which one file is the fuzzer's.
template <int kContainer>
const testing::ContainerKind& kind() {
  return testing::container_of(kNames[kContainer]);
}

}  // namespace

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
  std::vector<std::string> seeds;
  seeds.push_back(kind<kContainer>().files_of(3).at(kind<kContainer>().path));
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

bool use_table(std::string_view input) {
  static const testing::TemporaryDirectory folder;
  testing::replace_file(folder / "t.csv", input);
  return use_path(folder / "t.csv", "table");
}

std::vector<std::string> table_seeds() {
  return {"path,label\na.jpg,1\nb.jpg,2\n", "image;label\n\"a \"\"b\"\".jpg\";cat\nc.jpg;dog\n",
          "path,label,xmin,ymin,xmax,ymax\na.jpg,x,1,2,3,4\na.jpg,y,1,2,30,40\n"};
}

bool use_coco(std::string_view input) {
  static const testing::TemporaryDirectory folder;
  if (!fs::exists(folder / "a.jpg")) testing::write_file(folder / "a.jpg", testing::tiny_png(7));
  testing::replace_file(folder / "instances.json", input);
  return use_path(folder / "instances.json", "coco");
}

std::vector<std::string> coco_seeds() {
  return {R"({"images":[{"id":1,"file_name":"a.jpg","width":64,"height":48}],"categories":[{"id":3,"name":"cat"}],)"
          R"("annotations":[{"id":9,"image_id":1,"category_id":3,"bbox":[1,2,30,20],"iscrowd":0}]})"};
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

// The content of an index, behind checksums that are right: whoever means harm computes them too.
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
