// Recognises the header of a list or table by the names of its columns. Names are compared without
// regard to case, blanks and punctuation.
//
// An overlooked header costs one bad line, whereas a line mistaken for a header silently loses a
// sample. So a first line with anything that looks like a path is never taken for a header.

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/text.hpp"
#include "list.hpp"

namespace forebay::data {
namespace {

constexpr std::array<std::string_view, 15> kPathWords{"path",       "file",      "filename",  "filepath",  "image",
                                                      "img",        "imagepath", "imagefile", "imagename", "imageid",
                                                      "imageindex", "imgpath",   "imgname",   "fname",     "picture"};
// Column names for paths that count only if no column has one of kPathWords.
constexpr std::array<std::string_view, 5> kIdWords{"id", "idcode", "imgid", "fileid", "uid"};
constexpr std::array<std::string_view, 13> kLabelWords{
    "label",      "labels", "class", "classname", "classid",      "classindex",   "category",
    "categoryid", "target", "wnid",  "synset",    "findinglabel", "findinglabels"};
// Column names for labels that count only if no column has one of kLabelWords.
constexpr std::array<std::string_view, 8> kKindWords{"diagnosis", "breed", "species", "targets",
                                                     "dx",        "y",     "level",   "categories"};
constexpr std::size_t kColumnsNamed = 6;  // the most columns that an error lists
constexpr std::array<std::string_view, 7> kBoxWords{"xmin", "ymin", "xmax", "ymax", "box", "x1", "x2"};

// Normalizes a column name: "Image Index" and "image_index" become "imageindex".
std::string word_of(std::string_view field) {
  std::string word;
  for (const char c : field) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return word;
}

bool is_one_of(std::string_view field, std::span<const std::string_view> words) {
  return std::find(words.begin(), words.end(), word_of(field)) != words.end();
}

std::vector<std::size_t> columns_named(std::span<const std::string_view> fields,
                                       std::span<const std::string_view> words) {
  std::vector<std::size_t> columns;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (is_one_of(fields[i], words)) columns.push_back(i);
  }
  return columns;
}

// `others` count only if no column is in `best`: "id" is a path only where there is no "path".
std::vector<std::size_t> columns_named(std::span<const std::string_view> fields, std::span<const std::string_view> best,
                                       std::span<const std::string_view> others) {
  std::vector<std::size_t> columns = columns_named(fields, best);
  return columns.empty() ? columns_named(fields, others) : columns;
}

}  // namespace

std::vector<std::size_t> path_columns(std::span<const std::string_view> names) {
  return columns_named(names, kPathWords, kIdWords);
}

std::vector<std::size_t> label_columns(std::span<const std::string_view> names) {
  return columns_named(names, kLabelWords, kKindWords);
}

std::string remark_on_split_column(std::span<const std::string> names, std::span<const FieldOptions> fields) {
  constexpr std::array<std::string_view, 14> kWords{"split",     "datasplit", "dataset", "set",   "subset",
                                                    "partition", "fold",      "kfold",   "usage", "phase",
                                                    "istrain",   "isval",     "isvalid", "istest"};
  const auto column = std::ranges::find_if(names, [&](const std::string& name) { return is_one_of(name, kWords); });
  const auto is_of = [&](const FieldOptions& field) { return field.from.find(*column) != std::string::npos; };
  if (column == names.end() || std::ranges::any_of(fields, is_of)) return {};
  return "all of its rows are served, whatever the column \"" + printable(*column) +
         "\" says; for one split write a file of its rows alone";
}

// Reports a separator only if the line has no comma or tab, and only if one of its parts looks like
// a path or is a column name for paths, because other texts may contain semicolons.
std::string problem_of_separator(std::string_view line) {
  constexpr std::array<std::pair<char, std::string_view>, 2> kOthers{{{';', "semicolons"}, {'|', "bars"}}};
  for (const auto& [separator, name] : kOthers) {
    if (line.find(separator) == kNowhere || line.find_first_of(",\t") != kNowhere) continue;
    for (std::string_view part : split(line, separator)) {
      part = without_blanks(part);
      if (part.size() > 1 && part.starts_with('"') && part.ends_with('"')) part = part.substr(1, part.size() - 2);
      if (is_picture_name(part) || !path_columns(std::span(&part, 1)).empty()) {
        return "its fields are separated by " + std::string(name) +
               ", and only commas and tabs separate fields; "
               "write it with commas, such as by pandas: pd.read_csv(name, sep=\"" +
               separator + "\").to_csv(name, index=False)";
      }
    }
  }
  return {};
}

// Three or more columns cannot be just a path and a label, so the line is either a header or a
// mistake, which the message explains.
std::optional<HeaderFound> find_header(std::span<const std::string_view> fields, std::string_view next) {
  const std::vector<std::size_t> paths = path_columns(fields);
  const std::vector<std::size_t> labels = label_columns(fields);
  const auto is_entry = [](std::string_view field) { return is_picture_name(field) || field.find('/') != kNowhere; };
  if (std::any_of(fields.begin(), fields.end(), is_entry)) return std::nullopt;
  const bool names_both = paths.size() == 1 && labels.size() == 1;
  const bool stands_above_a_path = is_picture_name(next) && (fields.size() > 1 || !paths.empty());
  if (!names_both && !stands_above_a_path && fields.size() < 3) return std::nullopt;
  HeaderFound found;
  if (names_both) found.columns = {.path = paths.front(), .label = labels.front()};
  const bool has_boxes = std::any_of(fields.begin(), fields.end(), [](std::string_view field) {
    return word_of(field).starts_with("bbox") || is_one_of(field, kBoxWords);
  });
  if (has_boxes) {
    found.problem = R"(boxes of objects, which a table has: dataset.samples = "images" and a field of kind "boxes")";
  } else if (fields.size() > 2 && !names_both) {
    found.problem =
        "which column is the label? Keep a column of paths (\"path\") and one of labels (\"label\"). "
        "Sets of labels are not supported: one class per image. Or read it as a table (dataset.format = \"table\"), "
        "with "
        "the column of labels as `from` of a section [fields.label]";
  }
  if (!found.problem.empty())
    found.problem = "the columns are " + quoted_names(fields, kColumnsNamed) + ": " + found.problem;
  return found;
}

}  // namespace forebay::data
