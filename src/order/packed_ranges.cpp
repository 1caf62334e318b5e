// The ranges of a state, packed: five columns of numbers, each as differences from the row before,
// as JSON, compressed with zlib, as base64. Differences of sorted rows are mostly the same small
// number, so thousands of ranges become a short text. Reading trusts nothing: sizes are compared
// with what the job can have before anything is inflated, the text is inflated in chunks, and the
// parser stops at anything but five lists of integers.

#include "packed_ranges.hpp"

#include <zlib.h>
#include <algorithm>
#include <array>
#include <cstddef>
#include <forebay/error.hpp>
#include <iterator>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/text.hpp"

namespace forebay::order {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The numbers of a range, by the names of their lists in the text.
constexpr std::array<const char*, 5> kColumns{"epoch", "shard", "begin", "end", "owner"};
using Row = std::array<std::uint64_t, kColumns.size()>;
using Columns = std::array<std::vector<std::int64_t>, kColumns.size()>;

Row row_of(const BatchRange& range) noexcept { return {range.epoch, range.shard, range.begin, range.end, range.owner}; }

BatchRange range_of(const Row& row) noexcept {
  // A number that is too large becomes one that no shard and no rank has.
  const auto small = [](std::uint64_t number) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(number, std::numeric_limits<std::uint32_t>::max()));
  };
  return {.epoch = row[0], .begin = row[2], .end = row[3], .shard = small(row[1]), .owner = small(row[4])};
}

// The decompressed text, one chunk at a time; it is never in memory as a whole.
class InflatedText {
 public:
  InflatedText(const std::string& packed, std::uint64_t bytes) : bytes_(bytes) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));  // zlib only reads it
    stream_.avail_in = static_cast<uInt>(packed.size());
    if (::inflateInit(&stream_) != Z_OK) throw std::bad_alloc();
    refill();
  }
  ~InflatedText() { ::inflateEnd(&stream_); }
  InflatedText(const InflatedText&) = delete;
  InflatedText& operator=(const InflatedText&) = delete;

  // The next character; none at the end.
  [[nodiscard]] bool is_at_end() const noexcept { return at_ == filled_; }
  [[nodiscard]] char front() const noexcept { return chunk_[at_]; }
  void pop() {
    if (++at_ == filled_) refill();
  }

  // Reads to the end. Returns whether the compressed data were undamaged and the text has the
  // stated length.
  [[nodiscard]] bool was_whole() {
    while (!is_at_end()) refill();
    return result_ == Z_STREAM_END && stream_.total_out == bytes_;
  }

 private:
  void refill() {
    at_ = filled_ = 0;
    if (result_ != Z_OK || stream_.total_out > bytes_) return;
    stream_.next_out = reinterpret_cast<Bytef*>(chunk_.data());
    stream_.avail_out = static_cast<uInt>(chunk_.size());
    result_ = ::inflate(&stream_, Z_NO_FLUSH);
    if (result_ == Z_MEM_ERROR) throw std::bad_alloc();
    filled_ = chunk_.size() - stream_.avail_out;
  }

  std::uint64_t bytes_;
  z_stream stream_{};
  int result_ = Z_OK;
  std::array<char, std::size_t{16} << 10U> chunk_{};
  std::size_t at_ = 0;
  std::size_t filled_ = 0;
};

// A single-pass iterator over the text.
class TextIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  TextIterator() = default;
  explicit TextIterator(InflatedText& text) : text_(&text) {}
  char operator*() const noexcept { return text_->front(); }
  TextIterator& operator++() {
    text_->pop();
    return *this;
  }
  // An iterator without a text is the end iterator.
  friend bool operator==(const TextIterator& a, const TextIterator& b) noexcept { return a.is_end() == b.is_end(); }

 private:
  [[nodiscard]] bool is_end() const noexcept { return text_ == nullptr || text_->is_at_end(); }
  InflatedText* text_ = nullptr;
};

// SAX handler that accepts an object of lists of integers, and stops the parser at anything else.
class ColumnReader {
 public:
  ColumnReader(Columns& columns, std::uint64_t most) : columns_(columns), most_(most) {}

  // Throws Error unless there were five lists of integers.
  void require_all() const {
    for (std::size_t i = 0; i < kColumns.size(); ++i) {
      if (is_read_[i]) continue;
      throw Error("left: \"" + std::string(kColumns[i]) + "\" is not a list of whole numbers");
    }
  }

