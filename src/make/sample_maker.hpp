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

// From encoded bytes to a sample's place in a batch: header, view, pixels of the view, operations, store; or, with
// transform.when = "dequeue", a canvas. What the pipeline does with each sample and nothing besides, so that a loop
// around it is the limit of what any pipeline can reach.
// Immutable: any thread may call at the same time, each with a Workspace of its own.
class SampleMaker {
 public:
  // One of several samples of the same bytes, or of several views of one.
  struct Member {
    Sample sample;
    std::uint64_t epoch = 0;
    std::uint64_t position = 0;
    SamplePlace out;
    ViewAxes axes = {};  // set by make_together(): of what it shows, for the fields beside it
  };
  // A thread's tools, so that making a sample allocates nothing.
  struct Workspace {
    ImageDecoder decoder;
    Image image;
    Transform::Scratch scratch;
    OperatedTransform::Scratch operated;
    FieldMaker::Workspace fields;
    std::optional<video::ClipDecoder> clips;  // from the first clip on
    std::vector<Member> members;              // for whoever makes several together
    // JPEG samples made alone and at full size that decode = "scaled" would have decoded smaller.
    std::uint64_t shrinkable = 0;
    // Samples whose JPEG file the decoder decoded without libjpeg-turbo.
    std::uint64_t own_jpeg = 0;
    // Of them, those of which its index knew where to begin.
    std::uint64_t indexed_jpeg = 0;
  };

  // `eval` turns random views into central ones; `stores` as Transform::stores_for() says. Throws ConfigError for
  // options that cannot be honoured.
  SampleMaker(const TransformOptions& options, std::uint64_t seed, bool eval,
              Transform::Stores stores = Transform::Stores::normal);
  // With these operations in place of the built-in ones that the options name; samples are clips if the rule has
  // frames.
  SampleMaker(const TransformOptions& options, std::uint64_t seed, bool eval, Transform::Stores stores,
              const OperationChain& operations, const video::ClipRule& clip = {.frames = 0});

  // Bytes of one sample in a batch, or of the place of its canvas: of a clip, of all its frames.
  [[nodiscard]] std::size_t sample_bytes() const noexcept;

  // Makes the sample at `position` of `epoch`. Throws SampleError when its bytes or its box are bad, and OperationError
  // when an operation failed.
  // `decoded`: the pixels of a JPEG file that have been decoded elsewhere already; null where they have not.
  // REQUIRES: out.pixels.size() == sample_bytes(); out.info has room for a CanvasInfo where canvases are made.
  void make(std::span<const std::byte> bytes, const Sample& sample, std::uint64_t epoch, std::uint64_t position,
            const SamplePlace& out, Workspace& workspace, const StoredPicture* decoded = nullptr) const;

  // Makes all members with one decode, the same bytes as by make(). False, with nothing promised of any `out`, when
  // that cannot be done because one of them is bad or an operation failed; then make() tells which, and makes the
  // others.
  [[nodiscard]] bool make_together(std::span<const std::byte> bytes, std::span<Member> members, Workspace& workspace,
                                   const StoredPicture* decoded = nullptr) const;

 private:
  // Encoded bytes, and their pixels where somebody has decoded them already.
  struct Source {
    std::span<const std::byte> bytes;
    const StoredPicture* decoded;
  };
  template <class Work>
  void make_with(const Work& work, const Source& source, const Member& member, Workspace& workspace) const;
  template <class Work>
  void make_all_with(const Work& work, const Source& source, std::span<Member> members, Workspace& workspace) const;
  // An image file's size and turn, then the pixels of a region of it.
  [[nodiscard]] ImageSize open(const Source& source, const Sample& sample, Workspace& workspace) const;
  static void decode(const Source& source, const Box& region, std::int32_t shrink, Workspace& workspace);
  // Every frame by the same view and with the same operations.
  template <class Work>
  void make_clip(const Work& work, std::span<const std::byte> bytes, const Member& member, Workspace& workspace) const;
  // Samples of these pixels are whole.
  static void count_decoded(const Source& source, std::uint64_t samples, Workspace& workspace) noexcept;

  std::variant<Transform, CanvasMaker, OperatedTransform> work_;
  ImageOptions image_;
  Decode decode_;
  video::ClipRule clip_;
  std::uint64_t seed_;
  bool is_central_;  // clips begin in the middle of where they may
};

}  // namespace forebay::make
