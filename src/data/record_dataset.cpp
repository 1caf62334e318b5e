// The dataset over an index: it answers sample() and name() from the index's columns, and reads the
// bytes of samples from their files, or from the index if that holds them.
//
// A look-up computes or reads one number per column and checks it against the limits of the column
// before it is used. So damage that passed a checksum, or an index by another program, causes an
// error and not a read beyond a buffer. No number is cached: each costs a copy from memory or a
// read of 4 KiB from the page cache (index_image.cpp), and threads need no lock.
//
// There are three ways to read: a whole file (samples of folders); a record, with the bytes that
// its checksum covers, if it has one; or several records and the gaps between them in one request
// (read_together()). Readers (read/) use the last where placement() says that samples are near each
// other. Any thread may call any of them at any time.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <forebay/error.hpp>
#include <memory>
#include <mutex>

#include "base/file_io.hpp"
#include "formats.hpp"
#include "npy.hpp"
#include "object_samples.hpp"
#include "piecewise_read.hpp"
#include "placed_samples.hpp"
#include "record_checksum.hpp"
#include "record_layout.hpp"
#include "scan.hpp"
#include "source_files.hpp"
#include "store/url.hpp"
#include "video_samples.hpp"

namespace forebay::data {
namespace {

using Layout = RecordLayout;

// The dataset of every index, whatever format it was built from.
class RecordDataset final : public Dataset, public PlacedSamples, public SampleFiles {
 public:
  explicit RecordDataset(std::unique_ptr<const IndexImage> image)
      : image_(std::move(image)),
        layout_(read_record_layout(*image_)),
        is_checked_(std::ranges::any_of(layout_.kinds, &RecordTable::Kind::checked)),
        files_(holds_files() ? layout_.sources : 0, image_->record().modified,
               [this](std::uint64_t file) { return known(file); }) {
    for (const StoredField& stored : layout_.fields) fields_.push_back(stored.field);
    check_computed();
    if (layout_.has_clips()) require_videos();
  }

  [[nodiscard]] std::string_view format() const noexcept override { return image_->record().origin.format; }
  [[nodiscard]] const std::vector<Skipped>& skipped() const noexcept override { return image_->record().skipped; }
  [[nodiscard]] IndexCounts counts() const noexcept override { return image_->record().counts; }
  // Does not check the bytes: opening them as an index does.
  [[nodiscard]] std::vector<std::byte> serialize() const override {
    std::vector<std::byte> bytes(image_->bytes());
    image_->read_unchecked(0, bytes);
    return bytes;
  }
  [[nodiscard]] const IndexImage& image() const noexcept { return *image_; }
  void center_clips() noexcept { are_central_ = true; }

  [[nodiscard]] std::uint64_t size() const noexcept override { return layout_.samples; }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return layout_.classes; }

  [[nodiscard]] Sample sample(std::uint64_t id) const override {
    const RecordTable::Kind& kind = kind_of(id);
    Sample sample = sample_of(kind);
    sample.label = number(Layout::label, id);
    // A record that the index holds was verified when the index was built.
    sample.checked = kind.checked && layout_.has_records && !is_held(file_of(id));
    if (layout_.has_regions) {
      const std::int64_t flags = number(Layout::flags, id);
      sample.box = box_of(id);
      sample.difficult = (flags & RecordTable::kDifficult) != 0;
      sample.truncated = (flags & RecordTable::kTruncated) != 0;
    }
    return sample;
  }

  // Samples with the same number share the bytes that are read: objects of one image. For objects
  // of one record the number is made of file and offset, if both are small enough for it; other
  // records are read once per sample.
  [[nodiscard]] std::uint64_t source(std::uint64_t id) const override {
    if (!layout_.has_records) return layout_.has_clips() ? id : file_of(id);
    if (!layout_.has_regions) return id;
    return shared_record(file_of(id), static_cast<std::uint64_t>(number(Layout::offset, id))).value_or(id);
  }

  [[nodiscard]] std::string name(std::uint64_t id) const override {
    std::string path = file_path(file_of(id));
    if (layout_.are_windows) return path + "[frame " + std::to_string(number(Layout::offset, id)) + "]";
    if (!layout_.has_records) {
      return layout_.has_regions ? path + "#object " + std::to_string(number(Layout::number, id)) : path;
    }
    return record_name(path, static_cast<std::uint64_t>(number(Layout::number, id)), key_of(id));
  }

