#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <forebay/options.hpp>

#include "class_text.hpp"
#include "record_table.hpp"

// Turns the rows of a text table into class numbers and fields.
namespace forebay::data {

class PathContents;

// Thrown for a row that cannot be a sample, with the reason.
struct BadRow {
  std::string reason;
};

using Cells = std::vector<std::string_view>;

// Throws BadRow for a cell that does not hold a finite number.
[[nodiscard]] double number_in_cell(std::string_view cell);

// The column names of a table.
class TableHeader {
 public:
  // Ignores blanks around names.
  TableHeader(const Cells& names, std::string file);

  // Throws ConfigError if two columns have this name.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const;
  // Throws ConfigError, which names the key and lists the columns, if there is none.
  [[nodiscard]] std::size_t at(std::string_view name, const std::string& key) const;
  [[nodiscard]] std::optional<std::size_t> first_of(std::initializer_list<std::string_view> names) const;
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }

 private:
  std::vector<std::string> names_;
  std::string file_;
};

// Collects class names row by row, and numbers them once all are known: as class numbers if LabelCensus says so,
// otherwise by the given names, or by those found, sorted.
class ClassesOfColumn {
 public:
  // `field` names the column in errors; "" = the label.
  ClassesOfColumn(std::vector<std::string> given, std::string field);
  // Throws BadRow for a name that cannot be a class, as far as that is known.
  void require(std::string_view name) const;
  // A preliminary number for the name, to be mapped by number_of(). REQUIRES: require() accepts it.
  [[nodiscard]] std::int32_t intern(std::string_view name);
  // Decides between numbers and names, from all rows. True: the decision differs from the assumption, so all rows must
  // be read again, into columns that decide_as() this one. Throws ConfigError if neither fits.
  [[nodiscard]] bool decide(const std::string& file);
  void decide_as(const ClassesOfColumn& other) noexcept { kind_ = other.kind_; }
  // The classes. REQUIRES: decide() was called and returned false. Throws ConfigError for too many.
  [[nodiscard]] std::vector<std::string> finish(const std::string& file);
  // REQUIRES: finish() was called. -1 stays -1.
  [[nodiscard]] std::int32_t number_of(std::int32_t interned) const noexcept;

 private:
  enum class Kind : std::uint8_t { unknown, numbers, names };
  [[nodiscard]] std::string problem_of(std::string_view name) const;

  Kind kind_ = Kind::unknown;
  std::string field_;
  LabelCensus census_;
  std::vector<std::string> given_;
  std::vector<std::string> names_;  // the given ones first
  std::unordered_map<std::string, std::int32_t> numbers_;
  std::vector<std::int32_t> final_;
};

// A field of a table. read() parses a row and throws BadRow if it cannot be a sample. Once the whole row has been read,
// accept() registers its classes, and then keep() stores the result for a new sample, or join() adds it to a sample
// that an earlier row began; finish() makes the column. A row's cells stay until keep() or join(). One thread.
class TableField {
 public:
  // `options` of a field that field_of() accepts.
  explicit TableField(const FieldOptions& options);
  virtual ~TableField() = default;
  TableField(const TableField&) = delete;
  TableField& operator=(const TableField&) = delete;

  // Whether a row that read() refuses is kept without this field, rather than refused.
  [[nodiscard]] virtual bool is_optional() const noexcept { return false; }
  // Whether it has boxes, and whether this column is one of their sources.
  [[nodiscard]] bool has_boxes() const noexcept { return column_.field.kind == FieldKind::boxes; }
  [[nodiscard]] virtual bool takes(std::size_t /*column*/) const noexcept { return false; }
  // Whether the row's box has this size.
  [[nodiscard]] virtual bool is_of_size(double /*width*/, double /*height*/) const noexcept { return false; }
  virtual void read(const Cells& cells) = 0;
  virtual void accept() {}
  virtual void keep(RecordTable& /*table*/) { column_.add_values(bytes_); }
  // The object that decides its classes; null if it has none.
  [[nodiscard]] virtual ClassesOfColumn* classes() noexcept { return nullptr; }
  // By default the first row of a sample decides.
  virtual void join(std::size_t /*sample*/) {}
  [[nodiscard]] virtual RecordTable::FieldColumn finish(const std::string& /*file*/) { return std::move(column_); }
  [[nodiscard]] const std::string& name() const noexcept { return column_.field.name; }

 protected:
  // Throws ConfigError for 16-bit floating point.
  void require_plain_type() const;

  RecordTable::FieldColumn column_;
  std::vector<std::byte> bytes_;  // of the row
  std::string key_;
  std::string key_of_columns_;
};

// A text made from a row's cells: the cell of one column, or "train/{id}.png" with columns in
// braces. {stem} and {folder} name columns only for the image; in any other field they make it a
// file beside the image (is_beside()).
class TextOfRow {
 public:
  // Throws ConfigError, which names the key and lists the columns, if there is none.
  TextOfRow(std::string_view from, const TableHeader& header, const std::string& key);
  TextOfRow(std::size_t column) : columns_{column}, parts_{"", ""} {}  // NOLINT(google-explicit-constructor)
  // "" if one of its columns is empty.
  [[nodiscard]] std::string of(const Cells& cells) const;
  [[nodiscard]] const std::vector<std::size_t>& columns() const noexcept { return columns_; }

 private:
  std::vector<std::size_t> columns_;
  std::vector<std::string> parts_;  // before, between and after the columns
};

// The names in the first row of dataset.path, if it is a .csv or .tsv file that begins with names.
[[nodiscard]] std::vector<std::string> columns_of_table(PathContents& contents);

// Throws ConfigError naming the key for what a table cannot provide.
[[nodiscard]] std::unique_ptr<TableField> table_field(const FieldOptions& options, const TableHeader& header);
// The same for kind boxes.
[[nodiscard]] std::unique_ptr<TableField> boxes_of_table(const FieldOptions& options, const TableHeader& header);

}  // namespace forebay::data
