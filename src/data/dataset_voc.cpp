// Pascal VOC: an XML file per image, whose objects have a name and a box. ILSVRC and many others
// use it, too.
//
// First the trees are listed, and annotations are paired with images by name (pairing.cpp). The
// rest is add_annotated_files, which lists of files use as well. It parses all annotations in
// parallel, in chunks with compact results. Then, on one thread and in the order of annotations,
// names become class numbers, because only now all classes are known, and objects are left out as
// the options say. Last, samples are added in the order of images.
//
// Each annotation left out is reported with its reason, because a silently missing sample would go
// unnoticed in training.

#include <algorithm>
#include <forebay/error.hpp>

#include "annotation.hpp"
#include "base/text.hpp"
#include "build.hpp"
#include "folder_roles.hpp"
#include "formats.hpp"
#include "object_samples.hpp"
#include "pairing.hpp"
#include "parallel.hpp"

namespace forebay::data {
namespace {

// What one thread parsed from a chunk of annotation files. Compact, because a dataset has millions
// of objects. `objects` are sorted by annotation, because they are added in that order;
// objects_of() searches them.
struct ParsedChunk {
  struct Object {
    std::uint32_t annotation = 0;  // within the chunk
    std::int32_t name = 0;         // index into names, later the label; or kUnused
    RecordTable::Region region;    // object 0: the whole annotation cannot be used
    LabelledBox box;               // without its label
  };
  std::vector<Object> objects;                // in order; those with a problem are kUnused
  std::vector<std::string> problems;          // of the objects that are kUnused, in order
  std::vector<DataState::Annotation> states;  // by annotation within the chunk
  std::vector<std::string> names;
  std::vector<ImageExtent> sizes;  // by annotation within the chunk
  IndexCounts counts;
};

// Annotations that a thread takes at a time. Chosen so that threads rarely contend for their shared
// counter.
constexpr std::size_t kChunk = 64;
constexpr std::int32_t kUnused = -1;

std::int32_t intern(std::vector<std::string>& names, const std::string& name) {
  // Few names per chunk: a search is faster than a map.
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<std::int32_t>(found - names.begin());
  names.push_back(name);
  return static_cast<std::int32_t>(names.size() - 1);
}

// Objects are numbered from 1 in the file's order, unusable ones included: names of samples are
// "x.jpg#object 3".
void keep(const Annotation& annotation, std::uint32_t index, ParsedChunk& chunk) {
  ++chunk.counts.annotations;
  chunk.sizes[index] = annotation.size;
  chunk.counts.objects += annotation.objects.size();
  std::uint32_t number = 0;
  for (const auto& object : annotation.objects) {
    const std::uint32_t flags =
        (object.difficult ? RecordTable::kDifficult : 0U) | (object.truncated ? RecordTable::kTruncated : 0U);
    const bool is_usable = object.problem.empty();
    chunk.objects.push_back({index,
                             is_usable ? intern(chunk.names, object.name) : kUnused,
                             {object.box, ++number, flags},
                             labelled_box(object.sides, -1)});
    if (!is_usable) chunk.problems.push_back(object.problem);
  }
}

// A file that cannot be parsed gets one object with number 0, which stands for the whole
// annotation.
void parse_chunk(const AnnotatedFiles& files, std::size_t begin, std::size_t end, ParsedChunk& chunk) {
  chunk.sizes.resize(end - begin);
  chunk.states.resize(end - begin);
  for (std::size_t i = begin; i < end; ++i) {
    if (!files.wanted[i]) continue;
    const auto index = static_cast<std::uint32_t>(i - begin);
    const std::string path = join_path(files.root, files.annotations[i]);
    try {
      keep(parse_annotation(load_annotation(path, chunk.states[index])), index, chunk);
    } catch (const SampleError& error) {
      if (error.is_transient()) end_scan(path, error);
      chunk.objects.push_back({index, kUnused, {}, {}});
      chunk.problems.emplace_back(error.what());
    }
  }
}

std::vector<ParsedChunk> parse_all(const BuildContext& context, const AnnotatedFiles& files) {
  std::vector<ParsedChunk> chunks((files.annotations.size() + kChunk - 1) / kChunk);
  run_in_ranges({files.annotations.size(), context.threads, context.progress, kChunk},
                [&](std::size_t begin, std::size_t end) { parse_chunk(files, begin, end, chunks[begin / kChunk]); });
  return chunks;
}

// Given classes are not extended: objects of other classes are reported as bad.
ClassList list_classes(const BuildContext& context, const std::vector<ParsedChunk>& chunks) {
  std::vector<std::string> found;
  for (const auto& chunk : chunks) {
    found.insert(found.end(), chunk.names.begin(), chunk.names.end());
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
  }
  return {context.options.classes, std::move(found)};
}

// Turns the names in a chunk that begins with the annotation `begin` into labels, drops what the
// options exclude, and logs everything unusable. Problems are stored apart, in the order of the
// objects that have one, because most have none.
void label_objects(const BuildContext& context, const AnnotatedFiles& files, const ClassList& classes,
                   std::size_t begin, ParsedChunk& chunk, SkipLog& skipped) {
  auto problem = chunk.problems.begin();
  for (auto& [annotation, name, region, box] : chunk.objects) {
    const auto where = [&files, at = begin + annotation, object = region.object] {
      const std::string path = join_path(files.root, files.annotations[at]);
      return object == 0 ? path : path + "#object " + std::to_string(object);
    };
    if (name == kUnused) {
      skipped.add_bad(where(), std::move(*problem++));
      continue;
    }
    const std::string& text = chunk.names[static_cast<std::size_t>(name)];
    name = classes.number_of(text);
    if (name < 0) {
      skipped.add_bad(where(), "class \"" + text + "\" is not in dataset.classes");
    } else if (!context.options.difficult && (region.flags & RecordTable::kDifficult) != 0) {
      name = kUnused;
      skipped.add_note(where(), "difficult, and dataset.difficult = false");
    }
  }
}

// The objects of one annotation, which are adjacent in their chunk.
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

// Replaces the contents of `found` by the usable objects.
void take_usable(std::span<const ParsedChunk::Object> objects, std::vector<FoundObject>& found) {
  found.clear();
  for (const auto& object : objects) {
    if (object.name < 0) continue;
    found.push_back({object.region, object.box});
    found.back().box.label = object.name;
  }
}

// An image whose annotation could not be read is not served, because what it shows is unknown. An
// image without an annotation is left out with a note; one without objects is a sample only if
// samples are images.
void add_samples(const std::vector<ParsedChunk>& chunks, const AnnotatedFiles& files, ObjectSamples samples,
                 IndexDraft& draft) {
  std::vector<FoundObject> found;
  for (std::size_t i = 0; i < files.images.size(); ++i) {
    const std::size_t annotation = files.annotation_of[i];
    const auto note = [&](const char* reason) {
      draft.skipped.add_note(join_path(files.image_root, files.images[i]), reason);
    };
    if (annotation == AnnotationLookup::kNone) {
      note("no annotation file");
      continue;
    }
    const auto objects = objects_of(chunks, annotation);
    if (!objects.empty() && objects.front().region.object == 0) continue;
    if (objects.empty() && !samples.are_images()) note("its annotation has no <object>");
    take_usable(objects, found);
    samples.add(files.images[i], found, chunks[annotation / kChunk].sizes[annotation % kChunk], draft.table);
  }
  if (samples.sizes_left_out() > 0) draft.skipped.add_note(files.root, sizes_left_out_note(samples.sizes_left_out()));
  samples.finish(draft.table);
}

// Reports annotations that no image uses, each with the image that is missing. Of several
// annotations with the same name the lookup uses one (the representative); the others are reported
// as such.
void report_orphans(const std::string& root, const Scan& scan, const Pairing& pairing, SkipLog& skipped) {
  std::vector<bool> used(scan.annotations.size());
  const auto use = [&](std::size_t annotation) {
    if (annotation != AnnotationLookup::kNone) used[annotation] = true;
  };
  std::for_each(pairing.annotation_of.begin(), pairing.annotation_of.end(), use);
  for (const auto& doubt : pairing.doubts) {
    use(doubt.annotation);
    skipped.add_bad(join_path(root, scan.annotations[doubt.annotation]), doubt.reason);
  }
  if (std::find(used.begin(), used.end(), false) == used.end()) return;
  const AnnotationLookup lookup(scan.annotations.view());
  // A FIFO or folder in place of the image is reported once, as what it is.
  for (const auto& entry : scan.unusable) {
    if (is_image_name(entry.path)) use(lookup.find(entry.path));
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i]) continue;
    const std::string_view path = scan.annotations[i];
    const std::size_t other = lookup.representative(path);
    if (other != i) {
      skipped.add_bad(join_path(root, path),
                      "another annotation has this name: " + std::string(scan.annotations[other]));
    } else {
      skipped.add_bad(join_path(root, path), "the image is missing: no " + std::string(stem_of(path)) + ".jpg (" +
                                                 std::string(kImageEndings) +
                                                 ") beside it or beside a folder Annotations");
    }
  }
}

