#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "build.hpp"

namespace forebay::data {

// A record of a list file: a path (or a label, in a file of labels) and perhaps a label. The fields
// are views, because a list may have ten million lines.
struct ListRecord {
  std::size_t line = 0;  // where it begins, from 1
  std::string_view first;
  std::string_view second;
  bool has_second = false;
};

// Whether a file of this name exists, relative to the list's folder.
using IsFile = std::function<bool(std::string_view)>;

// Reads a list. Lines end with LF or CRLF; empty lines are skipped, and those that begin with '#'
// are comments, unless such a line begins with the name of an image that `is_file` knows. A UTF-8
// byte order mark is ignored. All lines are divided in the same way: at tabs where each line has
// one, else at commas where any line has one that is not part of an image's name, else at tabs
// where any line has one, else at the blanks after the path ("a.jpg 0", as Caffe and ImageNet write
// it), which begins the label where the path has an image's extension or where each line is one
// word and an integer. Unquoted fields lose surrounding blanks and tabs. A field in double quotes
// is taken verbatim, separators and line breaks included, with "" for a quote (RFC 4180, section
// 2); blanks and line breaks around a label do not matter. A first line of column names is
// recognised; with more than two columns it must name one path and one label. Fields are views of
// `text`, and quoted fields are views of strings added to `quoted`. Throws ConfigError naming
// `file` and the line.
[[nodiscard]] std::vector<ListRecord> parse_list(std::string_view text, const std::string& file,
                                                 std::deque<std::string>& quoted, const IsFile& is_file = {});

inline constexpr auto kNowhere = std::string_view::npos;

// Whether a name in a list may be meant as an image or a video: is_image_name(), is_video_name(), or an extension of an
// unsupported format.
[[nodiscard]] bool is_picture_name(std::string_view name) noexcept;

// No separator: each line is a path.
inline constexpr char kNoSeparator = '\0';
// The separator of a list's lines: ',' or '\t' or, after the path only, ' ', or none.
[[nodiscard]] char separator_of(std::string_view text);

// Where the label of a line such as "a.jpg 0" begins: after the blanks that follow the path; kNowhere if there is none.
[[nodiscard]] std::size_t label_after_path(std::string_view line) noexcept;

// Which fields of a record are the path and the label.
struct ListColumns {
  std::size_t path = 0;
  std::size_t label = 1;
};

// The columns whose names suggest the path of an image, or its label. Only those with the best name are returned:
// "image" before "id", "label" before "diagnosis"; if several are equally good, all of them.
[[nodiscard]] std::vector<std::size_t> path_columns(std::span<const std::string_view> names);
[[nodiscard]] std::vector<std::size_t> label_columns(std::span<const std::string_view> names);

// A warning if a column is named like one that says to which split a row belongs, and no field is made of it; otherwise
// empty.
[[nodiscard]] std::string remark_on_split_column(std::span<const std::string> names,
                                                 std::span<const FieldOptions> fields);

// The interpretation of a header, or nothing if `fields` are not a header. `next` is the first field of the following
// record, "" if there is none.
struct HeaderFound {
  ListColumns columns;
  std::string problem;  // why the columns cannot be used; "" if they can
};
[[nodiscard]] std::optional<HeaderFound> find_header(std::span<const std::string_view> fields, std::string_view next);

// The error for a line whose fields (column names, or a path and a label) are separated by
// semicolons or bars instead of commas; "" for any other line.
[[nodiscard]] std::string problem_of_separator(std::string_view line);

// Lists in the form of Pascal VOC and ILSVRC: ROOT/ImageSets/Main/train.txt names images without folder and extension,
// which are ROOT/JPEGImages/x.jpg; the images of ROOT/ImageSets/CLS-LOC/train_cls.txt are
// ROOT/Data/CLS-LOC/train/x.JPEG. Their annotations lie below ROOT/Annotations.
//
// Converts the records of such a list to images below ROOT, and returns ROOT; if it is not such a list, returns "" and
// changes nothing. Missing images are logged. The records are views of texts added to `texts`. Throws ConfigError if no
// folder of images is found, and for a list of a single class, which says for each image whether it shows that class.
[[nodiscard]] std::string resolve_split_list(const BuildContext& context, std::vector<ListRecord>& records,
                                             std::deque<std::string>& texts, SkipLog& skipped);

}  // namespace forebay::data
