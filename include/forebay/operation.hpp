#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/options.hpp>
#include <forebay/random.hpp>

namespace forebay {

// A pixel of a view. `spare` is there so that a pixel fills a word; its value means nothing.
struct Pixel {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
  std::uint8_t spare = 0;

  [[nodiscard]] constexpr bool operator==(const Pixel& other) const noexcept {
    return red == other.red && green == other.green && blue == other.blue;
  }
};
static_assert(sizeof(Pixel) == 4 && alignof(Pixel) == 1);

// What one view of a sample shows, in the size of the result: cropped, turned, mirrored and resized, not yet
// normalised. It owns nothing.
struct PixelView {
  std::span<Pixel> pixels;  // width * height of them, rows from the top, without gaps
  std::int32_t width = 0;
  std::int32_t height = 0;

  // Row y from the top. REQUIRES: 0 <= y < height.
  [[nodiscard]] std::span<Pixel> row(std::int32_t y) const noexcept {
    return pixels.subspan(static_cast<std::size_t>(y) * static_cast<std::size_t>(width),
                          static_cast<std::size_t>(width));
  }
};

// Changes what a sample shows between its view and its place in a batch (docs/operations.md). One object serves all
// decoder threads of a feeder at the same time, so apply() is const and changes nothing of the object.
class Operation {
 public:
  virtual ~Operation() = default;

  // Changes the pixels in place. The result must depend on them, the object and `random` alone: then a sample is the
  // same whatever thread or rank makes it, and in a resumed run. `random` is seeded by (seed, epoch, position, use) and
  // the operation's place in transform.operations. Any thread. Whatever it throws ends the run, on all ranks, with an
  // error that names the sample and the operation.
  virtual void apply(const PixelView& view, Random& random) const = 0;

  // Whether every pixel stays where it is, and only its colour changes. Masks and boxes cannot follow an operation that
  // does not say so: a feeder that has both is refused.
  [[nodiscard]] virtual bool keeps_places() const noexcept { return false; }

  // Whether it is applied in evaluation (run.eval) too. Preparation of images is; augmentation is not.
  [[nodiscard]] virtual bool in_evaluation() const noexcept { return false; }
};

// Makes an operation when a feeder is constructed, on every rank. Throws ConfigError for options it cannot honour.
using OperationFactory = std::function<std::unique_ptr<const Operation>(const TransformOptions&)>;

// Operations by name, for transform.operations. A value: copy it, add to it, hand it to a feeder (Parts::operations).
// One thread at a time.
class OperationRegistry {
 public:
  // The operations that come with Forebay: "colour", "blur", "solarise" and "erase".
  [[nodiscard]] static OperationRegistry builtin();

  // Adds an operation, replacing one of the same name.
  void add(std::string name, OperationFactory factory);
  [[nodiscard]] std::vector<std::string> names() const;
  // Throws ConfigError naming transform.operations and the known names when there is no such operation, and whatever
  // the factory throws.
  [[nodiscard]] std::unique_ptr<const Operation> make(std::string_view name, const TransformOptions& options) const;

 private:
  std::map<std::string, OperationFactory, std::less<>> factories_;
};

}  // namespace forebay