void report_others(const std::string& root, const Scan& scan, SkipLog& skipped) {
  skipped.add_all(root, scan.unusable);
  for (const auto& path : scan.others)
    skipped.add_note(join_path(root, path), is_split_list(path)
                                                ? "a list of images: dataset.path may name it"
                                                : "neither an image (" + std::string(kImageEndings) + ") nor .xml");
}

// A scan of the parent folder, as if the path were that: the images of its folder `place.name`, and
// the annotations of the folders beside it. VOC's own layout is JPEGImages beside Annotations, and
// a path often names JPEGImages alone. Annotations are taken from the folders called so or, if
// these have none, from all that hold XML but no images; a folder with images would be another
// dataset. Of the parent itself only the names that affect annotations are recorded, because
// anything else comes and goes there.
Scan scan_beside(const BuildContext& context, const PlaceInParent& place, const Scan& images) {
  Scan scan;
  add_below(scan.images, place.name, images.images);
  add_below(scan.others, place.name, images.others);
  for (auto entry : images.unusable) {
    entry.path = join_path(place.name, entry.path);
    scan.unusable.push_back(std::move(entry));
  }
  const auto remember = [&](std::string_view folder, const std::vector<ListedFolder>& listed) {
    for (const ListedFolder& each : listed) {
      ListedFolder& added = scan.listed.emplace_back(each);
      added.path = each.path.empty() ? std::string(folder) : join_path(folder, each.path);
    }
  };
  remember(place.name, images.listed);
  const Scan beside_it = scan_folder(place.parent, "");
  remember("", beside_it.listed);
  scan.listed.back().data = beside_it.listed.front().annotations;  // other folders come and go there
  for (const auto folder : beside_it.folders) {
    if (!is_annotations_folder(folder)) continue;
    const Scan beside = scan_tree(join_path(place.parent, folder), context.threads, context.progress);
    add_below(scan.annotations, folder, beside.annotations);
    remember(folder, beside.listed);
  }
  const bool is_named = !scan.annotations.empty();
  for (const auto folder : beside_it.folders) {
    if (is_named || folder == place.name) continue;
    Scan beside = scan_folder(place.parent, std::string(folder));
    if (!beside.images.empty() || beside.annotations.empty()) continue;
    scan.annotations.append(std::move(beside.annotations));
    remember("", beside.listed);
  }
  scan.annotations.sort();
  leave_out_masks(scan);
  return scan;
}

