// `forebay index --decode-index`: reads every JPEG file of a dataset and records the points at
// which decoding can start in the middle of it. Runs that need only part of a picture can then skip
// the rest (src/make, src/jpeg).
//
// Groups of samples go to several threads, each with its own decoder. The results are combined in
// the order of groups and saved in one file. A file that cannot be decoded is counted and left out.
// A store that fails ends the command, because an index that lacks files would be used for a long
// time.

#include "decode_points.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <spdlog/fmt/fmt.h>
#include <forebay/error.hpp>
#include <forebay/field.hpp>

#include "base/retry.hpp"
#include "base/text.hpp"
#include "data/memory_target.hpp"
#include "data/parallel.hpp"
#include "jpeg/decode_index.hpp"
#include "jpeg/pixel_kernels.hpp"
#include "make/jpeg_decoder.hpp"
#include "make/signature.hpp"
#include "output.hpp"
#include "read/requests.hpp"

namespace forebay::cli {
namespace {

// The results of a group of samples.
struct Found {
  DecodePoints counts;
  std::vector<std::pair<jpeg::JpegKey, std::vector<std::byte>>> points;
};

// Used by one thread. It uses the scalar kernels, so that the result does not depend on the
// machine.
class PointFinder {
 public:
  PointFinder(const Dataset& dataset, const make::ImageOptions& options)
      : dataset_(dataset), options_(options), decoder_(&jpeg::scalar_pixel_kernels()) {}

  // Consecutive samples with the same source are objects of one image, which is read once.
  [[nodiscard]] Found find(std::uint64_t begin, std::uint64_t end) {
    Found found;
    for (std::uint64_t id = begin; id < end; ++id) {
      const bool is_repeated = id > 0 && dataset_.source(id) == dataset_.source(id - 1);
      if (!is_repeated && dataset_.sample(id).encoding == Encoding::image) find_image(id, found);
      for (std::size_t field = 0; field < dataset_.fields().size(); ++field) {
        if (dataset_.fields()[field].kind == FieldKind::image) find_picture(id, field, found);
      }
    }
    return found;
  }

 private:
  void find_image(std::uint64_t id, Found& found) {
    find_one(id, found, [&] { dataset_.read(id, target_); });
  }

  void find_picture(std::uint64_t id, std::size_t field, Found& found) {
    find_one(id, found, [&] {
      try {
        dataset_.read_field(id, field, target_);
      } catch (const SampleError& error) {
        throw read::field_error(dataset_, id, field, error);
      }
    });
  }

  // Throws Error if the store fails: a temporary failure is no reason to leave a file out of an
  // index that is kept.
  template <typename Read>
  void find_one(std::uint64_t id, Found& found, const Read& read) {
    try {
      read_patiently([&] { return dataset_.name(id); }, read);
      if (!make::starts_as_jpeg(target_.bytes)) return;
      ++found.counts.images;
      found.counts.image_bytes += target_.bytes.size();
      (void)decoder_.open(target_.bytes, options_);
      auto points = decoder_.locate();
      if (points.empty()) return;
      ++found.counts.known;
      found.points.emplace_back(jpeg::key_of(target_.bytes), std::move(points));
    } catch (const SampleError& error) {
      if (error.is_transient()) throw Error(dataset_.name(id) + ": " + error.what());
      ++found.counts.unreadable;  // a run reports the reason
    }
  }

  const Dataset& dataset_;
  make::ImageOptions options_;
  make::JpegDecoder decoder_;
  data::MemoryTarget target_;
};

}  // namespace

DecodePoints save_decode_points(const Dataset& dataset, const TransformOptions& transform, const std::string& file,
                                const IndexProgress& progress) {
  // Chosen, large enough to amortise the decoder that each group makes.
  constexpr std::uint64_t kSamplesAtOnce = 256;
  const make::ImageOptions options{.exif = transform.exif, .max_pixels = transform.max_pixels};
  const std::uint64_t size = dataset.size();
  std::vector<Found> found((size + kSamplesAtOnce - 1) / kSamplesAtOnce);
  try {
    data::run_in_ranges({size, data::index_threads(), progress, kSamplesAtOnce},
                        [&](std::size_t begin, std::size_t end) {
                          found[begin / kSamplesAtOnce] = PointFinder(dataset, options).find(begin, end);
                        });
  } catch (const Error& error) {
    throw Error(std::string(error.what()) + "; the decode index was not written: run the command again");
  }

  jpeg::DecodeIndexWriter writer;
  DecodePoints all;
  for (Found& part : found) {
    all.images += part.counts.images;
    all.image_bytes += part.counts.image_bytes;
    all.known += part.counts.known;
    all.unreadable += part.counts.unreadable;
    for (auto& [key, points] : part.points) writer.add(key, std::move(points));
  }
  std::error_code unknown;
  // An existing index is not replaced by an empty one.
  all.is_kept = all.known == 0 && std::filesystem::exists(file, unknown);
  if (all.is_kept) return all;
  try {
    writer.save(file);
  } catch (const Error& error) {
    throw Error("decode index " + file + ": " + error.what());
  }
  all.bytes = writer.bytes();
  return all;
}

std::string to_text(const DecodePoints& points, const std::string& file) {
  const double share =
      points.image_bytes == 0 ? 0 : 100 * static_cast<double>(points.bytes) / static_cast<double>(points.image_bytes);
  std::string text =
      points.is_kept
          ? fmt::format(
                "decode index left as it was, because none of {} JPEG files can be decoded from the middle: {}\n",
                grouped(points.images), printable(file))
          : fmt::format("decode index {} of {} JPEG files, {} ({:.1f} % of theirs): {}\n", grouped(points.known),
                        grouped(points.images), size_text(points.bytes), share, printable(file));
  if (points.unreadable > 0) text += fmt::format("             {} could not be read\n", grouped(points.unreadable));
  return text;
}

nlohmann::ordered_json to_json(const DecodePoints& points, const std::string& file) {
  return {{"file", file},          {"images", points.images},         {"image_bytes", points.image_bytes},
          {"known", points.known}, {"unreadable", points.unreadable}, {"bytes", points.bytes},
          {"kept", points.is_kept}};
}

}  // namespace forebay::cli
