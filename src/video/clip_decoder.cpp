// Decodes packets to frames.
//
// open() parses the table. decode() marks which packets the wanted frames need, and feeds them in
// runs: a run begins where decoding may begin and ends with the last packet needed from it; then
// the decoder is drained and reset. Each packet carries its number as its timestamp, which comes
// back with its frame, so nothing depends on how a decoder treats times. A frame that does not come
// back is an error: a clip is complete or refused.

#include "clip_decoder.hpp"

#include <algorithm>
#include <cstring>
#include <forebay/error.hpp>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "libav.hpp"
#include "stream_decoder.hpp"
#include "video_table.hpp"

namespace forebay::video {
namespace {

// Kinds that mean planes of the whole range by the others: libswscale would say for each frame that they are
// deprecated, and make its context anew.
AVPixelFormat plain_kind(AVPixelFormat kind) noexcept {
  switch (kind) {
    case AV_PIX_FMT_YUVJ411P: return AV_PIX_FMT_YUV411P;
    case AV_PIX_FMT_YUVJ420P: return AV_PIX_FMT_YUV420P;
    case AV_PIX_FMT_YUVJ422P: return AV_PIX_FMT_YUV422P;
    case AV_PIX_FMT_YUVJ440P: return AV_PIX_FMT_YUV440P;
    case AV_PIX_FMT_YUVJ444P: return AV_PIX_FMT_YUV444P;
    default: return kind;
  }
}

}  // namespace

struct ClipDecoder::Tools {
  VideoTable clip;
  std::vector<std::uint32_t> shown;
  std::span<const std::byte> packets;  // their bytes

  StreamParameters of_context;
  LibavOwner<AVCodecContext> context;
  LibavOwner<SwsContext> scaler;
  LibavOwner<AVPacket> packet;
  LibavOwner<AVFrame> frame;
  std::vector<std::uint8_t> bytes;  // of a packet, with the padding that decoders read into
  std::vector<std::uint8_t> rgb;

  // By packet: whether it is fed, and the frame of it is the clip's frames [first, last).
  struct Use {
    bool is_fed = false;
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };
  std::vector<Use> uses;
  std::uint32_t missing = 0;
  std::uint32_t run_begin = 0;  // the packet that the run began with

