#include <forebay/feeder.hpp>
#include <nlohmann/json.hpp>

#include "memory_dataset.hpp"
#include "test.hpp"

// Bad samples in a run: their replacement, the quarantine log, the limits on how many are allowed,
// and what the user is told.
namespace forebay::test_feeder_bad_data {
namespace {

using namespace testing;

bool is_bad(std::uint64_t id) { return id % 10 == 3; }

void fail_bad(std::uint64_t id) {
  if (is_bad(id)) throw SampleError("is broken on purpose");
}

std::shared_ptr<MemoryDataset> tenth_bad(std::uint64_t size) { return std::make_shared<MemoryDataset>(size, fail_bad); }

using Batches = std::map<std::uint64_t, std::vector<std::uint64_t>>;

Batches run(const Options& options, std::shared_ptr<const Dataset> dataset) {
  Feeder feeder(options, Parts{.dataset = std::move(dataset)});
  Batches batches;
  while (auto batch = feeder.next()) {
    batches[batch->epoch() * 1000 + batch->batch()].assign(batch->ids().begin(), batch->ids().end());
  }
  return batches;
}

TEST_CASE("bad samples are replaced, the same way for any number of threads") {
  Options options = memory_options(5);
  options.run.epochs = 2;
  const Batches one = run(options, tenth_bad(100));
  CHECK(one.size() == 40);
  std::size_t samples = 0;
  for (const auto& [number, ids] : one) {
    samples += ids.size();
    for (const std::uint64_t id : ids) CHECK_FALSE(is_bad(id));
  }
  CHECK(samples == 200);
  options.workers.io = 7;
  options.workers.decode = 3;
  CHECK(run(options, tenth_bad(100)) == one);
}

TEST_CASE("raw images of more pixels than transform.max_pixels are bad samples") {
  Options options = memory_options(5);
  options.transform.max_pixels = 16;
  CHECK(run(options, std::make_shared<MemoryDataset>(20)).size() == 4);
  options.transform.max_pixels = 15;
  options.on_bad = OnBad::fail;
  CHECK_THROWS_WITH_AS(run(options, std::make_shared<MemoryDataset>(20)), doctest::Contains("max_pixels"), Error);
}

TEST_CASE("the quarantine log names each bad sample with its reason, the index's own included") {
  const TemporaryDirectory dir;
  Options options = memory_options(5);
  options.telemetry.dir = (dir / "run").string();
  const auto dataset = tenth_bad(100);
  dataset->skipped_.push_back({.path = "memory/torn.xml", .reason = "not well-formed", .bad = true});
  dataset->skipped_.push_back({.path = "memory/readme.txt", .reason = "not an image", .bad = false});
  {
    Feeder feeder(options, Parts{.dataset = dataset});
    while (feeder.next()) {
    }
    CHECK(feeder.summary().bad_samples == 11);
  }
  std::map<std::string, std::string> reasons;
  std::ifstream log(dir / "run/quarantine.0.jsonl");
  for (std::string line; std::getline(log, line);) {
    const auto entry = nlohmann::json::parse(line);
    reasons[entry.at("path")] = entry.at("reason");
  }
  CHECK(reasons.size() == 11);
  CHECK(reasons["memory/torn.xml"] == "not well-formed");
  CHECK(reasons["memory/13"] == "is broken on purpose");
}

TEST_CASE("a run says at its start what the index has to say, the first eight notes and how many more there are") {
  const auto dataset = std::make_shared<MemoryDataset>(20);
  for (int i = 0; i < 10; ++i) {
    dataset->skipped_.push_back(
        {.path = "memory/" + std::to_string(i), .reason = "no label", .bad = false, .told = true});
  }
  dataset->skipped_.push_back({.path = "memory/readme.txt", .reason = "not an image", .bad = false});
  std::vector<std::string> said;
  Parts parts{.dataset = dataset};
  parts.log = [&](LogLevel level, std::string_view line) {
    const bool is_told = line.starts_with("memory/") || contains(line, "more warnings");
    if (level == LogLevel::warning && is_told) said.emplace_back(line);
  };
  const Feeder feeder(memory_options(5), parts);
  REQUIRE(said.size() == 9);
  CHECK(said[7] == "memory/7: no label");
  CHECK(said[8] == "and 2 more warnings of the index: forebay index has all");
}

TEST_CASE("on_bad = \"fail\" ends the run with the sample's name and reason") {
  Options options = memory_options(5);
  options.on_bad = OnBad::fail;
  CHECK_THROWS_WITH_AS((void)run(options, tenth_bad(100)), doctest::Contains("is broken on purpose"), Error);
  const auto dataset = std::make_shared<MemoryDataset>(100);
  dataset->skipped_.push_back({.path = "memory/torn.xml", .reason = "not well-formed", .bad = true});
  CHECK_THROWS_WITH_AS((void)run(options, dataset), doctest::Contains("memory/torn.xml: not well-formed"), Error);
}

TEST_CASE("a budget over distinct bad samples, as a share or a count") {
  Options options = memory_options(5);
  options.run.epochs = 3;
  SUBCASE("5 % of 100, 10 are bad") {
    options.max_bad = 0.05;
    CHECK_THROWS_WITH_AS((void)run(options, tenth_bad(100)), doctest::Contains("max_bad"), Error);
  }
  SUBCASE("9, 10 are bad") {
    options.max_bad = std::int64_t{9};
    CHECK_THROWS_WITH_AS((void)run(options, tenth_bad(100)), doctest::Contains("max_bad"), Error);
  }
  SUBCASE("10, 10 are bad, however often they are met") {
    options.max_bad = std::int64_t{10};
    CHECK(run(options, tenth_bad(100)).size() == 60);
  }
  SUBCASE("10 %, 10 are bad") {
    options.max_bad = 0.1;
    CHECK(run(options, tenth_bad(100)).size() == 60);
  }
}

// Runs a feeder with max_bad = "auto"; returns the lines that it logged, the error last.
std::vector<std::string> lines_of_default(std::shared_ptr<const Dataset> dataset, bool eval = false) {
  Options options = memory_options(4);
  options.max_bad = AutomaticBudget{};
  options.run.eval = eval;
  const auto lines = std::make_shared<std::vector<std::string>>();
  try {
    Feeder feeder(options, Parts{.dataset = std::move(dataset),
                                 .log = [lines](LogLevel, std::string_view text) { lines->emplace_back(text); }});
    while (feeder.next()) {
    }
    lines->emplace_back("ended well");
  } catch (const Error& error) {
    lines->emplace_back(error.what());
  }
  return *lines;
}

std::string last_of_default(std::shared_ptr<const Dataset> dataset, bool eval = false) {
  return lines_of_default(std::move(dataset), eval).back();
}

TEST_CASE("by default a hundredth may be bad, and in a small dataset 5, but fewer than half") {
  const auto with_bad = [](std::uint64_t size, std::uint64_t bad) {
    return std::make_shared<MemoryDataset>(size, [=](std::uint64_t id) {
      if (id * 7 % size < bad) throw SampleError("is broken on purpose");
    });
  };
  for (const bool eval : {false, true}) {
    CAPTURE(eval);
    CHECK(last_of_default(with_bad(1000, 10), eval) == "ended well");
    CHECK(last_of_default(with_bad(1000, 11), eval).find("max_bad allows 10") != std::string::npos);
    CHECK(last_of_default(with_bad(100, 5), eval) == "ended well");
    CHECK(last_of_default(with_bad(100, 6), eval).find("max_bad allows 5") != std::string::npos);
    CHECK(last_of_default(with_bad(6, 1), eval) == "ended well");
    CHECK(last_of_default(with_bad(6, 3), eval).find("max_bad allows 2") != std::string::npos);
  }
  CHECK(last_of_default(with_bad(100, 50)).find("is broken on purpose") != std::string::npos);
}

TEST_CASE("by default the index's bad entries count from the start") {
  const auto dataset = std::make_shared<MemoryDataset>(94);
  for (int i = 0; i < 6; ++i) dataset->skipped_.push_back({.path = "memory/torn.xml", .reason = "not well-formed"});
  CHECK(last_of_default(dataset).find("the first: memory/torn.xml: not well-formed)") != std::string::npos);
  dataset->skipped_.pop_back();
  CHECK(last_of_default(dataset) == "ended well");
}

TEST_CASE("of a fraction, the index's bad entries count as their share") {
  Options options = memory_options(4);
  options.max_bad = AutomaticBudget{};
  options.dataset.fraction = 0.1;
  const auto dataset = std::make_shared<MemoryDataset>(1190);
  for (int i = 0; i < 10; ++i) dataset->skipped_.push_back({.path = "memory/torn.xml", .reason = "not well-formed"});
  CHECK(run(options, dataset).size() == 29);
  options.max_bad = std::int64_t{0};
  CHECK_THROWS_WITH_AS((void)run(options, dataset), doctest::Contains("found by the index"), Error);
}

TEST_CASE("by default no class may be missing, however small its share") {
  const auto with_class = [](std::uint64_t members, std::uint64_t bad) {
    auto dataset = std::make_shared<MemoryDataset>(5000, [=](std::uint64_t id) {
      if (id >= 70 && id < 70 + bad) throw SampleError("is broken on purpose");
    });
    dataset->label_ = [=](std::uint64_t id) {
      return static_cast<std::int64_t>(id >= 70 && id < 70 + members ? 7 : 1);
    };
    return dataset;
  };
  for (const bool eval : {false, true}) {
    CAPTURE(eval);
    const std::string all = last_of_default(with_class(30, 30), eval);
    CHECK(contains(all, "samples of class \"7\" are bad: memory/70: is broken on purpose; memory/"));
    CHECK(contains(all, "raise max_bad"));
    CHECK(last_of_default(with_class(30, 16), eval).find("16 of the 30 samples of class") != std::string::npos);
    CHECK(last_of_default(with_class(30, 15), eval) == "ended well");
    CHECK(last_of_default(with_class(3, 3), eval).find("3 of the 3 samples of class") != std::string::npos);
    CHECK(last_of_default(with_class(9, 8), eval) == "ended well");
    CHECK(last_of_default(with_class(2, 2), eval) == "ended well");  // may be coincidence
  }
}

TEST_CASE("a run that ends well says what share was replaced, by classes") {
  auto dataset = std::make_shared<MemoryDataset>(1000, [](std::uint64_t id) {
    if (id == 3 || id == 13 || id == 21) throw SampleError("is broken on purpose");
  });
  const auto lines = lines_of_default(dataset);
  CHECK(std::ranges::count(lines,
                           "3 of 1000 samples (0.3 %) are bad, and others were served in their place: 2 of class "
                           "\"3\", 1 of class \"1\"") == 1);
  for (int i = 0; i < 4; ++i) dataset->skipped_.push_back({.path = "memory/torn.xml", .reason = "not well-formed"});
  const std::string last = lines_of_default(dataset).end()[-2];
  CAPTURE(last);
  CHECK(contains(last,
                 "7 of 1004 samples (0.7 %) are bad: the index left out 4, and others were served in place of the "
                 "rest: 2 of class"));
  CHECK(contains(lines_of_default(dataset, true).end()[-2], "evaluated 997 of 1004 samples; 7 left out because"));
  Options options = memory_options(4);
  options.run.eval = true;
  CHECK(Feeder(options, Parts{.dataset = dataset}).summary().left_out == 4);
  dataset->skipped_.clear();
  const auto says = [](const std::string& line) { return line.find("in their place") != line.npos; };
  CHECK(std::ranges::none_of(lines_of_default(std::make_shared<MemoryDataset>(1000)), says));
  Feeder feeder(memory_options(4), Parts{.dataset = dataset});
  while (feeder.next()) {
  }
  CHECK(feeder.summary().bad_share == doctest::Approx(0.003));
}

TEST_CASE("a dataset without a good sample ends in an error, not in a search without end") {
  const auto dataset = std::make_shared<MemoryDataset>(50, [](std::uint64_t) { throw SampleError("is gone"); });
  CHECK_THROWS_WITH_AS((void)run(memory_options(5), dataset), doctest::Contains("samples in a row are bad"), Error);
}

TEST_CASE("more bad samples than max_bad allows end a wait for a batch, at the start and later") {
  using namespace std::chrono_literals;
  Options options = memory_options(5);
  options.max_bad = std::int64_t{3};
  options.workers.io = 1;
  std::atomic<std::uint64_t> good{0};
  SUBCASE("no batch comes") { good = 0; }
  SUBCASE("some batches come") { good = 40; }
  const auto dataset = std::make_shared<MemoryDataset>(1000, [&good](std::uint64_t) {
    if (good > 0) {
      --good;
      return;
    }
    std::this_thread::sleep_for(10ms);
    throw SampleError("is gone");
  });
  const auto began = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH_AS((void)run(options, dataset), doctest::Contains("is gone"), Error);
  CHECK_THROWS_WITH_AS((void)run(options, dataset), doctest::Contains("max_bad allows 3"), Error);
  CHECK(std::chrono::steady_clock::now() - began < 5s);
}

TEST_CASE("an evaluation that ends because too much is bad says once what it had left out") {
  Options options = memory_options(2);
  options.run.eval = true;
  options.max_bad = std::int64_t{1};
  // The second bad sample is read only after the first was left out.
  std::promise<void> waits;
  const std::shared_future<void> until(waits.get_future());
  Parts parts{.dataset = std::make_shared<MemoryDataset>(20, [until](std::uint64_t id) {
                if (id == 18) (void)until.wait_for(std::chrono::minutes(1));
                if (id == 1 || id == 18) throw SampleError("is broken on purpose");
              })};
  const auto lines = std::make_shared<std::vector<std::string>>();
  parts.log = [lines](LogLevel, std::string_view text) { lines->emplace_back(text); };
  {
    Feeder feeder(options, std::move(parts));
    CHECK(feeder.next().has_value());
    waits.set_value();
    const auto finish = [&feeder] {
      while (feeder.next()) {
      }
    };
    CHECK_THROWS_WITH_AS(finish(), doctest::Contains("max_bad"), Error);
    CHECK_THROWS_AS(finish(), Error);
    feeder.close();
  }
  const auto says = [](const std::string& line) { return line.find("left out because") != line.npos; };
  CHECK(std::count_if(lines->begin(), lines->end(), says) == 1);
}

}  // namespace
}  // namespace forebay::test_feeder_bad_data
