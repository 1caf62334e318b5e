#pragma once

#include "data/index_format.hpp"
#include "dataset_support.hpp"
#include "test.hpp"

// The parts of a serialized index.
namespace forebay::testing {

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The content and the record of an index.
inline std::span<const std::byte> content_of(std::span<const std::byte> index) {
  return index.subspan(data::read_index_layout(index.first(data::kIndexHeader), index.size(), "sound").content_at);
}
inline data::IndexRecord record_of(std::span<const std::byte> index) {
  const data::IndexLayout at = data::read_index_layout(index.first(data::kIndexHeader), index.size(), "sound");
  return data::read_index_record(at, index.subspan(at.sums_at, at.sums_bytes),
                                 index.subspan(at.record_at, at.record_bytes), "sound");
}

// A saved index, and the error with which it opens again.
struct Kept {
  explicit Kept(DatasetOptions given) : options(std::move(given)) {
    options.index = (folder / "set.index").string();
    (void)open_dataset(options);
    REQUIRE(error().empty());
  }
  [[nodiscard]] std::string error() const {
    return error_of([&] { (void)open_dataset(options); });
  }
  // The same after a change of a file, which is undone; then the index opens again.
  template <typename Change>
  [[nodiscard]] std::string error_after(const std::filesystem::path& file, Change&& change) const {
    const bool was_there = std::filesystem::exists(file);
    const std::string before = was_there ? read_text(file) : "";
    change();
    std::string found = error();
    if (was_there) {
      write_file(file, before);
    } else {
      std::filesystem::remove(file);
    }
    CHECK(error().empty());
    return found;
  }
  // With another text in the file.
  [[nodiscard]] std::string error_with(const std::filesystem::path& file, const std::string& text) const {
    return error_after(file, [&] { write_file(file, text); });
  }
  [[nodiscard]] std::string error_without(const std::filesystem::path& file) const {
    return error_after(file, [&] { std::filesystem::remove(file); });
  }
  // Rebuilds the index, so that its times are later than those of the data.
  void rebuild() const {
    std::filesystem::remove(options.index);
    (void)open_dataset(options);
  }

  TemporaryDirectory folder;
  DatasetOptions options;
};

// Replaces text of the same length, and keeps the file's size and modification time.
inline void change_in_place(const std::filesystem::path& file, const std::string& from, const std::string& to) {
  REQUIRE(from.size() == to.size());
  std::string text = read_text(file);
  text.replace(text.find(from), from.size(), to);
  const auto time = std::filesystem::last_write_time(file);
  write_file(file, text);
  std::filesystem::last_write_time(file, time);
}

}  // namespace forebay::testing
