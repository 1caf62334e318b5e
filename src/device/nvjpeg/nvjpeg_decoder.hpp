#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "make/image.hpp"
#include "make/jpeg_decoder.hpp"
#include "nvjpeg_library.hpp"

namespace forebay::device {

// Decodes JPEG files on the GPU, several at a time, and hands their pixels over in memory of the host. Its pixels are
// those of libjpeg-turbo up to a few grey levels, not byte-equal. What it does not take, or fails at, it leaves to
// JpegDecoder; which files those are depends on each file alone, not on those beside it. It leaves files that
// JpegDecoder would refuse for their header or for the lack of an end; but damage among the coefficients that nvJPEG
// does not report goes unseen.
// One belongs to one thread; all its memory but what nvJPEG itself takes is allocated at the start.
class NvjpegDecoder {
 public:
  // Files that begin() takes at most.
  static constexpr std::size_t kMost = 32;
  // Bytes of pixels that are decoded together, on the GPU and on the host; a larger image is left to JpegDecoder.
  static constexpr std::size_t kRoom = std::size_t{32} << 20;

  // May wait for the GPU. Throws Error when there is no memory or nvJPEG fails.
  // REQUIRES: the device's GPU is current on the calling thread, and the library was started on it.
  NvjpegDecoder(std::shared_ptr<const NvjpegLibrary> library, std::shared_ptr<Device> device,
                const make::ImageOptions& options);
  ~NvjpegDecoder();
  NvjpegDecoder(const NvjpegDecoder&) = delete;
  NvjpegDecoder& operator=(const NvjpegDecoder&) = delete;

  // The files to decode next; an empty span is none. Nothing of the ones before is valid any more. Does not decode yet.
  // REQUIRES: at most kMost; their bytes stay until the next begin(), or the decoder's end.
  void begin(std::span<const std::span<const std::byte>> files);

  // The picture of a file; null when it must be decoded by JpegDecoder. Valid until picture() is called for a later
  // file or begin(). Decodes as many of the files from this one on as there is room for, when it has not yet, and waits
  // for that. Throws Error when the GPU fails, not when nvJPEG does.
  // REQUIRES: place < files of begin(), and not lower than at the call before.
  [[nodiscard]] const make::StoredPicture* picture(std::size_t place);

 private:
  // Of nvJPEG's objects, those of a thread.
  struct EndState {
    const NvjpegLibrary* library;
    void operator()(nvjpeg::DecoderState* state) const noexcept;
    void operator()(nvjpeg::ParsedStream* stream) const noexcept;
  };
  // A file that is decoded with others.
  struct Member {
    std::size_t place;
    std::size_t offset;  // of its pixels in the arenas
  };

  void make_objects();
  void reserve();
  void decode_from(std::size_t first);
  // Whether nvJPEG is to try; then pictures_[place] is all but its pixels.
  [[nodiscard]] bool accepts(std::size_t place);
  [[nodiscard]] bool is_supported(std::span<const std::byte> file);
  // Puts the decoding of some members on the stream; false when nvJPEG refused, perhaps after a part of it.
  // REQUIRES: none is there yet.
  [[nodiscard]] bool decode(std::span<const Member> members);
  void decode_group();
  // Nothing that was put on the stream is still to be done.
  void wait_decoded();
  void fetch(std::size_t bytes);

  std::shared_ptr<const NvjpegLibrary> library_;
  std::shared_ptr<Device> device_;
  make::ImageOptions options_;
  make::JpegDecoder header_;
  std::unique_ptr<Arena> on_gpu_;
  std::unique_ptr<Arena> on_host_;
  StreamView stream_;
  DeviceEvent decoded_;
  std::unique_ptr<nvjpeg::DecoderState, EndState> state_;
  std::unique_ptr<nvjpeg::ParsedStream, EndState> parsed_;
  std::size_t batch_size_ = 0;  // that the state is initialised for

  std::vector<std::span<const std::byte>> files_;
  std::vector<make::StoredPicture> pictures_;  // without pixels: not decoded here
  std::vector<Member> group_;
  std::size_t known_ = 0;  // files before this one are decoded, or left
  std::vector<const unsigned char*> data_;
  std::vector<std::size_t> lengths_;
  std::vector<nvjpeg::Output> outputs_;
};

}  // namespace forebay::device
