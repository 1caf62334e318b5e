#include "dataset_annotations.hpp"

#include <algorithm>
#include <forebay/error.hpp>

#include "annotation.hpp"
#include "base/file_io.hpp"
#include "index_parallel.hpp"

namespace forebay {
namespace {

constexpr std::string_view kFolder = "Annotations";

std::string_view without_extension(std::string_view path) {
  return path.substr(0, path.size() - base_name(path).size() + stem_of(path).size());
}

// A path without its extension, folders named like Annotations spelt alike.
std::string place_of(std::string_view path) {
  std::string place;
  std::string_view rest = without_extension(path);
  for (auto slash = rest.find('/'); slash != std::string_view::npos; slash = rest.find('/')) {
    const auto folder = rest.substr(0, slash);
    place.append(is_annotations_folder(folder) ? kFolder : folder).append("/");
    rest.remove_prefix(slash + 1);
  }
  return place.append(rest);
}

// What came of a run of annotation files, parsed by one thread. Kept compact: a set has millions of objects.
struct ParsedChunk {
  struct Object {
    std::uint32_t annotation = 0;  // within the chunk
    std::int32_t name = 0;         // into names; later the label, or kUnknownClass or kDropped
    RecordTable::Region region;
  };
  struct Problem {
    std::uint32_t annotation = 0;
    std::uint32_t object = 0;  // 0: the whole file
    std::string reason;
  };
  std::vector<Object> objects;
  std::vector<Problem> problems;
  std::vector<std::string> names;
  IndexCounts counts;
};

constexpr std::size_t kChunk = 64;
constexpr std::int32_t kUnknownClass = -1;
constexpr std::int32_t kDropped = -2;

std::int32_t intern(std::vector<std::string>& names, const std::string& name) {
  // Few names per chunk: a search is faster than a map.
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<std::int32_t>(found - names.begin());
  names.push_back(name);
  return static_cast<std::int32_t>(names.size() - 1);
}

void keep(const Annotation& annotation, std::uint32_t index, ParsedChunk& chunk) {
  ++chunk.counts.annotations;
  chunk.counts.objects += annotation.objects.size();
  std::uint32_t number = 0;
  for (const auto& object : annotation.objects) {
    ++number;
    if (!object.problem.empty()) {
      chunk.problems.push_back({index, number, object.problem});
      continue;
    }
    const std::uint32_t flags =
        (object.difficult ? RecordTable::kDifficult : 0U) | (object.truncated ? RecordTable::kTruncated : 0U);
    chunk.objects.push_back({index, intern(chunk.names, object.name), {object.box, number, flags}});
  }
}

void parse_chunk(const AnnotatedFiles& files, std::size_t begin, ParsedChunk& chunk) {
  const std::size_t end = std::min(begin + kChunk, files.annotations.size());
  for (std::size_t i = begin; i < end; ++i) {
    if (!files.wanted[i]) continue;
    const auto index = static_cast<std::uint32_t>(i - begin);
    try {
      const auto xml = load_file(join_path(files.root, files.annotations[i]), kLargestAnnotationFile);
      keep(parse_annotation(xml), index, chunk);
    } catch (const SampleError& error) {
      chunk.problems.push_back({index, 0, error.what()});
    }
  }
}

std::vector<ParsedChunk> parse_all(const BuildContext& context, const AnnotatedFiles& files) {
  std::vector<ParsedChunk> chunks((files.annotations.size() + kChunk - 1) / kChunk);
  ParallelTask task;
  task.count = chunks.size();
  task.body = [&](std::size_t i) { parse_chunk(files, i * kChunk, chunks[i]); };
  task.scale = kChunk;
  task.total = files.annotations.size();
  run_parallel(task, context.threads, context.progress);
  return chunks;
}

ClassList list_classes(const BuildContext& context, const std::vector<ParsedChunk>& chunks) {
  std::vector<std::string> found;
  for (const auto& chunk : chunks) {
    found.insert(found.end(), chunk.names.begin(), chunk.names.end());
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
  }
  return {context.options.classes, std::move(found)};
}

// Turns names into labels, drops what the options leave out, and logs all that is not used.
class Selection {
 public:
  Selection(const BuildContext& context, const AnnotatedFiles& files, const ClassList& classes, SkipLog& skipped)
      : context_(context), files_(files), classes_(classes), skipped_(skipped) {}

  void apply(std::size_t begin, ParsedChunk& chunk) {
    auto problem = chunk.problems.begin();
    const auto log_problems_before = [&](std::uint64_t place) {
      for (; problem != chunk.problems.end() && place_key(problem->annotation, problem->object) < place; ++problem) {
        skipped_.add_bad(entry(begin + problem->annotation, problem->object), problem->reason);
      }
    };
    for (auto& object : chunk.objects) {
      log_problems_before(place_key(object.annotation, object.region.object));
      label(begin, chunk, object);
    }
    log_problems_before(UINT64_MAX);
  }

 private:
  static std::uint64_t place_key(std::uint32_t annotation, std::uint32_t object) {
    return (std::uint64_t{annotation} << 32U) | object;
  }

  void label(std::size_t begin, const ParsedChunk& chunk, ParsedChunk::Object& object) {
    const std::string& name = chunk.names[static_cast<std::size_t>(object.name)];
    object.name = classes_.number_of(name);
    if (object.name == kUnknownClass) {
      skipped_.add_bad(entry(begin + object.annotation, object.region.object),
                       "class \"" + name + "\" is not in dataset.classes");
    } else if (!context_.options.difficult && (object.region.flags & RecordTable::kDifficult) != 0) {
      object.name = kDropped;
      skipped_.add_note(entry(begin + object.annotation, object.region.object),
                        "difficult, and dataset.difficult = false");
    }
  }

