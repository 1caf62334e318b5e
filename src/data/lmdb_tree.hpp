#pragma once

#include <functional>
#include <string>
#include <vector>

#include "container_bytes.hpp"

namespace forebay::data {

// An entry of an LMDB database.
struct LmdbEntry {
  Extent value;              // in the data file
  bool is_database = false;  // the value describes a named database
};

// The pages of an LMDB environment, read from its data file without a lock file or a mapping. LMDB's own library maps
// the file and follows whatever page numbers it contains, so a damaged or truncated file crashes the process; here
// every page number and length is checked. The file must not be written at the same time. Supports only files of 64-bit
// little-endian machines.
class LmdbTree {
 public:
  // Finds the newest root. Throws SampleError if the file is not an LMDB environment. REQUIRES: `bytes` outlives it.
  explicit LmdbTree(ContainerBytes& bytes);
  // Switches to the named database if it is the environment's only entry. Throws SampleError with the names if there
  // are several.
  void enter_database();

  // The leaf pages of the database in key order. Calls `damaged` for each page that is not valid.
  [[nodiscard]] std::vector<std::uint64_t> leaves(const std::function<void(const SampleError&)>& damaged);
  // The offset of a page.
  [[nodiscard]] std::uint64_t place(std::uint64_t page) const noexcept { return page * page_bytes_; }
  // The number of entries in a leaf page. Throws SampleError if the page is damaged.
  [[nodiscard]] std::size_t entries(std::uint64_t page);
  // The key of entry i of a leaf page, and the entry. Throws SampleError if it is damaged.
  [[nodiscard]] std::string key(std::uint64_t page, std::size_t i);
  [[nodiscard]] LmdbEntry entry(std::uint64_t page, std::size_t i);

 private:
  struct Page {
    std::uint16_t flags = 0;
    std::size_t entries = 0;
  };
  struct Node {
    std::uint64_t offset = 0;
    std::uint32_t low = 0;  // leaf: bytes of the value; branch: part of a page number
    std::uint16_t flags = 0;
    std::uint16_t key_bytes = 0;
  };

  bool read_meta(std::uint64_t offset);
  void use_database(std::uint64_t offset);
  [[nodiscard]] Page read_page(std::uint64_t page);
  [[nodiscard]] Node read_node(std::uint64_t page, std::size_t i);

  ContainerBytes& bytes_;
  std::uint64_t page_bytes_ = 0;
  std::uint64_t newest_ = 0;  // number of the newest transaction found
  std::uint64_t meta_ = 0;    // the meta page of that transaction
  std::uint64_t root_ = 0;
};

// Whether the bytes begin the data file of an LMDB environment.
[[nodiscard]] bool starts_as_lmdb(std::span<const std::byte> head) noexcept;

}  // namespace forebay::data
