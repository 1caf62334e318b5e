// An operation from outside Forebay. It posterises some views, as in RandAugment: they keep only the upper bits of each
// value. It runs before the built-in ones.
//
//   custom_operation feed.toml [section.key=value ...]

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <forebay/feeder.hpp>

namespace {

class Posterise final : public forebay::Operation {
 public:
  explicit Posterise(double probability) : probability_(probability) {}

  // On any decoder thread; the generator is this sample's, so that every run and every rank draws the same.
  void apply(const forebay::PixelView& view, forebay::Random& random) const override {
    if (random.uniform() >= probability_) return;
    const auto kept = static_cast<std::uint8_t>(0xff << (1 + random.below(5)));
    for (forebay::Pixel& pixel : view.pixels) {
      pixel.red &= kept;
      pixel.green &= kept;
      pixel.blue &= kept;
    }
  }

 private:
  double probability_;
};

}  // namespace

int main(int argc, char** argv) try {
  std::vector<std::string> settings(argv + std::min(argc, 2), argv + argc);
  settings.emplace_back(R"(transform.operations=["posterise", "colour", "erase"])");
  forebay::Parts parts;
  parts.operations.add("posterise", [](const auto& /*options*/) { return std::make_unique<Posterise>(0.5); });
  forebay::Feeder feeder(forebay::load_options(argc > 1 ? argv[1] : "feed.toml", settings), std::move(parts));
  std::printf("%s\n", feeder.describe().c_str());
  while (feeder.next()) {
  }
  const forebay::Summary summary = feeder.summary();
  std::printf("%llu steps fresh, %llu reused\n", static_cast<unsigned long long>(summary.fresh),
              static_cast<unsigned long long>(summary.reused));
  return summary.fresh > 0 ? 0 : 1;
} catch (const forebay::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
