// Fields of kind "image", masks of 16 bits, and images with one channel.
#include <forebay/feeder.hpp>

#include "dataset_support.hpp"
#include "field_dataset.hpp"
#include "memory_dataset.hpp"
#include "test.hpp"

namespace forebay::test_pictures {
namespace {

using namespace testing;

// Depth values that use all 16 bits.
unsigned depth_at(std::int32_t x, std::int32_t y) {
  return static_cast<unsigned>((x * 641 + y * 809 + x * y * 17) % 65536);
}

template <typename T>
std::vector<T> depths() {
  std::vector<T> values;
  for (std::int32_t y = 0; y < kHeight; ++y) {
    for (std::int32_t x = 0; x < kWidth; ++x) values.push_back(static_cast<T>(depth_at(x, y)));
  }
  return values;
}
std::string shape_text() { return "(" + std::to_string(kHeight) + ", " + std::to_string(kWidth) + ")"; }

// The images of ViewedDataset, with this file as a field of each.
class PictureDataset final : public LikeDataset {
 public:
  PictureDataset(const Field& field, Bytes file)
      : LikeDataset(std::make_shared<ViewedDataset>(std::vector{field})), file_(std::move(file)) {}

  void read_field(std::uint64_t /*id*/, std::size_t /*field*/, ReadTarget& target) const override {
    std::ranges::copy(file_, target.reserve(file_.size()).begin());
  }

 private:
  Bytes file_;
};

Field picture(std::int64_t channels, DType dtype = DType::float32) {
  return {.name = "more", .kind = FieldKind::image, .dtype = dtype, .shape = {channels}};
}

// Visits every fresh batch.
void for_batches(const Options& options, const Field& field, const Bytes& file,
                 const std::function<void(const Lease&, const TensorView&)>& visit) {
  Feeder feeder(options, Parts{.dataset = std::make_shared<PictureDataset>(field, file)});
  std::size_t batches = 0;
  while (const auto batch = feeder.next()) {
    ++batches;
    visit(*batch, batch->field("more"));
  }
  CHECK(batches == 8);
  CHECK(feeder.summary().bad_samples == 0);
}

// The error of samples with this field.
std::string refusal(const Field& field, const Bytes& file) {
  Options options = viewed_options();
  options.on_bad = OnBad::fail;
  return error_of([&] { for_batches(options, field, file, [](const Lease&, const TensorView&) {}); });
}

// A pixel of a view by the filter's definition in real numbers: a triangle over pixel centres, as
// wide as the scale factor when shrinking.
double along(std::int32_t first, std::int32_t in, std::int32_t out, std::int32_t i,
             const std::function<double(std::int32_t)>& value) {
  const double scale = static_cast<double>(in) / out;
  const double reach = std::max(scale, 1.0);
  const double centre = (i + 0.5) * scale;
  double sum = 0;
  double weights = 0;
  for (std::int32_t x = 0; x < in; ++x) {
    const double weight = std::max(0.0, 1 - std::abs(x + 0.5 - centre) / reach);
    weights += weight;
    if (weight > 0) sum += weight * value(first + x);
  }
  return sum / weights;
}
double depth_in_view(const SampleView& view, std::int32_t x, std::int32_t y) {
  const Box& region = view.region;
  return along(region.left, region.width(), 28, view.mirror ? 27 - x : x, [&](std::int32_t column) {
    return along(region.top, region.height(), 20, y, [&](std::int32_t row) { return depth_at(column, row); });
  });
}

}  // namespace

TEST_CASE("a second picture of 8 bits has the bytes that the image itself would have") {
  Options options = viewed_options();
  const Bytes file = png_of(kWidth, kHeight, ramp(), false);
  for (const DType dtype : {DType::uint8, DType::float32, DType::float16, DType::bfloat16}) {
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      options.transform.views = layout == Layout::nchw ? 3 : 1;
      options.transform.dtype = dtype;
      options.transform.layout = layout;
      Field field = picture(3, dtype);
      field.mean = options.transform.mean;
      field.std = options.transform.std;
      for_batches(options, field, file, [&](const Lease& batch, const TensorView& more) {
        const TensorView images = batch.images();
        REQUIRE(more.shape == images.shape);
        CHECK(more.dtype == dtype);
        CHECK(more.layout == layout);
        CHECK(reinterpret_cast<std::uintptr_t>(more.data) % 256 == 0);
        CHECK(std::memcmp(more.data, images.data, images.bytes()) == 0);
      });
    }
  }
}

