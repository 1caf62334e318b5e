#include "stream_decoder.hpp"

#include <cstring>
#include <forebay/error.hpp>
#include <new>

namespace forebay::video {

LibavOwner<AVCodecContext> open_decoder(const StreamParameters& stream, std::int64_t max_pixels) {
  const Libav& av = libav();
  const AVCodecDescriptor* codec = av.avcodec_descriptor_get_by_name(stream.codec.c_str());
  const AVCodec* decoder = codec == nullptr ? nullptr : av.avcodec_find_decoder(codec->id);
  if (decoder == nullptr) throw SampleError("this machine's libavcodec has no decoder for its codec, " + stream.codec);
  LibavOwner<AVCodecContext> context(av.avcodec_alloc_context3(decoder));
  if (!context) throw std::bad_alloc();
  if (!stream.extradata.empty()) {
    context->extradata =
        static_cast<std::uint8_t*>(av.av_mallocz(stream.extradata.size() + AV_INPUT_BUFFER_PADDING_SIZE));
    if (context->extradata == nullptr) throw std::bad_alloc();
    std::memcpy(context->extradata, stream.extradata.data(), stream.extradata.size());
    context->extradata_size = static_cast<int>(stream.extradata.size());
  }
  context->codec_tag = stream.tag;
  context->profile = stream.profile;
  context->level = stream.level;
  context->bits_per_coded_sample = stream.bits_per_sample;
  context->width = context->coded_width = stream.width;
  context->height = context->coded_height = stream.height;
  context->color_range = static_cast<AVColorRange>(stream.colour_range);
  context->colorspace = static_cast<AVColorSpace>(stream.matrix);
  context->pix_fmt = av.av_get_pix_fmt(stream.pixel_format.c_str());
  // Of a stream that does not say how far frames are reordered, H.264's decoder would drop those that surprise it.
  context->has_b_frames = static_cast<int>(stream.delay);
  context->thread_count = 1;
  // Problems are reported as errors, whatever the program logs about its own videos.
  constexpr int kBelowAll = 100;
  context->log_level_offset = kBelowAll;
  // H.264's decoder keeps frames behind an open group's key frame back when it is asked for all that it holds: it does
  // not know yet that they are whole. Those that are not are flagged.
  context->flags |= AV_CODEC_FLAG_OUTPUT_CORRUPT;
  context->max_pixels = max_pixels;
  context->err_recognition = AV_EF_CRCCHECK;
  if (const int result = av.avcodec_open2(context.get(), decoder, nullptr); result < 0)
    throw SampleError("damaged: its decoder does not start: " + av.describe(result));
  return context;
}

void fill_packet(AVPacket& packet, std::span<const std::byte> bytes, std::int64_t number,
                 std::vector<std::uint8_t>& memory) {
  libav().av_packet_unref(&packet);
  if (memory.size() < bytes.size() + AV_INPUT_BUFFER_PADDING_SIZE)
    memory.resize(bytes.size() + AV_INPUT_BUFFER_PADDING_SIZE);
  std::memcpy(memory.data(), bytes.data(), bytes.size());
  std::memset(memory.data() + bytes.size(), 0, AV_INPUT_BUFFER_PADDING_SIZE);
  packet.data = memory.data();
  packet.size = static_cast<int>(bytes.size());
  packet.pts = number;
}

}  // namespace forebay::video
