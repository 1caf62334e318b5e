#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/operation.hpp>
#include <forebay/options.hpp>

#include "kernels.hpp"
#include "pixel_math.hpp"

namespace forebay::make {

// An exception thrown by a program's operation; the message names the operation.
class OperationError : public Error {
 public:
  using Error::Error;
};

// An operation that changes each pixel independently, as defined in pixel_math.hpp. At the end of
// transform.operations it needs no extra pass, and devices support it, too.
class PixelOperation final : public Operation {
 public:
  // REQUIRES: rule has colour or erase, not both.
  explicit PixelOperation(const PixelRule& rule, const Kernels& kernels = best_kernels()) noexcept
      : rule_(rule), kernels_(&kernels) {}

  void apply(const PixelView& view, Random& random) const override;
  [[nodiscard]] bool keeps_places() const noexcept override { return true; }
  [[nodiscard]] const PixelRule& rule() const noexcept { return rule_; }

 private:
  PixelRule rule_;
  const Kernels* kernels_;
};

// The operations of transform.operations that a run applies, in two parts. `calls` need the whole
// view in memory. The last ones, at most "colour" and then "erase", are applied to each pixel on
// its way to the slot. The result is as if all were called in sequence. Immutable: any thread may
// call.
class OperationChain {
 public:
  OperationChain() = default;
  // `eval`: omits operations that are not for evaluation. Throws ConfigError, naming
  // transform.operations.
  OperationChain(const OperationRegistry& registry, const TransformOptions& options, bool eval);

  [[nodiscard]] bool empty() const noexcept { return calls_.empty() && !pixels_.any(); }
  // Whether canvases can be rendered with them: devices support all (there are no calls), with the host's bytes.
  [[nodiscard]] bool can_render_later() const noexcept { return calls_.empty(); }
  // The first operation that devices do not support. REQUIRES: !can_render_later().
  [[nodiscard]] const std::string& first_call() const noexcept { return calls_.front().name; }
  // The first operation that may move pixels; null if none does.
  [[nodiscard]] const std::string* first_mover() const noexcept {
    const auto moves = [](const Call& call) { return !call.operation->keeps_places(); };
    const auto found = std::ranges::find_if(calls_, moves);
    return found == calls_.end() ? nullptr : &found->name;
  }
  // The operations that change each pixel independently.
  [[nodiscard]] const PixelRule& pixels() const noexcept { return pixels_; }

  // Makes the calls; `key`: operations_key(). Throws OperationError.
  void call(const PixelView& view, std::uint64_t key) const;

 private:
  struct Call {
    std::string name;
    std::uint32_t place;  // index in transform.operations
    std::shared_ptr<const Operation> operation;
  };

  void take_pixel_operations();

  std::vector<Call> calls_;
  PixelRule pixels_;
};

// Applies a PixelChange to whole rows, with the vector kernels. Immutable; any thread may call.
class RowChanger {
 public:
  // The change must outlive this. `width`: pixels per row.
  RowChanger(const PixelChange& change, decltype(Kernels::recolour) recolour, std::size_t width) noexcept
      : change_(change), recolour_(recolour), width_(width) {}

  [[nodiscard]] bool changes(std::int32_t y) const noexcept { return change_.recolours || is_erased(y); }

  // Changes row y, in pixels of kPixelBytes. `out` is the row itself or another buffer of the same
  // size.
  void change(std::int32_t y, const std::uint8_t* row, std::uint8_t* out) const noexcept {
    if (change_.recolours) {
      recolour_(row, change_.colours, width_, out);
    } else if (out != row) {
      std::memcpy(out, row, width_ * kPixelBytes);
    }
    if (!is_erased(y)) return;
    for (std::int32_t x = change_.erased.left; x < change_.erased.right; ++x) {
      std::memcpy(out + static_cast<std::size_t>(x) * kPixelBytes, &change_.fill, kPixelBytes);
    }
  }

 private:
  [[nodiscard]] bool is_erased(std::int32_t y) const noexcept {
    return y >= change_.erased.top && y < change_.erased.bottom;
  }

  const PixelChange& change_;
  decltype(Kernels::recolour) recolour_;
  std::size_t width_;
};

}  // namespace forebay::make
