#pragma once

#include <sys/stat.h>
#include <cstddef>
#include <cstdint>
#include <forebay/dataset.hpp>
#include <forebay/error.hpp>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data_state.hpp"
#include "index_format.hpp"
#include "pairing.hpp"
#include "record_table.hpp"
#include "scan.hpp"

namespace forebay::data {

// The input of every index builder.
struct BuildContext {
  const DatasetOptions& options;
  const IndexProgress& progress;  // may be empty
  unsigned threads = 1;           // affects the time it takes, never the result
};

// build_dataset() with a given number of threads, for tests.
[[nodiscard]] std::unique_ptr<Dataset> build_dataset_with(const BuildContext& context);

// The origin of an index with these options, once the format is known.
[[nodiscard]] IndexOrigin origin_of(const DatasetOptions& options, std::string format);
// XXH3-64 of a file. `key`: the option that names the file, for errors. Throws ConfigError if it cannot be read.
[[nodiscard]] std::uint64_t hash_file(const std::string& path, const char* key, std::uint64_t seed);
// The hash of `seed` and a file's name, for a file of which the index holds only the name.
[[nodiscard]] std::uint64_t hash_name(std::string_view name, std::uint64_t seed) noexcept;
// "/data/JPEGImages" as the folder "/data" and the name "JPEGImages" in it.
struct PlaceInParent {
  std::string parent;
  std::string name;
};
[[nodiscard]] PlaceInParent place_in_parent(const std::string& path);
// Adds the paths in `from` to `paths`, prefixed by `folder`.
void add_below(PathList& paths, std::string_view folder, const PathList& from);
// Makes a path absolute, so that samples are found from any working directory later: "data/x" becomes "/here/data/x".
[[nodiscard]] std::string absolute_path(const std::string& path);
// ConfigError("dataset.path = "...": " + problem).
[[nodiscard]] ConfigError path_error(const DatasetOptions& options, const std::string& problem);
// Returns what work() returns. Its SampleErrors, which do not know the configuration, become errors of dataset.path
// that name `file`, unless that is "".
template <typename Work>
auto naming_path(const DatasetOptions& options, const std::string& file, Work&& work) {
  try {
    return work();
  } catch (const SampleError& error) {
    throw path_error(options, (file.empty() ? "" : file + ": ") + error.what());
  }
}

// Class names and their numbers: the given names in their order, or else those found, sorted bytewise.
class ClassList {
 public:
  // Throws ConfigError naming dataset.classes if a name is empty or given twice.
  ClassList(std::vector<std::string> given, std::vector<std::string> found);
  // -1 if there is no such class.
  [[nodiscard]] std::int32_t number_of(std::string_view name) const;
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }

 private:
  std::vector<std::string> names_;
  std::map<std::string, std::int32_t, std::less<>> numbers_;
};

// The log of what an index leaves out. It keeps every bad entry and warning and the first thousand notes, and counts
// the rest in a single entry, because a million stray files must not fill the memory.
class SkipLog {
 public:
  void add_bad(std::string path, std::string reason);
  void add_note(std::string path, std::string reason);
  // Adds entries that are bad, and others as notes, whose paths are relative to `folder`.
  void add_all(std::string_view folder, const std::vector<Skipped>& entries);
  // Adds a note that a run repeats at its start (Skipped::told), for what the user must know to trust labels and
  // samples.
  void add_warning(std::string path, std::string reason);
  // Why samples have no labels: what is wrong with labels that seem to exist, or where they were looked for. Reported
  // if no sample has one. Only the first call has an effect.
  struct MissingLabels {
    std::string why;
    bool seem_there = false;
  };
  void explain_missing_labels(MissingLabels missing);
  [[nodiscard]] const MissingLabels& missing_labels() const noexcept { return missing_labels_; }
  // The entries: bad ones, then warnings, then notes, each in the order of arrival. `root`: the
  // path of the entry that counts the remaining notes.
  [[nodiscard]] std::vector<Skipped> take(const std::string& root);
  // Appends everything in another log.
  void append(SkipLog&& other);
  // ", the first problem: PATH: REASON" for the first bad entry, for error messages; "" if there is
  // none.
  [[nodiscard]] std::string first_bad() const;

 private:
  std::vector<Skipped> bad_;
  std::vector<Skipped> warnings_;
  std::vector<Skipped> notes_;
  std::map<std::string, std::uint64_t> more_;  // by extension
  MissingLabels missing_labels_;
};

