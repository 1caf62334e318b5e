// The fields of a table. Each kind of field has a class that parses its cells of a row, stores the
// result if the row is accepted, and makes a column of all rows at the end.
//
// For each row the builder (dataset_table.cpp) calls read() on every field, which may throw BadRow
// and changes nothing but the field's members for this row; then accept(), after which the row
// counts for the census of classes; then keep(). Columns of classes (ClassesOfColumn) intern texts
// while rows are read, since only the last row decides whether they are numbers or names; finish()
// then maps what was interned to class numbers.

#include "table_fields.hpp"

#include <algorithm>
#include <cmath>
#include <forebay/error.hpp>
#include <limits>
#include <span>
#include <utility>

#include "base/text.hpp"
#include "fields.hpp"

namespace forebay::data {
namespace {

template <typename T>
void append_value(std::vector<std::byte>& bytes, T value) {
  const auto from = std::as_bytes(std::span(&value, 1));
  bytes.insert(bytes.end(), from.begin(), from.end());
}

// Appends a whole number exactly. The cell is parsed as an integer first, because a double would
// round numbers beyond 2^53.
template <typename T>
void append_whole(std::vector<std::byte>& bytes, std::string_view cell) {
  constexpr double kExact = 9007199254740992;  // 2^53: a double represents every whole number up to it
  std::optional<std::int64_t> whole = whole_number_in(cell);
  if (!whole) {
    const double value = number_in_cell(cell);  // "1e3"
    if (std::fabs(value) <= kExact && value == std::floor(value)) whole = static_cast<std::int64_t>(value);
  }
  if (!whole || !std::in_range<T>(*whole)) {
    throw BadRow{printable(without_blanks(cell)) + " is no number of the field's type"};
  }
  append_value(bytes, static_cast<T>(*whole));
}

void append_number(std::vector<std::byte>& bytes, std::string_view cell, DType dtype) {
  switch (dtype) {
    case DType::float32: {
      const auto value = static_cast<float>(number_in_cell(cell));
      if (!std::isfinite(value)) throw BadRow{printable(without_blanks(cell)) + " is no float32"};
      return append_value(bytes, value);
    }
    case DType::float64: return append_value(bytes, number_in_cell(cell));
    case DType::uint8: return append_whole<std::uint8_t>(bytes, cell);
    case DType::int32: return append_whole<std::int32_t>(bytes, cell);
    case DType::int64: return append_whole<std::int64_t>(bytes, cell);
    case DType::float16:
    case DType::bfloat16: break;
  }
}

// Numbers from several columns, or from one column whose cells contain all of them.
class NumbersOfTable final : public TableField {
 public:
  NumbersOfTable(const FieldOptions& options, const TableHeader& header) : TableField(options) {
    require_plain_type();
    const std::string& key = key_of_columns_;
    const std::string& from = place_of(options);
    if (const auto column = header.find(from)) {
      columns_.push_back(*column);
    } else {
      for (const auto name : split(from, ',')) columns_.push_back(header.at(without_blanks(name), key));
    }
    const std::size_t elements = column_.field.shape.elements();
    if (columns_.size() > 1 && columns_.size() != elements) {
      throw ConfigError(key + " names " + std::to_string(columns_.size()) + " columns, but " +
                        (options.name == kSegmentField ? "a segment" : key_ + ".shape") + " has " +
                        counted(elements, "number"));
    }
  }
  void read(const Cells& cells) override {
    bytes_.clear();
    std::size_t found = 0;
    for (const std::size_t column : columns_) {
      // A single column may hold all numbers, separated by blanks, commas or semicolons, as lists in brackets do.
      std::string_view rest = without_blanks(cells[column]);
      const bool is_list = columns_.size() == 1;
      if (is_list && rest.starts_with('[') && rest.ends_with(']'))
        rest = without_blanks(rest.substr(1, rest.size() - 2));
      for (;;) {
        const auto end = is_list ? std::min(rest.find_first_of(" \t\r\n,;"), rest.size()) : rest.size();
        append_number(bytes_, as_number(rest.substr(0, end)), column_.field.dtype);
        ++found;
        rest = without_blanks(rest.substr(end));
        if (rest.empty()) break;
        if (rest.starts_with(',') || rest.starts_with(';')) rest = without_blanks(rest.substr(1));
      }
    }
    const std::size_t wanted = column_.field.shape.elements();
    if (found != wanted)
      throw BadRow{std::to_string(found) + " numbers where " + std::to_string(wanted) + " are wanted"};
  }

