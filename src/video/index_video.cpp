// Makes a video's table from its container.
//
// libavformat demuxes the file, through our own reader, and returns each packet of the video with
// its timestamps. The position that it reports for a packet is that of its bytes in mp4, but that
// of the enclosing element in mkv: so the bytes there are compared, and if the packet begins
// slightly later, that is its place. A clip can then be read without demuxing the file again,
// whatever its container.
//
// Only these three demuxers are permitted, and none may open anything else: a file cannot make it
// read another file.

#include "index_video.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <exception>
#include <forebay/error.hpp>
#include <string>

#include "kept_blocks.hpp"
#include "libav.hpp"
#include "packet_nature.hpp"
#include "stream_decoder.hpp"
#include "video_table.hpp"

namespace forebay::video {
namespace {

constexpr int kBuffer = 1 << 16;  // bytes that a demuxer takes at a time
constexpr const char* kContainers = "mov,matroska,avi";
constexpr std::int64_t kMostPixels = std::int64_t{1} << 28U;  // of a frame that is decoded here

// A file as libavformat reads one. What a read throws is kept, and thrown once libavformat has returned.
class Input {
 public:
  explicit Input(KeptBlocks& file) : file_(file) {
    const Libav& av = libav();
    auto* buffer = static_cast<unsigned char*>(av.av_malloc(kBuffer));
    io_.reset(buffer == nullptr ? nullptr : av.avio_alloc_context(buffer, kBuffer, 0, this, &read, nullptr, &seek));
    AVFormatContext* format = av.avformat_alloc_context();
    if (!io_ || format == nullptr) throw std::bad_alloc();
    format->pb = io_.get();
    format->flags |= AVFMT_FLAG_CUSTOM_IO;
    AVDictionary* options = nullptr;
    av.av_dict_set(&options, "format_whitelist", kContainers, 0);
    av.av_dict_set(&options, "protocol_whitelist", "none", 0);
    const int result = av.avformat_open_input(&format, nullptr, nullptr, &options);  // where it fails it frees `format`
    format_.reset(format);
    av.av_dict_free(&options);
    rethrow();
    if (result < 0) fail("no mp4, mov, mkv, webm or avi file, or damaged", result);
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  [[nodiscard]] AVFormatContext& format() noexcept { return *format_; }

  // False at the end.
  [[nodiscard]] bool next(AVPacket& packet) {
    const int result = libav().av_read_frame(format_.get(), &packet);
    rethrow();
    if (result == AVERROR_EOF) return false;
    if (result < 0) fail("damaged", result);
    return true;
  }

  // Where in the file the packet's bytes are, at or soon after its position.
  [[nodiscard]] std::uint64_t place_of(const AVPacket& packet) {
    constexpr std::size_t kSurroundings = 512;  // of the headers of a block
    const auto size = static_cast<std::size_t>(packet.size);
    const auto begin = static_cast<std::uint64_t>(packet.pos);
    if (packet.pos >= 0 && size <= file_.bytes() && begin <= file_.bytes() - size) {
      const auto wanted = std::as_bytes(std::span(packet.data, size));
      around_.resize(std::min<std::size_t>(size + kSurroundings, file_.bytes() - begin));
      file_.read(begin, around_);
      const auto found = std::search(around_.begin(), around_.end(), wanted.begin(), wanted.end());
      if (found != around_.end()) return begin + static_cast<std::uint64_t>(found - around_.begin());
    }
    throw SampleError(
        "its packets do not lie in one piece each (compressed headers or encryption?); copy it to an mp4 file: "
        "ffmpeg -i IN -c copy OUT.mp4");
  }

  [[noreturn]] static void fail(const std::string& what, int error) {
    throw SampleError(what + ": " + libav().describe(error));
  }

  void rethrow() {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  static int read(void* self, std::uint8_t* to, int size) {
    auto& input = *static_cast<Input*>(self);
    const std::uint64_t left = input.file_.bytes() - std::min(input.at_, input.file_.bytes());
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left, static_cast<std::uint64_t>(size)));
    if (count == 0) return AVERROR_EOF;
    try {
      input.file_.read(input.at_, std::as_writable_bytes(std::span(to, count)));
    } catch (...) {
      input.failure_ = std::current_exception();
      return AVERROR_EXTERNAL;
    }
    input.at_ += count;
    return static_cast<int>(count);
  }
  static std::int64_t seek(void* self, std::int64_t offset, int whence) {
    auto& input = *static_cast<Input*>(self);
    const auto size = static_cast<std::int64_t>(input.file_.bytes());
    switch (whence & ~AVSEEK_FORCE) {
      case AVSEEK_SIZE: return size;
      case SEEK_SET: break;
      case SEEK_CUR: offset += static_cast<std::int64_t>(input.at_); break;
      case SEEK_END: offset += size; break;
      default: return AVERROR(EINVAL);
    }
    if (offset < 0) return AVERROR(EINVAL);
    input.at_ = static_cast<std::uint64_t>(offset);
    return offset;
  }