TEST_CASE("a depth map of 16 bits is resampled with all of them") {
  const Options options = viewed_options();
  Bytes file;
  SUBCASE("16-bit whole numbers") { file = npy_of("<u2", shape_text(), depths<std::uint16_t>()); }
  SUBCASE("float32") { file = npy_of("<f4", shape_text(), depths<float>()); }
  SUBCASE("float64") { file = npy_of("<f8", shape_text(), depths<double>()); }
  SUBCASE("32-bit whole numbers") { file = npy_of("<i4", shape_text(), depths<std::int32_t>()); }
  Field field = picture(1);
  field.mean = {100, 7, 7};  // with one channel the first counts
  field.std = {256, 7, 7};
  double worst = 0;
  for_batches(options, field, file, [&](const Lease& batch, const TensorView& more) {
    REQUIRE(more.shape == Shape{batch.size(), 20, 28, 1});
    const std::vector<SampleView> views = batch.views();
    const float* value = more.as<float>();
    for (const SampleView& view : views) {
      for (std::int32_t y = 0; y < 20; ++y) {
        for (std::int32_t x = 0; x < 28; ++x) {
          const double expected = (depth_in_view(view, x, y) - 100) / 256;
          worst = std::max(worst, std::abs(*value++ - expected));
        }
      }
    }
  });
  CHECK(worst < 1e-4);  // relative to 256: float32 has 24 bits
}

TEST_CASE("a picture of 16 bits as bytes is what the image itself would be: its upper bytes, then resized") {
  Options options = viewed_options();
  std::vector<std::uint8_t> upper;
  for (const std::uint16_t depth : depths<std::uint16_t>()) upper.push_back(static_cast<std::uint8_t>(depth >> 8U));
  std::vector<std::vector<std::uint8_t>> served;
  for (const Bytes& file :
       {npy_of("<u2", shape_text(), depths<std::uint16_t>()), png_of(kWidth, kHeight, upper, true)}) {
    served.emplace_back();
    for_batches(options, picture(1, DType::uint8), file, [&](const Lease& /*batch*/, const TensorView& more) {
      const auto* const first = more.as<std::uint8_t>();
      served.back().insert(served.back().end(), first, first + more.bytes());
    });
  }
  CHECK(served[0] == served[1]);
}

TEST_CASE("channels are made of one another: grey is repeated, colours are weighed") {
  Options options = viewed_options();
  options.transform.layout = Layout::nchw;
  const Bytes grey = npy_of("<u2", shape_text(), depths<std::uint16_t>());
  for_batches(options, picture(3), grey, [&](const Lease& batch, const TensorView& more) {
    REQUIRE(more.shape == Shape{batch.size(), 3, 20, 28});
    const float* const first = more.as<float>();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const float* const sample = first + i * 3 * 560;
      CHECK(std::equal(sample, sample + 560, sample + 560));
      CHECK(std::equal(sample, sample + 560, sample + 1120));
    }
  });
  std::vector<float> colours;
  for (const float depth : depths<float>()) colours.insert(colours.end(), {depth, 2 * depth, depth / 2});
  const std::string shape = "(" + std::to_string(kHeight) + ", " + std::to_string(kWidth) + ", 3)";
  double worst = 0;
  for_batches(options, picture(1), npy_of("<f4", shape, colours), [&](const Lease& batch, const TensorView& more) {
    REQUIRE(more.shape == Shape{batch.size(), 1, 20, 28});
    const auto views = batch.views();
    for (std::size_t i = 0; i < views.size(); ++i) {
      const double share = (19595.0 + 2 * 38470.0 + 7471.0 / 2) / 65536;
      worst = std::max(worst, std::abs(more.as<float>()[i * 560] / (share * depth_in_view(views[i], 0, 0) + 1) - 1));
    }
  });
  CHECK(worst < 1e-3);
}