 private:
  std::vector<std::size_t> columns_;
};

// One class per row. Interned numbers are stored by row and converted to elements at the end.
class ClassOfTable final : public TableField {
 public:
  ClassOfTable(const FieldOptions& options, const TableHeader& header)
      : TableField(options),
        cell_(header.at(place_of(options), key_of_columns_)),
        classes_(options.classes, options.name) {}
  void read(const Cells& cells) override {
    name_ = without_blanks(cells[cell_]);
    if (!name_.empty()) classes_.require(name_);
  }
  [[nodiscard]] ClassesOfColumn* classes() noexcept override { return &classes_; }
  void accept() override { row_ = name_.empty() ? -1 : classes_.intern(name_); }
  void keep(RecordTable& /*table*/) override { rows_.push_back(row_); }
  RecordTable::FieldColumn finish(const std::string& file) override {
    column_.field.classes = classes_.finish(file);
    for (const std::int32_t row : rows_) {
      bytes_.clear();
      append_number(bytes_, std::to_string(classes_.number_of(row)), column_.field.dtype);
      column_.add_values(bytes_);
    }
    return TableField::finish(file);
  }

 private:
  std::size_t cell_;
  ClassesOfColumn classes_;
  std::string_view name_;
  std::int32_t row_ = -1;
  std::vector<std::int32_t> rows_;
};

// Several classes per row: "a|b" in one column, or 0 and 1 in a column for each class. The row's
// names stay in names_ until accept(), because those of a bad row must not count.
class MultilabelOfTable final : public TableField {
 public:
  MultilabelOfTable(const FieldOptions& options, const TableHeader& header)
      : TableField(options), classes_(options.classes, options.name), are_given_(!options.classes.empty()) {
    require_plain_type();
    set_ = header.find(place_of(options));
    if (set_) return;
    if (options.classes.empty()) set_ = header.at(place_of(options), key_of_columns_);
    for (const std::string& name : options.classes) columns_.push_back(header.at(name, key_ + ".classes"));
  }
  void read(const Cells& cells) override {
    row_.clear();
    names_.clear();
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string_view cell = without_blanks(cells[columns_[i]]);
      const double value = cell.empty() ? 0 : number_in_cell(as_number(cell));
      if (value != 0 && value != 1) throw BadRow{"\"" + std::string(cell) + "\" is neither 0 nor 1"};
      if (value == 1) row_.push_back(static_cast<std::int32_t>(i));
    }
    if (!set_) return;
    for (const auto part : split(cells[*set_], '|')) {
      const std::string_view name = without_blanks(part);
      if (name.empty()) continue;
      const bool is_bit = name == "0" || name == "1";
      if (is_bit && std::ranges::find(names_, name) != names_.end()) {
        throw BadRow{"\"" + std::string(cells[*set_]) +
                     "\" names a class twice; 0 and 1 go into a column for each class, named in `classes`"};
      }
      classes_.require(name);
      names_.push_back(name);
    }
  }
  [[nodiscard]] ClassesOfColumn* classes() noexcept override { return &classes_; }
  void accept() override {
    for (const std::string_view name : names_) row_.push_back(classes_.intern(name));
    has_sets_ = has_sets_ || names_.size() > 1;
  }
  void keep(RecordTable& /*table*/) override {
    members_.insert(members_.end(), row_.begin(), row_.end());
    ends_.push_back(members_.size());
  }
  RecordTable::FieldColumn finish(const std::string& file) override {
    Field& field = column_.field;
    field.classes = classes_.finish(file);
    if (field.classes.empty()) throw ConfigError(key_ + ": no row of " + file + " has a class");
    if (set_ && !has_sets_ && !are_given_) refuse_other_separators(field.classes, file);
    field.shape = {static_cast<std::int64_t>(field.classes.size())};
    std::vector<bool> hot(field.classes.size());
    std::size_t at = 0;
    for (const std::size_t end : ends_) {
      hot.assign(hot.size(), false);
      for (; at < end; ++at) {
        const std::int32_t number = classes_.number_of(members_[at]);
        if (number >= 0) hot[static_cast<std::size_t>(number)] = true;
      }
      bytes_.clear();
      for (const bool is_member : hot) append_number(bytes_, is_member ? "1" : "0", field.dtype);
      column_.add_values(bytes_);
    }
    return TableField::finish(file);
  }

 private:
  // "haze primary" would become one class, beside "clear primary".
  void refuse_other_separators(const std::vector<std::string>& classes, const std::string& file) const {
    const auto several = std::ranges::find_if(
        classes, [](const std::string& name) { return name.find_first_of(", ") != std::string::npos; });
    if (several == classes.end()) return;
    throw ConfigError(key_ + ": no row of " + file + " has more than one class, and \"" + printable(*several) +
                      "\" would be one; separate the classes of a row by |, or list them all in `classes`");
  }

