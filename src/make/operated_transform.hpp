#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <forebay/operation.hpp>

#include "operation_chain.hpp"
#include "transform.hpp"

namespace forebay {

// A Transform with operations between the view and the store. Where there are none a Transform alone is used, so that
// it need not ask. Immutable: any thread may call at the same time, each with a Scratch of its own.
class OperatedTransform {
 public:
  // Working memory of one thread beside Transform::Scratch; grows to the size of the result, then stays.
  struct Scratch {
    std::vector<Pixel> view;
    std::vector<std::uint8_t> row;
  };

  // `kernels` must stay; all of them give the same bytes.
  OperatedTransform(const Transform& transform, OperationChain operations, std::uint64_t seed,
                    const Kernels& kernels = best_kernels());

  [[nodiscard]] const Transform& transform() const noexcept { return transform_; }

  // As Transform::render(), of the sample at `position` of `epoch`. Throws OperationError.
  void render(const Image& image, const ImageView& view, std::uint64_t epoch, std::uint64_t position,
              std::span<std::byte> out, Transform::Scratch& resizer, Scratch& scratch) const;

 private:
  // Row y of the view in pixels of kPixelBytes, before pixel operations; after all calls.
  template <class RowAt>
  void store(const RowAt& row_at, std::uint64_t key, std::span<std::byte> out, Scratch& scratch) const;

  Transform transform_;
  OperationChain operations_;
  std::uint64_t seed_;
  decltype(Kernels::recolour) recolour_;
};

}  // namespace forebay