  [[nodiscard]] std::string entry(std::size_t annotation, std::uint32_t object) const {
    std::string path = join_path(files_.root, files_.annotations[annotation]);
    return object == 0 ? path : path + "#object " + std::to_string(object);
  }

  const BuildContext& context_;
  const AnnotatedFiles& files_;
  const ClassList& classes_;
  SkipLog& skipped_;
};

// The objects of one annotation; they follow each other in their chunk.
std::span<const ParsedChunk::Object> objects_of(const std::vector<ParsedChunk>& chunks, std::size_t annotation) {
  const auto& objects = chunks[annotation / kChunk].objects;
  const auto by_annotation = [](const ParsedChunk::Object& a, const ParsedChunk::Object& b) {
    return a.annotation < b.annotation;
  };
  ParsedChunk::Object wanted;
  wanted.annotation = static_cast<std::uint32_t>(annotation % kChunk);
  const auto [first, last] = std::equal_range(objects.begin(), objects.end(), wanted, by_annotation);
  return {first, last};
}

bool has_problem(const std::vector<ParsedChunk>& chunks, std::size_t annotation) {
  const auto& problems = chunks[annotation / kChunk].problems;
  return std::any_of(problems.begin(), problems.end(),
                     [&](const auto& problem) { return problem.annotation == annotation % kChunk; });
}

void add_samples(const std::vector<ParsedChunk>& chunks, const AnnotatedFiles& files, RecordTable& table,
                 SkipLog& skipped) {
  for (std::size_t i = 0; i < files.images.size(); ++i) {
    const std::size_t annotation = files.annotation_of[i];
    if (annotation == AnnotationLookup::kNone) {
      skipped.add_note(join_path(files.image_root, files.images[i]), "no annotation file");
      continue;
    }
    const auto objects = objects_of(chunks, annotation);
    if (objects.empty() && !has_problem(chunks, annotation)) {
      skipped.add_note(join_path(files.image_root, files.images[i]), "its annotation has no <object>");
    }
    if (std::none_of(objects.begin(), objects.end(), [](const auto& object) { return object.name >= 0; })) continue;
    const std::uint32_t file = table.add_source(files.images[i]);
    for (const auto& object : objects) {
      if (object.name < 0) continue;
      table.add(file, object.name);
      table.region.push_back(object.region);
    }
  }
}

}  // namespace

std::size_t AnnotationLookup::Place::operator()(std::string_view place) const noexcept {
  return std::hash<std::string_view>{}(place);
}

std::size_t AnnotationLookup::Place::operator()(std::size_t annotation) const {
  return (*this)(std::string_view(place_of(annotations[annotation])));
}

bool AnnotationLookup::Place::operator()(std::size_t a, std::size_t b) const {
  return place_of(annotations[a]) == place_of(annotations[b]);
}

bool AnnotationLookup::Place::operator()(std::string_view place, std::size_t annotation) const {
  return place_of(annotations[annotation]) == place;
}

bool AnnotationLookup::Place::operator()(std::size_t annotation, std::string_view place) const {
  return (*this)(place, annotation);
}

AnnotationLookup::AnnotationLookup(std::span<const std::string_view> annotations)
    : places_(0, Place{annotations}, Place{annotations}) {
  places_.reserve(annotations.size());
  for (std::size_t i = 0; i < annotations.size(); ++i) {
    has_folders_ = has_folders_ || ("/" + place_of(annotations[i])).find("/Annotations/") != std::string::npos;
    places_.insert(i);
  }
}

std::size_t AnnotationLookup::at(std::string_view place) const {
  const auto found = places_.find(place);
  return found == places_.end() ? kNone : *found;
}

std::size_t AnnotationLookup::representative(std::string_view annotation) const { return at(place_of(annotation)); }

std::size_t AnnotationLookup::find(std::string_view image) const {
  const std::string place = place_of(image);
  if (const auto found = at(place); found != kNone || !has_folders_) return found;
  // `above` ends with '/' or is empty; `below` is what follows it.
  std::string_view above = std::string_view(place).substr(0, place.rfind('/') + 1);
  for (;;) {
    const std::string folder = std::string(above).append(kFolder).append("/");
    if (const auto found = at(folder + place.substr(above.size())); found != kNone) return found;
    if (above.empty()) return kNone;
    const std::size_t below = above.size();
    above = above.substr(0, above.substr(0, below - 1).rfind('/') + 1);
    const std::string sibling = std::string(above).append(kFolder).append("/");
    if (const auto found = at(sibling + place.substr(below)); found != kNone) return found;
  }
}

void add_annotated_files(const BuildContext& context, const AnnotatedFiles& files, IndexDraft& draft) {
  std::vector<ParsedChunk> chunks = parse_all(context, files);
  const ClassList classes = list_classes(context, chunks);
  Selection selection(context, files, classes, draft.skipped);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    selection.apply(i * kChunk, chunks[i]);
    draft.counts.annotations += chunks[i].counts.annotations;
    draft.counts.objects += chunks[i].counts.objects;
  }
  draft.counts.images = files.images.size();
  draft.table.classes = classes.names();
  add_samples(chunks, files, draft.table, draft.skipped);
}

}  // namespace forebay