  KeptBlocks& file_;
  std::uint64_t at_ = 0;
  std::exception_ptr failure_;
  LibavOwner<AVIOContext> io_;
  LibavOwner<AVFormatContext> format_;
  std::vector<std::byte> around_;
};

int video_stream_of(AVFormatContext& format) {
  int found = -1;
  for (unsigned i = 0; i < format.nb_streams; ++i) {
    const AVStream& stream = *format.streams[i];
    const bool is_wanted = found < 0 && stream.codecpar->codec_type == AVMEDIA_TYPE_VIDEO &&
                           (stream.disposition & AV_DISPOSITION_ATTACHED_PIC) == 0;
    if (is_wanted) {
      found = static_cast<int>(i);
    } else {
      format.streams[i]->discard = AVDISCARD_ALL;
    }
  }
  if (found < 0) throw SampleError("it has no video stream");
  return found;
}

const std::int32_t* display_matrix_of(const AVStream& stream) {
#if LIBAVCODEC_VERSION_MAJOR >= 61
  const AVCodecParameters& parameters = *stream.codecpar;
  for (int i = 0; i < parameters.nb_coded_side_data; ++i) {
    const AVPacketSideData& data = parameters.coded_side_data[i];
    if (data.type == AV_PKT_DATA_DISPLAYMATRIX) return reinterpret_cast<const std::int32_t*>(data.data);
  }
#else
  for (int i = 0; i < stream.nb_side_data; ++i) {
    const AVPacketSideData& data = stream.side_data[i];
    if (data.type == AV_PKT_DATA_DISPLAYMATRIX) return reinterpret_cast<const std::int32_t*>(data.data);
  }
#endif
  return nullptr;
}

// A point (x, y) is shown at (a x + c y, b x + d y); y grows downwards (libavutil/display.h). EXIF's eight turns are
// those that keep rows and columns what they are.
int orientation_of(const AVStream& stream) {
  const std::int32_t* matrix = display_matrix_of(stream);
  if (matrix == nullptr) return 1;
  const auto sign = [](std::int32_t value) { return value == 0 ? 0 : value < 0 ? -1 : 1; };
  const int a = sign(matrix[0]);
  const int b = sign(matrix[1]);
  const int c = sign(matrix[3]);
  const int d = sign(matrix[4]);
  if (b == 0 && c == 0 && a * d != 0) return a > 0 ? (d > 0 ? 1 : 4) : (d > 0 ? 2 : 3);
  if (a == 0 && d == 0 && b * c != 0) return b > 0 ? (c > 0 ? 5 : 6) : (c > 0 ? 8 : 7);
  throw SampleError("its container turns it by an angle that is no multiple of 90 degrees");
}

StreamParameters parameters_of(const AVStream& stream) {
  const Libav& av = libav();
  const AVCodecParameters& from = *stream.codecpar;
  StreamParameters parameters;
  parameters.codec = av.avcodec_get_name(from.codec_id);
  if (av.avcodec_find_decoder(from.codec_id) == nullptr)
    throw SampleError("this machine's libavcodec has no decoder for its codec, " + parameters.codec);
  if (from.width < 1 || from.height < 1) throw SampleError("damaged: nothing says how large its frames are");
  if (const char* name = av.av_get_pix_fmt_name(static_cast<AVPixelFormat>(from.format)))
    parameters.pixel_format = name;
  const auto extradata =
      std::as_bytes(std::span(from.extradata, static_cast<std::size_t>(std::max(from.extradata_size, 0))));
  if (extradata.size() > StreamParameters::kLongestExtradata)
    throw SampleError("damaged: more than 1 MiB of codec parameters");
  parameters.extradata.assign(extradata.begin(), extradata.end());
  parameters.tag = from.codec_tag;
  parameters.profile = from.profile;
  parameters.level = from.level;
  parameters.bits_per_sample = from.bits_per_coded_sample;
  parameters.width = from.width;
  parameters.height = from.height;
  parameters.colour_range = from.color_range;
  parameters.matrix = from.color_space;
  return parameters;
}

// What would have to come with a packet when it is decoded.
void require_alone(const AVPacket& packet) {
  for (int i = 0; i < packet.side_data_elems; ++i) {
    const AVPacketSideDataType type = packet.side_data[i].type;
    if (type == AV_PKT_DATA_NEW_EXTRADATA || type == AV_PKT_DATA_PARAM_CHANGE || type == AV_PKT_DATA_PALETTE)
      throw SampleError("its codec's parameters change on the way; encode it anew: ffmpeg -i IN OUT.mp4");
  }
}

// What decoding shows of a video and its container does not say: the order in which frames are shown, as in some avi
// files; whether they are shown; how large they are.
class Rehearsal {
 public:
  explicit Rehearsal(const StreamParameters& stream)
      : packet_(libav().av_packet_alloc()), frame_(libav().av_frame_alloc()) {
    if (!packet_ || !frame_) throw std::bad_alloc();
    tells_keys_ = tells_keys(stream.codec);
    context_ = open_decoder(stream, kMostPixels);
    context_->flags &= ~AV_CODEC_FLAG_OUTPUT_CORRUPT;  // as players do
  }
  // The next packet; libavcodec's result.
  int add(std::span<const std::byte> bytes) {
    fill_packet(*packet_, bytes, added_++, memory_);
    return take(packet_.get());
  }
  // Of its first frame, which may differ from what a container states; 0 where there is none yet.
  [[nodiscard]] std::int32_t width() const noexcept { return width_; }
  [[nodiscard]] std::int32_t height() const noexcept { return height_; }
  // Times that say the order. A packet that gives no frame is hidden, and has that of the packet behind it.
  std::vector<std::int64_t> finish(std::span<Packet> packets) {
    if (const int result = take(nullptr); result < 0) Input::fail("damaged", result);
    constexpr std::int64_t kNone = INT64_MAX;
    std::vector<std::int64_t> times(packets.size(), kNone);
    for (std::size_t i = 0; i < order_.size(); ++i)
      times[static_cast<std::size_t>(order_[i])] = static_cast<std::int64_t>(i);
    for (const std::int64_t number : no_keys_) packets[static_cast<std::size_t>(number)].is_key = false;
    for (std::size_t i = packets.size(); i-- > 0;) {
      packets[i].is_hidden = times[i] == kNone;
      if (packets[i].is_hidden && i + 1 < packets.size()) times[i] = times[i + 1];
    }
    return times;
  }