  void plan(std::uint64_t start, const ClipRule& rule);
  void feed(std::optional<std::uint32_t> number, Rows rows, const Take& take);
  void hand_over(Rows rows, const Take& take);
  void convert(Rows rows);
};

ClipDecoder::ClipDecoder() = default;
ClipDecoder::~ClipDecoder() = default;
ClipDecoder::ClipDecoder(ClipDecoder&&) noexcept = default;
ClipDecoder& ClipDecoder::operator=(ClipDecoder&&) noexcept = default;

ClipDecoder::Facts ClipDecoder::open(std::span<const std::byte> bytes, std::int64_t max_pixels) {
  const Libav& av = libav();
  if (!av.problem.empty()) throw SampleError(av.problem);
  if (!tools_) {
    tools_ = std::make_unique<Tools>();
    tools_->packet.reset(av.av_packet_alloc());
    tools_->frame.reset(av.av_frame_alloc());
    if (!tools_->packet || !tools_->frame) throw std::bad_alloc();
  }
  Tools& tools = *tools_;
  std::size_t length = 0;
  tools.clip = VideoTable::parse(bytes, length);
  const VideoTable& clip = tools.clip;
  const StreamParameters& stream = clip.stream;
  tools.packets = bytes.subspan(length);
  tools.shown = clip.shown();
  const bool is_whole = std::ranges::all_of(clip.packets, [&](const Packet& packet) {
    return packet.offset <= tools.packets.size() && packet.bytes <= tools.packets.size() - packet.offset;
  });
  if (!is_whole || clip.starts == 0 || clip.first + clip.starts > clip.end || clip.end > tools.shown.size())
    throw SampleError("damaged: the table of a clip");
  if (std::int64_t{stream.width} * stream.height > max_pixels) {
    throw SampleError("a video with frames of " + std::to_string(stream.width) + " x " + std::to_string(stream.height) +
                      " pixels, more than transform.max_pixels = " + std::to_string(max_pixels));
  }
  if (!tools.context || tools.of_context != stream) {
    tools.context.reset();
    tools.context = open_decoder(stream, max_pixels);
    tools.of_context = stream;
  }
  return {.starts = clip.starts, .width = stream.width, .height = stream.height, .orientation = clip.orientation};
}

void ClipDecoder::decode(std::uint64_t start, const ClipRule& rule, Rows rows, const Take& take) {
  Tools& tools = *tools_;
  tools.plan(start, rule);
  // Discards what an earlier clip left when it failed.
  libav().avcodec_flush_buffers(tools.context.get());
  bool has_begun = false;
  for (std::uint32_t i = 0; i < tools.uses.size(); ++i) {
    if (tools.uses[i].is_fed) {
      if (!has_begun) tools.run_begin = i;
      tools.feed(i, rows, take);
      has_begun = true;
    } else if (has_begun && !tools.clip.packets[i].is_disposable) {
      tools.feed(std::nullopt, rows, take);
      has_begun = false;
    }
  }
  if (has_begun) tools.feed(std::nullopt, rows, take);
  if (tools.missing > 0)
    throw SampleError("damaged: " + std::to_string(tools.missing) + " of the clip's frames cannot be decoded");
}

void ClipDecoder::Tools::plan(std::uint64_t start, const ClipRule& rule) {
  uses.assign(clip.packets.size(), {});
  missing = 0;
  for (std::uint32_t n = 0; n < rule.frames; ++n) {
    const std::uint64_t place = std::min(clip.first + start + std::uint64_t{n} * rule.stride, clip.end - 1);
    Use& use = uses[shown[place]];
    if (use.first == use.last) {
      use.first = n;
      ++missing;
    }
    use.last = n + 1;
  }
  std::vector<std::uint32_t> wanted;
  for (std::uint32_t i = 0; i < uses.size(); ++i) {
    if (uses[i].first != uses[i].last) wanted.push_back(i);
  }
  // From the entry of each wanted frame to it, all that others may refer to. Backwards: `entry` is the first of those
  // of the wanted frames at and behind `i`.
  std::vector<std::uint32_t> entries = clip.entries(wanted);
  std::uint32_t entry = UINT32_MAX;
  for (auto i = static_cast<std::uint32_t>(uses.size()); i-- > 0;) {
    const bool is_wanted = !wanted.empty() && wanted.back() == i;
    if (is_wanted) {
      entry = std::min(entry, entries.back());
      wanted.pop_back();
      entries.pop_back();
    }
    uses[i].is_fed = is_wanted || (entry <= i && !clip.packets[i].is_disposable);
  }
}

// A packet, or the end of a run.
void ClipDecoder::Tools::feed(std::optional<std::uint32_t> number, Rows rows, const Take& take) {
  const Libav& av = libav();
  if (number) {
    const Packet& from = clip.packets[*number];
    fill_packet(*packet, packets.subspan(static_cast<std::size_t>(from.offset), from.bytes), *number, bytes);
    packet->flags = (from.is_key ? AV_PKT_FLAG_KEY : 0) | (from.is_hidden ? AV_PKT_FLAG_DISCARD : 0);
  }
  // A frame is taken before the next packet is fed, so the decoder is never full.
  if (const int result = av.avcodec_send_packet(context.get(), number ? packet.get() : nullptr); result < 0)
    throw SampleError("damaged: a packet cannot be decoded: " + av.describe(result));
  for (;;) {
    const int result = av.avcodec_receive_frame(context.get(), frame.get());
    if (result == AVERROR(EAGAIN) || result == AVERROR_EOF) break;
    if (result < 0) throw SampleError("damaged: a frame cannot be decoded: " + av.describe(result));
    hand_over(rows, take);
    av.av_frame_unref(frame.get());
  }
  if (!number) av.avcodec_flush_buffers(context.get());
}

void ClipDecoder::Tools::hand_over(Rows rows, const Take& take) {
  if (frame->pts < 0 || static_cast<std::uint64_t>(frame->pts) >= uses.size()) return;
  const auto number = static_cast<std::size_t>(frame->pts);
  // Others may be made of this frame. One that is shown before the run's first refers to what was not fed.
  const bool is_damaged = frame->decode_error_flags != 0 || (frame->flags & AV_FRAME_FLAG_CORRUPT) != 0;
  Use& use = uses[number];
  const bool is_wanted = use.first != use.last;
  if (is_damaged && (is_wanted || clip.packets[number].rank >= clip.packets[run_begin].rank))
    throw SampleError("damaged: a frame of the clip has errors");
  if (number == run_begin && clip.packets[number].is_key && tells_keys(clip.stream.codec) && !is_key(*frame)) {
    throw SampleError("its container calls a frame a key frame that is none; encode it anew: ffmpeg -i IN OUT.mp4");
  }
  if (!is_wanted) return;
  if (frame->width != clip.stream.width || frame->height != clip.stream.height) {
    throw SampleError("a frame has " + std::to_string(frame->width) + " x " + std::to_string(frame->height) +
                      " pixels where its video has " + std::to_string(clip.stream.width) + " x " +
                      std::to_string(clip.stream.height));
  }
  convert(rows);
  for (std::uint32_t n = use.first; n < use.last; ++n)
    take(n, {.pixels = rgb, .width = clip.stream.width, .height = clip.stream.height});
  use.last = use.first;
  --missing;
}

// With the matrix and the range that the stream states, and BT.601 where it states none, as FFmpeg does. Of frames with
// planes only the rows that are wanted and, as colours are interpolated, a row of colours on each side; five at least,
// as libswscale interpolates fewer with a shorter filter. An even number, and never of a height that rows of colours do
// not divide: it takes such a frame another way, and places its colours by its height.
void ClipDecoder::Tools::convert(Rows rows) {
  const Libav& av = libav();
  const auto format_number = static_cast<AVPixelFormat>(frame->format);
  const AVPixFmtDescriptor* format = av.av_pix_fmt_desc_get(format_number);
  if (format == nullptr) throw SampleError("damaged: a frame of unknown kind");
  const int width = clip.stream.width;
  const int height = clip.stream.height;
  const int unit = 1 << std::max<int>(format->log2_chroma_h, 1);
  const bool can_cut =
      (format->flags & AV_PIX_FMT_FLAG_PLANAR) != 0 && format->nb_components >= 3 && height % unit == 0;
  const int least = 5 * unit;
  int first = can_cut ? std::max((rows.first / unit - 1) * unit, 0) : 0;
  const int last = can_cut ? std::min(std::max(((rows.last - 1) / unit + 2) * unit, first + least), height) : height;
  first = std::max(std::min(first, last - least), 0);

  const AVPixelFormat kind = plain_kind(format_number);
  const bool is_grey = format->nb_components <= 2 && (format->flags & (AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PAL)) == 0;
  const bool is_whole_range = frame->color_range == AVCOL_RANGE_JPEG || kind != frame->format ||
                              (is_grey && frame->color_range == AVCOL_RANGE_UNSPECIFIED);
  SwsContext* made = av.sws_getCachedContext(scaler.release(), width, last - first, kind, width, last - first,
                                             AV_PIX_FMT_RGB24, SWS_BILINEAR, nullptr, nullptr, nullptr);
  scaler.reset(made);
  if (!scaler) throw SampleError("frames of the kind " + std::string(format->name) + " cannot be made RGB");
  const int* matrix =
      av.sws_getCoefficients(frame->colorspace == AVCOL_SPC_UNSPECIFIED ? SWS_CS_DEFAULT : frame->colorspace);
  (void)av.sws_setColorspaceDetails(made, matrix, is_whole_range ? 1 : 0, av.sws_getCoefficients(SWS_CS_DEFAULT), 1, 0,
                                    1 << 16, 1 << 16);
  // libswscale leaves out the last group of a row's pixels where it would not fit, and writes up to some vectors past
  // the end.
  constexpr std::size_t kGroup = 16;
  constexpr std::size_t kPast = 64;
  const std::size_t row = static_cast<std::size_t>(width) * 3;
  const std::size_t step = (static_cast<std::size_t>(width) + kGroup - 1) / kGroup * kGroup * 3;
  rgb.resize(step * static_cast<std::size_t>(height) + kPast);
  std::array<const std::uint8_t*, 4> from{};
  for (std::size_t plane = 0; plane < from.size(); ++plane) {
    if (frame->data[plane] == nullptr) continue;
    const int skipped = plane == 1 || plane == 2 ? first >> format->log2_chroma_h : first;
    from[plane] = frame->data[plane] + std::ptrdiff_t{frame->linesize[plane]} * skipped;
  }
  const std::array<std::uint8_t*, 4> to{rgb.data() + step * static_cast<std::size_t>(first)};
  const std::array<int, 4> steps{static_cast<int>(step)};
  (void)av.sws_scale(made, from.data(), frame->linesize, 0, last - first, to.data(), steps.data());
  for (auto y = static_cast<std::size_t>(first); step != row && y < static_cast<std::size_t>(last); ++y)
    std::memmove(rgb.data() + y * row, rgb.data() + y * step, row);
}

}  // namespace forebay::video
