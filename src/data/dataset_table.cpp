#include "dataset_table.hpp"

#include <algorithm>
#include <array>
#include <forebay/error.hpp>
#include <limits>

#include "base/file_io.hpp"
#include "index_parallel.hpp"
#include "index_scan.hpp"

namespace forebay {
namespace {

using Region = FileTable::Region;

// The beginning of the content; the columns follow, in the order of TableLayout, and then the bytes of the paths.
struct TableHead {
  std::string format;
  std::vector<std::string> classes;
  std::uint64_t files = 0;
  std::uint64_t samples = 0;
  std::uint64_t path_bytes = 0;
  bool has_file_column = false;    // else sample i is file i
  bool has_region_column = false;  // else samples are whole files
};

// Where the columns begin in the content.
struct TableLayout {
  std::uint64_t ends = 0;    // std::uint64_t by file: where its path ends among the paths
  std::uint64_t file = 0;    // std::uint32_t by sample
  std::uint64_t label = 0;   // std::int32_t by sample
  std::uint64_t region = 0;  // Region by sample
  std::uint64_t paths = 0;
  std::uint64_t end = 0;
};

TableLayout layout_of(const TableHead& head, std::uint64_t begin) {
  TableLayout at;
  at.ends = begin;
  at.file = at.ends + head.files * sizeof(std::uint64_t);
  at.label = at.file + (head.has_file_column ? head.samples * sizeof(std::uint32_t) : 0);
  at.region = at.label + head.samples * sizeof(std::int32_t);
  at.paths = at.region + (head.has_region_column ? head.samples * sizeof(Region) : 0);
  at.end = at.paths + head.path_bytes;
  return at;
}

class FileDataset final : public IndexedDataset {
 public:
  FileDataset(std::shared_ptr<const IndexImage> image, TableHead head, const TableLayout& at)
      : IndexedDataset(std::move(image)), head_(std::move(head)), at_(at) {}

  [[nodiscard]] std::uint64_t size() const noexcept override { return head_.samples; }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return head_.classes; }

  [[nodiscard]] Sample sample(std::uint64_t id) const override {
    Sample sample;
    sample.label = image().value<std::int32_t>(at_.label + id * sizeof(std::int32_t));
    image().require(sample.label >= -1 && sample.label < static_cast<std::int64_t>(head_.classes.size()),
                    "a sample names a class that it does not have");
    if (!head_.has_region_column) return sample;
    const Region region = region_of(id);
    sample.box = region.box;
    sample.difficult = (region.flags & FileTable::kDifficult) != 0;
    sample.truncated = (region.flags & FileTable::kTruncated) != 0;
    return sample;
  }

  [[nodiscard]] std::uint64_t source(std::uint64_t id) const override { return file_of(id); }

  [[nodiscard]] std::string name(std::uint64_t id) const override {
    if (!head_.has_region_column) return path(id);
    return path(id) + "#object " + std::to_string(region_of(id).object);
  }

  void read(std::uint64_t id, ReadTarget& target) const override { read_sample_file(path(id), target); }

  [[nodiscard]] std::uint64_t files() const noexcept { return head_.files; }
  // REQUIRES: file < files().
  [[nodiscard]] std::string file_path(std::uint64_t file) const {
    using Ends = std::array<std::uint64_t, 2>;  // of the path before this one, and of this one
    const std::uint64_t at = at_.ends + file * sizeof(std::uint64_t);
    const auto [begin, end] =
        file == 0 ? Ends{0, image().value<std::uint64_t>(at)} : image().value<Ends>(at - sizeof(std::uint64_t));
    image().require(begin <= end && end <= head_.path_bytes, "its paths are out of order");
    std::string text = image().text(at_.paths + begin, end - begin);
    return text.starts_with('/') ? text : join_path(image().record().root, text);
  }

 private:
  [[nodiscard]] Region region_of(std::uint64_t id) const {
    const auto region = image().value<Region>(at_.region + id * sizeof(Region));
    const Box& box = region.box;
    image().require(box.left >= 0 && box.top >= 0 && box.left < box.right && box.top < box.bottom, "a box has no area");
    return region;
  }

  [[nodiscard]] std::uint64_t file_of(std::uint64_t id) const {
    return head_.has_file_column ? image().value<std::uint32_t>(at_.file + id * sizeof(std::uint32_t)) : id;
  }

  [[nodiscard]] std::string path(std::uint64_t id) const {
    const std::uint64_t file = file_of(id);
    image().require(file < head_.files, "a sample names a file that it does not have");
    return file_path(file);
  }

