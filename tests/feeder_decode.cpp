#include <sys/wait.h>
#include <unistd.h>
#include <forebay/feeder.hpp>

#include "feeder/run.hpp"
#include "jpeg/decode_index.hpp"
#include "jpeg/pixel_kernels.hpp"
#include "jpeg_support.hpp"
#include "make/jpeg_decoder.hpp"
#include "measure/console_log.hpp"
#include "memory_dataset.hpp"
#include "test.hpp"

namespace forebay::test_feeder_decode {

using namespace forebay::feeder;
using namespace forebay::jpeg;
using namespace forebay::make;
using namespace forebay::measure;

// transform.decode, from files to batches.
namespace {

using namespace testing;

std::vector<std::vector<std::byte>> files() {
  std::vector<std::vector<std::byte>> all;
  for (int i = 0; i < 48; ++i) {
    Recipe recipe;
    recipe.width = 100 + 7 * i;
    recipe.height = 420 - 5 * i;
    recipe.subsampled = i % 3 != 0;
    recipe.progressive = i % 4 == 0;
    recipe.app1 = exif_segment(1 + i % 8);
    all.push_back(make_jpeg(recipe));
  }
  return all;
}

Options options_of(Crop crop, Decode decode) {
  Options options = memory_options(8);
  options.run.epochs = 2;
  options.transform.crop = crop;
  options.transform.size = {32, 40};
  options.transform.mirror = 0.5;
  options.transform.decode = decode;
  return options;
}

Batches run(const Options& options, const std::shared_ptr<const Dataset>& dataset, std::uint64_t* bad = nullptr) {
  return batches_of(options, {.dataset = dataset}, bad);
}

double mean_difference(const Batches& some, const Batches& others) {
  double sum = 0;
  std::size_t count = 0;
  for (const auto& [key, bytes] : some) {
    const auto& other = others.at(key);
    REQUIRE(other.size() == bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      sum += std::abs(std::to_integer<int>(bytes[i]) - std::to_integer<int>(other[i]));
    }
    count += bytes.size();
  }
  return sum / static_cast<double>(count);
}

}  // namespace

TEST_CASE("decoding a region and decoding all give the same batches") {
  for (const auto& box : {std::optional<Box>{}, std::optional<Box>{Box{20, 30, 95, 600}}}) {
    if (testing::kSanitized && !box) continue;
    const auto dataset = std::make_shared<JpegDataset>(files(), box);
    for (const Crop crop : {Crop::none, Crop::center, Crop::random_resized}) {
      Options region = options_of(crop, Decode::region);
      const auto expected = run(options_of(crop, Decode::full), dataset);
      CHECK(expected.size() == 12);
      CHECK(run(region, dataset) == expected);
      region.workers.decode = 3;
      CHECK(run(region, dataset) == expected);
    }
  }
}

TEST_CASE("batches are the same whoever decodes, by a decode index or without one, and so are bad samples") {
  auto all = files();
  all[5].resize(all[5].size() / 2);
  const testing::TemporaryDirectory dir;
  const std::string index = (dir / "files.index").string();
  DecodeIndexWriter writer;
  for (const auto& file : all) {
    JpegDecoder decoder(trusted_pixel_kernels());
    (void)decoder.open(file, {});
    if (auto points = decoder.locate(); !points.empty()) writer.add(key_of(file), std::move(points));
  }
  CHECK(writer.files() > 20);
  writer.save(decode_index_of(index));
  all[7].pop_back();  // changed since then, and truncated
  const auto dataset = std::make_shared<JpegDataset>(all, std::nullopt);
  for (const Decode decode : {Decode::region, Decode::full, Decode::scaled}) {
    Options options = options_of(Crop::random_resized, decode);
    options.workers.jpeg = JpegLibrary::turbo;
    std::uint64_t expected_bad = 0;
    const auto expected = run(options, dataset, &expected_bad);
    CHECK(expected_bad > 0);
    options.workers.jpeg = JpegLibrary::own;
    for (const std::string& used : {std::string(), index}) {
      options.dataset.index = used;
      std::uint64_t bad = 0;
      CHECK(run(options, dataset, &bad) == expected);
      CHECK(bad == expected_bad);
    }
  }
}

TEST_CASE("what is wrong with a decode index, one rank says; what befell it alone, each") {
  const testing::TemporaryDirectory dir;
  Options options;
  options.workers.jpeg = JpegLibrary::own;
  options.dataset.index = (dir / "files.index").string();
  const std::string points = decode_index_of(options.dataset.index);
  std::vector<std::string> lines;
  ConsoleLog console(3, Live::never, stderr,
                     [&](LogLevel /*level*/, std::string_view text) { lines.emplace_back(text); });
  const auto is_opened = [&](bool is_first) {
    lines.clear();
    return choose_jpeg_decoding(options, nullptr, 1, console, is_first).index != nullptr;
  };
  CHECK_FALSE(is_opened(true));
  CHECK(lines.empty());  // there is no decode index
  DecodeIndexWriter().save(points);
  CHECK(is_opened(false));
  CHECK(lines.empty());
  if (!testing::kSanitized) {  // the sanitizers open files themselves
    {
      const NoMoreFiles none;
      CHECK_FALSE(is_opened(false));
    }
    REQUIRE(lines.size() == 1);
    CHECK(testing::contains(lines[0],
                            "decode index " + points + ": cannot open: Too many open files (this process may "));
    CHECK(testing::contains(lines[0], "raise ulimit -n"));
    CHECK(testing::contains(lines[0], "(read 4 times); images are decoded without it"));
  }
  std::filesystem::resize_file(points, 10);
  CHECK_FALSE(is_opened(false));
  CHECK(lines.empty());
  CHECK_FALSE(is_opened(true));
  REQUIRE(lines.size() == 1);
  CHECK(testing::contains(lines[0],
                          "not a decode index of Forebay; delete it, or write it again with forebay index "
                          "--decode-index; images are decoded without it"));
}

TEST_CASE("decoding to a smaller scale gives nearly the same batches, and always the same") {
  const auto dataset = std::make_shared<JpegDataset>(files(), std::nullopt);
  const auto exact = run(options_of(Crop::random_resized, Decode::region), dataset);
  Options scaled = options_of(Crop::random_resized, Decode::scaled);
  const auto approximate = run(scaled, dataset);
  const double difference = mean_difference(exact, approximate);
  CHECK(difference > 0);
  CHECK(difference < 8);  // the images are half noise; for photographs it is about 1
  scaled.workers.decode = 3;
  CHECK(run(scaled, dataset) == approximate);
}

TEST_CASE("canvases are the same bytes however much is decoded, and show what samples made at once show") {
  for (const auto& box : {std::optional<Box>{}, std::optional<Box>{Box{20, 30, 95, 600}}}) {
    if (testing::kSanitized && !box) continue;
    const auto dataset = std::make_shared<JpegDataset>(files(), box);
    const auto options = [](Crop crop, Decode decode, When when) {
      Options all = options_of(crop, decode);
      all.transform.when = when;
      return all;
    };
    const auto expected = run(options(Crop::random_resized, Decode::full, When::dequeue), dataset);
    CHECK(run(options(Crop::random_resized, Decode::region, When::dequeue), dataset) == expected);
    // Canvases are resized in two steps, and decoded at a smaller scale before.
    Options whole = options(Crop::none, Decode::region, When::enqueue);
    whole.transform.mirror = 0;
    const auto at_once = run(whole, dataset);
    whole.transform.when = When::dequeue;
    CHECK(mean_difference(run(whole, dataset), at_once) < 4);
    whole.transform.decode = Decode::scaled;
    CHECK(mean_difference(run(whole, dataset), at_once) < 8);
  }
}

TEST_CASE("damage below a crop is found by decode = \"full\", a file cut short by every kind of decoding") {
  Recipe recipe;
  recipe.width = recipe.height = 256;
  recipe.restart_interval = 16;
  auto damaged = make_jpeg(recipe);
  for (auto at = damaged.end() - 2; at != damaged.begin(); --at) {  // the last restart marker
    if (at[-1] != std::byte{0xff} || (at[0] & std::byte{0xf8}) != std::byte{0xd0}) continue;
    at[0] ^= std::byte{5};
    break;
  }
  auto cut = make_jpeg(recipe);
  cut.resize(cut.size() - 2);
  std::vector<std::vector<std::byte>> with_damage(9, make_jpeg(recipe));
  auto with_cut = with_damage;
  with_damage.push_back(damaged);
  with_cut.push_back(cut);
  const Box top{0, 0, 200, 120};
  for (const Decode decode : {Decode::region, Decode::full, Decode::scaled}) {
    std::uint64_t bad = 0;
    run(options_of(Crop::none, decode), std::make_shared<JpegDataset>(with_damage, top), &bad);
    CHECK(bad == (decode == Decode::full ? 1 : 0));
    run(options_of(Crop::none, decode), std::make_shared<JpegDataset>(with_cut, top), &bad);
    CHECK(bad == 1);
  }
}

TEST_CASE("a process that calls exit() with a feeder at work ends with that code") {
  Options options = options_of(Crop::random_resized, Decode::full);
  options.run.epochs = 1000;
  options.workers.decode = 3;
  const auto dataset = std::make_shared<JpegDataset>(files(), std::nullopt);
  for (int i = 0; i < 30; ++i) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::alarm(60);
      static std::optional<Feeder> feeder;  // destroyed by exit() too, after what was made later
      feeder.emplace(options, Parts{.dataset = dataset});
      static_cast<void>(feeder->next());
      std::exit(7);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK((WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status)) == 7);
  }
}

}  // namespace forebay::test_feeder_decode