TEST_CASE("a picture that cannot be served says why") {
  std::vector<float> broken = depths<float>();
  broken[77] = std::numeric_limits<float>::quiet_NaN();
  CHECK(contains(refusal(picture(1), npy_of("<f4", shape_text(), broken)), "a number that is not finite"));
  CHECK(contains(refusal(picture(1), npy_of("<f4", "(2, 2)", std::vector<float>{1, 2, 3, 4})),
                 "a picture of 2x2 pixels for an image of 96x64"));
  CHECK(contains(refusal(picture(1), Bytes(3)), "not an image"));
  CHECK(contains(refusal(picture(2), Bytes(3)), "its shape is [1] or [3], the channels"));
  CHECK(contains(refusal(picture(1, DType::uint8), npy_of("<f4", shape_text(), depths<float>())),
                 "images are uint8 or uint16"));
  Field field = picture(1);
  field.std[0] = 0;
  CHECK(contains(refusal(field, Bytes(3)), "its std more than 0"));
}

TEST_CASE("a mask of whole numbers may have more than 8 bits where its type does") {
  const Options options = viewed_options();
  const auto mask = [](DType dtype) { return Field{.name = "more", .kind = FieldKind::mask, .dtype = dtype}; };
  const Bytes file = npy_of("<u2", shape_text(), depths<std::uint16_t>());
  std::size_t wrong = 0;
  for_batches(options, mask(DType::int32), file, [&](const Lease& batch, const TensorView& more) {
    const std::vector<SampleView> views = batch.views();
    const std::int32_t* value = more.as<std::int32_t>();
    for (const SampleView& view : views) {
      const Box& region = view.region;
      for (std::int32_t y = 0; y < 20; ++y) {
        for (std::int32_t x = 0; x < 28; ++x) {
          const double across = ((view.mirror ? 27 - x : x) + 0.5) * region.width() / 28;
          const double down = (y + 0.5) * region.height() / 20;
          const unsigned expected = depth_at(region.left + static_cast<std::int32_t>(std::floor(across)),
                                             region.top + static_cast<std::int32_t>(std::floor(down)));
          wrong += *value++ == static_cast<std::int32_t>(expected) ? 0 : 1;
        }
      }
    }
  });
  CHECK(wrong == 0);
  CHECK(contains(refusal(mask(DType::uint8), file), "a mask with values of more than 8 bits; dtype"));
  std::vector<float> halves(depths<float>().size(), 0.5F);
  CHECK(contains(refusal(mask(DType::int64), npy_of("<f4", shape_text(), halves)), "a mask has whole numbers"));
}

