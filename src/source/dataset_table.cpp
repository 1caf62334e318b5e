#include "dataset_table.hpp"

#include "file_io.hpp"
#include "index_scan.hpp"

#include <algorithm>
#include <forebay/error.hpp>
#include <limits>

namespace forebay {
namespace {

class FileDataset final : public Dataset {
 public:
  FileDataset(IndexRecord record, FileTable table) : record_(std::move(record)), table_(std::move(table)) {}

  [[nodiscard]] std::string_view format() const noexcept override { return record_.origin.format; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return table_.file.size(); }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return table_.classes; }
  [[nodiscard]] const std::vector<Skipped>& skipped() const noexcept override { return record_.skipped; }
  [[nodiscard]] IndexCounts counts() const noexcept override { return record_.counts; }

  [[nodiscard]] Sample sample(std::uint64_t id) const override {
    Sample sample;
    sample.label = table_.label[id];
    if (table_.region.empty()) return sample;
    const FileTable::Region& region = table_.region[id];
    sample.box = region.box;
    sample.difficult = (region.flags & FileTable::kDifficult) != 0;
    sample.truncated = (region.flags & FileTable::kTruncated) != 0;
    return sample;
  }

  [[nodiscard]] std::uint64_t source(std::uint64_t id) const override { return table_.file[id]; }

  [[nodiscard]] std::string name(std::uint64_t id) const override {
    if (table_.region.empty()) return path(id);
    return path(id) + "#object " + std::to_string(table_.region[id].object);
  }

  void read(std::uint64_t id, ReadTarget& target) const override { read_sample_file(path(id), target); }

  [[nodiscard]] std::vector<std::byte> serialize() const override {
    IndexWriter writer;
    writer.text(record_.origin.format);
    writer.texts(table_.classes);
    table_.files.write(writer);
    writer.array(table_.file);
    writer.array(table_.label);
    writer.array(table_.region);
    return seal_index(record_, writer.take());
  }

 private:
  [[nodiscard]] std::string path(std::uint64_t id) const {
    const std::string_view file = table_.files[table_.file[id]];
    return file.starts_with('/') ? std::string(file) : join_path(record_.root, file);
  }

  IndexRecord record_;
  FileTable table_;
};

void check_table(const FileTable& table) {
  const std::size_t samples = table.file.size();
  require_index(table.label.size() == samples, "its columns differ in length");
  require_index(table.region.empty() || table.region.size() == samples, "its columns differ in length");
  require_index(std::all_of(table.file.begin(), table.file.end(), [&](auto file) { return file < table.files.size(); }),
                "a sample names a file that it does not have");
  const auto classes = static_cast<std::int64_t>(table.classes.size());
  require_index(std::all_of(table.label.begin(), table.label.end(), [&](auto l) { return l >= -1 && l < classes; }),
                "a sample names a class that it does not have");
  const auto sound = [](const FileTable::Region& region) {
    const Box& box = region.box;
    return box.left >= 0 && box.top >= 0 && box.left < box.right && box.top < box.bottom;
  };
  require_index(std::all_of(table.region.begin(), table.region.end(), sound), "a box has no area");
}

}  // namespace

void StringTable::reserve(std::size_t count, std::size_t bytes) {
  ends_.reserve(count);
  bytes_.reserve(bytes);
}

void StringTable::add(std::string_view text) {
  bytes_.insert(bytes_.end(), text.begin(), text.end());
  ends_.push_back(bytes_.size());
}

std::string_view StringTable::operator[](std::size_t i) const noexcept {
  const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
  return {bytes_.data() + begin, ends_[i] - begin};
}

void StringTable::write(IndexWriter& writer) const {
  writer.array(ends_);
  writer.array(bytes_);
}

StringTable StringTable::read(IndexReader& reader) {
  StringTable table;
  table.ends_ = reader.array<std::uint64_t>();
  table.bytes_ = reader.array<char>();
  require_index(std::is_sorted(table.ends_.begin(), table.ends_.end()), "its names are out of order");
  require_index((table.ends_.empty() ? 0 : table.ends_.back()) == table.bytes_.size(), "its names are cut");
  return table;
}

std::uint32_t FileTable::add_file(std::string_view path) {
  if (files.size() >= std::numeric_limits<std::uint32_t>::max()) throw Error("an index holds at most 2^32 - 1 files");
  files.add(path);
  return static_cast<std::uint32_t>(files.size() - 1);
}

std::unique_ptr<Dataset> make_file_dataset(IndexRecord record, FileTable table) {
  return std::make_unique<FileDataset>(std::move(record), std::move(table));
}

std::unique_ptr<Dataset> restore_file_dataset(const OpenedIndex& index) {
  IndexReader reader(index.content);
  FileTable table;
  require_index(reader.text() == index.record.origin.format, "its parts are of different formats");
  table.classes = reader.texts();
  table.files = StringTable::read(reader);
  table.file = reader.array<std::uint32_t>();
  table.label = reader.array<std::int32_t>();
  table.region = reader.array<FileTable::Region>();
  reader.expect_end();
  check_table(table);
  return std::make_unique<FileDataset>(index.record, std::move(table));
}

}  // namespace forebay
