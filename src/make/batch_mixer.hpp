#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <forebay/dataset.hpp>
#include <forebay/field.hpp>
#include <forebay/options.hpp>
#include <forebay/order.hpp>
#include <forebay/view.hpp>

#include "field_layout.hpp"
#include "kernels.hpp"

namespace forebay::make {

// Whether batches are mixed: in training, if mixup.probability or cutmix.probability is set.
[[nodiscard]] bool is_mixed(const Options& options) noexcept;

// The field that holds the weight of each class for each row. Throws ConfigError if the dataset
// names no classes, or has fields: those would not be mixed.
[[nodiscard]] Field label_weights(const Dataset& dataset);

// Mixes the samples of a batch in its slot, sample i with sample N - 1 - i, view by view; if N is
// odd, the middle sample is unchanged. The random draw depends only on the seed, the epoch and the
// batch's number. Immutable; any thread may call.
class BatchMixer {
 public:
  // `layout`: contains only label_weights(); must outlive this. `views`: views per sample.
  BatchMixer(const Options& options, const FieldLayout& layout, std::uint32_t views);

  // Called once per batch; also writes the field. `labels`: one for each row. A label of -1 adds no
  // weight; throws Error for any other label that is not a class. REQUIRES: all rows of the slot
  // are written, and no other thread accesses them.
  void mix(const BatchRef& batch, std::span<const std::int64_t> labels, std::byte* slot) const;

 private:
  // How two rows are mixed with each other.
  struct Mixture {
    double share = 0;  // the other row's weight in each
    Box swapped = {};  // CutMix: the rectangle to swap; empty for mixup
  };

  [[nodiscard]] Mixture draw(const BatchRef& batch) const noexcept;
  void mix_rows(const Mixture& mixture, std::byte* one, std::byte* other) const noexcept;
  void add_weight(std::int64_t label, double weight, std::byte* slot, std::uint32_t row) const;

  MixOptions mixup_;
  MixOptions cutmix_;
  std::uint64_t seed_;
  const FieldLayout* layout_;
  std::uint32_t views_;
  decltype(Kernels::blend_halves) blend_halves_;
  DType dtype_;
  std::size_t planes_;       // planes of an image, or of all frames of a clip
  std::size_t pixel_bytes_;  // bytes per pixel within a plane
};

}  // namespace forebay::make
