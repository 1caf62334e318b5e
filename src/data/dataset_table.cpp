#include <filesystem>
#include <forebay/error.hpp>
#include <optional>
#include <unordered_map>

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "build.hpp"
#include "csv.hpp"
#include "fields.hpp"
#include "formats.hpp"
#include "table_fields.hpp"

// A text table with a header (CSV, TSV): a row per sample, one column of paths, and others for label and fields.
namespace forebay {
namespace {

constexpr std::size_t kLargestTable = std::size_t{4} << 30U;

class TableBuilder {
 public:
  TableBuilder(const DatasetOptions& options, const Cells& names)
      : options_(options),
        are_images_(options.samples == SampleUnit::images),
        header_(without_empty_end(names), options.path),
        classes_(options.classes) {
    const FieldOptions* const image = find_field(options, "image");
    const FieldOptions* const label = find_field(options, "label");
    image_ = image != nullptr ? header_.at(place_of(*image), "fields.image.from")
                              : header_.first_of({"image", "path", "file", "filename", "file_name"}).value_or(0);
    if (label != nullptr) {
      label_ = header_.at(place_of(*label), "fields.label.from");
    } else {
      label_ = header_.first_of({"label", "class"});
    }
    for (const FieldOptions& field : options.fields) {
      const bool is_beside =
          field.from.find("{stem}") != std::string::npos || field.from.find("{folder}") != std::string::npos;
      if (!is_image_or_label(field.name) && !is_beside) fields_.push_back(column_of(field));
    }
  }

  void add(const Cells& cells, std::size_t line, IndexDraft& draft) {
    const auto bad = [&](std::string reason) {
      draft.skipped.add_bad(options_.path + ":" + std::to_string(line), std::move(reason));
    };
    ++rows_;
    try {
      read(cells, bad);
    } catch (const BadRow& row) {
      bad(row.reason);
      return;
    }
    label_number_ = label_name_.empty() ? -1 : classes_.intern(label_name_);
    for (const auto& field : fields_) field->accept();
    const std::size_t sample = are_images_ ? sample_of(cells[image_], draft.table.source.size()) : kNewSample;
    if (sample < draft.table.source.size()) {
      if (draft.table.label[sample] != label_number_) draft.table.label[sample] = -1;
      for (const auto& field : fields_) field->join(sample);
      return;
    }
    draft.table.add(draft.table.add_source(cells[image_]), label_number_);
    for (const auto& field : fields_) field->keep(draft.table);
  }

  [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }

  void finish(IndexDraft& draft) {
    RecordTable& table = draft.table;
    draft.counts.images = are_images_ ? table.source.size() : rows_;
    draft.counts.objects = are_images_ ? rows_ : 0;
    table.classes = classes_.finish(options_.path);
    for (std::int32_t& label : table.label) label = classes_.number_of(label);
    for (const auto& field : fields_) table.fields.push_back(field->finish(options_.path));
    table.field_names = header_.names();
  }

 private:
  static constexpr std::size_t kNewSample = SIZE_MAX;

  // A spreadsheet's empty columns.
  static Cells without_empty_end(Cells cells) {
    while (!cells.empty() && without_blanks(cells.back()).empty()) cells.pop_back();
    return cells;
  }

  std::unique_ptr<TableField> column_of(FieldOptions field) {
    if (field.kind != FieldKind::boxes) return table_field(field, header_);
    if (!are_images_) {
      throw ConfigError("fields." + field.name + ".kind: each row has one box and is a sample of its own here; " +
                        "dataset.samples = \"images\" makes the rows of an image one sample");
    }
    if (field.classes.empty()) field.classes = options_.classes;
    return table_field(field, header_);
  }

  // The sample that an earlier row of the image began, else `next`.
  std::size_t sample_of(std::string_view image, std::size_t next) {
    return samples_.try_emplace(std::string(image), next).first->second;
  }

  template <typename Bad>
  void read(const Cells& cells, const Bad& left_out) {
    const auto behind = std::span(cells).subspan(std::min(cells.size(), header_.names().size()));
    const bool has_more = std::ranges::any_of(behind, [](auto cell) { return !without_blanks(cell).empty(); });
    if (cells.size() < header_.names().size() || has_more) {
      throw BadRow{std::to_string(cells.size()) + " fields, but the header has " +
                   std::to_string(header_.names().size())};
    }
    if (cells[image_].empty()) throw BadRow{"the path is empty"};
    label_name_ = label_ ? without_blanks(cells[*label_]) : "";
    if (!label_name_.empty()) classes_.require(label_name_);
    for (const auto& field : fields_) {
      try {
        field->read(cells);
      } catch (const BadRow& bad) {
        std::string reason = "field \"" + field->name() + "\": " + bad.reason;
        if (!field->is_optional()) throw BadRow{std::move(reason)};
        left_out(std::move(reason));
      }
    }
  }

  const DatasetOptions& options_;
  bool are_images_;
  TableHeader header_;
  std::size_t image_ = 0;
  std::optional<std::size_t> label_;
  ClassesOfColumn classes_;
  std::string_view label_name_;  // of the row
  std::int32_t label_number_ = -1;
  std::vector<std::unique_ptr<TableField>> fields_;
  std::unordered_map<std::string, std::size_t> samples_;  // by image, if the rows of an image form one sample
  std::uint64_t rows_ = 0;
};

bool is_table_name(std::string_view name) {
  return name.ends_with(".csv") || name.ends_with(".tsv") || name.ends_with(".tab");
}

// A list of paths and labels looks the same; only what a list cannot express makes it a table.
bool is_table(PathContents& contents) {
  return !contents.is_folder() && !contents.options().fields.empty() && is_table_name(contents.root());
}

std::uint64_t hash_table(const DatasetOptions& options) { return hash_file(options.path, "dataset.path", 0); }

IndexDraft build_table(PathContents& contents) {
  const DatasetOptions& options = contents.options();
  std::vector<std::byte> text;
  try {
    text = load_file(contents.root(), kLargestTable);
  } catch (const SampleError& error) {
    throw path_error(options, error.what());
  }
  const char separator = options.path.ends_with(".tsv") || options.path.ends_with(".tab") ? '\t' : ',';
  CsvRows rows({reinterpret_cast<const char*>(text.data()), text.size()}, options.path, separator);
  Cells cells;
  if (!rows.next(cells)) throw path_error(options, "the table is empty; its first row names the columns");
  IndexDraft draft;
  draft.root = std::filesystem::path(contents.root()).parent_path().string();
  TableBuilder builder(options, cells);
  while (rows.next(cells)) builder.add(cells, rows.line(), draft);
  if (draft.table.source.empty()) {
    throw path_error(options, "the table has " + std::to_string(builder.rows()) +
                                  " rows below its header, none usable" + draft.skipped.first_bad());
  }
  builder.finish(draft);
  return draft;
}

}  // namespace

const Format formats::table{.needs = "a table of text (.csv, .tsv) with a header",
                            .path = Format::Path::file,
                            .detect = is_table,
                            .build = build_table,
                            .hash = hash_table,
                            .hashed = "the table",
                            .chooses_image = true,
                            .has_objects = true,
                            .finds_files = false};

}  // namespace forebay
