// The output of `forebay make-dataset --task` for segmentation, detection and several labels: a
// picture has the same objects for each task, and masks match what is painted.
#include <forebay/feeder.hpp>

#include "process.hpp"
#include "test.hpp"

namespace forebay::test_made_tasks {
namespace {

namespace fs = std::filesystem;
using namespace testing;

constexpr int kWidth = 90;
constexpr int kHeight = 70;

void make(const fs::path& dir, const std::string& task, const std::vector<std::string>& more = {"--seed", "9"}) {
  std::vector<std::string> arguments{"make-dataset", dir.string(), "--task",    task,        "--images",
                                     "24",           "--size",     "90x70",     "--classes", "5",
                                     "--objects",    "4",          "--quality", "95"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Ended made = run_command(arguments);
  REQUIRE_MESSAGE(made.code == 0, made.output);
}

// The bytes of every file by relative path, except the configuration, which contains the folder's
// name.
std::map<std::string, std::string> contents(const fs::path& dir) {
  auto files = files_below(dir);
  files.erase("feed.toml");
  return files;
}

// The generated configuration, changed to serve whole images of all parts.
Options options_of(const fs::path& dir) {
  Options options = load_options((dir / "feed.toml").string());
  options.device = "host";
  options.dataset.split.clear();
  options.run.eval = true;
  options.transform.crop = Crop::none;
  options.transform.size = {kHeight, kWidth};
  options.transform.dtype = DType::uint8;
  options.transform.layout = Layout::nhwc;
  options.telemetry.interval_s = 0;
  return options;
}

struct Picture {
  std::vector<std::array<int, 3>> colours;
  std::vector<std::uint8_t> mask;
};

// Pictures by file name, such as "000001".
std::map<std::string, Picture> pictures_of(const fs::path& dir) {
  Feeder feeder(options_of(dir));
  std::map<std::string, Picture> pictures;
  while (auto batch = feeder.next()) {
    const auto* const mask = batch->field("mask").as<std::uint8_t>();
    const auto* const colours = batch->images().as<std::uint8_t>();
    constexpr std::size_t kPixels = std::size_t{kWidth} * kHeight;
    for (std::size_t i = 0; i < batch->size(); ++i) {
      Picture& picture = pictures[fs::path(feeder.dataset().name(batch->ids()[i])).stem().string()];
      picture.mask.assign(mask + i * kPixels, mask + (i + 1) * kPixels);
      for (std::size_t p = i * kPixels; p < (i + 1) * kPixels; ++p) {
        picture.colours.push_back({colours[3 * p], colours[3 * p + 1], colours[3 * p + 2]});
      }
    }
  }
  CHECK(feeder.summary().bad_samples == 0);
  return pictures;
}

struct Object {
  Box box;
  std::size_t shape = 0;  // counted from 1, as in masks
};

constexpr std::array<const char*, 5> kShapes{"circle", "square", "triangle", "cross", "ring"};

std::size_t number_of(const std::string& shape) {
  for (std::size_t i = 0; i < kShapes.size(); ++i) {
    if (shape == kShapes[i]) return i + 1;
  }
  return 0;
}

std::map<std::string, std::vector<Object>> objects_of(const fs::path& dir) {
  DatasetOptions options;
  options.path = dir.string();
  options.format = "voc";
  const auto dataset = build_dataset(options);
  std::map<std::string, std::vector<Object>> objects;
  for (std::uint64_t id = 0; id < dataset->size(); ++id) {
    const Sample sample = dataset->sample(id);
    objects[fs::path(dataset->name(id)).stem().string()].push_back(
        {sample.box.value(), number_of(dataset->classes()[static_cast<std::size_t>(sample.label)])});
  }
  return objects;
}

std::set<std::size_t> shapes_in(const Picture& picture) {
  std::set<std::size_t> shapes(picture.mask.begin(), picture.mask.end());
  shapes.erase(0);
  return shapes;
}

// The smallest box around the pixels of an object's class within its own box.
Box box_of(const Picture& picture, const Object& object) {
  Box box{kWidth, kHeight, 0, 0};
  for (int y = object.box.top; y < object.box.bottom; ++y) {
    for (int x = object.box.left; x < object.box.right; ++x) {
      if (picture.mask[static_cast<std::size_t>(y * kWidth + x)] != object.shape) continue;
      box = {std::min(box.left, x), std::min(box.top, y), std::max(box.right, x + 1), std::max(box.bottom, y + 1)};
    }
  }
  return box;
}

bool is_in(const Box& box, int x, int y) { return x >= box.left && x < box.right && y >= box.top && y < box.bottom; }

// The share of pixels in a box whose colour is nearer to the mean of what the mask says they are:
// the object, or what is around it. `flipped`: with the mask upside down.
double agreement(const Picture& picture, const Object& object, bool flipped) {
  const auto is_object = [&](int x, int y) {
    const int from = flipped ? object.box.top + object.box.bottom - 1 - y : y;
    return picture.mask[static_cast<std::size_t>(from * kWidth + x)] == object.shape;
  };
  std::array<std::array<double, 4>, 2> means{};  // red, green, blue, pixels
  const auto for_box = [&](auto visit) {
    for (int y = object.box.top; y < object.box.bottom; ++y) {
      for (int x = object.box.left; x < object.box.right; ++x) {
        visit(is_object(x, y) ? 1 : 0, picture.colours[static_cast<std::size_t>(y * kWidth + x)]);
      }
    }
  };
  for_box([&](std::size_t which, const std::array<int, 3>& colour) {
    for (std::size_t c = 0; c < 3; ++c) means[which][c] += colour[c];
    means[which][3] += 1;
  });
  for (auto& mean : means) {
    for (std::size_t c = 0; c < 3; ++c) mean[c] /= std::max(mean[3], 1.0);
  }
  double right = 0;
  for_box([&](std::size_t which, const std::array<int, 3>& colour) {
    std::array<double, 2> off{};
    for (std::size_t m = 0; m < 2; ++m) {
      for (std::size_t c = 0; c < 3; ++c) off[m] += (colour[c] - means[m][c]) * (colour[c] - means[m][c]);
    }
    right += (off[1] < off[0]) == (which == 1) ? 1 : 0;
  });
  return right / (object.box.width() * object.box.height());
}

}  // namespace

TEST_CASE("a task's files depend on the seed alone, and each task shows the same pictures") {
  const TemporaryDirectory dir;
  std::map<std::string, std::string> images;
  for (const std::string task : {"segmentation", "detection", "multilabel"}) {
    CAPTURE(task);
    make(dir / task, task, {"--threads", "1"});
    make(dir / (task + "3"), task, {"--threads", "3"});
    make(dir / (task + "7"), task, {"--seed", "7"});
    const auto files = contents(dir / task);
    CHECK(files == contents(dir / (task + "3")));
    CHECK(files != contents(dir / (task + "7")));
    CHECK(files.size() == (task == "multilabel" ? 25 : 48));
    std::map<std::string, std::string> found;
    for (const auto& [name, bytes] : files) {
      if (name.ends_with(".jpg")) found[fs::path(name).filename().string()] = bytes;
    }
    CHECK(found.size() == 24);
    if (images.empty()) images = found;
    CHECK(found == images);
  }
}

TEST_CASE("masks, boxes and labels name the same objects") {
  const TemporaryDirectory dir;
  for (const std::string task : {"segmentation", "detection", "multilabel"}) make(dir / task, task);
  const auto pictures = pictures_of(dir / "segmentation");
  auto objects = objects_of(dir / "detection");
  REQUIRE(pictures.size() == 24);
  REQUIRE(objects.size() == 24);
  std::size_t several = 0;
  for (const auto& [name, picture] : pictures) {
    CAPTURE(name);
    for (const Object& object : objects[name]) CHECK(box_of(picture, object) == object.box);
    std::size_t strays = 0;  // pixels of an object outside all boxes of its class
    for (int y = 0; y < kHeight; ++y) {
      for (int x = 0; x < kWidth; ++x) {
        const std::size_t shape = picture.mask[static_cast<std::size_t>(y * kWidth + x)];
        bool is_explained = shape == 0;
        for (const Object& object : objects[name]) {
          is_explained = is_explained || (object.shape == shape && is_in(object.box, x, y));
        }
        strays += is_explained ? 0 : 1;
      }
    }
    CHECK(strays == 0);
    several += shapes_in(picture).size() > 1 ? 1 : 0;
  }
  CHECK(several > 10);

  Options options = options_of(dir / "multilabel");
  Feeder feeder(options);
  const Field& field = feeder.fields()[feeder.field_number("labels")];
  CHECK(field.classes == std::vector<std::string>(kShapes.begin(), kShapes.end()));
  std::size_t seen = 0;
  while (auto batch = feeder.next()) {
    const auto* labels = batch->field("labels").as<float>();
    for (const std::uint64_t id : batch->ids()) {
      std::set<std::size_t> shapes;
      for (std::size_t i = 1; i <= kShapes.size(); ++i) {
        if (*labels++ == 1) shapes.insert(i);
      }
      CHECK(shapes == shapes_in(pictures.at(fs::path(feeder.dataset().name(id)).stem().string())));
      ++seen;
    }
  }
  CHECK(seen == 24);
}

TEST_CASE("a mask is what is painted, whether a class has a colour or not") {
  const TemporaryDirectory dir;
  for (const std::string colours : {"any", "class"}) {
    CAPTURE(colours);
    make(dir / colours, "segmentation", {"--colours", colours});
    make(dir / ("boxes of " + colours), "detection", {"--colours", colours});
    const auto pictures = pictures_of(dir / colours);
    double right = 0;
    double flipped = 0;
    double all = 0;
    for (const auto& [name, objects] : objects_of(dir / ("boxes of " + colours))) {
      for (const Object& object : objects) {
        if (object.shape != 3) continue;  // a triangle looks different upside down
        right += agreement(pictures.at(name), object, false);
        flipped += agreement(pictures.at(name), object, true);
        all += 1;
      }
    }
    REQUIRE(all > 4);
    CHECK(right / all > 0.9);
    CHECK(flipped / all < 0.75);
  }
}

TEST_CASE("held-out images may have folders of their own") {
  const TemporaryDirectory dir;
  for (const std::string task : {"segmentation", "multilabel"}) {
    CAPTURE(task);
    make(dir / task, task, {"--split", "0.25"});
    const Options options = options_of(dir / task);
    CHECK(Feeder(options).dataset().size() == 18);
    Options held_out = options;
    held_out.dataset.path.replace(held_out.dataset.path.find("/train/"), 7, "/val/");
    CHECK(Feeder(held_out).dataset().size() == 6);
  }
}

TEST_CASE("made videos move as their classes say, and are fed by what is written beside them") {
  const TemporaryDirectory dir;
  const auto made = [&](const std::string& name, const std::string& threads) {
    const Ended ended = run_command({"make-dataset", (dir / name).string(), "--task", "video", "--images", "8",
                                     "--classes", "4", "--size", "48x32", "--threads", threads});
    CHECK_MESSAGE(ended.code == 0, ended.output);
    return contents(dir / name);
  };
  const auto files = made("one", "1");
  CHECK(files.size() == 8);
  CHECK(made("other", "3") == files);
  CHECK(
      run_command({"make-dataset", (dir / "more").string(), "--task", "video", "--classes", "9"}).says("ways to move"));

  Options options = load_options((dir / "one" / "feed.toml").string());
  options.device = "host";
  options.dataset.split.clear();
  options.dataset.clip = {.frames = 2, .stride = 8};
  options.run.eval = true;
  options.transform.crop = Crop::none;
  options.transform.dtype = DType::uint8;
  options.transform.channels = 1;
  options.telemetry.interval_s = 0;
  if (const auto problem = error_of([&] { Feeder(options).close(); }); problem.starts_with("clip.frames: ")) {
    MESSAGE("skipped: ", problem);
    return;
  }
  Feeder feeder(options);
  std::uint64_t samples = 0;
  while (const auto batch = feeder.next()) {
    for (std::size_t i = 0; i < batch->size(); ++i, ++samples) {
      // The content of the first frame is found in the second one, shifted by that many pixels.
      const auto* const clip = batch->images().as<std::uint8_t>() + i * 2 * 48 * 32;
      const auto difference = [&](int across, int down) {
        double sum = 0;
        int count = 0;
        for (int y = 0; y < 32; ++y) {
          for (int x = 0; x < 48; ++x) {
            if (x + across < 0 || x + across >= 48 || y + down < 0 || y + down >= 32) continue;
            sum += std::abs(clip[y * 48 + x] - clip[48 * 32 + (y + down) * 48 + x + across]);
            ++count;
          }
        }
        return sum / count;
      };
      std::map<double, std::string> ways;
      for (int by = 8; by <= 20; ++by) {
        for (const auto& [name, across, down] :
             {std::tuple("right", by, 0), {"left", -by, 0}, {"down", 0, by}, {"up", 0, -by}}) {
          ways.emplace(difference(across, down), name);
        }
      }
      CHECK(ways.begin()->second == feeder.dataset().classes()[static_cast<std::size_t>(batch->labels()[i])]);
    }
  }
  CHECK(samples == 8);
}

}  // namespace forebay::test_made_tasks