  std::optional<std::size_t> set_;
  std::vector<std::size_t> columns_;
  ClassesOfColumn classes_;
  bool are_given_;
  bool has_sets_ = false;
  std::vector<std::string_view> names_;  // of the row
  std::vector<std::int32_t> row_;
  std::vector<std::int32_t> members_;  // of all rows
  std::vector<std::size_t> ends_;
};

// Bytes that are the text of a cell.
class BytesOfTable final : public TableField {
 public:
  BytesOfTable(const FieldOptions& options, const TableHeader& header)
      : TableField(options), cell_(header.at(place_of(options), key_of_columns_)) {}
  void read(const Cells& cells) override {
    const auto bytes = std::as_bytes(std::span(cells[cell_]));
    if (bytes.size() > static_cast<std::size_t>(column_.field.shape[0])) {
      throw BadRow{std::to_string(bytes.size()) + " bytes, more than its `most`"};
    }
    bytes_.assign(bytes.begin(), bytes.end());
  }

 private:
  std::size_t cell_;
};

// The path of a file: an image, a mask or an array.
class FileOfTable final : public TableField {
 public:
  FileOfTable(const FieldOptions& options, const TableHeader& header)
      : TableField(options), text_(place_of(options), header, key_of_columns_) {}
  void read(const Cells& cells) override {
    path_ = text_.of(cells);
    if (path_.empty()) throw BadRow{"it names no file"};
  }
  void keep(RecordTable& table) override { column_.source.push_back(table.add_source(path_)); }

 private:
  TextOfRow text_;
  std::string path_;
};

}  // namespace

double number_in_cell(std::string_view cell) {
  std::string_view text = without_blanks(cell);
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto value = parse_number<double>(text);
  if (!value || !std::isfinite(*value)) throw BadRow{"\"" + std::string(cell) + "\" is no finite number"};
  return *value;
}

TableHeader::TableHeader(const Cells& names, std::string file) : file_(std::move(file)) {
  for (const std::string_view name : names) names_.emplace_back(without_blanks(name));
}

std::optional<std::size_t> TableHeader::find(std::string_view name) const {
  const auto found = std::ranges::find(names_, name);
  if (found == names_.end()) return std::nullopt;
  if (std::find(found + 1, names_.end(), name) != names_.end()) {
    throw ConfigError(file_ + ": two columns are called \"" + std::string(name) + "\"");
  }
  return static_cast<std::size_t>(found - names_.begin());
}

std::size_t TableHeader::at(std::string_view name, const std::string& key) const {
  if (const auto column = find(name)) return *column;
  throw ConfigError(key + " = \"" + std::string(name) + "\": the table " + file_ + " has no such column; it has \"" +
                    joined(names_, "\", \"") + "\"");
}

std::optional<std::size_t> TableHeader::first_of(std::initializer_list<std::string_view> names) const {
  for (const auto name : names) {
    if (const auto column = find(name)) return column;
  }
  return std::nullopt;
}

// "train/{id}.png" inserts a cell into a text. A column whose name is exactly `from` takes
// precedence.
TextOfRow::TextOfRow(std::string_view from, const TableHeader& header, const std::string& key) {
  if (from.find('{') == std::string_view::npos || header.find(from)) {
    columns_ = {header.at(without_blanks(from), key)};
    parts_ = {"", ""};
    return;
  }
  for (std::string_view rest = from;;) {
    const auto open = rest.find('{');
    parts_.emplace_back(rest.substr(0, open));
    if (open == std::string_view::npos) break;
    const auto close = rest.find('}', open);
    if (close == std::string_view::npos) throw ConfigError(key + " = \"" + std::string(from) + "\": a { without }");
    columns_.push_back(header.at(without_blanks(rest.substr(open + 1, close - open - 1)), key));
    rest.remove_prefix(close + 1);
  }
}

std::string TextOfRow::of(const Cells& cells) const {
  std::string text = parts_.front();
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    // A cell that is the whole path keeps its blanks; one that is inserted into a text loses them.
    const std::string_view cell = columns_.size() == 1 && parts_.front().empty() && parts_.back().empty()
                                      ? cells[columns_[i]]
                                      : without_blanks(cells[columns_[i]]);
    if (without_blanks(cell).empty()) return {};
    text.append(cell).append(parts_[i + 1]);
  }
  return text;
}

