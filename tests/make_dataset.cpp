// Generated datasets: reproducible, balanced, well-formed, and readable by the readers that they
// are made for.
#include <forebay/dataset.hpp>

#include "process.hpp"
#include "sha256.hpp"
#include "test.hpp"

namespace forebay::test_make_dataset {
namespace {

namespace fs = std::filesystem;
using namespace testing;

int make(const fs::path& dir, std::vector<std::string> options) {
  options.insert(options.begin(), {"make-dataset", dir.string()});
  const Ended made = run_command(options);
  CHECK_MESSAGE(made.code >= 0, made.output);
  return made.code;
}

std::unique_ptr<Dataset> open(const fs::path& dir, const std::string& format) {
  DatasetOptions options;
  options.format = format;
  options.path = dir.string();
  return build_dataset(options);
}

std::vector<std::uint64_t> counts(const Dataset& dataset) {
  std::vector<std::uint64_t> result(dataset.classes().size());
  for (std::uint64_t id = 0; id < dataset.size(); ++id) {
    ++result.at(static_cast<std::size_t>(dataset.sample(id).label));
  }
  return result;
}

TEST_CASE("with --force the links that lie in the folder are replaced or refused, not followed") {
  const TemporaryDirectory dir;
  std::ofstream(dir / "victim") << "precious";
  fs::create_directories(dir / "set/JPEGImages");
  fs::create_symlink(dir / "victim", dir / "set/JPEGImages/000001.jpg");
  const std::vector<std::string> few{"--images", "3", "--size", "64x48", "--force"};
  CHECK(make(dir / "set", few) == 0);
  CHECK(read_text(dir / "victim") == "precious");
  CHECK(fs::is_regular_file(fs::symlink_status(dir / "set/JPEGImages/000001.jpg")));

  fs::remove_all(dir / "set/Annotations");
  fs::create_directory(dir / "elsewhere");
  fs::create_symlink(dir / "elsewhere", dir / "set/Annotations");
  CHECK(make(dir / "set", few) == 1);
  CHECK(fs::is_empty(dir / "elsewhere"));
}

TEST_CASE("the same seed makes the same bytes for any number of threads, another seed others") {
  const TemporaryDirectory dir;
  const std::vector<std::string> plan{"--images", "30", "--size", "96x72", "--seed", "5", "--threads"};
  const auto with = [&](const std::string& threads, std::vector<std::string> more = {}) {
    std::vector<std::string> options = plan;
    options.push_back(threads);
    options.insert(options.end(), more.begin(), more.end());
    return options;
  };
  REQUIRE(make(dir / "one", with("1")) == 0);
  REQUIRE(make(dir / "three", with("3")) == 0);
  REQUIRE(make(dir / "split", with("2", {"--split", "0.2"})) == 0);
  const auto one = files_below(dir / "one");
  CHECK(one.size() == 60);
  CHECK(one == files_below(dir / "three"));

  auto parts = files_below(dir / "split" / "train");
  CHECK(parts.size() == 48);
  parts.merge(files_below(dir / "split" / "val"));
  CHECK(parts == one);

  REQUIRE(make(dir / "other", {"--images", "30", "--size", "96x72", "--seed", "6"}) == 0);
  CHECK(files_below(dir / "other") != one);
}

// Measurements on a generated dataset remain comparable. Only annotations are compared, because
// pixels also depend on the JPEG library.
TEST_CASE("a seed makes what it always made") {
  const TemporaryDirectory dir;
  REQUIRE(make(dir / "set", {"--images", "12", "--size", "97x73", "--classes", "16", "--seed", "4"}) == 0);
  std::string annotations;
  for (const auto& [name, bytes] : files_below(dir / "set" / "Annotations")) annotations += bytes;
  CHECK(testing::sha256(annotations) == "c9d9c0f1d9ea8216405565378c508a7d21ec61862080d93ccb17aba713127ed3");
}

TEST_CASE("boxes are inside the image, apart from each other, and of even classes") {
  const TemporaryDirectory dir;
  REQUIRE(make(dir / "set", {"--images", "60", "--size", "97x73", "--classes", "16", "--objects", "6"}) == 0);
  const auto dataset = open(dir / "set", "voc");
  CHECK(dataset->skipped().empty());
  CHECK(dataset->classes().size() == 16);
  CHECK(dataset->counts().images == 60);
  CHECK(dataset->counts().objects == dataset->size());
  std::map<std::string, std::vector<Box>> images;
  for (std::uint64_t id = 0; id < dataset->size(); ++id) {
    const std::string name = dataset->name(id);
    const Box box = dataset->sample(id).box.value();
    CAPTURE(name);
    CHECK(box.left >= 0);
    CHECK(box.top >= 0);
    CHECK(box.right <= 97);
    CHECK(box.bottom <= 73);
    CHECK(std::min(box.width(), box.height()) >= 3);
    auto& others = images[name.substr(0, name.find('#'))];
    for (const Box& other : others) {
      const bool is_apart =
          box.right <= other.left || other.right <= box.left || box.bottom <= other.top || other.bottom <= box.top;
      CHECK(is_apart);
    }
    others.push_back(box);
  }
  CHECK(std::ranges::any_of(images, [](const auto& image) { return image.second.size() > 1; }));
  const auto per_class = counts(*dataset);
  CHECK(std::ranges::max(per_class) - std::ranges::min(per_class) <= 1);
}

TEST_CASE("a folder per class") {
  const TemporaryDirectory dir;
  REQUIRE(make(dir / "tree", {"--images", "20", "--size", "32x32", "--classes", "4", "--layout", "folder"}) == 0);
  const auto dataset = open(dir / "tree", "folder");
  CHECK(dataset->size() == 20);
  CHECK(counts(*dataset) == std::vector<std::uint64_t>{5, 5, 5, 5});
  CHECK(dataset->skipped().empty());
}

TEST_CASE("every small size that is allowed can be made") {
  const TemporaryDirectory dir;
  for (const char* size : {"24x24", "24x200", "200x24", "48x48"}) {
    CAPTURE(size);
    REQUIRE(make(dir / size, {"--images", "40", "--size", size, "--classes", "16"}) == 0);
    const auto dataset = open(dir / size, "voc");
    CHECK(dataset->skipped().empty());
    CHECK(dataset->size() >= 40);
  }
}

TEST_CASE("a folder that cannot be made is named, a negative seed is refused") {
  const TemporaryDirectory dir;
  fs::create_symlink(dir / "gone/set", dir / "set");
  const Ended made = run_command({"make-dataset", (dir / "set").string(), "--images", "2", "--size", "48x48"});
  CHECK(made.code == 2);
  CHECK_MESSAGE(contains(made.output, "cannot make the folder " + (dir / "set").string() + ": "), made.output);
  CHECK(make(dir / "other", {"--images", "2", "--size", "48x48", "--seed", "-1"}) == 2);
}

TEST_CASE("a folder that is not empty is left alone without --force") {
  const TemporaryDirectory dir;
  const std::vector<std::string> plan{"--images", "2", "--size", "48x48"};
  REQUIRE(make(dir / "set", plan) == 0);
  const auto before = files_below(dir / "set");
  CHECK(make(dir / "set", {"--images", "3", "--size", "48x48"}) == 2);
  CHECK(files_below(dir / "set") == before);
  CHECK(make(dir / "set", {"--images", "3", "--size", "48x48", "--force"}) == 0);
  CHECK(files_below(dir / "set").size() == 6);
}

}  // namespace
}  // namespace forebay::test_make_dataset
