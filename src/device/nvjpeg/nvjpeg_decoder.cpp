// Decodes the JPEG files that a decoder thread took together with nvJPEG, in groups that fit into
// an arena on the GPU, and copies the pixels back to the host, where cropping and resizing go on.
// Lazily: the first picture that is asked for decodes a group. What nvJPEG does not support, or
// fails at, is left to the CPU, file by file, and only plain files with an end marker are tried,
// because libjpeg-turbo finds damage that nvJPEG turns into pixels. One per thread, with a stream
// of low priority.

#include "nvjpeg_decoder.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <forebay/error.hpp>

#include "pack/packed_jpeg.hpp"

namespace forebay::device {
namespace {

constexpr int kMostFiles = static_cast<int>(NvjpegDecoder::kMost);
// Where a picture may begin in the arenas: what suits the GPU's widest accesses.
constexpr std::size_t kPictureAlignment = 256;
// The longer side of a usual photograph, upright or across. nvJPEG's own memory is made for kMost such at the start,
// 96 MiB, and grows for larger ones: it is freed then, which waits for all that the GPU is doing.
constexpr int kUsualSide = 1024;

void require(int status, const char* call) {
  if (status != nvjpeg::kSuccess) throw Error(std::string(call) + " gave " + nvjpeg_status_text(status));
}

std::size_t bytes_of(const make::StoredPicture& picture) {
  return static_cast<std::size_t>(picture.width) * static_cast<std::size_t>(picture.height) * 3;
}

const unsigned char* as_chars(std::span<const std::byte> file) {
  return reinterpret_cast<const unsigned char*>(file.data());
}

}  // namespace

void NvjpegDecoder::EndState::operator()(nvjpeg::DecoderState* state) const noexcept {
  static_cast<void>(library->functions().JpegStateDestroy(state));
}
void NvjpegDecoder::EndState::operator()(nvjpeg::ParsedStream* stream) const noexcept {
  static_cast<void>(library->functions().JpegStreamDestroy(stream));
}

NvjpegDecoder::NvjpegDecoder(std::shared_ptr<const NvjpegLibrary> library, std::shared_ptr<Device> device,
                             const make::ImageOptions& options)
    : library_(std::move(library)),
      device_(std::move(device)),
      options_(options),
      on_gpu_(device_->allocate(kRoom)),
      on_host_(device_->allocate_staging(kRoom)),
      stream_(device_->make_background_stream()),
      decoded_(device_->make_event()),
      state_(nullptr, EndState{library_.get()}),
      parsed_(nullptr, EndState{library_.get()}) {
  make_objects();
  reserve();
}

NvjpegDecoder::~NvjpegDecoder() = default;

void NvjpegDecoder::make_objects() {
  const nvjpeg::Functions& nvjpeg = library_->functions();
  nvjpeg::DecoderState* state = nullptr;
  require(nvjpeg.JpegStateCreate(library_->handle(), &state), "nvjpegJpegStateCreate");
  state_.reset(state);
  nvjpeg::ParsedStream* stream = nullptr;
  require(nvjpeg.JpegStreamCreate(library_->handle(), &stream), "nvjpegJpegStreamCreate");
  parsed_.reset(stream);
}

void NvjpegDecoder::reserve() {
  files_.reserve(kMost);
  pictures_.reserve(kMost);
  group_.reserve(kMost);
  data_.reserve(kMost);
  lengths_.reserve(kMost);
  outputs_.reserve(kMost);
  if (!library_->has_hardware()) return;
  // Only spares the first batches an allocation, so it does not matter when it fails.
  static_cast<void>(library_->functions().DecodeBatchedPreAllocate(
      library_->handle(), state_.get(), kMostFiles, kUsualSide, kUsualSide, nvjpeg::k444, nvjpeg::kInterleavedRgb));
}

void NvjpegDecoder::begin(std::span<const std::span<const std::byte>> files) {
  files_.assign(files.begin(), files.end());
  pictures_.assign(files.size(), {});
  known_ = 0;
}

const make::StoredPicture* NvjpegDecoder::picture(std::size_t place) {
  if (place >= known_) decode_from(place);
  return pictures_[place].pixels.empty() ? nullptr : &pictures_[place];
}

// The arena is used again for each group, so pictures of the group before are gone then; they are
// asked for in order.
void NvjpegDecoder::decode_from(std::size_t first) {
  device_->enter_thread();
  group_.clear();
  std::size_t used = 0;
  for (known_ = first; known_ < files_.size(); ++known_) {
    if (!accepts(known_)) continue;
    const std::size_t bytes = bytes_of(pictures_[known_]);
    if (used + bytes > kRoom) break;
    group_.push_back({.place = known_, .offset = used});
    used = (used + bytes + kPictureAlignment - 1) / kPictureAlignment * kPictureAlignment;
  }
  if (group_.empty()) return;
  decode_group();
  if (!group_.empty()) fetch(std::min(used, kRoom));
}

bool NvjpegDecoder::accepts(std::size_t place) {
  const std::span<const std::byte> file = files_[place];
  if (file.empty() || pack::starts_as_packed_jpeg(file)) return false;
  try {
    header_.open(file, options_);
  } catch (const SampleError&) {
    return false;  // JpegDecoder will say so where it counts
  }
  const make::JpegHeader header = header_.header();
  make::StoredPicture& picture = pictures_[place];
  picture = {.pixels = {}, .width = header.width, .height = header.height, .orientation = header.orientation};
  return header.is_plain && bytes_of(picture) <= kRoom && is_supported(file);
}

bool NvjpegDecoder::is_supported(std::span<const std::byte> file) {
  const nvjpeg::Functions& nvjpeg = library_->functions();
  // Parsing finds damage that decoding might only show as wrong pixels.
  if (nvjpeg.JpegStreamParse(library_->handle(), as_chars(file), file.size(), 0, 0, parsed_.get()) != nvjpeg::kSuccess)
    return false;
  if (!library_->has_hardware()) return true;
  int unsupported = 1;
  return nvjpeg.DecodeBatchedSupported(library_->handle(), parsed_.get(), &unsupported) == nvjpeg::kSuccess &&
         unsupported == 0;
}

// nvJPEG does not say which member of a batch it failed at. Each is tried alone then, or the pixels of those that are
// well would depend on which thread took them together with the one that is not. What was put on the stream has to end
// each time: a state may only be initialised anew when nothing is decoded with it.
void NvjpegDecoder::decode_group() {
  if (decode(group_)) return;
  wait_decoded();
  std::erase_if(group_, [this](const Member& member) {
    const bool is_decoded = decode({&member, 1});
    wait_decoded();
    return !is_decoded;
  });
}

bool NvjpegDecoder::decode(std::span<const Member> members) {
  const nvjpeg::Functions& nvjpeg = library_->functions();
  data_.clear();
  lengths_.clear();
  outputs_.clear();
  for (const Member& member : members) {
    const std::span<const std::byte> file = files_[member.place];
    data_.push_back(as_chars(file));
    lengths_.push_back(file.size());
    nvjpeg::Output output{};
    output.channel[0] = reinterpret_cast<unsigned char*>(on_gpu_->bytes().data() + member.offset);
    output.pitch[0] = static_cast<std::size_t>(pictures_[member.place].width) * 3;
    outputs_.push_back(output);
  }
  // The state is made for a number of images; making it anew costs a little, and only where the
  // number changes.
  if (batch_size_ != members.size()) {
    batch_size_ = 0;
    if (nvjpeg.DecodeBatchedInitialize(library_->handle(), state_.get(), static_cast<int>(members.size()), 1,
                                       nvjpeg::kInterleavedRgb) != nvjpeg::kSuccess)
      return false;
    batch_size_ = members.size();
  }
  if (nvjpeg.DecodeBatched(library_->handle(), state_.get(), data_.data(), lengths_.data(), outputs_.data(),
                           stream_.handle) == nvjpeg::kSuccess)
    return true;
  batch_size_ = 0;  // a state that failed is initialised anew
  return false;
}

// Waits on the host before the arena is used again. An event for the next stream would not do: with the JPEG engines of
// an H100, nvjpegDecodeBatched() writes when it is called, whatever its stream still waits for.
void NvjpegDecoder::wait_decoded() {
  device_->record(decoded_, stream_);
  device_->synchronize(decoded_);
}

void NvjpegDecoder::fetch(std::size_t bytes) {
  // Waiting for the event leaves the core to others while the GPU decodes; the copy that follows is short.
  wait_decoded();
  device_->copy_out(on_host_->bytes().data(), on_gpu_->bytes().data(), bytes, stream_);
  const auto* const pixels = reinterpret_cast<const std::uint8_t*>(on_host_->bytes().data());
  for (const Member& member : group_) {
    make::StoredPicture& picture = pictures_[member.place];
    picture.pixels = {pixels + member.offset, bytes_of(picture)};
  }
}

}  // namespace forebay::device