ClassesOfColumn::ClassesOfColumn(std::vector<std::string> given, std::string field)
    : field_(std::move(field)), census_(given), given_(std::move(given)) {
  for (const std::string& name : given_) {
    numbers_.emplace(name, static_cast<std::int32_t>(names_.size()));
    names_.push_back(name);
  }
}

// While the kind is unknown, accepts whatever one of the kinds would accept.
std::string ClassesOfColumn::problem_of(std::string_view name) const {
  const auto number = class_number_in(name);
  if (kind_ == Kind::numbers) {
    const std::int64_t limit = given_.empty() ? kMostClassNumbers : static_cast<std::int64_t>(given_.size());
    return number && *number < limit ? "" : problem_of_class(name, limit);
  }
  if (given_.empty() || (number && kind_ == Kind::unknown)) return "";
  // A number was interned while the kind was unknown.
  const auto known = numbers_.find(std::string(name));
  if (known != numbers_.end() && static_cast<std::size_t>(known->second) < given_.size()) return "";
  return "class \"" + printable(name) + "\" is not in the given classes";
}

void ClassesOfColumn::require(std::string_view name) const {
  if (std::string problem = problem_of(name); !problem.empty()) throw BadRow{std::move(problem)};
}

std::int32_t ClassesOfColumn::intern(std::string_view name) {
  if (kind_ == Kind::unknown) census_.add(name);
  const auto known = numbers_.find(std::string(name));
  if (known != numbers_.end()) return known->second;
  const auto number = static_cast<std::int32_t>(names_.size());
  numbers_.emplace(name, number);
  names_.emplace_back(name);
  return number;
}

// True if a text that was accepted so far is not a class of the kind just decided on. The given
// classes are always accepted.
bool ClassesOfColumn::decide(const std::string& file) {
  if (kind_ != Kind::unknown) return false;
  kind_ = census_.are_numbers(file, field_) ? Kind::numbers : Kind::names;
  return std::any_of(names_.begin() + static_cast<std::ptrdiff_t>(given_.size()), names_.end(),
                     [&](const std::string& name) { return !problem_of(name).empty(); });
}

// Numbers keep their values, names are sorted bytewise, given classes keep their order.
std::vector<std::string> ClassesOfColumn::finish(const std::string& file) {
  if (kind_ == Kind::numbers) {
    std::int64_t most = -1;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const std::int64_t number =
          i < given_.size() ? static_cast<std::int64_t>(i) : class_number_in(names_[i]).value_or(-1);
      final_.push_back(static_cast<std::int32_t>(number));
      most = std::max(most, number);
    }
    return given_.empty() ? numbered_classes(most + 1) : given_;
  }
  if (!given_.empty()) return given_;
  final_.resize(names_.size());
  if (names_.size() > static_cast<std::size_t>(kMostClassNumbers)) {
    throw ConfigError(file + ": " + std::to_string(names_.size()) + " different classes; a number to be learned is a " +
                      "field of kind \"numbers\"");
  }
  std::vector<std::string> classes = names_;
  std::ranges::sort(classes);
  for (std::size_t i = 0; i < names_.size(); ++i) {
    final_[i] = static_cast<std::int32_t>(std::ranges::lower_bound(classes, names_[i]) - classes.begin());
  }
  return classes;
}

std::int32_t ClassesOfColumn::number_of(std::int32_t interned) const noexcept {
  return interned < 0 || final_.empty() ? interned : final_[static_cast<std::size_t>(interned)];
}

TableField::TableField(const FieldOptions& options)
    : column_{.field = field_of(options)},
      key_("fields." + options.name),
      key_of_columns_(options.name == kSegmentField ? options.name : key_ + ".from") {}

void TableField::require_plain_type() const {
  if (column_.field.dtype != DType::float16 && column_.field.dtype != DType::bfloat16) return;
  throw ConfigError(key_ + ".dtype: a table gives float32, float64, uint8, int32 or int64");
}

std::unique_ptr<TableField> table_field(const FieldOptions& options, const TableHeader& header) {
  switch (field_of(options).kind) {
    case FieldKind::numbers: return std::make_unique<NumbersOfTable>(options, header);
    case FieldKind::class_number: return std::make_unique<ClassOfTable>(options, header);
    case FieldKind::multilabel: return std::make_unique<MultilabelOfTable>(options, header);
    case FieldKind::bytes: return std::make_unique<BytesOfTable>(options, header);
    case FieldKind::image:
    case FieldKind::mask:
    case FieldKind::array: return std::make_unique<FileOfTable>(options, header);
    case FieldKind::boxes: return boxes_of_table(options, header);
  }
  throw ConfigError("fields." + options.name + ".kind: a table has none");
}

}  // namespace forebay::data
