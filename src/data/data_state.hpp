#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scan.hpp"

namespace forebay::data {

// The state of the data when its index was made: the names in its folders and the content of its annotations. Times
// only save work: if they are equal, nothing changed; if they differ, as in a copy of the data, names and contents
// decide. One thread fills it.
class DataState {
 public:
  // Which names in a folder affect the index.
  enum class Names : std::uint8_t {
    data,
    data_and_bare,
    annotations,
    texts,
    data_and_texts,
    data_and_json,
    data_and_videos
  };

  DataState() = default;
  // Restores the result of serialize(). Throws Error naming the origin.
  DataState(std::span<const std::byte> bytes, std::string_view origin);

  // `above`, unless empty, is prepended to the path.
  void add(const std::string& above, const ListedFolder& folder, Names names);
  void add_all(const std::string& above, const Scan& scan, Names names);
  // An annotation, as described by load_annotation().
  struct Annotation {
    std::uint64_t times = 0;
    std::uint64_t sum = 0;  // of its bytes
  };
  void add(std::string path, const Annotation& annotation) { files_.push_back({std::move(path), annotation}); }

  [[nodiscard]] std::vector<std::byte> serialize() const;

  struct Comparison {
    std::uint64_t folders = 0;
    std::uint64_t files = 0;
    std::uint64_t by_contents = 0;  // how many folders and annotations had other or too recent times
    std::string difference;         // the first: "the folder X has other images, ..."; empty if there is none
  };
  // Compares it with the data as they are now. Relative paths begin at `root`. Throws ConfigError if the store fails.
  [[nodiscard]] Comparison compare(const std::string& root, unsigned threads, const IndexProgress& progress) const;

 private:
  struct Folder {
    std::string path;
    std::uint64_t times = 0;
    Names kind = Names::data;
    NameSum names;
  };
  struct File {
    std::string path;
    Annotation was;
  };

  std::vector<Folder> folders_;
  std::vector<File> files_;
};

// Reads an annotation, of up to 128 MiB if its name ends in .json, because labelme's may contain their image. `state`
// becomes its state before it was read; the sum is set even for a file that cannot be read. Throws SampleError.
[[nodiscard]] std::vector<std::byte> load_annotation(const std::string& path, DataState::Annotation& state);

}  // namespace forebay::data
