#pragma once

#include <memory>
#include <string>
#include <string_view>

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
}

// FFmpeg's libraries, in the versions of the headers at build time. They are loaded for the first video: a program
// without videos does not need them, and they depend on a hundred others.
namespace forebay::video {

#define FOREBAY_LIBAV(FUNCTION)                     \
  FUNCTION(avformat, avformat_alloc_context)        \
  FUNCTION(avformat, avformat_open_input)           \
  FUNCTION(avformat, avformat_find_stream_info)     \
  FUNCTION(avformat, avformat_close_input)          \
  FUNCTION(avformat, avformat_free_context)         \
  FUNCTION(avformat, avio_alloc_context)            \
  FUNCTION(avformat, avio_context_free)             \
  FUNCTION(avformat, av_read_frame)                 \
  FUNCTION(avcodec, avcodec_get_name)               \
  FUNCTION(avcodec, avcodec_descriptor_get_by_name) \
  FUNCTION(avcodec, avcodec_find_decoder)           \
  FUNCTION(avcodec, avcodec_alloc_context3)         \
  FUNCTION(avcodec, avcodec_free_context)           \
  FUNCTION(avcodec, avcodec_open2)                  \
  FUNCTION(avcodec, avcodec_send_packet)            \
  FUNCTION(avcodec, avcodec_receive_frame)          \
  FUNCTION(avcodec, avcodec_flush_buffers)          \
  FUNCTION(avcodec, av_packet_alloc)                \
  FUNCTION(avcodec, av_packet_free)                 \
  FUNCTION(avcodec, av_packet_unref)                \
  FUNCTION(avutil, av_frame_alloc)                  \
  FUNCTION(avutil, av_frame_free)                   \
  FUNCTION(avutil, av_frame_unref)                  \
  FUNCTION(avutil, av_malloc)                       \
  FUNCTION(avutil, av_mallocz)                      \
  FUNCTION(avutil, av_free)                         \
  FUNCTION(avutil, av_dict_set)                     \
  FUNCTION(avutil, av_dict_free)                    \
  FUNCTION(avutil, av_strerror)                     \
  FUNCTION(avutil, av_log_set_level)                \
  FUNCTION(avutil, av_get_pix_fmt)                  \
  FUNCTION(avutil, av_get_pix_fmt_name)             \
  FUNCTION(avutil, av_pix_fmt_desc_get)             \
  FUNCTION(swscale, sws_getCachedContext)           \
  FUNCTION(swscale, sws_freeContext)                \
  FUNCTION(swscale, sws_getCoefficients)            \
  FUNCTION(swscale, sws_setColorspaceDetails)       \
  FUNCTION(swscale, sws_scale)

struct Libav {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration
#define FOREBAY_LIBAV_MEMBER(LIBRARY, NAME) decltype(&::NAME) NAME = nullptr;
  FOREBAY_LIBAV(FOREBAY_LIBAV_MEMBER)
#undef FOREBAY_LIBAV_MEMBER
  std::string problem;  // empty: everything was found

  // The text of one of their error numbers.
  [[nodiscard]] std::string describe(int error) const;
};

// Loads the libraries at the first call. Any thread.
[[nodiscard]] const Libav& libav();

// Whether its decoder says that the frame refers to no other.
[[nodiscard]] inline bool is_key(const AVFrame& frame) {
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(58, 7, 100)
  return (frame.flags & AV_FRAME_FLAG_KEY) != 0;
#else
  return frame.key_frame != 0;
#endif
}
// Whether decoders of the codec say so of all frames where decoding may begin.
[[nodiscard]] inline bool tells_keys(std::string_view codec) { return codec != "h264" && codec != "h261"; }

struct FreeLibav {
  void operator()(AVPacket* packet) const { libav().av_packet_free(&packet); }
  void operator()(AVFrame* frame) const { libav().av_frame_free(&frame); }
  void operator()(AVCodecContext* context) const { libav().avcodec_free_context(&context); }
  void operator()(SwsContext* context) const { libav().sws_freeContext(context); }
  void operator()(AVFormatContext* context) const { libav().avformat_close_input(&context); }
  void operator()(AVIOContext* context) const {
    libav().av_free(context->buffer);
    libav().avio_context_free(&context);
  }
};
template <class Thing>
using LibavOwner = std::unique_ptr<Thing, FreeLibav>;

}  // namespace forebay::video
