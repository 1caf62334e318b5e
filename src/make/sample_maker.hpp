#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/options.hpp>

#include "canvas.hpp"
#include "canvas_maker.hpp"
#include "field_maker.hpp"
#include "image.hpp"
#include "image_decoder.hpp"
#include "operation_chain.hpp"
#include "transform.hpp"
#include "video/clip_decoder.hpp"

namespace forebay::make {

// Turns encoded bytes into a sample in its place in a batch: header, view, pixels of the view,
// operations, store; or, with transform.when = "dequeue", into a canvas. It does exactly the work
// of the pipeline for one sample, so the speed of a loop around it is an upper limit for any
// pipeline. Immutable: threads may call concurrently, each with its own Workspace.
class SampleMaker {
 public:
  // One of several samples with the same bytes, or of several views of one sample.
  struct Member {
    Sample sample;
    std::uint64_t epoch = 0;
    std::uint64_t position = 0;
    SamplePlace out;
    ViewAxes axes = {};  // set by make_together(): the view, for the fields of the sample
  };
  // A thread's working memory, so that making a sample allocates nothing.
  struct Workspace {
    ImageDecoder decoder;
    Image image;
    Transform::Scratch scratch;
    OperatedTransform::Scratch operated;
    FieldMaker::Workspace fields;
    std::optional<video::ClipDecoder> clips;  // created for the first clip
    std::vector<Member> members;              // for callers of make_together()
    // JPEG samples that were made alone and at full size, and that decode = "scaled" would have
    // decoded smaller.
    std::uint64_t shrinkable = 0;
    // Samples whose JPEG file was decoded without libjpeg-turbo.
    std::uint64_t own_jpeg = 0;
    // Those of them for which the decode index had entry points.
    std::uint64_t indexed_jpeg = 0;
  };

  // `eval`: central instead of random views. `operations`: those that the options name. `stores`:
  // see Transform::stores_for(). If `clip` has frames, samples are clips. Throws ConfigError for
  // options that cannot be honoured.
  SampleMaker(const TransformOptions& options, std::uint64_t seed, bool eval, const OperationChain& operations,
              Transform::Stores stores = Transform::Stores::normal, const video::ClipRule& clip = {.frames = 0});

  // Bytes of one sample in a batch, or of the place for its canvas; for a clip, of all frames.
  [[nodiscard]] std::size_t sample_bytes() const noexcept;

  // Makes the sample at `position` of `epoch`. Throws SampleError if its bytes or its box are bad,
  // and OperationError if an operation failed. `decoded`: the pixels of a JPEG file that was
  // decoded elsewhere; else null. REQUIRES: out.pixels.size() == sample_bytes(); out.info has room
  // for a CanvasInfo if canvases are made.
  void make(std::span<const std::byte> bytes, const Sample& sample, std::uint64_t epoch, std::uint64_t position,
            const SamplePlace& out, Workspace& workspace, const StoredPicture* decoded = nullptr) const;

  // Makes all members with one decode, with the same bytes as make(). Returns false, with every
  // `out` unspecified, if one of them is bad or an operation failed; make() then finds out which,
  // and makes the others.
  [[nodiscard]] bool make_together(std::span<const std::byte> bytes, std::span<Member> members, Workspace& workspace,
                                   const StoredPicture* decoded = nullptr) const;

 private:
  // Encoded bytes, and their pixels if they were decoded elsewhere.
  struct Source {
    std::span<const std::byte> bytes;
    const StoredPicture* decoded;
  };
  template <class Work>
  void make_with(const Work& work, const Source& source, const Member& member, Workspace& workspace) const;
  template <class Work>
  void make_all_with(const Work& work, const Source& source, std::span<Member> members, Workspace& workspace) const;
  // Reads an image file's size and orientation; decode() then reads the pixels of a region.
  [[nodiscard]] ImageSize open(const Source& source, const Sample& sample, Workspace& workspace) const;
  static void decode(const Source& source, const Box& region, std::int32_t shrink, Workspace& workspace);
  // Makes every frame with the same view and the same operations.
  template <class Work>
  void make_clip(const Work& work, std::span<const std::byte> bytes, const Member& member, Workspace& workspace) const;
  // Counts how the JPEG file of these samples was decoded.
  static void count_decoded(const Source& source, std::uint64_t samples, Workspace& workspace) noexcept;

  std::variant<Transform, CanvasMaker, OperatedTransform> work_;
  ImageOptions image_;
  Decode decode_;
  video::ClipRule clip_;
  std::uint64_t seed_;
  bool is_central_;  // clips begin in the middle of the possible range
};

}  // namespace forebay::make
