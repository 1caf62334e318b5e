#pragma once

#include <forebay/dataset.hpp>

#include "support.hpp"

// Shared by the tests of datasets: tiny datasets, and reading them.
namespace forebay::testing {

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

inline void write_file(const std::filesystem::path& path, std::string_view content) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

// A temporary directory with these files.
class FolderOf : public TemporaryDirectory {
 public:
  FolderOf(std::initializer_list<std::pair<std::string, std::string>> files) {
    for (const auto& [path, content] : files) write_file(*this / path, content);
  }
};

// Like write_file(), but deletes an existing file first. ext4 writes a file that was truncated and
// rewritten to disk when it is closed; done hundreds of times, that would take most of a test.
inline void replace_file(const std::filesystem::path& path, std::string_view content) {
  std::filesystem::remove(path);
  write_file(path, content);
}

// A <bndbox> of four corners.
inline std::string bndbox(std::string_view xmin, std::string_view ymin, std::string_view xmax, std::string_view ymax) {
  std::ostringstream text;
  text << "<bndbox><xmin>" << xmin << "</xmin><ymin>" << ymin << "</ymin><xmax>" << xmax << "</xmax><ymax>" << ymax
       << "</ymax></bndbox>";
  return text.str();
}

inline std::string object(const std::string& name, const std::string& box = bndbox("1", "1", "10", "20"),
                          const std::string& extra = "") {
  return "<object><name>" + name + "</name>" + extra + box + "</object>\n";
}

inline std::string annotation(const std::string& objects) {
  return "<annotation>\n<filename>x.jpg</filename>\n" + objects + "</annotation>\n";
}

// Stores the bytes that a dataset reads, and counts calls of reserve().
class Reading final : public ReadTarget {
 public:
  std::span<std::byte> reserve(std::size_t size) override {
    ++reserves;
    bytes.assign(size, std::byte{0xEE});
    return bytes;
  }
  [[nodiscard]] std::string text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

  std::vector<std::byte> bytes;
  int reserves = 0;
};

inline std::string read_sample(const Dataset& dataset, std::uint64_t id) {
  Reading reading;
  dataset.read(id, reading);
  return reading.text();
}

inline DatasetOptions options_for(const std::filesystem::path& path, const std::string& format = "auto") {
  DatasetOptions options;
  options.format = format;
  options.path = path.string();
  return options;
}

// The first skipped entry whose path ends like this, or null.
inline const Skipped* find_skipped(const Dataset& dataset, std::string_view path_end) {
  for (const auto& entry : dataset.skipped()) {
    if (std::string_view(entry.path).ends_with(path_end)) return &entry;
  }
  return nullptr;
}

// Why that entry was left out; "" if it was not.
inline std::string skip_reason(const Dataset& dataset, std::string_view path_end) {
  const Skipped* const entry = find_skipped(dataset, path_end);
  return entry == nullptr ? "" : entry->reason;
}

// The message with which building the dataset is refused; "" if it succeeds.
inline std::string build_error(const DatasetOptions& options) {
  return error_of([&] { return build_dataset(options); });
}

inline std::size_t count_bad(const Dataset& dataset) {
  std::size_t bad = 0;
  for (const auto& entry : dataset.skipped()) bad += entry.bad ? 1 : 0;
  return bad;
}

inline std::vector<std::int64_t> labels_of(const Dataset& dataset) {
  std::vector<std::int64_t> labels;
  for (std::uint64_t id = 0; id < dataset.size(); ++id) labels.push_back(dataset.sample(id).label);
  return labels;
}

// Every sample's name, with its class and box.
inline std::vector<std::string> describe_samples(const Dataset& dataset) {
  std::vector<std::string> lines;
  for (std::uint64_t id = 0; id < dataset.size(); ++id) {
    const Sample sample = dataset.sample(id);
    std::ostringstream line;
    line << dataset.name(id) << " label " << sample.label;
    if (sample.box) {
      line << " box " << sample.box->left << ' ' << sample.box->top << ' ' << sample.box->right << ' '
           << sample.box->bottom;
    }
    line << (sample.difficult ? " difficult" : "") << (sample.truncated ? " truncated" : "");
    if (sample.encoding == Encoding::raw) {
      line << " raw " << sample.width << 'x' << sample.height << 'x' << sample.channels;
    }
    lines.push_back(line.str());
  }
  return lines;
}

}  // namespace forebay::testing
