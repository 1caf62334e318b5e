#include "dataset_idx.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <forebay/error.hpp>
#include <limits>
#include <mutex>

#include "formats.hpp"
#include "idx_file.hpp"
#include "path_contents.hpp"

namespace forebay {
namespace {

namespace fs = std::filesystem;

// The images of an idx file.
struct Shape {
  std::uint32_t records = 0;
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::uint32_t channels = 0;

  [[nodiscard]] std::size_t record_bytes() const noexcept { return std::size_t{height} * width * channels; }
  friend bool operator==(const Shape&, const Shape&) = default;
};

bool is_sound(const Shape& shape) {
  // So that a record is at most 1 GiB and a width fits where it goes.
  constexpr std::uint32_t kLargestSide = 1U << 24U;
  const bool sides = shape.height > 0 && shape.width > 0 && shape.height <= kLargestSide && shape.width <= kLargestSide;
  return sides && (shape.channels == 1 || shape.channels == 3) && shape.record_bytes() <= kLargestSampleFile;
}

Shape shape_of(const IdxHeader& header) {
  const auto& dimensions = header.dimensions;
  if (dimensions.size() < 3) {
    throw SampleError("byte 3: " + std::to_string(dimensions.size()) +
                      " dimensions, where images have 3 (number, height, width) or 4 (and channels); " +
                      "a file of labels goes into dataset.labels");
  }
  const Shape shape{dimensions[0], dimensions[1], dimensions[2], dimensions.size() == 4 ? dimensions[3] : 1};
  if (!is_sound(shape)) {
    throw SampleError("byte 8: images of " + std::to_string(shape.height) + " x " + std::to_string(shape.width) +
                      " pixels with " + std::to_string(shape.channels) +
                      " channels; height x width with 1 or 3 channels, the channels last, can be used");
  }
  return shape;
}

// Where records come from: the plain file, or the values of a compressed one.
struct Records {
  std::unique_ptr<IdxFile> plain;
  std::vector<std::byte> values;
};

std::unique_ptr<const Records> open_records(const std::string& path, const Shape& expected) {
  auto file = std::make_unique<IdxFile>(path);
  if (shape_of(file->header()) != expected) throw SampleError("is not the file that its index was made from");
  auto records = std::make_unique<Records>();
  if (file->is_compressed()) {
    records->values = file->load();
  } else {
    file->check_size();
    records->plain = std::move(file);
  }
  return records;
}

// The beginning of the content; a label for each record follows, or nothing.
struct IdxHead {
  std::vector<std::string> classes;
  Shape shape;
  std::uint64_t labels = 0;  // where they begin in the content; 0 = there are none
};

class IdxDataset final : public IndexedDataset {
 public:
  IdxDataset(std::shared_ptr<const IndexImage> image, IdxHead head, std::unique_ptr<const Records> records)
      : IndexedDataset(std::move(image)),
        head_(std::move(head)),
        records_(std::move(records)),
        opened_(records_.get()) {}

  [[nodiscard]] std::uint64_t size() const noexcept override { return head_.shape.records; }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return head_.classes; }

  [[nodiscard]] Sample sample(std::uint64_t id) const override {
    Sample sample;
    if (head_.labels != 0) {
      sample.label = image().value<std::uint8_t>(head_.labels + id);
      image().require(static_cast<std::size_t>(sample.label) < head_.classes.size(),
                      "a sample names a class that it does not have");
    }
    sample.encoding = Encoding::raw;
    sample.width = static_cast<std::int32_t>(head_.shape.width);
    sample.height = static_cast<std::int32_t>(head_.shape.height);
    sample.channels = static_cast<std::int32_t>(head_.shape.channels);
    return sample;
  }

  [[nodiscard]] std::string name(std::uint64_t id) const override {
    return image().record().root + "[record " + std::to_string(id) + "]";
  }

  void read(std::uint64_t id, ReadTarget& target) const override {
    const Records& records = opened();
    const std::size_t size = head_.shape.record_bytes();
    const auto bytes = target.reserve(size);
    if (records.plain) {
      records.plain->read_record(id * size, bytes);
    } else {
      std::memcpy(bytes.data(), records.values.data() + id * size, size);
    }
  }

