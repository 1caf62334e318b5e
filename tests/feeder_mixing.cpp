// mixup and CutMix: compares mixed batches with the same batches of a run that does not mix.
#include <forebay/feeder.hpp>

#include "fake_job.hpp"
#include "field_dataset.hpp"
#include "memory_dataset.hpp"
#include "test.hpp"

namespace forebay::test_feeder_mixing {
namespace {

using namespace testing;

struct Served {
  std::uint32_t rows = 0;
  std::vector<std::byte> images = {};
  std::vector<std::int64_t> labels = {};
  std::vector<float> weights = {};  // empty if nothing is mixed
  friend bool operator==(const Served&, const Served&) = default;
};
using All = std::map<std::pair<std::uint64_t, std::uint64_t>, Served>;

Served served(const Lease& batch, bool has_weights) {
  Served result{.rows = batch.rows()};
  result.images.resize(batch.images().bytes());
  batch.copy_to_host(result.images);
  result.labels.assign(batch.labels().begin(), batch.labels().end());
  if (!has_weights) return result;
  const TensorView weights = batch.field("label_weights");
  REQUIRE(weights.shape == Shape{batch.rows(), 10});
  REQUIRE(weights.dtype == DType::float32);
  result.weights.assign(weights.as<float>(), weights.as<float>() + 10 * batch.rows());
  return result;
}

void serve(Feeder& feeder, All& all, std::size_t most = SIZE_MAX) {
  for (std::size_t i = 0; i < most; ++i) {
    const auto batch = feeder.next();
    if (!batch) return;
    const Served one = served(*batch, feeder.fields().size() > 2);
    const auto [at, is_new] = all.emplace(std::pair(batch->epoch(), batch->batch()), one);
    if (!is_new) CHECK(at->second == one);  // a reuse
  }
}

All serve_all(const Options& options, Parts parts) {
  Feeder feeder(options, std::move(parts));
  All all;
  serve(feeder, all);
  return all;
}

Options options_of(double mixup, double cutmix) {
  Options options = memory_options(5);
  options.run.epochs = 2;
  options.transform.crop = Crop::random_resized;
  options.transform.size = {12, 20};
  options.transform.mirror = 0.5;
  options.transform.mixup = {.probability = mixup, .alpha = 1};
  options.transform.cutmix = {.probability = cutmix, .alpha = 1};
  return options;
}

Options unmixed(Options options) {
  options.transform.mixup.probability = options.transform.cutmix.probability = 0;
  return options;
}

double number(std::span<const std::byte> bytes, std::size_t i, DType dtype) {
  if (dtype == DType::uint8) return std::to_integer<int>(bytes[i]);
  float value = 0;
  if (dtype == DType::float32) {
    std::memcpy(&value, &bytes[4 * i], 4);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, &bytes[2 * i], 2);
  if (dtype == DType::bfloat16) return std::bit_cast<float>(std::uint32_t{bits} << 16U);
  const int exponent = bits >> 10 & 31;
  const double magnitude = std::ldexp((bits & 1023) + (exponent > 0 ? 1024 : 0), std::max(exponent, 1) - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

std::uint32_t other_of(std::uint32_t row, std::uint32_t rows, std::uint32_t views) {
  return (rows / views - 1 - row / views) * views + row % views;
}

// The share that rows have of the other row; nothing if no two labels differ.
std::optional<double> share_of(const Served& mixed, std::uint32_t views) {
  for (std::uint32_t row = 0; row < mixed.rows; ++row) {
    const auto other = static_cast<std::size_t>(mixed.labels[other_of(row, mixed.rows, views)]);
    if (static_cast<std::size_t>(mixed.labels[row]) != other) return mixed.weights[10 * row + other];
  }
  return std::nullopt;
}

void check_labels(const Served& mixed, double share, std::uint32_t views) {
  for (std::uint32_t row = 0; row < mixed.rows; ++row) {
    std::vector<float> expected(10, 0.0F);
    expected[static_cast<std::size_t>(mixed.labels[row])] += static_cast<float>(1 - share);
    expected[static_cast<std::size_t>(mixed.labels[other_of(row, mixed.rows, views)])] += static_cast<float>(share);
    CHECK(std::equal(expected.begin(), expected.end(), mixed.weights.begin() + 10 * row));
    CHECK(std::accumulate(expected.begin(), expected.end(), 0.0) == 1);
  }
}

// Counts wrong elements of blended rows. The allowed error is that of one rounding, and of the
// preceding sum in float.
std::size_t wrong_blends(const Served& mixed, const Served& plain, double share, const TransformOptions& options) {
  const std::size_t elements = plain.images.size() / plain.rows / size_of(options.dtype);
  const double relative = options.dtype == DType::float16 ? 0x1p-11 : options.dtype == DType::bfloat16 ? 0x1p-8 : 0;
  std::size_t wrong = 0;
  for (std::uint32_t row = 0; row < plain.rows; ++row) {
    const std::uint32_t other = other_of(row, plain.rows, static_cast<std::uint32_t>(options.views));
    for (std::size_t i = 0; i < elements; ++i) {
      const double own = number(plain.images, row * elements + i, options.dtype);
      const double sum = own + share * (number(plain.images, other * elements + i, options.dtype) - own);
      const double found = number(mixed.images, row * elements + i, options.dtype);
      if (row == other) {
        wrong += found != own;
      } else if (options.dtype == DType::uint8) {
        wrong += found != std::floor(sum + 0.5);
      } else {
        wrong += std::abs(found - sum) > relative * std::abs(sum) + 1e-6;
      }
    }
  }
  return wrong;
}

// Counts wrong pixels of cut rows. Pixels that are not a row's own must all be the other row's and
// fill one rectangle of the share's area, the same in all rows.
std::size_t wrong_cuts(const Served& mixed, const Served& plain, double share, const TransformOptions& options) {
  const auto [height, width] = std::pair(static_cast<int>(options.size[0]), static_cast<int>(options.size[1]));
  const auto channels = static_cast<std::size_t>(options.channels);
  const auto at = [&](std::uint32_t row, int y, int x, std::size_t channel) {
    const auto plane = static_cast<std::size_t>(height * width);
    const auto pixel = static_cast<std::size_t>(y * width + x);
    const std::size_t within = options.layout == Layout::nchw ? channel * plane + pixel : pixel * channels + channel;
    return row * plane * channels + within;
  };
  const auto for_each = [&](const auto& call) {
    for (std::uint32_t row = 0; row < plain.rows; ++row) {
      for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
          for (std::size_t channel = 0; channel < channels; ++channel) call(row, y, x, at(row, y, x, channel));
        }
      }
    }
  };
  Box box{width, height, 0, 0};
  for_each([&](std::uint32_t /*row*/, int y, int x, std::size_t i) {
    if (number(mixed.images, i, options.dtype) == number(plain.images, i, options.dtype)) return;
    box = {std::min(box.left, x), std::min(box.top, y), std::max(box.right, x + 1), std::max(box.bottom, y + 1)};
  });
  std::size_t wrong = 0;
  for_each([&](std::uint32_t row, int y, int x, std::size_t i) {
    const bool is_cut = x >= box.left && x < box.right && y >= box.top && y < box.bottom;
    const std::size_t row_elements = at(1, 0, 0, 0);
    const std::uint32_t other = other_of(row, plain.rows, static_cast<std::uint32_t>(options.views));
    const std::size_t from = is_cut ? i + other * row_elements - row * row_elements : i;
    wrong += number(mixed.images, i, options.dtype) != number(plain.images, from, options.dtype);
  });
  const double area = box.right > box.left ? box.width() * box.height() : 0;
  return wrong + (std::abs(area - share * height * width) > 1e-4 ? 1 : 0);
}

// The replacement of a bad sample is mixed like any other.
Parts samples() {
  return parts(23, [](std::uint64_t id) {
    if (id == 3 || id == 11) throw SampleError("bad");
  });
}

TEST_CASE("a mixed batch is the blend or the collage of what it would be otherwise, and its weights say of what") {
  for (const DType dtype : {DType::uint8, DType::float32, DType::float16, DType::bfloat16}) {
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      for (const std::int64_t channels : {3, 1}) {
        for (const bool blends : {true, false}) {
          Options options = options_of(blends ? 1 : 0, blends ? 0 : 1);
          options.transform.dtype = dtype;
          options.transform.layout = layout;
          options.transform.channels = channels;
          options.transform.views = channels == 3 ? 1 : 3;
          const auto views = static_cast<std::uint32_t>(options.transform.views);
          CAPTURES(static_cast<int>(dtype), static_cast<int>(layout), channels, blends);
          const All plain = serve_all(unmixed(options), samples());
          const All mixed = serve_all(options, samples());
          REQUIRE(mixed.size() == 10);  // the last of an epoch has 3 samples
          std::set<double> shares;
          for (const auto& [place, batch] : mixed) {
            const Served& before = plain.at(place);
            CHECK(batch.labels == before.labels);
            const std::optional<double> share = share_of(batch, views);
            if (!share) continue;
            shares.insert(*share);
            check_labels(batch, *share, views);
            const auto wrong = blends ? wrong_blends : wrong_cuts;
            CHECK(wrong(batch, before, *share, options.transform) == 0);
          }
          CHECK(shares.size() >= 8);
        }
      }
    }
  }
}

TEST_CASE("a batch is the same with any number of threads and ranks, in lockstep, and in a resumed run") {
  Options options = options_of(0.4, 0.4);
  options.mpi.epoch_end = EpochEnd::next;
  const All expected = serve_all(options, samples());
  CHECK(expected != serve_all(unmixed(options), samples()));
  Options other = options;
  other.workers.decode = 5;
  other.queue.capacity = 2;
  other.policy = {.name = "interval", .interval = 2, .watchdog_s = 30};
  CHECK(serve_all(other, samples()) == expected);
  for (const MpiMode mode : {MpiMode::local, MpiMode::lockstep}) {
    other = options;
    other.mpi.mode = mode;
    std::mutex adding;
    All all;
    FakeJob job(3);
    job.run([&](Communicator& rank) {
      Feeder feeder(other, rank, samples());
      while (const auto batch = feeder.next()) {
        const std::lock_guard lock(adding);
        const Served one = served(*batch, true);
        CHECK(all.emplace(std::pair(batch->epoch(), batch->batch()), one).first->second == one);
      }
    });
    CHECK(all == expected);
  }
  All all;
  Feeder begun(options, samples());
  serve(begun, all, 3);
  Feeder resumed(options, samples());
  resumed.restore_state(begun.state());
  serve(resumed, all);
  CHECK(all == expected);
  other = options;
  other.transform.mixup.alpha = 2;
  Feeder changed(other, samples());
  CHECK(contains(error_of([&] { changed.restore_state(begun.state()); }), "mixup.alpha"));
}

TEST_CASE("shares are of the Beta distribution, and batches are mixed as often as is said") {
  Options options = memory_options(2);
  const auto shares = [&] {
    std::vector<double> all;
    for (const auto& [place, batch] : serve_all(options, parts(4000))) {
      if (const auto share = share_of(batch, 1)) all.push_back(*share);
    }
    REQUIRE(all.size() > 1700);
    std::ranges::sort(all);
    return all;
  };
  for (const double alpha : {0.2, 1.0, 4.5}) {
    CAPTURE(alpha);
    options.transform.mixup = {.probability = 1, .alpha = alpha};
    const std::vector<double> all = shares();
    const auto count = static_cast<double>(all.size());
    const double mean = std::accumulate(all.begin(), all.end(), 0.0) / count;
    double variance = 0;
    for (const double share : all) variance += (share - mean) * (share - mean) / count;
    CHECK(std::abs(mean - 0.5) < 0.03);
    CHECK(std::abs(variance * 4 * (2 * alpha + 1) - 1) < 0.1);
    const double quartile = alpha == 0.2 ? 0.0243 : alpha == 1 ? 0.25 : 0.3895;  // from tables
    CHECK(std::abs(all[all.size() / 4] - quartile) < 0.03);
    CHECK(std::abs(1 - all[all.size() * 3 / 4] - quartile) < 0.03);
  }
  options.transform.mixup = {.probability = 0.3, .alpha = 1000};
  options.transform.cutmix = {.probability = 0.5, .alpha = 1000};
  const std::vector<double> all = shares();
  const auto plain = static_cast<double>(std::ranges::count(all, 0.0));
  CHECK(std::abs(plain / static_cast<double>(all.size()) - 0.2) < 0.03);
}

TEST_CASE("a single sample and the middle one are themselves, and what is unlabelled has no weight") {
  Options options = options_of(1, 0);
  options.dataset.batch_size = 1;
  const All plain = serve_all(unmixed(options), parts(7));
  for (const auto& [place, batch] : serve_all(options, parts(7))) {
    CHECK(batch.images == plain.at(place).images);
    CHECK(batch.weights[static_cast<std::size_t>(batch.labels[0])] == 1);
  }
  options.dataset.batch_size = 2;
  const auto dataset = std::make_shared<MemoryDataset>(2);
  dataset->label_ = [](std::uint64_t id) { return id == 0 ? -1 : 4; };
  for (const auto& [place, batch] : serve_all(options, {.dataset = dataset})) {
    CHECK(std::accumulate(batch.weights.begin(), batch.weights.end(), 0.0) == 1);
    CHECK(batch.weights[4] + batch.weights[14] == 1);
  }
}

TEST_CASE("evaluation mixes nothing and has no weights") {
  Options options = options_of(0.5, 0.5);
  options.run = {.epochs = 1, .eval = true};
  CHECK(serve_all(options, samples()) == serve_all(unmixed(options), samples()));
  CHECK(Feeder(options, samples()).fields().size() == 2);
  options.run.eval = false;
  Feeder feeder(options, samples());
  REQUIRE(feeder.fields().size() == 3);
  CHECK(feeder.fields()[2].name == "label_weights");
  CHECK(feeder.fields()[2].kind == FieldKind::numbers);
}

TEST_CASE("what cannot be mixed is refused at the start") {
  struct Nameless : LikeDataset {
    using LikeDataset::LikeDataset;
    [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return none; }
    std::vector<std::string> none;
  };
  const Options options = options_of(0, 1);
  const auto refusal = [&](std::shared_ptr<const Dataset> dataset) {
    return error_of<ConfigError>([&] { return Feeder(options, Parts{.dataset = std::move(dataset)}).fields(); });
  };
  const std::string nameless = refusal(std::make_shared<Nameless>(std::make_shared<MemoryDataset>(9)));
  CHECK(contains(nameless, "dataset.classes: mixup and CutMix"));
  CHECK(contains(nameless, "or set mixup.probability and cutmix.probability to 0"));
  for (const Field& field : FieldDataset::every_plain_field()) {
    CHECK(contains(refusal(std::make_shared<FieldDataset>(9, std::vector{field})), "field \"" + field.name + "\": "));
  }
  CHECK(contains(refusal(std::make_shared<FieldDataset>(9, std::vector{FieldDataset::boxes(4)})), "field \"boxes\": "));

  const auto odd = std::make_shared<MemoryDataset>(9);
  odd->label_ = [](std::uint64_t id) { return id == 4 ? 10 : 0; };
  CHECK(contains(error_of([&] { return serve_all(options, {.dataset = odd}); }),
                 "gives the label 10, and labels are -1, for none, to 9, by classes()"));
  // Whose read() refuses the sample, it is a bad sample like others.
  const auto is_damaged = [](std::uint64_t id) { return id % 30 == 4; };  // as many as are looked at for a lost class
  const auto bad = std::make_shared<MemoryDataset>(90, [=](std::uint64_t id) {
    if (is_damaged(id)) throw SampleError("its label is no class");
  });
  bad->label_ = [=](std::uint64_t id) { return is_damaged(id) ? 10 : 0; };
  Options lenient = options;
  lenient.max_bad = std::int64_t{3};
  CHECK(error_of([&] { return serve_all(lenient, {.dataset = bad}); }) == "");
}

}  // namespace
}  // namespace forebay::test_feeder_mixing