  // target.reserve() is called last, once the length is known and the file has been compared with
  // its stamp.
  void read(std::uint64_t id, ReadTarget& target) const override {
    const std::uint64_t file = file_of(id);
    if (layout_.has_clips()) return read_clip(id, file, target);
    if (!layout_.has_records) return files_.read_whole(file_path(file), target);
    const Extent extent = extent_of(id);
    if (is_held(file)) return read_held(file, extent, target);
    files_.with(file, [&](const OpenFile& source) {
      if (is_checked_ && kind_of(id).checked) return read_checked(id, source, extent, target);
      files_.read(source, extent.offset, target.reserve(extent.length));
    });
  }

  // Read once and kept, because decoders hold a view that must stay valid as long as the dataset.
  [[nodiscard]] std::span<const std::byte> tables(std::uint32_t /*key*/) const override {
    if (layout_.held_bytes == 0 || !find_format(format())->holds_tables) return {};
    std::call_once(are_tables_read_, [this] { tables_ = image().content(layout_.held, layout_.held_bytes); });
    return tables_;
  }

  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }

  [[nodiscard]] std::string field_name(std::uint64_t id, std::size_t field) const override {
    const StoredField& stored = layout_.fields[field];
    const std::int64_t source = stored.has_values ? -1 : field_number(stored, StoredField::source, id);
    if (source < 0) return {};
    std::string path = file_path(static_cast<std::uint64_t>(source));
    if (!stored.has_records) return path;
    return path + "[record " + std::to_string(field_number(stored, StoredField::number, id)) + "]";
  }

  // A missing field makes the sample bad; it does not end the run.
  void read_field(std::uint64_t id, std::size_t field, ReadTarget& target) const override {
    const StoredField& stored = layout_.fields[field];
    if (stored.has_values) {
      const Extent values = values_of(stored, id);
      return image().read(stored.values + values.offset, target.reserve(values.length));
    }
    const std::int64_t source = field_number(stored, StoredField::source, id);
    if (source < 0) throw SampleError("is missing");
    const auto file = static_cast<std::uint64_t>(source);
    // An empty text is a text.
    if (!stored.has_records) return files_.read_whole(file_path(file), target, fields_[field].kind == FieldKind::bytes);
    const Extent extent = extent_of_field(stored, id, file);
    if (is_held(file)) return read_held(file, extent, target);
    files_.with(file,
                [&](const OpenFile& opened) { files_.read(opened, extent.offset, target.reserve(extent.length)); });
  }

  [[nodiscard]] bool has_records() const noexcept { return layout_.has_records; }

  // Samples held by the index have no place in a file, and a sample that is a whole file has no
  // neighbours.
  [[nodiscard]] std::optional<Placement> placement(std::uint64_t id) const override {
    if (!layout_.has_records || is_held(file_of(id))) return std::nullopt;
    Placement placement = image_placement(id);
    return layout_.fields.empty() || place_fields(id, placement) ? std::optional(std::move(placement)) : std::nullopt;
  }

