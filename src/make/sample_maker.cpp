// From the bytes of one image to its place in a slot, on a decoder's thread, without queues: reads
// the header, chooses the view (what the sample shows of the image), decodes no more than the view
// needs, and resamples, normalises and stores it. There are three kinds of work: a plain transform,
// one with operations that need the whole view, or a canvas to be rendered later. work_of() chooses
// the kind once for a run. Overloads with the same names for the three kinds let make_with() be one
// function.
//
// make_together() decodes an image once for several samples that show parts of it. It must give the
// bytes that make() would give. If in doubt it returns false; its caller then makes the samples one
// by one, so that an error is attributed to the sample that caused it.

#include "sample_maker.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include <forebay/error.hpp>
#include <forebay/random.hpp>

#include "image.hpp"
#include "pack/packed_jpeg.hpp"

namespace forebay::make {
namespace {

// Canvases have their operations applied at each serving.
std::variant<Transform, CanvasMaker, OperatedTransform> work_of(const TransformOptions& options, std::uint64_t seed,
                                                                bool eval, Transform::Stores stores,
                                                                const OperationChain& operations) {
  if (options.when == When::dequeue && operations.can_render_later()) return CanvasMaker(options);
  const Transform transform(options, seed, eval, stores);
  if (operations.empty()) return transform;
  return OperatedTransform(transform, operations, seed);
}

// The start of a clip is drawn separately from its view, so the view is that of an image at the
// same position.
constexpr std::uint64_t kClipStart = 0x636c69707374;

// The smallest region that covers both.
Box around(const Box& a, const Box& b) noexcept {
  return {std::min(a.left, b.left), std::min(a.top, b.top), std::max(a.right, b.right), std::max(a.bottom, b.bottom)};
}

// Annotations state boxes in pixels of an image of a certain size. If that is the displayed image,
// boxes are right as they are. If it is the stored image, before its EXIF orientation, boxes are
// rotated. Any other size means that the boxes belong to another image; they would be silently
// wrong.
ImageTurn turn_of(const Sample& sample, ImageSize size, int orientation) {
  ImageTurn turn{.orientation = orientation};
  if (sample.width == 0 || (sample.width == size.width && sample.height == size.height)) return turn;
  turn.is_annotated_as_stored = turn.is_of_stored({sample.width, sample.height}, size);
  if (turn.is_annotated_as_stored) return turn;
  const auto text = [](std::int32_t width, std::int32_t height) {
    return std::to_string(width) + "x" + std::to_string(height);
  };
  throw SampleError("the annotation is of an image of " + text(sample.width, sample.height) + " pixels, and this one " +
                    "has " + text(size.width, size.height) +
                    ": its boxes would be wrong. Annotate this image, or take width and height out of the annotation");
}

// The sample's box in pixels of the displayed image.
std::optional<Box> box_of(const Sample& sample, ImageSize size, const ImageTurn& turn) {
  if (!turn.is_annotated_as_stored || !sample.box) return sample.box;
  return displayed_box(*sample.box, size.height, size.width, turn.orientation);
}

// The overloads for the three kinds of work.
Transform::View view_of(const Transform& work, ImageSize size, const ImageTurn& turn,
                        const SampleMaker::Member& member) {
  return work.view(size.width, size.height, box_of(member.sample, size, turn), member.epoch, member.position);
}
Transform::View view_of(const OperatedTransform& work, ImageSize size, const ImageTurn& turn,
                        const SampleMaker::Member& member) {
  return view_of(work.transform(), size, turn, member);
}
CanvasMaker::View view_of(const CanvasMaker& work, ImageSize size, const ImageTurn& turn,
                          const SampleMaker::Member& member) {
  return work.view(size.width, size.height, box_of(member.sample, size, turn));
}
void render(const Transform& work, const Transform::View& view, const SampleMaker::Member& member,
            SampleMaker::Workspace& workspace) {
  work.render(workspace.image, view, member.out.pixels, workspace.scratch);
}
void render(const OperatedTransform& work, const Transform::View& view, const SampleMaker::Member& member,
            SampleMaker::Workspace& workspace) {
  work.render(workspace.image, view, member.epoch, member.position, member.out.pixels, workspace.scratch,
              workspace.operated);
}
void render(const CanvasMaker& work, const CanvasMaker::View& view, const SampleMaker::Member& member,
            SampleMaker::Workspace& workspace) {
  work.render(workspace.image, view, member.out, workspace.scratch);
}

void note_view(ImageSize size, const Transform::View& view, const SamplePlace& out, ViewAxes& axes) {
  if (out.view != nullptr) *out.view = {view.region, size.width, size.height, view.mirror};
  axes = view.axes;
}
void note_view(ImageSize size, const CanvasMaker::View& view, const SamplePlace& out, ViewAxes& /*axes*/) {
  if (out.view != nullptr) *out.view = {view.region, size.width, size.height, false};
}
const Box& pixels_of(const Transform::View& view) noexcept { return view.pixels; }
const Box& pixels_of(const CanvasMaker::View& view) noexcept { return view.region; }
std::int32_t shrink_of(const Transform& work, const Transform::View& view) { return work.shrink_of(view); }
std::int32_t shrink_of(const OperatedTransform& work, const Transform::View& view) {
  return work.transform().shrink_of(view);
}
std::int32_t shrink_of(const CanvasMaker& work, const CanvasMaker::View& view) { return work.shrink_of(view); }

}  // namespace

SampleMaker::SampleMaker(const TransformOptions& options, std::uint64_t seed, bool eval,
                         const OperationChain& operations, Transform::Stores stores, const video::ClipRule& clip)
    : work_(work_of(options, seed, eval, stores, operations)),
      image_{.exif = options.exif, .max_pixels = options.max_pixels, .grey = options.channels == 1},
      decode_(options.decode),
      clip_(clip),
      seed_(seed),
      is_central_(eval) {}

std::size_t SampleMaker::sample_bytes() const noexcept {
  if (const auto* canvases = std::get_if<CanvasMaker>(&work_)) return canvases->place_bytes();
  const auto* const operated = std::get_if<OperatedTransform>(&work_);
  const Transform& transform = operated != nullptr ? operated->transform() : *std::get_if<Transform>(&work_);
  return transform.sample_bytes() * std::max(clip_.frames, 1U);
}

void SampleMaker::make(std::span<const std::byte> bytes, const Sample& sample, std::uint64_t epoch,
                       std::uint64_t position, const SamplePlace& out, Workspace& workspace,
                       const StoredPicture* decoded) const {
  const Member member{sample, epoch, position, out};
  std::visit([&](const auto& work) { make_with(work, Source{bytes, decoded}, member, workspace); }, work_);
}

// `source.decoded` is a picture that was decoded elsewhere (by nvJPEG); its header was read then.
ImageSize SampleMaker::open(const Source& source, const Sample& sample, Workspace& workspace) const {
  if (source.decoded != nullptr) {
    const ImageSize size = source.decoded->size();
    workspace.fields.turn = turn_of(sample, size, source.decoded->orientation);
    return size;
  }
  ImageOptions options = image_;
  options.is_checked = sample.checked;
  const ImageSize size = workspace.decoder.open(source.bytes, options);
  workspace.fields.turn = turn_of(sample, size, workspace.decoder.orientation());
  return size;
}

void SampleMaker::decode(const Source& source, const Box& region, std::int32_t shrink, Workspace& workspace) {
  if (source.decoded != nullptr) {
    source.decoded->show(region, workspace.image);
  } else {
    workspace.decoder.decode(region, shrink, workspace.image);
  }
}

void SampleMaker::count_decoded(const Source& source, std::uint64_t samples, Workspace& workspace) noexcept {
  if (source.decoded != nullptr) return;
  if (workspace.decoder.was_own()) workspace.own_jpeg += samples;
  if (workspace.decoder.was_indexed()) workspace.indexed_jpeg += samples;
}

template <class Work>
void SampleMaker::make_with(const Work& work, const Source& source, const Member& member, Workspace& workspace) const {
  const Sample& sample = member.sample;
  if (sample.encoding == Encoding::video) return make_clip(work, source.bytes, member, workspace);
  if (clip_.frames > 0) throw SampleError("is no video, and clip.frames wants clips");
  if (sample.encoding == Encoding::raw) {
    require_permitted_size("raw image", sample.width, sample.height, image_);
    decode_raw(source.bytes, sample, workspace.image);
    if (image_.grey && sample.channels == 3) make_grey(workspace.image);
    const ImageSize size{workspace.image.width, workspace.image.height};
    workspace.fields.turn = {};
    const auto view = view_of(work, size, {}, member);
    note_view(size, view, member.out, workspace.fields.axes);
    render(work, view, member, workspace);
    return;
  }
  const ImageSize size = open(source, sample, workspace);
  const auto view = view_of(work, size, workspace.fields.turn, member);
  note_view(size, view, member.out, workspace.fields.axes);
  const Box whole{0, 0, size.width, size.height};
  const std::int32_t shrink = shrink_of(work, view);
  const bool scales = decode_ == Decode::scaled;
  decode(source, decode_ == Decode::full ? whole : pixels_of(view), scales ? shrink : 1, workspace);
  render(work, view, member, workspace);
  count_decoded(source, 1, workspace);
  // Counted for the profile's advice on how much transform.decode = "scaled" could save. A packed
  // file does not count, because it would have to be unpacked first.
  const bool gains =
      source.decoded == nullptr && workspace.decoder.can_shrink() && !pack::starts_as_packed_jpeg(source.bytes);
  if (!scales && shrink > 1 && gains) ++workspace.shrinkable;
}

// All frames of a clip show the same view. It begins at a random one of the possible starts, in
// evaluation at the middle one.
template <class Work>
void SampleMaker::make_clip(const Work& work, std::span<const std::byte> bytes, const Member& member,
                            Workspace& workspace) const {
  if (clip_.frames == 0) throw SampleError("is a video, and clip.frames is 0");
  if (!workspace.clips) workspace.clips.emplace();
  const video::ClipDecoder::Facts facts = workspace.clips->open(bytes, image_.max_pixels);
  StoredPicture picture{
      .pixels = {}, .width = facts.width, .height = facts.height, .orientation = image_.exif ? facts.orientation : 1};
  const ImageSize size = picture.size();
  workspace.fields.turn = {};
  const auto view = view_of(work, size, {}, member);
  note_view(size, view, member.out, workspace.fields.axes);
  const Box stored = stored_box(pixels_of(view), facts.width, facts.height, picture.orientation);
  video::ClipDecoder::Rows rows{.first = stored.top, .last = stored.bottom};
  if (decode_ == Decode::full) rows = {.first = 0, .last = facts.height};
  const std::uint64_t start = is_central_
                                  ? (facts.starts - 1) / 2
                                  : Random(key64(seed_, kClipStart, member.epoch, member.position)).below(facts.starts);
  const std::size_t frame_bytes = sample_bytes() / clip_.frames;
  Member frame_of = member;
  workspace.clips->decode(start, clip_, rows, [&](std::uint32_t n, const video::Frame& frame) {
    picture.pixels = frame.pixels;
    picture.show(pixels_of(view), workspace.image);
    if (image_.grey) make_grey(workspace.image);
    frame_of.out.pixels = member.out.pixels.subspan(n * frame_bytes, frame_bytes);
    render(work, view, frame_of, workspace);
  });
}

bool SampleMaker::make_together(std::span<const std::byte> bytes, std::span<Member> members, Workspace& workspace,
                                const StoredPicture* decoded) const {
  // Scaled decodes differ from view to view, raw pixels cost nothing to decode, and clips begin at
  // different frames.
  const Sample& first = members.front().sample;
  const auto is_other = [&](const Member& member) {
    return member.sample.encoding != Encoding::image || member.sample.width != first.width ||
           member.sample.height != first.height;
  };
  if (decode_ == Decode::scaled || std::ranges::any_of(members, is_other)) return false;
  try {
    std::visit([&](const auto& work) { make_all_with(work, Source{bytes, decoded}, members, workspace); }, work_);
    return true;
  } catch (const SampleError&) {
    return false;
  } catch (const OperationError&) {
    return false;
  }
}

template <class Work>
void SampleMaker::make_all_with(const Work& work, const Source& source, std::span<Member> members,
                                Workspace& workspace) const {
  const ImageSize size = open(source, members.front().sample, workspace);
  const ImageTurn turn = workspace.fields.turn;
  Box region = pixels_of(view_of(work, size, turn, members.front()));
  for (const Member& member : members) region = around(region, pixels_of(view_of(work, size, turn, member)));
  decode(source, decode_ == Decode::full ? Box{0, 0, size.width, size.height} : region, 1, workspace);
  for (Member& member : members) {
    const auto view = view_of(work, size, turn, member);
    note_view(size, view, member.out, member.axes);
    render(work, view, member, workspace);
  }
  count_decoded(source, members.size(), workspace);
}

}  // namespace forebay::make