// What a builder produces.
struct IndexDraft {
  std::string root;  // absolute; relative paths of the table begin here
  RecordTable table;
  IndexCounts counts;
  SkipLog skipped;
  DataState state;  // for formats whose index holds names and annotations
};

// The content of dataset.path. Everything is examined only once, whether to detect the format or to
// build the index.
class PathContents {
 public:
  // The kind of dataset in a folder tree.
  enum class Tree : std::uint8_t { neither, voc, classes };

  // Throws ConfigError naming dataset.path if that is neither a folder nor a file nor a pattern of files.
  explicit PathContents(const BuildContext& context);

  [[nodiscard]] const BuildContext& context() const noexcept { return context_; }
  [[nodiscard]] const DatasetOptions& options() const noexcept { return context_.options; }
  // The path, absolute.
  [[nodiscard]] const std::string& root() const noexcept { return root_; }
  [[nodiscard]] bool is_folder() const noexcept { return is_folder_; }
  // Whether the path stands for several files, as a shell would write them: "train-{000..146}.tar".
  [[nodiscard]] bool is_pattern() const noexcept { return is_pattern_; }
  // The file, or those that the pattern matches, absolute; at least one. REQUIRES: !is_folder().
  [[nodiscard]] const std::vector<std::string>& files() const noexcept { return files_; }
  // The part named by a path such as "data.yaml:val": "val"; else "".
  [[nodiscard]] const std::string& part() const noexcept { return part_; }
  // Bytes of the (first) file; for a URL known once its head() has been read. REQUIRES: !is_folder().
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  // The first bytes of the (first) file and, if it is compressed, of its decompressed content, which is "" if damaged.
  // Throws ConfigError if it cannot be read. REQUIRES: !is_folder().
  [[nodiscard]] std::span<const std::byte> head();
  [[nodiscard]] std::span<const std::byte> contents_head();
  // The entries of the folder itself, and of the whole tree. REQUIRES: is_folder().
  [[nodiscard]] const Scan& listing();
  [[nodiscard]] Scan& tree();
  // The tree if something has asked for it; else null.
  [[nodiscard]] const Scan* scanned_tree() const noexcept { return tree_ ? &*tree_ : nullptr; }
  // Which annotation belongs to which image of the tree. REQUIRES: is_folder().
  [[nodiscard]] const Pairing& pairing();
  // VOC if an XML file in the tree is VOC's and clearly belongs to certain images, or if there are
  // images but none lies in a folder; otherwise class folders, or neither if there are no images.
  // With clips, class folders or neither. Throws ConfigError, which shows both interpretations, if
  // both VOC and class folders are possible. REQUIRES: is_folder().
  [[nodiscard]] Tree kind_of_tree();

 private:
  void take_url();
  // Finds the files that match the path as a pattern; `status` becomes that of the first.
  void take_pattern(struct stat& status);

  const BuildContext& context_;
  std::string root_;
  std::string part_;
  bool is_folder_ = false;
  bool is_pattern_ = false;
  std::vector<std::string> files_;
  std::uint64_t size_ = 0;
  std::optional<std::vector<std::byte>> head_;
  std::optional<std::vector<std::byte>> contents_head_;
  std::optional<Scan> listing_;
  std::optional<Scan> tree_;
  std::optional<Pairing> pairing_;
  std::optional<Tree> kind_;
};

// Annotation files with the images they belong to.
struct AnnotatedFiles {
  std::string root;                               // prefix of the annotations' paths
  std::span<const std::string_view> annotations;  // sorted
  std::string image_root;                         // prefix of the images' paths
  std::span<const std::string_view> images;       // by their names in the table
  std::vector<std::size_t> annotation_of;         // by image; AnnotationLookup::kNone if it has none
  std::vector<bool> wanted;                       // by annotation: to be parsed
};

// Parses the wanted annotations in parallel and adds the samples that dataset.samples asks for, one per image or one
// per usable object, in the order of images and, within them, of objects. Sets classes, counts and fields; logs objects
// and annotations that cannot be used.
void add_annotated_files(const BuildContext& context, const AnnotatedFiles& files, IndexDraft& draft);

struct Format;
// Warns of words for missing values among the classes that a dataset of this format was found to have.
void note_missing_values(const DatasetOptions& options, const Format& format, IndexDraft& draft,
                         const std::string& root);

}  // namespace forebay::data