TEST_CASE("pictures that lie beside images are served with them, from a saved index too") {
  const TemporaryDirectory folder;
  const auto save = [&](const std::string& name, const Bytes& bytes) {
    testing::write_file(folder / name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  for (const std::string name : {"a", "b", "c"}) {
    save("left/" + name + ".png", png_of(kWidth, kHeight, ramp(), false));
    save("right/" + name + ".png", png_of(kWidth, kHeight, ramp(), false));
    if (name != "c") save("depth/" + name + ".npy", npy_of("<u2", shape_text(), depths<std::uint16_t>()));
  }
  testing::write_file(folder / "left/list.txt", "a.png\nb.png\nc.png\n");
  Options options = viewed_options();
  options.dataset.path = (folder / "left/list.txt").string();
  options.dataset.index = (folder / "index").string();
  options.dataset.batch_size = 1;
  options.dataset.fields = {
      {.name = "right", .from = "../right/{stem}.png", .kind = FieldKind::image, .dtype = DType::uint8},
      {.name = "depth",
       .from = "../depth/{stem}.npy",
       .kind = FieldKind::image,
       .channels = 1,
       .std = {1000, 1000, 1000}}};
  for (int time = 0; time < 2; ++time) {
    Feeder feeder(options);
    CHECK(feeder.fields()[3].std[0] == 1000);
    while (const auto batch = feeder.next()) {
      CHECK(std::memcmp(batch->field("right").data, batch->images().data, batch->images().bytes()) == 0);
      const double expected = depth_in_view(batch->views()[0], 0, 0) / 1000;
      CHECK(batch->field("depth").as<float>()[0] == doctest::Approx(expected));
    }
    CHECK(feeder.summary().bad_samples == 1);  // c has no depth map
  }
  options.dataset.fields[1].std = {1, 1, 1};
  CHECK(contains(error_of([&] { Feeder feeder(options); }), "was built for other sections [fields.NAME]"));
}

TEST_CASE("with transform.channels = 1 a batch has the grey plane of what it would have with three") {
  Options options = viewed_options();
  options.transform.crop = Crop::random_resized;
  options.transform.layout = Layout::nchw;
  for (const DType dtype : {DType::uint8, DType::float32, DType::float16, DType::bfloat16}) {
    options.transform.dtype = dtype;
    const std::size_t element = size_of(dtype);
    // A grey image has three equal planes.
    const Bytes grey = png_of(kWidth, kHeight, testing::mask_values(), true);
    std::map<std::int64_t, std::vector<std::byte>> planes;
    for (const std::int64_t channels : {3, 1}) {
      options.transform.channels = channels;
      const TemporaryDirectory folder;
      std::string list;
      for (int i = 0; i < 12; ++i) {
        const std::string name = std::to_string(i) + ".png";
        testing::write_file(folder / name, {reinterpret_cast<const char*>(grey.data()), grey.size()});
        list += name + "\n";
      }
      testing::write_file(folder / "list.txt", list);
      options.dataset.path = (folder / "list.txt").string();
      Feeder feeder(options);
      CHECK(feeder.fields()[0].shape == Shape{channels, 20, 28});
      while (const auto batch = feeder.next()) {
        const TensorView images = batch->images();
        REQUIRE(images.shape == Shape{batch->size(), channels, 20, 28});
        for (std::size_t i = 0; i < batch->size(); ++i) {
          const auto* const first =
              static_cast<const std::byte*>(images.data) + i * static_cast<std::size_t>(channels) * 560 * element;
          planes[channels].insert(planes[channels].end(), first, first + 560 * element);
        }
      }
    }
    CHECK(planes[1].size() == 24 * 560 * element);
    CHECK(planes[1] == planes[3]);
  }
}

TEST_CASE("raw colours become grey before they are resized, and operations see grey pixels") {
  struct Own final : Operation {
    void apply(const PixelView& view, Random& /*random*/) const override {
      for (const Pixel& pixel : view.pixels) {
        if (pixel.red != pixel.green || pixel.red != pixel.blue) throw Error("not grey");
      }
    }
  };
  Options options = viewed_options();
  options.transform.channels = 1;
  options.transform.crop = Crop::none;
  options.transform.mirror = 0;
  options.transform.size = {kHeight, kWidth};
  options.transform.operations = {"own"};
  Parts parts{.dataset = std::make_shared<ViewedDataset>(std::vector<Field>{})};
  parts.operations.add("own", [](const TransformOptions&) { return std::make_unique<Own>(); });
  Feeder feeder(options, std::move(parts));
  const std::vector<std::uint8_t> colours = ramp();
  while (const auto batch = feeder.next()) {
    REQUIRE(batch->images().shape == Shape{batch->size(), kHeight, kWidth, 1});
    const auto* const pixels = batch->images().as<std::uint8_t>();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < colours.size() / 3; ++i) {
      const double grey = (19595.0 * colours[3 * i] + 38470.0 * colours[3 * i + 1]) / 65536;
      wrong += pixels[i] == static_cast<std::uint8_t>(grey + 0.5) ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

}  // namespace forebay::test_pictures
