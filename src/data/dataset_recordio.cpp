// MXNet's RecordIO: a sequence of parts, each a magic number, a length with a flag, the data, and
// padding to four bytes. Data that contain the magic number at a multiple of four bytes are split
// there into several parts. The data of a record begin with a header, which has the class or the
// number of labels that follow it. An .idx file beside it is not needed.
//
// One thread reads a file from beginning to end (shards.cpp). Whole records are referenced in
// place. Those in several parts are joined in memory and kept in the index, because no single range
// of the file contains them. A part with an invalid header ends the file, because the next part
// cannot be found.

#include <algorithm>
#include <forebay/error.hpp>

#include "formats.hpp"
#include "shards.hpp"

namespace forebay::data {
namespace {

// dmlc/recordio.h. The word after the magic number has 3 bits of kind (PartKind) and 29 bits of
// length.
constexpr std::uint32_t kRecordMagic = 0xCED7230A;
constexpr std::size_t kPartHeader = 8;
// mxnet/src/io/image_recordio.h: uint32 flag (the number of labels), float label, uint64 id, uint64
// id2.
constexpr std::size_t kImageHeader = 24;

enum class PartKind : std::uint8_t { whole, first, middle, last };

struct RecordPart {
  PartKind kind = PartKind::whole;
  Extent data;

  // Parts are padded to four bytes; the padding is not counted in their length.
  [[nodiscard]] std::uint64_t next() const noexcept { return data.offset + (data.length + 3) / 4 * 4; }
};

bool is_recordio_name(std::string_view given) {
  const std::string name = lower_case(given);
  return name.ends_with(".rec") || name.ends_with(".rec.gz");
}

// The part at `offset`. Throws SampleError if there is none or it is truncated: then the next cannot be found.
RecordPart part_at(ContainerBytes& bytes, std::uint64_t offset) {
  constexpr std::uint32_t kLengthBits = 29;
  if (!bytes.has(offset, kPartHeader)) throw at_byte(offset, "it ends within the header of a record");
  const auto magic = bytes.number<std::uint32_t>(offset);
  const auto flags = bytes.number<std::uint32_t>(offset + 4);
  if (magic != kRecordMagic) throw at_byte(offset, "no record: it does not begin with RecordIO's magic number");
  const Extent data{.offset = offset + kPartHeader, .length = flags & ((1U << kLengthBits) - 1)};
  if (flags >> kLengthBits > 3) throw at_byte(offset, "a record of a kind that there is not");
  if (!bytes.has(data.offset, data.length)) {
    throw at_byte(offset, "it ends within a record of " + std::to_string(data.length) + " bytes");
  }
  return {.kind = static_cast<PartKind>(flags >> kLengthBits), .data = data};
}

// With flag 0 the header's own float is the label; else that many floats follow the header.
void add_image_record(ContainerBytes& bytes, const Extent& data, ShardDraft& draft) {
  if (data.length < kImageHeader) {
    throw SampleError("has " + std::to_string(data.length) + " bytes, less than the header of an image record");
  }
  const auto labels = bytes.number<std::uint32_t>(data.offset);
  const std::uint64_t labels_bytes = std::uint64_t{labels} * sizeof(float);
  if (labels_bytes > data.length - kImageHeader) {
    throw SampleError("has not the " + std::to_string(labels) + " labels that its header announces");
  }
  const std::uint64_t image = data.offset + kImageHeader + labels_bytes;
  FoundSample sample{.image = {.offset = image, .length = data.end() - image}};
  if (labels == 0) sample.label = label_of_float(bytes.number<float>(data.offset + 4));
  if (labels > 0) {
    std::vector<float> numbers(std::min<std::size_t>(labels, kMostOneHot));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = bytes.number<float>(data.offset + kImageHeader + i * sizeof(float));
    }
    sample.label = label_of_list(numbers);
  }
  sample.fields = fields_of_sample(draft.wanted(), [&](const auto& wanted) {
    FieldValue value;
    const std::uint64_t first = labels == 0 ? data.offset + 4 : data.offset + kImageHeader;
    const auto count = std::min<std::size_t>(labels == 0 ? 1 : labels, wanted.most());
    for (std::size_t i = 0; i < count; ++i) value.floats.push_back(bytes.number<float>(first + i * sizeof(float)));
    return value;
  });
  draft.add(bytes, sample);
}

// Joins the parts of a record that was split at magic numbers. The writer leaves out the magic
// number between two parts, although it belongs to the data, so it is put back.
std::vector<std::byte> join_parts(ContainerBytes& bytes, std::span<const Extent> parts) {
  std::vector<std::byte> joined;
  for (const Extent& part : parts) {
    if (joined.size() + part.length > kLargestSampleFile)
      throw SampleError("has more than the 1 GiB that a sample may have");
    if (&part != parts.data()) {
      const auto magic = std::as_bytes(std::span(&kRecordMagic, 1));
      joined.insert(joined.end(), magic.begin(), magic.end());
    }
    const auto data = bytes.at(part);
    joined.insert(joined.end(), data.begin(), data.end());
  }
  return joined;
}

// Makes records of the parts of a file. A lost beginning or end costs only its own record, because
// the kind of each part says where records begin.
class RecordParts {
 public:
  RecordParts(ContainerBytes& bytes, ShardDraft& draft) : bytes_(bytes), draft_(draft) {}