// The error of "auto" for images that are in no class folder, with no annotation anywhere.
[[noreturn]] void bare_images(const BuildContext& context, const Scan& scan) {
  const bool is_one = scan.images.size() == 1;
  throw path_error(
      context.options,
      "found " + counted(scan.images.size(), "image") + " (" + std::string(kImageEndings) +
          "), in no class folder and without annotations (.xml), so nothing " + "says what " +
          (is_one ? "it shows" : "they show") +
          ". For classes, move them to CLASS/x.jpg below this path, or list them in a file. For masks and " +
          "other fields that lie elsewhere, set dataset.format = \"folder\" and add a section [fields.NAME] " +
          "for each (docs/data.md)");
}

[[noreturn]] void nothing_usable(const BuildContext& context, const IndexDraft& draft) {
  const IndexCounts& counts = draft.counts;
  throw path_error(context.options,
                   "found " + std::to_string(counts.images) + " images (" + std::string(kImageEndings) + "), " +
                       std::to_string(counts.annotations) + " readable annotations (.xml) and " +
                       std::to_string(counts.objects) + " objects in them, none usable" + draft.skipped.first_bad() +
                       "; the voc format needs x.xml for x.jpg, beside it or in a folder such as Annotations");
}

// If annotations have no extension, files without one affect the index, too.
IndexDraft build_from(const BuildContext& context, const std::string& root, const Scan& scan, const Pairing& pairing) {
  AnnotatedFiles files;
  files.root = root;
  files.annotations = scan.annotations.view();
  files.image_root = root;
  files.images = scan.images.view();
  files.annotation_of = pairing.annotation_of;
  files.wanted.assign(scan.annotations.size(), true);

  IndexDraft draft;
  draft.root = root;
  const bool are_bare = !scan.annotations.empty() && !is_annotation_name(scan.annotations[0]);
  draft.state.add_all("", scan, are_bare ? DataState::Names::data_and_bare : DataState::Names::data);
  report_orphans(root, scan, pairing, draft.skipped);
  report_others(root, scan, draft.skipped);
  add_annotated_files(context, files, draft);
  if (std::string remark = remark_on_splits(context.options, scan); !remark.empty()) {
    draft.skipped.add_warning(context.options.path, std::move(remark));
  }
  if (draft.table.source.empty()) nothing_usable(context, draft);
  return draft;
}

