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

// A pixel of a view. `spare` pads it to a word; its value is meaningless.
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

// The pixels of one view of a sample at their final size: cropped, rotated, mirrored and resized, not yet normalised.
// Non-owning.
struct PixelView {
  std::span<Pixel> pixels;  // width * height of them, top row first, without gaps
  std::int32_t width = 0;
  std::int32_t height = 0;

  // Row y from the top. REQUIRES: 0 <= y < height.
  [[nodiscard]] std::span<Pixel> row(std::int32_t y) const noexcept {
    return pixels.subspan(static_cast<std::size_t>(y) * static_cast<std::size_t>(width),
                          static_cast<std::size_t>(width));
  }
};

// Changes the pixels of a view before they are stored in a batch (docs/operations.md). All decoder threads of a feeder
// share one object concurrently, so apply() is const and must not change the object.
class Operation {
 public:
  virtual ~Operation() = default;

  // Changes the pixels in place. The result must depend only on them, the object and `random`, so that a sample is the
  // same on any thread or rank and in a resumed run. `random` is seeded from (seed, epoch, position, use) and the
  // operation's place in transform.operations. Called on any thread. An exception ends the run, on all ranks, with an
  // error that names the sample and the operation.
  virtual void apply(const PixelView& view, Random& random) const = 0;

  // Whether every pixel stays in place and only its colour changes. Masks and boxes cannot follow an operation that
  // moves pixels: a feeder that combines them is refused.
  [[nodiscard]] virtual bool keeps_places() const noexcept { return false; }

  // Whether it also applies in evaluation (run.eval). Preprocessing does; augmentation does not.
  [[nodiscard]] virtual bool in_evaluation() const noexcept { return false; }
};

// Called on every rank when a feeder is constructed. Throws ConfigError for options that it cannot honour.
using OperationFactory = std::function<std::unique_ptr<const Operation>(const TransformOptions&)>;

// Operations by name, for transform.operations. A value type: copy it, add to it, pass it to a feeder
// (Parts::operations). Not thread-safe.
class OperationRegistry {
 public:
  // The operations that come with Forebay: "colour", "blur", "solarise" and "erase".
  [[nodiscard]] static OperationRegistry builtin();

  // Adds an operation, replacing one of the same name.
  void add(std::string name, OperationFactory factory);
  [[nodiscard]] std::vector<std::string> names() const;
  // Throws ConfigError naming transform.operations and the known names if there is no such operation, and whatever the
  // factory throws.
  [[nodiscard]] std::unique_ptr<const Operation> make(std::string_view name, const TransformOptions& options) const;

 private:
  std::map<std::string, OperationFactory, std::less<>> factories_;
};

}  // namespace forebay
