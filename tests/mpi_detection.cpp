// Images with all their objects under mpirun: each comes fresh exactly once with its own boxes, whatever the format and
// the number of ranks, over a resumed run too.
#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <forebay/feeder.hpp>

#include "detection_support.hpp"
#include "memory_dataset.hpp"
#include "mpi_world.hpp"
#include "shared_folder.hpp"

using namespace forebay;
using namespace forebay::testing;

namespace {

constexpr int kImages = 41;
constexpr int kSide = 60;
constexpr int kMost = 4;

// Image i is all of the grey i, and its objects j = 0 to i % 4 - 1 are [i, j, i + 10, j + 5], of class j % 2.
int objects_of(int image) { return image % 4; }
std::string name_of(int image) { return "x" + std::to_string(100 + image) + ".npy"; }

std::string number(int value) { return std::to_string(value); }

struct Written {
  std::string path;
  std::function<void(SharedFolder&)> write;
};

void write_voc(SharedFolder& folder) {
  for (int i = 0; i < kImages; ++i) {
    std::string objects;
    for (int j = 0; j < objects_of(i); ++j) {
      objects += object(j % 2 == 0 ? "a" : "b", bndbox(number(i + 1), number(j + 1), number(i + 10), number(j + 5)));
    }
    folder.write("x" + number(100 + i) + ".xml", annotation(objects));
  }
}

void write_coco(SharedFolder& folder) {
  std::string images;
  std::string objects;
  for (int i = 0; i < kImages; ++i) {
    images += (i == 0 ? "" : ", ") + (R"({"id": )" + number(i * 3) + R"(, "file_name": ")" + name_of(i) + "\"}");
    for (int j = 0; j < objects_of(i); ++j) {
      objects += (objects.empty() ? "" : ", ") + (R"({"image_id": )" + number(i * 3) + R"(, "category_id": )") +
                 number(j % 2 == 0 ? 5 : 17) + R"(, "bbox": [)" + number(i) + ", " + number(j) + ", 10, 5]}";
    }
  }
  folder.write("instances.json", "{\"images\": [" + images + "], \"annotations\": [" + objects +
                                     R"(], "categories": [{"id": 5, "name": "a"}, {"id": 17, "name": "b"}]})");
}

void write_table(SharedFolder& folder) {
  std::string rows = "image,xmin,ymin,xmax,ymax,class\n";
  for (int j = 0; j < kMost; ++j) {
    for (int i = 0; i < kImages; ++i) {
      if (j < objects_of(i)) {
        rows += name_of(i) + "," + number(i) + "," + number(j) + "," + number(i + 10) + "," + number(j + 5) + "," +
                (j % 2 == 0 ? "a" : "b") + "\n";
      } else if (j == 0) {
        rows += name_of(i) + ",,,,,\n";
      }
    }
  }
  folder.write("boxes.csv", rows);
}

const std::vector<Written> kFormats{{"", write_voc}, {"instances.json", write_coco}, {"boxes.csv", write_table}};

Options options_of(const SharedFolder& folder, const Written& format) {
  Options options = memory_options(4);
  const std::int64_t batch_size = options.dataset.batch_size;
  options.dataset = images_options(folder / format.path);
  options.dataset.fields = {boxes_field(kMost)};
  options.dataset.batch_size = batch_size;
  options.dataset.drop_last = false;
  options.transform.size = {2 * kSide, 2 * kSide};
  options.transform.mirror = 1;
  return options;
}

// Counts the fresh samples by their grey; each must have its own boxes, mirrored and twice as large.
std::map<int, int> serve(Feeder& feeder, int steps = -1) {
  std::map<int, int> times;
  const std::size_t boxes = feeder.field_number("boxes");
  for (; steps != 0; --steps) {
    const auto batch = feeder.next();
    if (!batch) break;
    if (!batch->is_fresh()) continue;
    const TensorView images = batch->images();
    const auto* const pixels = images.as<std::uint8_t>();
    const auto* const sides = batch->field(boxes).as<float>();
    const auto* const classes = batch->field("boxes.class").as<std::int64_t>();
    for (std::size_t i = 0; i < static_cast<std::size_t>(images.shape[0]); ++i) {
      const int image = pixels[i * 4 * kSide * kSide * 3];
      ++times[image];
      CHECK(batch->counts(boxes).as<std::int32_t>()[i] == objects_of(image));
      for (int j = 0; j < objects_of(image); ++j) {
        const float* const box = sides + (i * kMost + static_cast<std::size_t>(j)) * 4;
        CHECK(std::vector<float>(box, box + 4) ==
              std::vector<float>{static_cast<float>(2 * (kSide - image - 10)), static_cast<float>(2 * j),
                                 static_cast<float>(2 * (kSide - image)), static_cast<float>(2 * j + 10)});
        CHECK(classes[i * kMost + static_cast<std::size_t>(j)] == j % 2);
      }
    }
  }
  return times;
}

}  // namespace

TEST_CASE("every image comes once with its own boxes, in a run that is stopped and resumed too") {
  for (const Written& format : kFormats) {
    CAPTURE(format.path);
    SharedFolder folder;
    for (int i = 0; i < kImages; ++i) folder.write(name_of(i), grey_npy(kSide, kSide, i));
    format.write(folder);
    const std::string state = (folder / "feed.state").string();
    std::map<int, int> mine;
    {
      Feeder feeder(options_of(folder, format), world());
      mine = serve(feeder, 2);
      feeder.save(state);
      feeder.close();
    }
    Feeder feeder(options_of(folder, format), world());
    CHECK(feeder.restore_if_present(state));
    for (const auto& [image, count] : serve(feeder)) mine[image] += count;
    const auto times = folder.sum(mine);
    CHECK(times.size() == kImages);
    for (const auto& [image, count] : times) CHECK(count == 1);
    feeder.close();
  }
}