  // Called by the parser; returning false stops it.
  bool number_integer(std::int64_t number) {
    if (!column_ || !in_list_) return false;
    std::vector<std::int64_t>& numbers = columns_[*column_];
    if (numbers.size() == most_) throw Error(too_many_ranges(most_ + 1, most_));
    numbers.push_back(number);
    return true;
  }
  // Differences are added modulo 2^64, so the sign does not matter.
  bool number_unsigned(std::uint64_t number) { return number_integer(static_cast<std::int64_t>(number)); }
  bool start_object(std::size_t /*members*/) { return !std::exchange(is_open_, true); }
  bool key(const std::string& name) {
    const auto found = std::ranges::find(kColumns, name);
    column_ = static_cast<std::size_t>(found - kColumns.begin());
    return found != kColumns.end() && !is_read_[*column_];
  }
  bool start_array(std::size_t /*elements*/) { return column_ && !std::exchange(in_list_, true); }
  bool end_array() {
    is_read_[*column_] = true;
    in_list_ = false;
    column_.reset();
    return true;
  }
  static bool end_object() { return true; }
  static bool null() { return false; }
  static bool boolean(bool /*value*/) { return false; }
  static bool number_float(double /*number*/, const std::string& /*text*/) { return false; }
  static bool string(const std::string& /*text*/) { return false; }
  static bool binary(const std::vector<std::uint8_t>& /*bytes*/) { return false; }
  bool parse_error(std::size_t /*byte*/, const std::string& /*token*/, const OrderedJson::exception& /*error*/) {
    is_read_ = {};
    return false;
  }

 private:
  Columns& columns_;
  std::uint64_t most_;
  std::optional<std::size_t> column_;  // whose list follows or is being read
  std::array<bool, kColumns.size()> is_read_{};
  bool is_open_ = false;
  bool in_list_ = false;
};

Columns columns_of(const OrderedJson& left, std::uint64_t most) {
  constexpr std::uint64_t kFrame = 64;      // bytes of the text other than numbers
  constexpr std::uint64_t kLongest = 21;    // a number and its comma
  constexpr std::uint64_t kShrinks = 1032;  // zlib's greatest expansion of a byte
  const auto bytes = left.find("bytes");    // none unless `left` is an object
  const auto zlib = left.find("zlib");
  if (bytes == left.end() || zlib == left.end() || !bytes->is_number_unsigned() || !zlib->is_string()) {
    throw Error(R"(left is not an object with the number "bytes" and the text "zlib")");
  }
  const auto packed = from_base64(zlib->get_ref<const std::string&>());
  if (!packed) throw Error("left: \"zlib\" is not base64");
  const auto size = bytes->get<std::uint64_t>();
  if (size > kFrame + most * kColumns.size() * kLongest || size / kShrinks > packed->size()) {
    throw Error("left: " + std::to_string(size) + " bytes are more than the ranges of the job can have");
  }
  Columns columns;
  ColumnReader reader(columns, most);
  InflatedText text(*packed, size);
  const bool is_parsed = OrderedJson::sax_parse(TextIterator(text), TextIterator(), &reader);
  if (!text.was_whole()) throw Error(R"(left: "zlib" does not hold what "bytes" says)");
  reader.require_all();
  if (!is_parsed) throw Error("left: it has more than five lists of whole numbers");
  return columns;
}

}  // namespace

std::string too_many_ranges(std::uint64_t ranges, std::uint64_t most) {
  return "left has " + std::to_string(ranges) + " ranges, and a job can have " + std::to_string(most) + " at most";
}

OrderedJson pack_ranges(const std::vector<BatchRange>& ranges) {
  Columns numbers;
  Row before{};
  for (const BatchRange& range : ranges) {
    const Row row = row_of(range);
    for (std::size_t i = 0; i < row.size(); ++i) {
      // An unsigned difference may wrap around; unpack_ranges() reverses that.
      numbers[i].push_back(static_cast<std::int64_t>(row[i] - before[i]));
    }
    before = row;
  }
  OrderedJson columns;
  for (std::size_t i = 0; i < numbers.size(); ++i) columns[kColumns[i]] = numbers[i];
  const std::string text = columns.dump();
  uLongf size = ::compressBound(text.size());
  std::string packed(size, '\0');
  // The fastest level, because a step waits for this.
  if (::compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(text.data()),
                  text.size(), Z_BEST_SPEED) != Z_OK) {
    throw std::bad_alloc();
  }
  packed.resize(size);
  return {{"bytes", text.size()}, {"zlib", base64(packed)}};
}

std::vector<BatchRange> unpack_ranges(const OrderedJson& left, std::uint64_t most) {
  const Columns numbers = columns_of(left, most);
  for (const auto& column : numbers) {
    if (column.size() != numbers[0].size()) throw Error("left: its lists differ in length");
  }
  std::vector<BatchRange> ranges;
  ranges.reserve(numbers[0].size());
  Row row{};
  for (std::size_t k = 0; k < numbers[0].size(); ++k) {
    for (std::size_t i = 0; i < row.size(); ++i) row[i] += static_cast<std::uint64_t>(numbers[i][k]);
    ranges.push_back(range_of(row));
  }
  return ranges;
}

}  // namespace forebay::order
