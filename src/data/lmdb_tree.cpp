// Reads the pages of an LMDB file (data.mdb) without LMDB's library; the layout follows mdb.c of
// LMDB 0.9, format version 1.
//
// The first two pages are meta pages, which LMDB writes alternately, so the one with the higher
// transaction number is current. It names the root of the main tree. The entries of that tree are
// the data, unless the only one describes a named database, which is then entered. A page has a
// header of 16 bytes, then the offsets of its nodes (2 bytes each, growing upwards), then free
// space, then the nodes (growing downwards). The first 48 bits of a branch node are the number of
// its child page. A leaf node has a key and a value; a large value is stored on overflow pages of
// its own.
//
// Nothing in the file is trusted: each page must contain its own number, each offset must lie
// within its page, and a traversal ends once it has met more pages than the file has. The library
// would follow any number and crash.

#include "lmdb_tree.hpp"

#include <algorithm>

namespace forebay::data {
namespace {

constexpr std::uint32_t kLmdbMagic = 0xBEEFC0DE;
constexpr std::size_t kLmdbPageHeader = 16;
constexpr std::size_t kLmdbNodeHeader = 8;
constexpr std::size_t kLmdbMetaBytes = 152;  // including the page header
constexpr std::uint64_t kLmdbNoPage = ~std::uint64_t{0};

enum LmdbPageFlag : std::uint16_t { lmdb_branch = 0x01, lmdb_leaf = 0x02, lmdb_overflow = 0x04 };
enum LmdbNodeFlag : std::uint16_t { lmdb_big = 0x01, lmdb_database = 0x02, lmdb_duplicates = 0x04 };
constexpr std::uint16_t kLmdbDuplicatesSorted = 0x04;  // flag of a database

}  // namespace

bool starts_as_lmdb(std::span<const std::byte> head) noexcept {
  std::uint32_t magic = 0;
  if (head.size() < kLmdbPageHeader + sizeof magic) return false;
  std::memcpy(&magic, head.data() + kLmdbPageHeader, sizeof magic);
  return magic == kLmdbMagic;
}

// If the first meta page is damaged, the second is expected where it is with the usual page size.
// 88 is the offset of the main database's record in a meta page: 16 bytes of page header, 24 of
// meta header, 48 of the free list's record.
LmdbTree::LmdbTree(ContainerBytes& bytes) : bytes_(bytes) {
  constexpr std::uint64_t kUsualPage = 4096;
  const bool has_first = read_meta(0);
  const bool has_second = read_meta(has_first ? page_bytes_ : kUsualPage);
  if (!has_first && !has_second) throw at_byte(0, "no LMDB environment: neither of its first two pages describes one");
  use_database(meta_ + 88);
}

// Reads the meta page at `offset`; false if there is none. Offsets in it: magic 16, version 20,
// page size 40, transaction 144. The page size is a power of two from 512 bytes to 64 KiB.
bool LmdbTree::read_meta(std::uint64_t offset) {
  if (!bytes_.has(offset, kLmdbMetaBytes) || bytes_.number<std::uint32_t>(offset + 16) != kLmdbMagic) return false;
  const auto version = bytes_.number<std::uint32_t>(offset + 20);
  if (version != 1)
    throw at_byte(offset + 20, "an LMDB environment of version " + std::to_string(version) + "; 1 is read");
  const auto page_bytes = bytes_.number<std::uint32_t>(offset + 40);
  if (page_bytes < 512 || page_bytes > 65536 || (page_bytes & (page_bytes - 1)) != 0) return false;
  const auto transaction = bytes_.number<std::uint64_t>(offset + 144);
  if (page_bytes_ != 0 && (page_bytes != page_bytes_ || transaction < newest_)) return true;
  page_bytes_ = page_bytes;
  newest_ = transaction;
  meta_ = offset;
  return true;
}

// Reads a database's record, LMDB's MDB_db, of which only the flags (at 4) and the root page (at
// 40) matter. Databases with several values per key are refused, because their leaves have another
// layout.
void LmdbTree::use_database(std::uint64_t offset) {
  const auto flags = bytes_.number<std::uint16_t>(offset + 4);
  root_ = bytes_.number<std::uint64_t>(offset + 40);
  if ((flags & kLmdbDuplicatesSorted) != 0) throw at_byte(offset, "an LMDB database with several values per key");
}

// Named databases are entries of the main database, marked by a flag. If any entry is a plain
// value, the main database itself is the dataset.
void LmdbTree::enter_database() {
  constexpr std::uint64_t kDescription = 48;
  std::vector<LmdbEntry> databases;
  std::string names;
  try {
    for (const std::uint64_t page : leaves([](const SampleError&) {})) {
      for (std::size_t i = 0, count = entries(page); i < count; ++i) {
        const LmdbEntry each = entry(page, i);
        if (!each.is_database) return;
        names += (names.empty() ? "" : ", ") + key(page, i);
        databases.push_back(each);
      }
    }
  } catch (const SampleError& error) {
    if (error.is_transient()) throw;
    return;  // the entry will be found damaged when it is read
  }
  if (databases.empty()) return;
  if (databases.size() > 1) throw SampleError("an LMDB environment of several databases (" + names + "); one is read");
  if (databases[0].value.length != kDescription) throw at_byte(databases[0].value.offset, "no LMDB database");
  use_database(databases[0].value.offset);
}

// Page header: page number (8 bytes), 2 unused bytes, flags at 10, and the lower and upper bound of
// the free space at 12 and 14. `lower` implies the number of node offsets.
LmdbTree::Page LmdbTree::read_page(std::uint64_t page) {
  if (page > bytes_.size() / page_bytes_ || !bytes_.has(place(page), page_bytes_)) {
    throw at_byte(bytes_.size(), "it ends here, where an LMDB page " + std::to_string(page) + " is needed");
  }
  const auto number = bytes_.number<std::uint64_t>(place(page));
  const auto flags = bytes_.number<std::uint16_t>(place(page) + 10);
  const std::size_t lower = bytes_.number<std::uint16_t>(place(page) + 12);
  const std::size_t upper = bytes_.number<std::uint16_t>(place(page) + 14);
  const std::size_t count = (std::max(lower, kLmdbPageHeader) - kLmdbPageHeader) / sizeof(std::uint16_t);
  const bool is_node = (flags & (lmdb_branch | lmdb_leaf | lmdb_overflow)) == lmdb_branch ||
                       (flags & (lmdb_branch | lmdb_leaf | lmdb_overflow)) == lmdb_leaf;
  const bool has_room = lower >= kLmdbPageHeader && lower <= upper && upper + count * kLmdbNodeHeader <= page_bytes_;
  if (number != page || !is_node || !has_room) {
    throw at_byte(place(page), "a damaged LMDB page");
  }
  return {.flags = flags, .entries = count};
}

// Node header: 4 bytes (size of the value, or the lower part of a page number), flags, key size. In
// a branch the flags are the upper 16 bits of the page number.
LmdbTree::Node LmdbTree::read_node(std::uint64_t page, std::size_t i) {
  const auto at = bytes_.number<std::uint16_t>(place(page) + kLmdbPageHeader + i * sizeof(std::uint16_t));
  if (at < kLmdbPageHeader || at + kLmdbNodeHeader > page_bytes_) throw at_byte(place(page), "a damaged LMDB page");
  Node node{.offset = place(page) + at};
  node.low = bytes_.number<std::uint32_t>(node.offset);
  node.flags = bytes_.number<std::uint16_t>(node.offset + 4);
  node.key_bytes = bytes_.number<std::uint16_t>(node.offset + 6);
  if (at + kLmdbNodeHeader + node.key_bytes > page_bytes_) throw at_byte(node.offset, "a damaged LMDB page");
  return node;
}

// Depth first and from left to right, which is the order of keys. Uses an explicit stack, because
// damage could make a recursion too deep.
std::vector<std::uint64_t> LmdbTree::leaves(const std::function<void(const SampleError&)>& damaged) {
  std::vector<std::uint64_t> found;
  std::vector<std::uint64_t> open;  // pages still to visit, the next one last
  if (root_ != kLmdbNoPage) open.push_back(root_);
  // No page is reached twice in a sound tree, so a tree with more pages than the file is damaged.
  const std::uint64_t most = bytes_.size() / page_bytes_;
  std::uint64_t reached = open.size();
  while (!open.empty()) {
    const std::uint64_t number = open.back();
    open.pop_back();
    try {
      const Page page = read_page(number);
      if ((page.flags & lmdb_leaf) != 0) {
        found.push_back(number);
        continue;
      }
      std::vector<std::uint64_t> below;
      for (std::size_t i = page.entries; i-- > 0;) {
        const Node node = read_node(number, i);
        below.push_back(node.low | (std::uint64_t{node.flags} << 32U));
      }
      reached += below.size();
      if (reached > most) throw at_byte(place(number), "LMDB pages that lead to each other");
      open.insert(open.end(), below.begin(), below.end());
    } catch (const SampleError& error) {
      if (error.is_transient()) throw;
      damaged(error);
      if (reached > most) return found;
    }
  }
  return found;
}

std::size_t LmdbTree::entries(std::uint64_t page) { return read_page(page).entries; }

std::string LmdbTree::key(std::uint64_t page, std::size_t i) {
  const Node node = read_node(page, i);
  return std::string(bytes_.text({.offset = node.offset + kLmdbNodeHeader, .length = node.key_bytes}));
}

// The node of a big value holds the number of the first overflow page, whose header says how many
// pages there are.
LmdbEntry LmdbTree::entry(std::uint64_t page, std::size_t i) {
  const Node node = read_node(page, i);
  LmdbEntry entry;
  entry.is_database = (node.flags & lmdb_database) != 0;
  entry.value = {.offset = node.offset + kLmdbNodeHeader + node.key_bytes, .length = node.low};
  if ((node.flags & lmdb_duplicates) != 0) throw at_byte(node.offset, "an LMDB key with several values");
  if ((node.flags & lmdb_big) == 0) {
    if (entry.value.end() > place(page) + page_bytes_) throw at_byte(node.offset, "a damaged LMDB page");
    return entry;
  }
  // The value occupies consecutive overflow pages, of which only the first has a header.
  if (entry.value.offset + sizeof(std::uint64_t) > place(page) + page_bytes_) {
    throw at_byte(node.offset, "a damaged LMDB page");
  }
  const auto first = bytes_.number<std::uint64_t>(entry.value.offset);
  if (first > bytes_.size() / page_bytes_ || !bytes_.has(place(first), kLmdbPageHeader + entry.value.length)) {
    throw at_byte(bytes_.size(), "it ends here, where a value of " + std::to_string(entry.value.length) +
                                     " bytes on page " + std::to_string(first) + " is needed");
  }
  const auto number = bytes_.number<std::uint64_t>(place(first));
  const auto flags = bytes_.number<std::uint16_t>(place(first) + 10);
  const std::uint64_t pages = bytes_.number<std::uint32_t>(place(first) + 12);
  if (number != first || (flags & lmdb_overflow) == 0 || pages * page_bytes_ < kLmdbPageHeader + entry.value.length) {
    throw at_byte(place(first), "a damaged LMDB page");
  }
  entry.value.offset = place(first) + kLmdbPageHeader;
  return entry;
}

}  // namespace forebay::data