bool is_voc_tree(PathContents& contents) {
  return contents.is_folder() && contents.kind_of_tree() == PathContents::Tree::voc;
}

// pairing() comes first, because it may add annotations without an extension to the tree.
IndexDraft build_voc(PathContents& contents) {
  const Pairing& pairing = contents.pairing();
  const Scan& scan = contents.tree();
  if (scan.annotations.empty()) {
    const PlaceInParent place = place_in_parent(contents.root());
    const Scan wider = scan_beside(contents.context(), place, scan);
    if (!wider.annotations.empty()) {
      return build_from(contents.context(), place.parent, wider, pair_annotations(wider));
    }
    if (contents.context().options.format == "auto") bare_images(contents.context(), scan);
  }
  return build_from(contents.context(), contents.root(), scan, pairing);
}

}  // namespace

// States are added in the order of annotations, so that the index does not depend on threads.
void add_annotated_files(const BuildContext& context, const AnnotatedFiles& files, IndexDraft& draft) {
  std::vector<ParsedChunk> chunks = parse_all(context, files);
  const ClassList classes = list_classes(context, chunks);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    label_objects(context, files, classes, i * kChunk, chunks[i], draft.skipped);
    draft.counts.annotations += chunks[i].counts.annotations;
    draft.counts.objects += chunks[i].counts.objects;
  }
  for (std::size_t i = 0; i < files.annotations.size(); ++i) {
    if (!files.wanted[i]) continue;
    const std::string_view path = files.annotations[i];
    draft.state.add(files.root == draft.root ? std::string(path) : join_path(files.root, path),
                    chunks[i / kChunk].states[i % kChunk]);
  }
  draft.counts.images = files.images.size();
  add_samples(chunks, files, ObjectSamples(context.options, classes.names()), draft);
}

const Format formats::voc{.needs = "a folder of images and XML files",
                          .path = Format::Path::folder,
                          .detect = is_voc_tree,
                          .build = build_voc,
                          .has_objects = true};

}  // namespace forebay::data