 private:
  int take(const AVPacket* packet) {
    const Libav& av = libav();
    if (const int result = av.avcodec_send_packet(context_.get(), packet); result < 0) return result;
    while (av.avcodec_receive_frame(context_.get(), frame_.get()) >= 0) {
      if (frame_->pts < 0 || frame_->pts >= added_) continue;
      order_.push_back(frame_->pts);
      if (width_ == 0) width_ = frame_->width, height_ = frame_->height;
      if (tells_keys_ && !is_key(*frame_)) no_keys_.push_back(frame_->pts);
    }
    return 0;
  }

  LibavOwner<AVCodecContext> context_;
  LibavOwner<AVPacket> packet_;
  LibavOwner<AVFrame> frame_;
  std::vector<std::uint8_t> memory_;
  std::vector<std::int64_t> order_;
  std::vector<std::int64_t> no_keys_;
  bool tells_keys_ = true;
  std::int32_t width_ = 0;
  std::int32_t height_ = 0;
  std::int64_t added_ = 0;
};

// Frames whose time is not behind that of the first packet's are not shown if they refer to what a cut in an open group
// took away.
void hide_leading(KeptBlocks& file, std::span<const std::int64_t> times, VideoTable& table) {
  const auto is_leading = [&](std::size_t i) { return times[i] <= times[0] && !table.packets[i].is_hidden; };
  std::size_t count = table.packets.size();
  while (count > 1 && !is_leading(count - 1)) --count;
  if (count <= 1) return;
  // H.264's decoder treats the last frames in another way.
  constexpr std::size_t kMore = 32;
  std::vector<Packet> decoded = table.packets;
  decoded.resize(std::min(count + kMore, decoded.size()));
  Rehearsal rehearsal(table.stream);
  std::vector<std::byte> bytes;
  for (const Packet& packet : decoded) {
    bytes.resize(packet.bytes);
    file.read(packet.offset, bytes);
    (void)rehearsal.add(bytes);  // what cannot be decoded is not shown
  }
  (void)rehearsal.finish(decoded);
  for (std::size_t i = 1; i < count; ++i) {
    if (is_leading(i)) table.packets[i].is_hidden = decoded[i].is_hidden;
  }
}

// The end of an mkv or webm file that was cut short looks like any other to libavformat. Its Segment has the size of
// all that follows, or all ones where that was not known when it was written (RFC 8794, 4.4 and 6.2; RFC 9559, 5.1).
void require_whole_matroska(KeptBlocks& file) {
  constexpr std::size_t kHead = 256;
  std::vector<std::byte> head(static_cast<std::size_t>(std::min<std::uint64_t>(file.bytes(), kHead)));
  file.read(0, head);
  std::size_t at = 0;
  bool is_unknown = false;
  // A number whose first byte says by its leading zeros how many follow.
  const auto number = [&](bool with_marker) -> std::uint64_t {
    if (at >= head.size()) return 0;
    const auto first = std::to_integer<unsigned>(head[at]);
    const int length = std::countl_zero(static_cast<std::uint8_t>(first)) + 1;
    if (length > 8 || at + static_cast<std::size_t>(length) > head.size()) return at = head.size(), 0;
    std::uint64_t value = with_marker ? first : first & (0xffU >> length);
    for (int i = 1; i < length; ++i)
      value = value << 8U | std::to_integer<unsigned>(head[at + static_cast<std::size_t>(i)]);
    at += static_cast<std::size_t>(length);
    is_unknown = !with_marker && value == (std::uint64_t{1} << (7U * static_cast<unsigned>(length))) - 1;
    return value;
  };
  constexpr std::uint64_t kHeader = 0x1a45dfa3;
  constexpr std::uint64_t kSegment = 0x18538067;
  if (number(true) != kHeader) return;
  const std::uint64_t header = number(false);
  at += static_cast<std::size_t>(std::min<std::uint64_t>(header, kHead));
  if (number(true) != kSegment) return;
  const std::uint64_t size = number(false);
  if (!is_unknown && size > file.bytes() - at) throw SampleError("damaged: it is cut short");
}

}  // namespace

std::vector<std::byte> index_video(const VideoSource& source, std::vector<double>* shown_at) {
  const Libav& av = libav();
  KeptBlocks file(source);
  require_whole_matroska(file);
  Input input(file);
  AVFormatContext& format = input.format();
  const int result = av.avformat_find_stream_info(&format, nullptr);
  input.rethrow();
  if (result < 0) Input::fail("damaged", result);
  const int number = video_stream_of(format);
  VideoTable table{.stream = parameters_of(*format.streams[number]),
                   .orientation = orientation_of(*format.streams[number])};
  const PacketNature nature(table.stream.codec, table.stream.extradata);
  const bool is_avi = format.iformat->name == std::string_view("avi");
  StreamParameters rehearsed = table.stream;
  if (is_avi && rehearsed.codec == "h264") rehearsed.delay = 16;  // not known yet: the most there is
  Rehearsal rehearsal(rehearsed);

  const LibavOwner<AVPacket> packet(av.av_packet_alloc());
  if (!packet) throw std::bad_alloc();
  std::vector<std::int64_t> times;
  std::vector<std::int64_t> clock;  // of an avi, whose ticks without a frame have no bytes
  std::vector<std::uint8_t> layers;
  std::uint8_t highest = 0;
  bool is_packed = false;
  while (input.next(*packet)) {
    if (packet->stream_index == number && packet->size > 0) {
      if (packet->pts == AV_NOPTS_VALUE && !is_avi)
        throw SampleError("a packet has no timestamp; encode it anew: ffmpeg -i IN OUT.mp4");
      if ((packet->flags & AV_PKT_FLAG_CORRUPT) != 0) throw SampleError("damaged: a packet is cut short");
      if (table.packets.size() >= VideoTable::kMostPackets) throw SampleError("it has more than 2^24 packets");
      require_alone(*packet);
      const auto bytes = std::as_bytes(std::span(packet->data, static_cast<std::size_t>(packet->size)));
      constexpr std::size_t kFirst = 64;  // of other containers only the size is asked for
      if (is_avi || (rehearsal.width() == 0 && table.packets.size() < kFirst)) {
        if (const int failure = rehearsal.add(bytes); is_avi && failure < 0) Input::fail("damaged", failure);
      }
      if (is_avi) clock.push_back(packet->dts);
      times.push_back(packet->pts);
      layers.push_back(nature.layer_of(bytes));
      is_packed = is_packed || nature.is_packed(bytes);
      if (layers.back() != PacketNature::kNeeded) highest = std::max(highest, layers.back());
      table.packets.push_back({.offset = input.place_of(*packet),
                               .bytes = static_cast<std::uint32_t>(packet->size),
                               .is_key = (packet->flags & AV_PKT_FLAG_KEY) != 0 && nature.is_entry(bytes),
                               .is_hidden = (packet->flags & AV_PKT_FLAG_DISCARD) != 0});
    }
    av.av_packet_unref(packet.get());
  }
  if (is_avi) times = rehearsal.finish(table.packets);
  if (rehearsal.width() > 0) {
    table.stream.width = rehearsal.width();
    table.stream.height = rehearsal.height();
  }
  table.rank_by(times);
  table.stream.delay = delay_of(table.packets);
  if (!is_avi && !table.packets.empty()) hide_leading(file, times, table);
  for (std::size_t i = 0; i < layers.size(); ++i) table.packets[i].is_disposable = !is_packed && layers[i] == highest;
  const std::vector<std::uint32_t> shown = table.shown();
  if (shown.empty()) throw SampleError("it has no frame that is shown");
  if (shown_at == nullptr) return table.serialize();
  const AVStream& stream = *format.streams[number];
  const double tick = av_q2d(stream.time_base);
  if (!(tick > 0)) throw SampleError("it states no frame rate, so that no part of it can be named in seconds");
  std::vector<std::int64_t> at;
  at.reserve(shown.size());
  for (const std::uint32_t i : shown) at.push_back(is_avi ? clock[i] : times[i]);
  std::ranges::sort(at);
  for (const std::int64_t time : at) {
    // A file may state times whose difference is no 64-bit number.
    shown_at->push_back((static_cast<double>(time) - static_cast<double>(at.front())) * tick);
  }
  return table.serialize();
}

}  // namespace forebay::video
