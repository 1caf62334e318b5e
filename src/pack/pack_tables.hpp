#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "table_set.hpp"

namespace forebay::pack {

class HeaderParts;

// The tables shared by the packed JPEG files of a dataset: sets of codes, of which each file uses
// one, and common parts of headers. PackTraining makes them. Immutable; any thread may use them.
// Copies share the tables.
class PackTables {
 public:
  // The inverse of to_bytes(), safe for any bytes. Throws Error if they are damaged or of a later
  // version.
  [[nodiscard]] static PackTables from_bytes(std::span<const std::byte> bytes);

  // The tables as bytes, the same on every processor: some tens of kilobytes with the default
  // number of sets.
  [[nodiscard]] std::span<const std::byte> to_bytes() const noexcept { return *bytes_; }
  // A hash of to_bytes(), stored in every sample packed with these tables (tables_of()).
  [[nodiscard]] std::uint32_t key() const noexcept { return key_; }

  [[nodiscard]] std::size_t sets() const noexcept { return sets_.size(); }
  // REQUIRES: number < sets().
  [[nodiscard]] const TableSet& set(std::size_t number) const noexcept { return *sets_[number]; }
  [[nodiscard]] const HeaderParts& header_parts() const noexcept { return *header_parts_; }

 private:
  friend class PackTraining;
  PackTables() = default;
  // The bytes as to_bytes() returns them.
  [[nodiscard]] static std::vector<std::byte> assemble(const std::vector<StreamLengths>& sets,
                                                       const HeaderParts& parts);

  std::shared_ptr<const std::vector<std::byte>> bytes_;
  std::uint32_t key_ = 0;
  std::vector<std::shared_ptr<const TableSet>> sets_;
  std::shared_ptr<const HeaderParts> header_parts_;
};

// Derives the tables for a dataset from some of its files: a few hundred, spread over all of it,
// are enough. Belongs to one thread. The same files in the same order give the same tables.
class PackTraining {
 public:
  PackTraining();
  PackTraining(PackTraining&&) noexcept;
  PackTraining& operator=(PackTraining&&) noexcept;
  ~PackTraining();

  // Adds a file. Returns false, without effect, for a file that is damaged or not plain, which
  // JpegPacker would not pack either. A file that it would not pack only because its scan is
  // unusually encoded may still count, because its coefficients are typical.
  bool add(std::span<const std::byte> file);
  [[nodiscard]] std::size_t files() const noexcept;

  // Tables that work for every file, including those that were not added; without any file, they
  // suit photographs in general. `sets`: 1 to 64; few files give fewer sets.
  [[nodiscard]] PackTables finish(std::size_t sets = 8) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay::pack