  void read_together(std::span<const std::uint64_t> ids, std::span<const std::span<std::byte>> parts) const override {
    PiecewiseRead pieces;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const Placement image = image_placement(ids[i]);
      if (image.after > 0) pieces.add_checked(image.begin(), image.end());
      const std::size_t each = 1 + layout_.fields.size();
      add_pieces(ids[i], image, parts.subspan(i * each, each), pieces);
    }
    files_.with(file_of(ids.front()), [&](const OpenFile& source) {
      pieces.read([&](std::uint64_t at, auto places) { files_.read(source, at, places); });
    });
  }

  // Sources of size 0 are held by the index and never compared.
  [[nodiscard]] SourceComparison compare_sources(unsigned threads, const IndexProgress& progress) const {
    std::vector<std::uint64_t> known;  // except objects in a store that are read: each is compared when a read needs it
    for (std::uint64_t file = 0; holds_files() && file < layout_.sources; ++file)
      if (number(Layout::file_bytes, file) != 0 && (is_held(file) || !store::is_url(file_path(file))))
        known.push_back(file);
    return files_.compare(known, threads, progress);
  }

  // Tries only the first file: usually all are on one file system, and trying each would open them
  // all.
  [[nodiscard]] std::string bypass_page_cache() const {
    files_.bypass_page_cache();
    return size() == 0 || is_held(file_of(0)) ? "" : SourceFiles::problem_of_bypass(file_path(file_of(0)));
  }

  void use_cache(std::shared_ptr<const store::NodeCache> cache) const { files_.use_cache(std::move(cache)); }
  void close_kept_files() const noexcept { files_.close_kept(); }
  [[nodiscard]] std::uint64_t files() const noexcept override { return layout_.sources; }
  [[nodiscard]] std::uint64_t file_of(std::uint64_t id) const override {
    return static_cast<std::uint64_t>(number(Layout::source, id));
  }
  // Absolute paths are kept as they are, because lists may name files anywhere.
  [[nodiscard]] std::string file_path(std::uint64_t file) const override {
    const std::string text = text_of(Layout::path_end, layout_.paths, file);
    return store::is_absolute(text) ? text : join_path(image().record().root, text);
  }
  [[nodiscard]] std::string key_of(std::uint64_t id) const {
    return layout_.key_bytes == 0 ? "" : text_of(Layout::key_end, layout_.keys, id);
  }

 private:
  struct Extent {
    std::uint64_t offset = 0;
    std::size_t length = 0;
  };

  // Whether there are files to keep open.
  [[nodiscard]] bool holds_files() const noexcept {
    return layout_.has_records || layout_.has_clips() || std::ranges::any_of(layout_.fields, &StoredField::has_records);
  }
  // Whether the records of a file are in the index.
  [[nodiscard]] bool is_held(std::uint64_t file) const {
    return layout_.held_bytes > 0 && number(Layout::file_bytes, file) <= 0;
  }
  // If the index knows the file that the records come from, it is compared before the first of them is used.
  void read_held(std::uint64_t file, const Extent& extent, ReadTarget& target) const {
    if (number(Layout::file_bytes, file) < 0) files_.check(file);
    image().read(layout_.held + extent.offset, target.reserve(extent.length));
  }
  [[nodiscard]] const RecordTable::Kind& kind_of(std::uint64_t id) const {
    return layout_.kinds[static_cast<std::size_t>(number(Layout::kind, id))];
  }
  // Fills the target with the decoder's table for the clip, followed by the clip's bytes from the
  // file, which are read in one request.
  void read_clip(std::uint64_t id, std::uint64_t file, ReadTarget& target) const {
    const std::string table = text_of(Layout::video_end, layout_.videos, file);
    RecordTable::Clip at{.first = static_cast<std::uint64_t>(number(Layout::offset, id)),
                         .frames = static_cast<std::uint64_t>(number(Layout::length, id))};
    if (are_central_) at = middle_of(at, layout_.rule);
    const auto clip = clip_at(std::as_bytes(std::span(table)), at, layout_.rule, number(Layout::file_bytes, file));
    files_.with(file, [&](const OpenFile& source) { files_.read(source, clip.offset, reserve(clip, target)); });
  }
  // The text of this row. Texts are concatenated, and their ends are in a column.
  [[nodiscard]] std::string text_of(Layout::Column ends, std::uint64_t texts, std::uint64_t row) const {
    using Ends = std::array<std::int64_t, 2>;  // of the text before this one and of this one
    const auto [begin, end] = row == 0 ? Ends{0, number(ends, 0)} : layout_.numbers<2>(image(), ends, row - 1);
    image().require(begin <= end, "its texts are out of order");
    const auto from = static_cast<std::uint64_t>(begin);
    return image().text(texts + from, static_cast<std::uint64_t>(end) - from);
  }

  // Bytes around a record that its checksum also covers.
  struct Around {
    std::size_t before = 0;
    std::size_t after = 0;
  };
  // Compares with differences of numbers that were already checked, because sums of damaged numbers
  // could overflow.
  [[nodiscard]] Around around_of(std::uint64_t id, const Extent& extent, std::uint64_t file_bytes) const {
    const Around around{.before = static_cast<std::size_t>(number(Layout::before, id)),
                        .after = static_cast<std::size_t>(number(Layout::after, id))};
    image().require(
        around.before <= extent.offset && around.after + kRecordSum <= file_bytes - extent.offset - extent.length,
        "a record reaches past the end of its file");
    return around;
  }

  // The placement of the image alone. `after` is 0 unless the image has a checksum.
  [[nodiscard]] Placement image_placement(std::uint64_t id) const {
    const Extent extent = extent_of(id);
    Placement placement{.source = file_of(id), .offset = extent.offset, .length = extent.length};
    if (is_checked_ && kind_of(id).checked) {
      const auto file_bytes = static_cast<std::uint64_t>(number(Layout::file_bytes, placement.source));
      const Around around = around_of(id, extent, file_bytes);
      placement.before = around.before;
      placement.after = around.after + kRecordSum;
    }
    return placement;
  }

  // The extent of a field in `file`, the source that the field's column names. REQUIRES:
  // stored.has_records.
  [[nodiscard]] Extent extent_of_field(const StoredField& stored, std::uint64_t id, std::uint64_t file) const {
    const auto offset = static_cast<std::uint64_t>(field_number(stored, StoredField::offset, id));
    const auto length = static_cast<std::uint64_t>(field_number(stored, StoredField::length, id));
    return checked_extent(file, offset, length);
  }

  // Adds the fields to the placement. False if one request cannot read them with the image: each
  // must lie in the image's own file, and enclose() must accept their ranges.
  [[nodiscard]] bool place_fields(std::uint64_t id, Placement& placement) const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges{
        {placement.offset, placement.offset + placement.length}};
    for (const StoredField& stored : layout_.fields) {
      if (stored.has_values) {
        placement.fields.push_back(values_of(stored, id).length);
        continue;
      }
      const std::int64_t source = field_number(stored, StoredField::source, id);
      if (!stored.has_records || source != static_cast<std::int64_t>(placement.source)) return false;
      const Extent extent = extent_of_field(stored, id, placement.source);
      if (!fits_batch(stored.field, extent.length)) return false;
      placement.fields.push_back(extent.length);
      if (extent.length > 0) ranges.emplace_back(extent.offset, extent.offset + extent.length);
    }
    return enclose(std::move(ranges), placement);
  }

  // PiecewiseRead requires ascending offsets, and fields may lie before or after the image in any
  // order.
  void add_pieces(std::uint64_t id, const Placement& image, std::span<const std::span<std::byte>> parts,
                  PiecewiseRead& pieces) const {
    if (layout_.fields.empty()) return pieces.add(image.offset, parts.front());
    std::vector<std::pair<std::uint64_t, std::span<std::byte>>> places{{image.offset, parts.front()}};
    for (std::size_t i = 0; i < layout_.fields.size(); ++i) {
      const StoredField& stored = layout_.fields[i];
      if (stored.has_values) {
        this->image().read(stored.values + values_of(stored, id).offset, parts[1 + i]);
      } else {
        places.emplace_back(extent_of_field(stored, id, image.source).offset, parts[1 + i]);
      }
    }
    std::ranges::sort(places, {}, &std::pair<std::uint64_t, std::span<std::byte>>::first);
    for (const auto& [offset, place] : places) pieces.add(offset, place);
  }

  // Reads a record with all that its checksum covers, in one request, and discards the rest.
  void read_checked(std::uint64_t id, const OpenFile& source, const Extent& extent, ReadTarget& target) const {
    const Around covered = around_of(id, extent, source.size);
    std::vector<std::byte> around = memory_around_record(covered.before + covered.after + kRecordSum);
    const std::span head = std::span(around).first(covered.before);
    const std::span tail = std::span(around).subspan(covered.before);
    const std::span bytes = target.reserve(extent.length);
    files_.read(source, extent.offset - covered.before, std::array<std::span<std::byte>, 3>{head, bytes, tail});
    require_record_sum(head, bytes, tail, extent.offset);
  }

  [[nodiscard]] std::int64_t number(std::size_t column, std::uint64_t row) const {
    return layout_.numbers<1>(image(), column, row)[0];
  }

  // Refuses a box without pixels, because no view can be made of it.
  [[nodiscard]] Box box_of(std::uint64_t id) const {
    const Box box = image().value<Box>(layout_.boxes + id * sizeof(Box));
    image().require(box.left >= 0 && box.top >= 0 && box.left < box.right && box.top < box.bottom, "a box has no area");
    return box;
  }

  [[nodiscard]] Extent extent_of(std::uint64_t id) const {
    const auto offset = static_cast<std::uint64_t>(number(Layout::offset, id));
    const auto length = static_cast<std::uint64_t>(number(Layout::length, id));
    return checked_extent(file_of(id), offset, length);
  }
  [[nodiscard]] Extent checked_extent(std::uint64_t file, std::uint64_t offset, std::uint64_t length) const {
    const std::uint64_t all =
        is_held(file) ? layout_.held_bytes
                      : static_cast<std::uint64_t>(std::max<std::int64_t>(number(Layout::file_bytes, file), 0));
    image().require(offset <= all && length <= all - offset, "a record reaches past the end of its file");
    return {.offset = offset, .length = length};
  }

  // The sample's extent among the values of the field.
  [[nodiscard]] Extent values_of(const StoredField& stored, std::uint64_t id) const {
    const std::int64_t begin = id == 0 ? 0 : field_number(stored, StoredField::end, id - 1);
    const std::int64_t end = field_number(stored, StoredField::end, id);
    image().require(begin <= end, "the values of a field are out of order");
    return {.offset = static_cast<std::uint64_t>(begin), .length = static_cast<std::size_t>(end - begin)};
  }

  [[nodiscard]] std::int64_t field_number(const StoredField& stored, std::size_t column, std::uint64_t id) const {
    return stored.number_of(image(), column, id, layout_.sources);
  }

  // A negative size is the bitwise complement of the size of a file whose records the index holds
  // (record_layout.cpp).
  [[nodiscard]] SourceFiles::Known known(std::uint64_t file) const {
    const std::int64_t bytes = number(Layout::file_bytes, file);
    const std::vector<std::uint64_t>& spreads = image().record().spreads;
    return {.path = file_path(file),
            .stamp = {.bytes = static_cast<std::uint64_t>(bytes < 0 ? ~bytes : bytes),
                      .sum = static_cast<std::uint64_t>(number(Layout::file_sum, file)),
                      .spread = file < spreads.size() ? spreads[file] : 0}};
  }

  // Checks computed columns when the index is opened, because no bytes of the index bound their
  // number of rows. They are monotonic, so checking both ends is enough.
  void check_computed() const {
    for (std::size_t i = 0; i < Layout::kColumns; ++i) {
      const RecordColumn& column = layout_.columns[i];
      if (!column.is_computed() || column.rows == 0) continue;
      (void)number(i, 0);
      (void)number(i, column.rows - 1);
    }
    const auto is_computed = [&](std::size_t column) { return layout_.columns[column].is_computed(); };
    const bool has_extents = layout_.has_records && layout_.samples > 0 && is_computed(Layout::source);
    if (has_extents && is_computed(Layout::offset) && is_computed(Layout::length)) (void)extent_of(layout_.samples - 1);
  }

  std::unique_ptr<const IndexImage> image_;
  Layout layout_;
  bool is_checked_;           // whether any kind has a checksum
  bool are_central_ = false;  // whether clips begin in the middle of their range
  std::vector<Field> fields_;
  mutable SourceFiles files_;
  mutable std::once_flag are_tables_read_;
  mutable std::vector<std::byte> tables_;  // read by the first call of tables()
};

}  // namespace