 private:
  // A restored dataset opens its file at the first read; a failed attempt is made again at the next.
  const Records& opened() const {
    if (const Records* records = opened_.load(std::memory_order_acquire)) return *records;
    const std::lock_guard lock(mutex_);
    if (!records_) records_ = open_records(image().record().root, head_.shape);
    opened_.store(records_.get(), std::memory_order_release);
    return *records_;
  }

  IdxHead head_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<const Records> records_;  // guarded by mutex_
  mutable std::atomic<const Records*> opened_;
};

// The name of the labels that go with an images file, without ".gz"; "" when the name says nothing.
// train-images-idx3-ubyte -> train-labels-idx1-ubyte
std::string labels_name(std::string name) {
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  const auto images = name.rfind("images");
  const auto dimensions = std::max(name.rfind("idx3") + 1, name.rfind("idx4") + 1);
  if (images == std::string::npos || dimensions == 0) return {};
  name[dimensions + 2] = '1';
  return name.replace(images, std::string_view("images").size(), "labels");
}

std::string find_labels(const DatasetOptions& options, const std::string& images, SkipLog& skipped) {
  if (!options.labels.empty()) return options.labels;
  const fs::path path(images);
  const std::string name = labels_name(path.filename().string());
  if (name.empty()) {
    skipped.add_note(images, "no labels: its name does not say what its labels are called; set dataset.labels");
    return {};
  }
  for (const auto& candidate : {name, name + ".gz"}) {
    const fs::path labels = path.parent_path() / candidate;
    std::error_code unreadable;
    if (fs::exists(labels, unreadable)) return labels.string();
  }
  skipped.add_note(images, "no labels: there is no " + name + " or " + name + ".gz beside it; set dataset.labels");
  return {};
}

std::vector<std::uint8_t> load_labels(const std::string& path, std::uint32_t records, SkipLog& skipped) {
  IdxFile file(path);
  const auto& dimensions = file.header().dimensions;
  if (dimensions.size() != 1) {
    throw SampleError("byte 3: " + std::to_string(dimensions.size()) + " dimensions where labels have 1");
  }
  if (dimensions[0] != records) {
    throw SampleError("byte 4: " + std::to_string(dimensions[0]) + " labels for " + std::to_string(records) +
                      " images");
  }
  const auto values = file.load();
  if (file.trailing() > 0) skipped.add_note(path, std::to_string(file.trailing()) + " bytes after the gzip data");
  std::vector<std::uint8_t> labels(values.size());
  std::memcpy(labels.data(), values.data(), values.size());
  return labels;
}

std::vector<std::string> list_classes(const DatasetOptions& options, const std::vector<std::uint8_t>& labels,
                                      const std::string& file) {
  constexpr std::size_t kHeader = 8;
  const auto& given = options.classes;
  if (given.empty()) {
    std::vector<std::string> names;
    const unsigned last = labels.empty() ? 0U : *std::max_element(labels.begin(), labels.end());
    for (unsigned i = 0; !labels.empty() && i <= last; ++i) names.push_back(std::to_string(i));
    return names;
  }
  const auto beyond = std::find_if(labels.begin(), labels.end(), [&](unsigned label) { return label >= given.size(); });
  if (beyond != labels.end()) {
    throw ConfigError("dataset.classes has " + std::to_string(given.size()) + " names, but " + file + " has label " +
                      std::to_string(*beyond) + " at byte " +
                      std::to_string(kHeader + static_cast<std::size_t>(beyond - labels.begin())));
  }
  return ClassList(given, {}).names();
}

template <typename Load>
auto naming(const DatasetOptions& options, const std::string& file, Load&& load) {
  try {
    return load();
  } catch (const SampleError& error) {
    throw path_error(options, (file == options.path ? "" : file + ": ") + std::string(error.what()));
  }
}

std::unique_ptr<const Records> load_images(const std::string& path, Shape& shape, SkipLog& skipped) {
  auto file = std::make_unique<IdxFile>(path);
  shape = shape_of(file->header());
  if (shape.records == 0) throw SampleError("holds 0 images");
  auto records = std::make_unique<Records>();
  if (!file->is_compressed()) {
    file->check_size();
    records->plain = std::move(file);
    return records;
  }
  records->values = file->load();
  if (file->trailing() > 0) skipped.add_note(path, std::to_string(file->trailing()) + " bytes after the gzip data");
  return records;
}

IdxHead read_idx_head(const IndexImage& image) {
  const auto begin = image.value<std::uint64_t>(0);
  const std::vector<std::byte> head_bytes = image.content(sizeof(begin), begin);
  IndexReader reader(head_bytes, image.origin());
  IdxHead head;
  image.require(reader.text() == "idx", "its parts are of different formats");
  head.classes = reader.texts();
  head.shape = reader.value<Shape>();
  const bool has_labels = reader.flag();
  reader.expect_end();
  image.require(is_sound(head.shape), "its images have no shape");
  if (has_labels) head.labels = sizeof(begin) + begin;
  image.require(image.content_bytes() - sizeof(begin) - begin == (has_labels ? head.shape.records : 0),
                "its size is not what its counts say");
  return head;
}

// The bytes begin an idx file or a gzip file.
bool starts_as_idx(std::span<const std::byte> head) {
  if (starts_as_gzip(head)) return true;
  return head.size() >= 4 && head[0] == std::byte{0} && head[1] == std::byte{0} && head[2] >= std::byte{0x08} &&
         head[2] <= std::byte{0x0E} && head[3] >= std::byte{1} && head[3] <= std::byte{4};
}

// The images file of a folder of idx files, the training set's where there is one; "" when there is none.
std::string find_images(PathContents& contents) {
  // By name without ".gz", so that a plain file is preferred to its compressed twin.
  std::map<std::string, std::string> found;
  for (const auto path : contents.listing().others) {
    const std::string name(path);
    if (labels_name(name).empty()) continue;
    const bool is_compressed = name.ends_with(".gz");
    const std::string plain = is_compressed ? name.substr(0, name.size() - 3) : name;
    if (!found.contains(plain) || !is_compressed) found[plain] = join_path(contents.root(), name);
  }
  if (found.empty()) return {};
  std::string names;
  for (const auto& [name, path] : found) {
    if (found.size() == 1 || name.starts_with("train")) return path;
    names += (names.empty() ? "" : ", ") + name;
  }
  throw path_error(contents.options(), "several idx files of images (" + names + "); name one of them");
}

bool is_idx(PathContents& contents) {
  return contents.is_folder() ? !find_images(contents).empty() : starts_as_idx(contents.head());
}

std::unique_ptr<Dataset> build_idx(PathContents& contents) {
  const DatasetOptions& options = contents.options();
  const std::string images = contents.is_folder() ? find_images(contents) : options.path;
  if (images.empty()) {
    throw path_error(options, "no idx file of images there (such as train-images-idx3-ubyte or its .gz)");
  }
  SkipLog skipped;
  Shape shape;
  auto records = naming(options, images, [&] { return load_images(images, shape, skipped); });
  std::vector<std::uint8_t> labels;
  const std::string labels_file = find_labels(options, images, skipped);
  if (!labels_file.empty()) {
    labels = naming(options, labels_file, [&] { return load_labels(labels_file, shape.records, skipped); });
  }
  if (const auto& progress = contents.context().progress) progress(shape.records, shape.records);

  IndexRecord record;
  record.origin = origin_of(options, "idx");
  record.root = absolute_path(images);
  record.counts.images = shape.records;
  auto classes = list_classes(options, labels, labels_file);
  record.skipped = skipped.take(images);
  IndexWriter head;
  head.text("idx");
  head.texts(classes);
  head.value(shape);
  head.value<std::uint8_t>(labels.empty() ? 0 : 1);
  const std::vector<std::byte> begin = head.take();
  auto bytes = seal_index(record, sizeof(std::uint64_t) + begin.size() + labels.size(), [&](IndexWriter& writer) {
    writer.value<std::uint64_t>(begin.size());
    writer.column(begin);
    writer.column(labels);
  });
  auto image = std::make_shared<const IndexImage>(
      index_in_memory(owned_bytes(std::move(bytes)), "the index of " + record.origin.path));
  IdxHead read = read_idx_head(*image);
  return std::make_unique<IdxDataset>(std::move(image), std::move(read), std::move(records));
}

}  // namespace

const Format formats::idx{
    .help = "MNIST files, plain or `.gz`", .needs = "an idx file of images", .detect = is_idx, .build = build_idx};

std::unique_ptr<Dataset> restore_idx_dataset(std::shared_ptr<const IndexImage> image) {
  IdxHead head = read_idx_head(*image);
  return std::make_unique<IdxDataset>(std::move(image), std::move(head), nullptr);
}

}  // namespace forebay
