#pragma once

#include <functional>
#include <string>
#include <vector>

#include "container_bytes.hpp"

namespace forebay {

// An entry of an LMDB database.
struct LmdbEntry {
  Extent value;              // in the data file
  bool is_database = false;  // the value describes a named database
};

// The pages of an LMDB environment, read from its data file: no lock file, no mapping. The library maps the file and
// follows whatever page numbers stand in it, so that a damaged or shortened file ends the process; here each page
// number and length is checked. The file must not be written meanwhile. Of 64-bit machines with little endian numbers.
class LmdbTree {
 public:
  // Finds the newest root. Throws SampleError when the file is no LMDB environment. REQUIRES: `bytes` outlives it.
  explicit LmdbTree(ContainerBytes& bytes);
  // Goes on to the named database where the environment has no other entries but that. Throws SampleError with the
  // names where it has several.
  void enter_database();

  // The leaf pages of the database in the order of their keys. `damaged` is told of each page that is none.
  [[nodiscard]] std::vector<std::uint64_t> leaves(const std::function<void(const SampleError&)>& damaged);
  // The byte where a page begins.
  [[nodiscard]] std::uint64_t place(std::uint64_t page) const noexcept { return page * page_bytes_; }
  // Entries of a leaf page. Throws SampleError when that is damaged.
  [[nodiscard]] std::size_t entries(std::uint64_t page);
  // The key of entry i of a leaf page, and the entry. Throws SampleError when that is damaged.
  [[nodiscard]] std::string key(std::uint64_t page, std::size_t i);
  [[nodiscard]] LmdbEntry entry(std::uint64_t page, std::size_t i);

 private:
  struct Page {
    std::uint16_t flags = 0;
    std::size_t entries = 0;
  };
  struct Node {
    std::uint64_t offset = 0;
    std::uint32_t low = 0;  // of a leaf: bytes of the value; of a branch: part of a page number
    std::uint16_t flags = 0;
    std::uint16_t key_bytes = 0;
  };

  bool read_meta(std::uint64_t offset);
  void use_database(std::uint64_t offset);
  [[nodiscard]] Page read_page(std::uint64_t page);
  [[nodiscard]] Node read_node(std::uint64_t page, std::size_t i);

  ContainerBytes& bytes_;
  std::uint64_t page_bytes_ = 0;
  std::uint64_t newest_ = 0;  // transaction
  std::uint64_t meta_ = 0;    // where that is described
  std::uint64_t root_ = 0;
};

// Whether the bytes begin the data file of an LMDB environment.
[[nodiscard]] bool starts_as_lmdb(std::span<const std::byte> head) noexcept;

}  // namespace forebay
