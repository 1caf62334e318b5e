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

// Whether batches are mixed: in training, with mixup.probability or cutmix.probability.
[[nodiscard]] bool is_mixed(const Options& options) noexcept;

// The field that says which share of each class a row shows. Throws ConfigError where nobody could say that, and where
// the dataset has fields, which would stay those of one sample.
[[nodiscard]] Field label_weights(const Dataset& dataset);

// Mixes the samples of a batch in its slot, each with the one as far from the batch's other end, view by view; in an
// odd number the one in the middle stays. What is drawn depends on the seed, the epoch and the number of the batch
// alone. Immutable; any thread.
class BatchMixer {
 public:
  // `layout`: of label_weights() alone; must stay. `views`: of each sample.
  BatchMixer(const Options& options, const FieldLayout& layout, std::uint32_t views);

  // Once for each batch; writes its field, too. `labels`: of all rows. Throws Error for a label that is none of the
  // classes; -1 has no weight. REQUIRES: the slot's rows are written, and no other thread has to do with them.
  void mix(const BatchRef& batch, std::span<const std::int64_t> labels, std::byte* slot) const;

 private:
  // What becomes of two rows that are mixed with each other.
  struct Mixture {
    double share = 0;  // that each has of the other
    Box swapped = {};  // CutMix; empty: mixup
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
  std::size_t planes_;       // of an image, or of all frames of a clip
  std::size_t pixel_bytes_;  // in a plane
};

}  // namespace forebay::make
