// A text table with a header (CSV, TSV): a row per sample, one column of paths, and others for
// label and fields.
//
// The whole file is read into memory, and its rows are parsed on the calling thread. TableBuilder
// keeps the values of a row in members and adds them to the table only when the whole row has
// proved usable, so that a bad row leaves nothing behind. Whether a column holds class numbers or
// names is known only after its last row. If all rows together decide otherwise than was assumed,
// the table is read once more by a builder that knows (must_begin_again). With dataset.samples =
// "images" the rows of one image are merged into one sample, which collects their boxes.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <forebay/error.hpp>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/text.hpp"
#include "build.hpp"
#include "csv.hpp"
#include "fields.hpp"
#include "formats.hpp"
#include "list.hpp"
#include "object_samples.hpp"
#include "store/files.hpp"
#include "table_fields.hpp"

namespace forebay::data {
namespace {

// Chosen: the table is in memory while it is read.
constexpr std::size_t kLargestTable = std::size_t{4} << 30U;

// Whether the field is a file beside each image and does not come from a column.
bool is_beside(const FieldOptions& field) { return is_pattern(field.from) && !is_image_or_label(field.name); }

// Whether a cell of the first row may name a column. One that is the path of an image may not,
// unless a section names a column like that.
bool may_be_column(const DatasetOptions& options, std::string_view name) {
  return !is_picture_name(name) || std::ranges::find(options.fields, name, &FieldOptions::from) != options.fields.end();
}

class TableBuilder {
 public:
  TableBuilder(const DatasetOptions& options, const Cells& names)
      : options_(options),
        are_images_(options.samples == SampleUnit::images),
        header_(without_empty_end(names), options.path),
        image_(image_of(options, header_)),
        label_(label_of()),
        classes_(options.classes, "") {
    refuse_data_as_header();
    for (const FieldOptions& field : options.fields) {
      if (!is_image_or_label(field.name) && !is_beside(field)) fields_.push_back(column_of(field));
    }
    find_size_columns();
  }

  // Everything that may throw or refuse the row comes before the first change to table or fields.
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
    const std::size_t sample = are_images_ ? sample_of(path_, draft.table.source.size()) : kNewSample;
    if (const ImageExtent before = size_of(sample, draft.table);
        before.is_known() && size_.is_known() && before != size_) {
      bad("its image is said to have " + text_of(size_) + " pixels, and in an earlier row " + text_of(before));
      return;
    }
    const std::int32_t label_of_row = label_name_.empty() ? -1 : classes_.intern(label_name_);
    if (label_number_ != kNoObject) label_number_ = label_of_row;
    for (const auto& field : fields_) field->accept();
    if (sample < draft.table.source.size()) {
      // If the rows of one image disagree on the class, it has none.
      std::int32_t& label = draft.table.label[sample];
      if (label == kNoObject) label = label_number_;
      if (label != label_number_ && label_number_ != kNoObject) label = -1;
      for (const auto& field : fields_) field->join(sample);
      return;
    }
    const std::size_t first = draft.table.source.size();
    draft.table.add(draft.table.add_source(path_), label_number_);
    for (const auto& field : fields_) field->keep(draft.table);
    if (size_columns_) sizes_.note(size_, first, draft.table);
  }

  // True if some rows have classes of the wrong kind: read all of them again, into a builder that
  // decides like this one. Every column is asked, so that one more pass is enough for all of them.
  [[nodiscard]] bool must_begin_again() {
    bool again = classes_.decide(options_.path);
    for (const auto& field : fields_) {
      if (ClassesOfColumn* const classes = field->classes()) again = classes->decide(options_.path) || again;
    }
    return again;
  }
  void decide_as(TableBuilder& other) {
    classes_.decide_as(other.classes_);
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (ClassesOfColumn* const classes = fields_[i]->classes()) classes->decide_as(*other.fields_[i]->classes());
    }
  }

  [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }

  void finish(IndexDraft& draft) {
    RecordTable& table = draft.table;
    const bool has_boxes = std::ranges::any_of(fields_, [](const auto& field) { return field->is_optional(); });
    if (!label_ && !has_boxes) {  // boxes have classes of their own
      draft.skipped.explain_missing_labels(
          {.why = "none of its columns is called like a label; name it as `from` of a section [fields.label]"});
    }
    draft.counts.images = are_images_ ? table.source.size() : rows_;
    draft.counts.objects = are_images_ ? rows_ : 0;
    table.classes = classes_.finish(options_.path);
    for (std::int32_t& label : table.label) label = classes_.number_of(std::max(label, -1));
    for (const auto& field : fields_) table.fields.push_back(field->finish(options_.path));
    table.field_names = header_.names();
    if (sizes_.left_out() > 0) draft.skipped.add_note(options_.path, sizes_left_out_note(sizes_.left_out()));
  }