  TableHead head_;
  TableLayout at_;
};

std::vector<std::byte> head_bytes(const TableHead& head) {
  IndexWriter writer;
  writer.text(head.format);
  writer.texts(head.classes);
  writer.value(head.files);
  writer.value(head.samples);
  writer.value(head.path_bytes);
  writer.value<std::uint8_t>(head.has_file_column ? 1 : 0);
  writer.value<std::uint8_t>(head.has_region_column ? 1 : 0);
  return writer.take();
}

TableHead read_head(const IndexImage& image, std::uint64_t bytes) {
  const std::vector<std::byte> begin = image.content(sizeof(bytes), bytes);
  IndexReader reader(begin, image.origin());
  TableHead head;
  head.format = reader.text();
  head.classes = reader.texts();
  head.files = reader.value<std::uint64_t>();
  head.samples = reader.value<std::uint64_t>();
  head.path_bytes = reader.value<std::uint64_t>();
  head.has_file_column = reader.flag();
  head.has_region_column = reader.flag();
  reader.expect_end();
  return head;
}

bool names_each_file_once(const FileTable& table) {
  if (!table.region.empty() || table.file.size() != table.files.size()) return false;
  for (std::size_t i = 0; i < table.file.size(); ++i) {
    if (table.file[i] != i) return false;
  }
  return true;
}

// Frees each column once it is written: what is being built and what it was built from are never both there whole.
template <typename T>
void move_column(IndexWriter& writer, std::vector<T>& column) {
  writer.column(column);
  column = std::vector<T>();
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

std::uint32_t FileTable::add_file(std::string_view path) {
  if (files.size() >= std::numeric_limits<std::uint32_t>::max()) throw Error("an index holds at most 2^32 - 1 files");
  files.add(path);
  return static_cast<std::uint32_t>(files.size() - 1);
}

std::unique_ptr<Dataset> make_file_dataset(const IndexRecord& record, FileTable table) {
  TableHead head;
  head.format = record.origin.format;
  head.classes = std::move(table.classes);
  head.files = table.files.size();
  head.samples = table.file.size();
  head.path_bytes = table.files.bytes().size();
  head.has_file_column = !names_each_file_once(table);
  head.has_region_column = !table.region.empty();
  const std::vector<std::byte> begin = head_bytes(head);
  const TableLayout at = layout_of(head, sizeof(std::uint64_t) + begin.size());
  auto bytes = seal_index(record, at.end, [&](IndexWriter& writer) {
    writer.value<std::uint64_t>(begin.size());
    writer.column(begin);
    writer.column(table.files.ends());
    if (head.has_file_column) writer.column(table.file);
    table.file = {};
    move_column(writer, table.label);
    move_column(writer, table.region);
    writer.column(table.files.bytes());
    table = {};
  });
  return restore_index(index_in_memory(owned_bytes(std::move(bytes)), "the index of " + record.origin.path));
}

std::unique_ptr<Dataset> restore_file_dataset(std::shared_ptr<const IndexImage> image) {
  const auto begin = image->value<std::uint64_t>(0);
  TableHead head = read_head(*image, begin);
  image->require(head.format == image->record().origin.format, "its parts are of different formats");
  // So that no sum below can wrap around.
  const std::uint64_t bytes = image->content_bytes();
  image->require(head.files <= bytes && head.samples <= bytes && head.path_bytes <= bytes &&
                     bytes <= std::numeric_limits<std::uint64_t>::max() / 64,
                 "a count is larger than what follows");
  const TableLayout at = layout_of(head, sizeof(begin) + begin);
  image->require(at.end == bytes, "its size is not what its counts say");
  return std::make_unique<FileDataset>(std::move(image), std::move(head), at);
}

MissingFiles find_missing_files(const Dataset& dataset, unsigned threads, const IndexProgress& progress) {
  constexpr std::uint64_t kFilesAtOnce = 256;
  const auto* const table = dynamic_cast<const FileDataset*>(&dataset);
  if (table == nullptr) return {};
  std::vector<std::string> problems(table->files());
  ParallelTask task;
  task.count = (problems.size() + kFilesAtOnce - 1) / kFilesAtOnce;
  task.scale = kFilesAtOnce;
  task.total = problems.size();
  task.body = [&](std::size_t chunk) {
    const std::uint64_t end = std::min<std::uint64_t>((chunk + 1) * kFilesAtOnce, problems.size());
    for (std::uint64_t i = chunk * kFilesAtOnce; i < end; ++i) problems[i] = problem_of_file(table->file_path(i));
  };
  run_parallel(task, threads, progress);
  MissingFiles missing;
  for (std::uint64_t i = 0; i < problems.size(); ++i) {
    if (!problems[i].empty()) missing.files.push_back({table->file_path(i), problems[i], true});
  }
  for (std::uint64_t id = 0; !missing.files.empty() && id < dataset.size(); ++id) {
    missing.samples += problems[dataset.source(id)].empty() ? 0 : 1;
  }
  return missing;
}

}  // namespace forebay
