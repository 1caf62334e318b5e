// The boxes of a table: one row per box, any number of rows per image.
//
// A row's box stays in row_ until the row is accepted; then it is stored with the number of its
// sample. The rows of an image need not be adjacent. So finish() sorts the boxes by sample, stably,
// and writes a run of boxes for each sample. The run may be empty: images without objects have a
// row with empty cells.

#include <algorithm>
#include <array>
#include <forebay/error.hpp>
#include <span>
#include <utility>

#include "base/text.hpp"
#include "fields.hpp"
#include "object_samples.hpp"
#include "table_fields.hpp"

namespace forebay::data {
namespace {

// One side of a box: a column, "xmin", or the sum of two, "xmin + width".
class SideOfBox {
 public:
  SideOfBox(std::string_view text, const TableHeader& header, const std::string& key) {
    const auto plus = text.find('+');
    if (plus == std::string_view::npos || header.find(text)) {
      cells_.push_back(header.at(text, key));
    } else {
      cells_.push_back(header.at(without_blanks(text.substr(0, plus)), key));
      cells_.push_back(header.at(without_blanks(text.substr(plus + 1)), key));
    }
  }
  [[nodiscard]] bool is_empty(const Cells& cells) const {
    return std::ranges::all_of(cells_, [&](std::size_t cell) { return without_blanks(cells[cell]).empty(); });
  }
  [[nodiscard]] bool takes(std::size_t column) const noexcept {
    return std::ranges::find(cells_, column) != cells_.end();
  }
  // Throws BadRow.
  [[nodiscard]] double number(const Cells& cells) const {
    double sum = 0;
    for (const std::size_t cell : cells_) sum += number_in_cell(cells[cell]);
    return sum;
  }

 private:
  std::vector<std::size_t> cells_;
};

// The default of `from`.
std::string usual_columns(const TableHeader& header) {
  std::string columns = "xmin, ymin, xmax, ymax";
  for (const char* name : {"class", "label"}) {
    if (header.find(name)) return columns.append(", ").append(name);
  }
  return columns;
}

class BoxesOfTable final : public TableField {
 public:
  BoxesOfTable(const FieldOptions& options, const TableHeader& header)
      : TableField(options), classes_(options.classes, options.name) {
    const std::string from = options.from.empty() ? usual_columns(header) : options.from;
    const std::string& key = key_of_columns_;
    std::vector<std::string_view> parts = split(from, ',');
    for (std::string_view& part : parts) part = without_blanks(part);
    if (parts.size() != 4 && parts.size() != 5) {
      throw ConfigError(key + " = \"" + from +
                        "\": name the columns of left, top, right, bottom and, if there is one, class: " +
                        R"("xmin, ymin, xmax, ymax, class", or "x, y, x + width, y + height")");
    }
    for (std::size_t i = 0; i < 4; ++i) sides_.emplace_back(parts[i], header, key);
    if (parts.size() == 5) class_ = header.at(parts[4], key);
  }

  [[nodiscard]] bool is_optional() const noexcept override { return true; }
  [[nodiscard]] bool takes(std::size_t column) const noexcept override {
    return class_ == column || std::ranges::any_of(sides_, [&](const SideOfBox& side) { return side.takes(column); });
  }
  // In some tables "width" and "height" are those of the box, in others of the image; the row's box
  // tells which.
  [[nodiscard]] bool is_of_size(double width, double height) const noexcept override {
    return row_ && row_->right - row_->left == width && row_->bottom - row_->top == height;
  }
  // If all sides are empty, the image has no objects. If only some are, number_in_cell() throws.
  void read(const Cells& cells) override {
    row_.reset();
    if (std::ranges::all_of(sides_, [&](const SideOfBox& side) { return side.is_empty(cells); })) return;
    BoxSides sides{};
    for (std::size_t i = 0; i < sides.size(); ++i) sides[i] = sides_[i].number(cells);
    if (const std::string problem = problem_of_box(sides); !problem.empty()) throw BadRow{"the box " + problem};
    name_ = class_ ? without_blanks(cells[*class_]) : "";
    if (!name_.empty()) classes_.require(name_);
    row_ = labelled_box(sides, -1);
  }
  [[nodiscard]] ClassesOfColumn* classes() noexcept override { return &classes_; }
  void accept() override {
    if (row_ && !name_.empty()) row_->label = classes_.intern(name_);
  }
  void keep(RecordTable& table) override { join(table.source.size() - 1); }
  // samples_ counts all samples, with or without a box.
  void join(std::size_t sample) override {
    samples_ = std::max(samples_, sample + 1);
    if (row_) boxes_.push_back({sample, *row_});
  }
  RecordTable::FieldColumn finish(const std::string& file) override {
    column_.field.classes = classes_.finish(file);
    std::ranges::stable_sort(boxes_, {}, &BoxOfSample::sample);
    auto box = boxes_.begin();
    for (std::size_t sample = 0; sample < samples_; ++sample) {
      for (; box != boxes_.end() && box->sample == sample; ++box) {
        box->box.label = classes_.number_of(box->box.label);
        const auto bytes = std::as_bytes(std::span(&box->box, 1));
        column_.values.insert(column_.values.end(), bytes.begin(), bytes.end());
      }
      column_.add_values({});
    }
    return TableField::finish(file);
  }

 private:
  struct BoxOfSample {
    std::size_t sample = 0;
    LabelledBox box;
  };

  std::vector<SideOfBox> sides_;
  std::optional<std::size_t> class_;
  ClassesOfColumn classes_;
  std::string_view name_;  // the row's class name
  std::optional<LabelledBox> row_;
  std::vector<BoxOfSample> boxes_;  // of all rows so far
  std::size_t samples_ = 0;
};

}  // namespace

std::unique_ptr<TableField> boxes_of_table(const FieldOptions& options, const TableHeader& header) {
  return std::make_unique<BoxesOfTable>(options, header);
}

}  // namespace forebay::data
