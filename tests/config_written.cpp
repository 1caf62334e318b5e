#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include <forebay/config.hpp>
#include <forebay/random.hpp>

#include "config_support.hpp"

// Options written as TOML.
namespace forebay {
namespace {

using config::Key;
using testing::check_same;
using testing::contains;
using testing::parse;

// Draws a permitted value for every key.
class AnyOptions {
 public:
  explicit AnyOptions(std::uint64_t seed) : random_(seed) {}

  Options draw() {
    Options options;
    for (const Key& key : config::keys()) std::visit([&](const auto& kind) { fill(kind, options); }, key.kind);
    options.device = random_.below(2) == 0 ? "auto" : "host";
    if (random_.below(2) == 0) {
      options.telemetry.prometheus = "";
    } else {
      options.telemetry.prometheus += ".prom";
    }
    options.mpi.mode = MpiMode::local;
    options.transform.when = When::enqueue;
    options.transform.channels = options.transform.channels == 1 ? 1 : 3;
    if (options.transform.channels == 1) options.workers.jpeg = JpegLibrary::turbo;
    if (options.policy.low > options.policy.high) std::swap(options.policy.low, options.policy.high);
    std::ranges::sort(options.transform.scale);
    std::ranges::sort(options.transform.ratio);
    std::ranges::sort(options.transform.erase.area);
    for (double& share : options.dataset.split) share /= static_cast<double>(options.dataset.split.size());
    options.dataset.part %= std::max<std::int64_t>(1, std::ssize(options.dataset.split));
    options.transform.size = {1 + static_cast<std::int64_t>(random_.below(512)), 224};
    return options;
  }

 private:
  double number(const config::Range<double>& range) {
    const double high = std::isinf(range.high) ? 1e300 : range.high;
    const std::uint64_t kind = random_.below(8);
    if (kind == 0) return range.high;
    if (kind == 1 && !range.above_low) return range.low;
    return std::min(high, range.low + (high - range.low) * (1 - random_.uniform()));
  }
  std::int64_t number(const config::Range<std::int64_t>& range) {
    return range.low + static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(range.high - range.low) + 1));
  }
  std::string text() {
    static constexpr std::string_view kPieces[] = {"a",    "\"", "\\", "\n", "\t", "\x01",
                                                   "\x7f", "#",  "é",  "=",  "'",  " "};
    std::string result;
    for (std::uint64_t left = random_.below(9); left > 0; --left) result += kPieces[random_.below(std::size(kPieces))];
    return result;
  }

  void fill(const config::Flag& flag, Options& options) { flag.field.in(options) = random_.below(2) == 0; }
  void fill(const config::Seed& seed, Options& options) {
    seed.field.in(options) = random_.bits() >> random_.below(64);
  }
  void fill(const config::Text& value, Options& options) {
    value.field.in(options) =
        value.choices.empty() ? text() : std::string(value.choices[random_.below(value.choices.size())]);
  }
  void fill(const config::TextList& list, Options& options) {
    for (std::uint64_t left = random_.below(4); left > 0; --left) list.field.in(options).push_back(text());
  }
  void fill(const config::RealList& list, Options& options) {
    for (std::uint64_t left = random_.below(4); left > 0; --left) list.field.in(options).push_back(number(list.range));
  }
  void fill(const config::WholeList& list, Options& options) {
    for (std::uint64_t left = random_.below(4); left > 0; --left) list.field.in(options).push_back(number(list.range));
  }
  void fill(const config::Choice& choice, Options& options) { choice.set(options, random_.below(choice.names.size())); }
  void fill(const config::Budget& budget, Options& options) {
    BadBudget& value = budget.field.in(options);
    if (random_.below(3) == 0) {
      value = AutomaticBudget{};
    } else if (random_.below(2) == 0) {
      value = static_cast<std::int64_t>(random_.below(1000));
    } else {
      value = random_.below(3) == 0 ? 1.0 : random_.uniform();
    }
  }
  template <typename T, std::size_t N>
  void fill(const config::Tuple<T, N>& tuple, Options& options) {
    for (T& value : tuple.field.in(options)) value = number(tuple.range);
  }
  template <typename Number>
  void fill(const Number& kind, Options& options) {
    kind.field.in(options) = number(kind.range);
  }

  Random random_;
};

TEST_CASE("what is written reads back to the same options, bit for bit") {
  const std::uint64_t seed = std::random_device{}();
  MESSAGE("seed ", seed);
  for (std::uint64_t i = 0; i < 300; ++i) {
    Options options = AnyOptions(key64(seed, i)).draw();
    options.dataset.batch_size = 1 + options.dataset.batch_size % 64;  // within memory together with the others
    const std::string toml = to_toml(options);
    CAPTURE(toml);
    const Options again = parse(toml);
    check_same(again, options);
    REQUIRE(to_toml(again) == toml);
  }
}

TEST_CASE("sizes are written exactly, in the largest unit that divides them") {
  const auto written = [](std::int64_t bytes) {
    Options options;
    options.workers.bytes = bytes;
    return to_toml(options);
  };
  CHECK(contains(written(256LL << 20), "bytes = \"256MiB\""));
  CHECK(contains(written(64'000'000), "bytes = \"64MB\""));
  CHECK(contains(written(12345), "bytes = 12345 "));
}

TEST_CASE("programs are told every key, with a value that may be written") {
  const auto all = config_keys();
  REQUIRE(all.size() == config::keys().size());
  std::string toml;
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].section == config::keys()[i].section);
    CHECK(all[i].name == config::keys()[i].name);
    CHECK_FALSE(all[i].expected.empty());
    CHECK(contains(to_toml(Options()), all[i].help));
    const std::string section = all[i].section.empty() ? "" : all[i].section + ".";
    toml += section + all[i].name + " = " + all[i].default_value + "\n";
  }
  CHECK(to_toml(parse(toml)) == to_toml(Options()));
}

}  // namespace
}  // namespace forebay