// Every index becomes this class, whatever its format: formats matter only while an index is built.
std::unique_ptr<Dataset> restore_index(std::unique_ptr<const IndexImage> image) {
  return std::make_unique<RecordDataset>(std::move(image));
}

const IndexImage* image_of(const Dataset& dataset) noexcept {
  const auto* const records = dynamic_cast<const RecordDataset*>(&dataset);
  return records == nullptr ? nullptr : &records->image();
}

void center_clips(Dataset& dataset) noexcept {
  if (auto* const records = dynamic_cast<RecordDataset*>(&dataset); records != nullptr) records->center_clips();
}

// dynamic_cast distinguishes datasets that a program brings itself. It happens when a run starts,
// not for each sample.
const PlacedSamples* placed_samples(const Dataset& dataset) noexcept {
  const auto* const records = dynamic_cast<const RecordDataset*>(&dataset);
  return records != nullptr && records->has_records() ? records : nullptr;
}

std::optional<std::string> original_name(const Dataset& dataset, std::uint64_t id) {
  const auto* const records = dynamic_cast<const RecordDataset*>(&dataset);
  const Format* const format = records == nullptr ? nullptr : find_format(records->format());
  return format != nullptr && format->keeps_names ? std::optional(records->key_of(id)) : std::nullopt;
}

SourceComparison compare_sources(const Dataset& dataset, unsigned threads, const IndexProgress& progress) {
  const auto* const records = dynamic_cast<const RecordDataset*>(&dataset);
  return records == nullptr ? SourceComparison{} : records->compare_sources(threads, progress);
}

std::string bypass_page_cache(const Dataset& dataset) {
  const auto* const records = dynamic_cast<const RecordDataset*>(&dataset);
  return records == nullptr ? "the program reads this dataset itself" : records->bypass_page_cache();
}

bool use_cache(const Dataset& dataset, std::shared_ptr<const store::NodeCache> cache) {
  const auto* const records = dynamic_cast<const RecordDataset*>(&dataset);
  if (records != nullptr) records->use_cache(std::move(cache));
  return records != nullptr;
}

void close_kept_files(const Dataset& dataset) noexcept {
  if (const auto* const records = dynamic_cast<const RecordDataset*>(&dataset)) records->close_kept_files();
}

}  // namespace forebay::data