  void read() {
    for (std::uint64_t offset = 0; offset < bytes_.size();) {
      const RecordPart part = part_at(bytes_, offset);
      const bool begins = part.kind == PartKind::whole || part.kind == PartKind::first;
      if (begins) end_unfinished();
      if (begins || parts_.empty()) draft_.begin(offset);
      if (part.kind == PartKind::whole) {
        use([&] { add_image_record(bytes_, part.data, draft_); });
      } else if (part.kind != PartKind::first && parts_.empty()) {
        draft_.add_bad(at_byte(offset, "the continuation of a record that does not begin").what());
      } else {
        parts_.push_back(part.data);
        if (part.kind == PartKind::last) end_record();
      }
      offset = part.next();
    }
    end_unfinished();
  }

 private:
  void end_unfinished() {
    if (parts_.empty()) return;
    draft_.add_bad(at_byte(parts_.front().offset - kPartHeader, "the beginning of a record that does not end").what());
    parts_.clear();
  }

  // A joined record exists in memory only, so the draft keeps its bytes for the index.
  void end_record() {
    use([&] {
      const std::vector<std::byte> joined = join_parts(bytes_, parts_);
      ContainerBytes record{std::span<const std::byte>(joined)};
      add_image_record(record, {.offset = 0, .length = joined.size()}, draft_);
    });
    parts_.clear();
  }

  template <typename Use>
  void use(Use&& add) {
    try {
      add();
    } catch (const SampleError& error) {
      if (error.is_transient()) throw;
      draft_.add_bad(error.what());
    }
  }

  ContainerBytes& bytes_;
  ShardDraft& draft_;
  std::vector<Extent> parts_;  // of the record that is being read
};

void read_recordio(ContainerBytes& bytes, ShardDraft& draft) { RecordParts(bytes, draft).read(); }

// Besides its image a record has only labels.
bool may_have_labels(const WantedFields::Wanted& wanted) {
  return wanted.from == "label" && !wanted.is_bytes() && wanted.field.kind != FieldKind::boxes;
}

bool is_recordio(PathContents& contents) {
  if (contents.is_folder()) return is_folder_of_shards(contents, is_recordio_name);
  const auto head = contents.contents_head();
  std::uint32_t magic = 0;
  if (head.size() >= sizeof magic) std::memcpy(&magic, head.data(), sizeof magic);
  return magic == kRecordMagic || is_recordio_name(contents.files().front());
}

IndexDraft build_recordio(PathContents& contents) {
  IndexDraft draft = build_from_shards(contents, {.is_name = is_recordio_name,
                                                  .read = read_recordio,
                                                  .may_have = may_have_labels,
                                                  .missing = "no image record of RecordIO"});
  draft.table.field_names = {"label"};
  return draft;
}

std::uint64_t hash_recordio(const DatasetOptions& options) { return hash_shards(options, is_recordio_name); }

}  // namespace

const Format formats::recordio{.needs = "a RecordIO file",
                               .detect = is_recordio,
                               .build = build_recordio,
                               .hash = hash_recordio,
                               .hashed = "the compressed files, or other files",
                               .takes_patterns = true,
                               .reads_urls = true,
                               .is_shard = is_recordio_name};

}  // namespace forebay::data