 private:
  static constexpr std::size_t kNewSample = SIZE_MAX;
  static constexpr std::int32_t kNoObject = -2;  // a label, as long as all boxes of the image are bad

  // By the section, else by usual names, else the only column that is named like a path, else the
  // first column.
  static TextOfRow image_of(const DatasetOptions& options, const TableHeader& header) {
    if (const FieldOptions* const image = find_field(options, "image")) {
      return {place_of(*image), header, "fields.image.from"};
    }
    if (const auto usual = header.first_of({"image", "path", "file", "filename", "file_name"})) return *usual;
    const std::vector<std::string_view> names(header.names().begin(), header.names().end());
    const std::vector<std::size_t> paths = path_columns(names);
    return paths.size() == 1 ? paths.front() : 0;
  }

  // Whether a field gets its values from this column. A section's `from` may name several columns,
  // as in "xmin,ymin,xmax,ymax" or "a+b", and its classes may each name one.
  [[nodiscard]] bool is_of_field(std::size_t column, bool other_than_classes) const {
    const std::string& name = header_.names()[column];
    return std::ranges::any_of(options_.fields, [&](const FieldOptions& field) {
      if (is_image_or_label(field.name)) return false;
      if (other_than_classes && (field.kind == FieldKind::class_number || field.kind == FieldKind::boxes)) return false;
      if (place_of(field) == name || std::ranges::find(field.classes, name) != field.classes.end()) return true;
      for (std::string_view rest = place_of(field); !rest.empty();) {
        const auto end = std::min(rest.find_first_of(",+"), rest.size());
        if (without_blanks(rest.substr(0, end)) == name) return true;
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
      return false;
    });
  }

  // The column of labels, by the rules of lists: the one that [fields.label] names, else one called
  // "label" or "class", else the only one that is named like a label, else the only one beside the
  // image's.
  [[nodiscard]] std::optional<std::size_t> label_of() const {
    if (const FieldOptions* const label = find_field(options_, "label")) {
      return header_.at(place_of(*label), "fields.label.from");
    }
    const auto usual = header_.first_of({"label", "class"});
    if (usual && !is_of_field(*usual, true)) return usual;
    const auto is_free = [&](std::size_t column) {
      return std::ranges::find(image_.columns(), column) == image_.columns().end() && !is_of_field(column, false);
    };
    const std::vector<std::string_view> names(header_.names().begin(), header_.names().end());
    const std::vector<std::size_t> labels = label_columns(names);
    if (labels.size() == 1 && is_free(labels.front())) return labels.front();
    if (names.size() != 2 || image_.columns().size() != 1) return std::nullopt;
    const std::size_t other = 1 - image_.columns().front();
    return is_free(other) ? std::optional(other) : std::nullopt;
  }

  // Refuses a first row with a path in it: otherwise the first sample of a list without a header
  // would silently be lost.
  void refuse_data_as_header() const {
    const auto path =
        std::ranges::find_if_not(header_.names(), [this](auto& name) { return may_be_column(options_, name); });
    if (path == header_.names().end()) return;
    throw path_error(options_, "the first row of a table names its columns, and here it has the path \"" +
                                   printable(*path) +
                                   "\"; add a row of names, or read it as a list (dataset.format = " +
                                   "\"filelist\") where it has only paths and labels");
  }

  // Drops the empty columns that spreadsheets append.
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

  // If boxes come from columns and do not use "width" and "height" (or names like these), those are
  // the size of the image.
  void find_size_columns() {
    const bool has_boxes = std::ranges::any_of(fields_, [](const auto& field) { return field->has_boxes(); });
    if (!has_boxes) return;
    for (const auto& [width, height] :
         {std::pair{"width", "height"}, {"image_width", "image_height"}, {"img_width", "img_height"}}) {
      const auto across = header_.find(width);
      const auto down = header_.find(height);
      if (!across || !down) continue;
      const auto is_of_boxes = [&](const auto& field) { return field->takes(*across) || field->takes(*down); };
      if (std::ranges::any_of(fields_, is_of_boxes)) continue;
      size_columns_ = {*across, *down};
      return;
    }
  }

  static std::string text_of(ImageExtent size) {
    return std::to_string(size.width) + "x" + std::to_string(size.height);
  }

  // The size that an earlier row of the sample stated. The table has no kinds before the first
  // stated size.
  static ImageExtent size_of(std::size_t sample, const RecordTable& table) {
    if (sample >= table.kind.size()) return {};
    const RecordTable::Kind& kind = table.kinds[table.kind[sample]];
    return {kind.width, kind.height};
  }

  // The size that the row states, unless it is that of its box.
  [[nodiscard]] ImageExtent stated_size(const Cells& cells) const {
    const ImageExtent size{side_in_cell(cells[size_columns_->first]), side_in_cell(cells[size_columns_->second])};
    const auto is_of_box = [&](const auto& field) { return field->is_of_size(size.width, size.height); };
    return std::ranges::any_of(fields_, is_of_box) ? ImageExtent{} : size;
  }

  // Throws BadRow for a side that no image has. 0 means not stated, as does an empty cell.
  static std::int32_t side_in_cell(std::string_view cell) {
    if (without_blanks(cell).empty()) return 0;
    const double side = number_in_cell(cell);
    if (side < 0 || side > std::numeric_limits<std::int32_t>::max() || side != std::floor(side)) {
      throw BadRow{"an image of " + std::string(without_blanks(cell)) + " pixels across or down"};
    }
    return static_cast<std::int32_t>(side);
  }

  // The sample that an earlier row of the image began, else `next`.
  std::size_t sample_of(std::string_view image, std::size_t next) {
    return samples_.try_emplace(std::string(image), next).first->second;
  }

  // Cells beyond the header are accepted if they are empty, as spreadsheets export them. A bad
  // value of an optional field (boxes) costs only the box, any other the row.
  template <typename Bad>
  void read(const Cells& cells, const Bad& left_out) {
    const auto behind = std::span(cells).subspan(std::min(cells.size(), header_.names().size()));
    const bool has_more = std::ranges::any_of(behind, [](auto cell) { return !without_blanks(cell).empty(); });
    if (cells.size() < header_.names().size() || has_more) {
      throw BadRow{std::to_string(cells.size()) + " fields, but the header has " +
                   std::to_string(header_.names().size())};
    }
    path_ = image_.of(cells);
    if (path_.empty()) throw BadRow{"the path is empty"};
    label_name_ = label_ ? without_blanks(cells[*label_]) : "";
    label_number_ = -1;
    if (!label_name_.empty()) classes_.require(label_name_);
    for (const auto& field : fields_) {
      try {
        field->read(cells);
      } catch (const BadRow& bad) {
        std::string reason = "field \"" + field->name() + "\": " + bad.reason;
        if (!field->is_optional()) throw BadRow{std::move(reason)};
        left_out(std::move(reason));
        if (label_ && field->takes(*label_)) label_number_ = kNoObject;
      }
    }
    if (size_columns_) size_ = stated_size(cells);
  }

  const DatasetOptions& options_;
  bool are_images_;
  TableHeader header_;
  TextOfRow image_;
  std::optional<std::size_t> label_;
  ClassesOfColumn classes_;
  std::string path_;                // of the row
  std::string_view label_name_;     // of the row
  std::int32_t label_number_ = -1;  // kNoObject: it is the class of the row's box, which is bad
  std::vector<std::unique_ptr<TableField>> fields_;
  std::unordered_map<std::string, std::size_t> samples_;  // by image, if the rows of an image form one sample
  std::optional<std::pair<std::size_t, std::size_t>> size_columns_;  // of the image's width and height
  ImageExtent size_;                                                 // of the row
  StatedSizes sizes_;
  std::uint64_t rows_ = 0;
};

bool is_table_name(std::string_view name) {
  return name.ends_with(".csv") || name.ends_with(".tsv") || name.ends_with(".tab");
}

// The cells of the first row, or of its beginning if `text` ends earlier. A quoted name with a
// separator in it is split here, which does no harm: these names only serve to recognise tables and
// to suggest columns.
Cells first_row(std::string_view text, char separator) {
  Cells cells = split(text.substr(0, text.find_first_of("\r\n")), separator);
  for (std::string_view& cell : cells) {
    cell = without_blanks(cell);
    if (cell.size() > 1 && cell.starts_with('"') && cell.ends_with('"')) cell = cell.substr(1, cell.size() - 2);
  }
  return cells;
}

// By the file's extension, unless the first row contains only the other separator. Throws
// ConfigError if it has an unsupported one.
char separator_of_table(const DatasetOptions& options, std::string_view text) {
  const bool is_tsv = options.path.ends_with(".tsv") || options.path.ends_with(".tab");
  const std::string_view line = text.substr(0, text.find_first_of("\r\n"));
  if (const std::string problem = problem_of_separator(without_blanks(line)); !problem.empty()) {
    throw path_error(options, problem);
  }
  const char usual = is_tsv ? '\t' : ',';
  const char other = is_tsv ? ',' : '\t';
  return line.find(usual) == std::string_view::npos && line.find(other) != std::string_view::npos ? other : usual;
}

void refuse_comment(const DatasetOptions& options, std::string_view text) {
  if (!text.starts_with('#') || first_row(text, separator_of_table(options, text)).size() > 1) return;
  throw path_error(options,
                   "a table begins with the names of its columns: remove the lines above them, which begin with '#'");
}

// A list of paths and labels looks the same. So it is a table only if a field comes from a column,
// because labels must not change with a field of files beside the images, and if its first row may
// hold the names of columns.
bool is_table(PathContents& contents) {
  const std::vector<FieldOptions>& fields = contents.options().fields;
  const bool is_by_column = std::ranges::any_of(fields, [](const auto& field) { return !is_beside(field); });
  if (!is_by_column || columns_of_table(contents).size() > 1) return is_by_column;
  if (is_table_name(contents.root())) refuse_comment(contents.options(), as_text(contents.head()));
  return false;
}

std::uint64_t hash_table(const DatasetOptions& options) { return hash_file(options.path, "dataset.path", 0); }

IndexDraft build_table(PathContents& contents) {
  const DatasetOptions& options = contents.options();
  const std::vector<std::byte> text =
      naming_path(options, "", [&] { return store::load_file(contents.root(), kLargestTable); });
  std::string_view whole = as_text(text);
  if (whole.starts_with("\xEF\xBB\xBF")) whole.remove_prefix(3);
  whole.remove_prefix(std::min(whole.size(), whole.find_first_not_of("\r\n")));
  refuse_comment(options, whole);
  const char separator = separator_of_table(options, whole);
  std::unique_ptr<TableBuilder> builder;
  IndexDraft draft;
  for (bool again = true; again;) {
    CsvRows rows(as_text(text), options.path, separator);
    Cells cells;
    if (!rows.next(cells)) throw path_error(options, "the table is empty; its first row names the columns");
    auto next = std::make_unique<TableBuilder>(options, cells);
    if (builder) next->decide_as(*builder);
    builder = std::move(next);
    draft = {};
    while (rows.next(cells)) builder->add(cells, rows.line(), draft);
    again = builder->must_begin_again();
  }
  draft.root = std::filesystem::path(contents.root()).parent_path().string();
  if (draft.table.source.empty()) {
    throw path_error(options, "the table has " + std::to_string(builder->rows()) +
                                  " rows below its header, none usable" + draft.skipped.first_bad());
  }
  builder->finish(draft);
  return draft;
}

}  // namespace

std::vector<std::string> columns_of_table(PathContents& contents) {
  if (contents.is_folder() || !is_table_name(contents.root())) return {};
  std::string_view text = as_text(contents.head());
  // The byte order mark of UTF-8, as spreadsheets write it, would be a part of the first name.
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.size(), text.find_first_not_of("\r\n")));
  const Cells names = first_row(text, separator_of_table(contents.options(), text));
  const bool are_names = std::ranges::all_of(names, [&](auto name) { return may_be_column(contents.options(), name); });
  return are_names ? std::vector<std::string>(names.begin(), names.end()) : std::vector<std::string>();
}

const Format formats::table{.needs = "a table of text (.csv, .tsv) with a header",
                            .path = Format::Path::file,
                            .detect = is_table,
                            .build = build_table,
                            .hash = hash_table,
                            .hashed = "the table",
                            .chooses_image = true,
                            .has_objects = true,
                            .finds_files = false,
                            .reads_videos = true};

}  // namespace forebay::data
