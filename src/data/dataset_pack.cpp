// The output of `forebay pack`: a folder of shards. Their indexes have everything except the bytes
// of images and of the fields beside them, so a dataset of any size opens with a few reads per
// shard.
//
// First the headers of all shards are read, in parallel; they must be those of one complete set.
// Then several threads read the indexes, a few shards at a time, and the calling thread merges them
// in order. Each header is compared again when its index is read, in case the set is replaced
// meanwhile.
//
// The options may select fields, classes and difficult objects from what was packed. They cannot
// change how something was packed; trying to is an error that says so.

#include <algorithm>
#include <cstring>
#include <optional>

#include <forebay/error.hpp>

#include "base/retry.hpp"
#include "base/text.hpp"
#include "build.hpp"
#include "fields.hpp"
#include "formats.hpp"
#include "object_samples.hpp"
#include "pack_shard.hpp"
#include "parallel.hpp"
#include "store/url.hpp"

namespace forebay::data {
namespace {

bool is_pack_name(std::string_view name) { return name.ends_with(kPackEnding); }

struct OpenedShard {
  PackIndex index;
  RecordTable::Stamp stamp;
};

std::string folder_of_pack(PathContents& contents) {
  return contents.is_folder() ? contents.root() : std::string(parent_folder(contents.files().front()));
}

// Calls use(shard) with an opened shard, and retries for a while if the store fails. Errors name
// the shard.
template <typename Use>
auto with_shard(PathContents& contents, const std::string& name, Use&& use) {
  const std::string path = join_path(folder_of_pack(contents), name);
  return naming_path(contents.options(), name,
                     [&] { return read_patiently(path, [&] { return use(open_pack_shard(path)); }); });
}

// `expected`: the header that was checked with those of the other shards. memcmp is safe on
// headers, because they have no padding and were read whole.
OpenedShard open_shard(PathContents& contents, const std::string& name, const PackMember& expected) {
  return with_shard(contents, name, [&](const PackShard& shard) -> OpenedShard {
    if (std::memcmp(&shard.header, &expected.header, sizeof expected.header) != 0 ||
        shard.tables_key != expected.tables_key) {
      throw SampleError("it has been replaced while the set was opened; open it again");
    }
    RecordTable::Stamp stamp = RecordTable::stamp_of(shard.file);
    stamp.spread = 0;  // each sample reveals its own damage, and the others stay usable
    return {.index = read_pack_index(shard), .stamp = stamp};
  });
}

// The codec's tables. They are the same in all shards, as problem_of_pack() has checked.
std::vector<std::byte> tables_in(PathContents& contents, const std::string& name) {
  return with_shard(contents, name, [](const PackShard& shard) { return read_pack_tables(shard); });
}

std::vector<PackMember> read_members(PathContents& contents, const std::vector<std::string>& names) {
  std::vector<PackMember> members(names.size());
  run_parallel({names.size(), contents.context().threads}, [&](std::size_t i) {
    members[i] = with_shard(contents, names[i], [](const PackShard& shard) { return shard.member(); });
  });
  if (const std::string problem = problem_of_pack(members, names); !problem.empty()) {
    throw path_error(contents.options(), problem);
  }
  return members;
}

// Calls use(shard, number) for each shard, in order. Only a few are in memory at a time, because an
// index takes many times as much there as in its file. They are twice as many as threads, so that
// no thread waits long for the slowest of a group.
template <typename Use>
void open_shards(PathContents& contents, const std::vector<std::string>& names, Use&& use) {
  const std::vector<PackMember> members = read_members(contents, names);
  const std::size_t at_once = 2 * std::size_t{std::max(contents.context().threads, 1U)};
  for (std::size_t begin = 0; begin < names.size(); begin += at_once) {
    std::vector<OpenedShard> shards(std::min(at_once, names.size() - begin));
    const auto report = [&](std::uint64_t done, std::uint64_t) {
      if (contents.context().progress) contents.context().progress(begin + done, names.size());
    };
    run_parallel({shards.size(), contents.context().threads, report},
                 [&](std::size_t i) { shards[i] = open_shard(contents, names[begin + i], members[begin + i]); });
    for (std::size_t i = 0; i < shards.size(); ++i) use(shards[i], begin + i);
  }
}

ConfigError refused_field(const FieldOptions& options, const std::string& key, const std::string& why) {
  const std::string name = "fields." + options.name + (key.empty() ? "" : "." + key);
  return ConfigError{name + ": " + why + ", or pack the dataset again with this section"};
}

// Puts the samples of all shards into one table.
class PackMerger {
 public:
  // `labels_` translates the set's class numbers into those of dataset.classes.
  PackMerger(PathContents& contents, const PackIndex& set) : options_(contents.options()), set_(set) {
    if (options_.samples == SampleUnit::images && set.samples != SampleUnit::images) {
      throw ConfigError(R"(dataset.samples = "images": the dataset was packed with )" +
                        std::string(set.has_regions ? R"(samples = "objects"; pack it again, or leave the key out)"
                                                    : "samples that are what they are; leave the key out"));
    }
    const ClassList list(options_.classes, {});
    classes_ = options_.classes.empty() ? set.classes : list.names();
    for (std::size_t i = 0; i < set.classes.size(); ++i)
      labels_.push_back(options_.classes.empty() ? static_cast<std::int32_t>(i) : list.number_of(set.classes[i]));
    if (const Format* const format = find_format(set.format)) other_classes_ = format->other_classes;
    draft_.root = folder_of_pack(contents);
    if (!options_.difficult && set.has_difficult && !set.has_regions && set.format == "voc") {
      draft_.skipped.add_warning(draft_.root,
                                 "dataset.difficult = false has no effect on packed images: they have the "
                                 "boxes with which they were packed");
    }
    draft_.table.classes = classes_;
    draft_.table.kinds.clear();
    draft_.counts = set.counts;
    for (const FieldOptions& each : options_.fields) choose(each);
    for (const auto& stored : set.fields) draft_.table.field_names.push_back(stored.field.name);
  }

  // A record's `after` includes the fields that follow the image, because the sample's checksum
  // covers them as well. The shard is freed at the end, before the next one is merged.
  void add(OpenedShard& shard, const std::string& name) {
    RecordTable& table = draft_.table;
    const PackIndex& index = shard.index;
    require_same_fields(index, name);
    const std::uint32_t source = table.add_source(name, shard.stamp);
    const std::vector<std::uint16_t> kinds = kinds_of(index);
    const auto path_of = [&](std::string_view key) {
      return join_path(draft_.root, name) + "[" + std::string(key) + "]";
    };
    for (const Skipped& each : index.left_out) draft_.skipped.add_bad(path_of(each.path), each.reason);
    for (std::size_t i = 0; i < index.offset.size(); ++i) {
      const std::int32_t label = index.label[i] < 0 ? -1 : labels_[static_cast<std::size_t>(index.label[i])];
      if (index.label[i] >= 0 && label < 0) {
        const std::string& was = set_.classes[static_cast<std::size_t>(index.label[i])];
        if (other_classes_ != Format::OtherClasses::bad) {
          ++left_out_[was];
        } else {
          draft_.skipped.add_bad(path_of(index.keys[i]), "class \"" + printable(was) + "\" is not in dataset.classes");
        }
        continue;
      }
      if (index.has_regions && !options_.difficult && (index.flags[i] & RecordTable::kDifficult) != 0) {
        draft_.skipped.add_note(path_of(index.keys[i]), "difficult");
        continue;
      }
      table.add(source, label);
      table.kind.push_back(kinds[index.kind[i]]);
      table.keys.add(index.keys[i]);
      table.record.push_back({.offset = index.offset[i],
                              .length = index.length[i],
                              .number = static_cast<std::uint32_t>(i),
                              .before = 0,
                              .after = static_cast<std::uint32_t>(index.field_bytes(i))});
      if (index.has_regions) add_region(index, i);
      add_fields(index, i, source);
    }
    shard = {};
  }

  IndexDraft take() {
    if (!left_out_.empty()) {
      std::uint64_t samples = 0;
      for (const auto& [name, count] : left_out_) samples += count;
      const auto add = other_classes_ == Format::OtherClasses::told ? &SkipLog::add_warning : &SkipLog::add_note;
      (draft_.skipped.*add)(draft_.root, counted(samples, "sample") + " of " + std::to_string(left_out_.size()) +
                                             " classes left out that dataset.classes does not name, the first: \"" +
                                             printable(left_out_.begin()->first) + "\"");
    }
    return std::move(draft_);
  }

 private:
  // Finds the stored field that a section requests: the one that `from` names, else the one with
  // the section's name, so that the sections with which a dataset was packed also read the packed
  // one.
  void choose(const FieldOptions& wanted) {
    if (is_image_or_label(wanted.name)) return;
    const auto is_called = [](const std::string& name) {
      return [&name](const PackIndex::InField& stored) { return stored.field.name == name; };
    };
    auto found = std::ranges::find_if(set_.fields, is_called(wanted.from));
    if (found == set_.fields.end()) found = std::ranges::find_if(set_.fields, is_called(wanted.name));
    if (found == set_.fields.end()) return;  // complete_fields() reports which exist
    FieldOptions options = wanted;
    if (options.classes.empty()) options.classes = found->field.classes;
    if (options.colours.empty() && wanted.kind == found->field.kind) options.colours = found->field.colours;
    Field field = field_of(options);
    check_chosen(wanted, field, found->field);
    from_.push_back(static_cast<std::size_t>(found - set_.fields.begin()));
    draft_.table.fields.push_back({.field = std::move(field)});
  }

  // Fields whose elements are in the index were converted when they were packed, so the section
  // must ask for the same type and shape. Fields that are files are used like any others.
  void check_chosen(const FieldOptions& wanted, const Field& field, const Field& stored) const {
    if (field.kind != stored.kind) {
      throw refused_field(wanted, "kind", "it was packed as \"" + std::string(to_string(stored.kind)) + "\"; say that");
    }
    if (is_of_bytes(field.kind)) return;
    if (field.dtype != stored.dtype && field.kind != FieldKind::boxes) {
      throw refused_field(wanted, "dtype", "it was packed as " + std::string(to_string(stored.dtype)) + "; say that");
    }
    if (!is_ragged(field.kind) && !(field.shape == stored.shape)) {
      throw refused_field(wanted, "shape", "it was packed with another shape; give that");
    }
    if (field.classes != stored.classes)
      throw refused_field(wanted, "classes", "it was packed with others; leave the key out");
    const bool has_those_of_set = !stored.classes.empty() && stored.classes == set_.classes;
    if (has_those_of_set && classes_ != set_.classes) {
      throw refused_field(wanted, "", "it has the classes of the packed set; leave dataset.classes out");
    }
  }

  void require_same_fields(const PackIndex& index, const std::string& name) const {
    const auto is_same = [](const PackIndex::InField& a, const PackIndex::InField& b) {
      return a.field.name == b.field.name && a.field.kind == b.field.kind && a.field.dtype == b.field.dtype &&
             a.field.shape == b.field.shape && a.field.colours == b.field.colours;
    };
    const bool are_same = index.classes == set_.classes && index.has_regions == set_.has_regions &&
                          std::ranges::equal(index.fields, set_.fields, is_same);
    if (!are_same) throw path_error(options_, name + ": its classes or fields are not those of the other shards");
  }

  // For each of the shard's kinds of images, its number in the table.
  std::vector<std::uint16_t> kinds_of(const PackIndex& index) {
    auto& kinds = draft_.table.kinds;
    std::vector<std::uint16_t> numbers;
    for (const RecordTable::Kind& kind : index.kinds) {
      const auto number = number_of_kind(kind, kinds, kind_numbers_);
      if (!number) {
        throw path_error(options_, "raw pixels have more than " + std::to_string(RecordTable::kMostKinds) + " shapes");
      }
      numbers.push_back(*number);
    }
    return numbers;
  }

  void add_region(const PackIndex& index, std::size_t i) {
    const auto side = [&](std::size_t number) { return index.sides[4 * i + number]; };
    draft_.table.region.push_back({.box = {side(0), side(1), side(2), side(3)}, .object = 0, .flags = index.flags[i]});
  }

  void add_fields(const PackIndex& index, std::size_t i, std::uint32_t source) {
    std::uint64_t offset = index.offset[i] + index.length[i];
    std::vector<std::uint64_t> offsets;
    for (const PackIndex::InField& stored : index.fields) {
      offsets.push_back(offset);
      offset += stored.lengths.empty() ? 0 : stored.length(i);
    }
    for (std::size_t f = 0; f < from_.size(); ++f) {
      RecordTable::FieldColumn& column = draft_.table.fields[f];
      const PackIndex::InField& stored = index.fields[from_[f]];
      if (!stored.ends.empty()) {
        const std::uint64_t begin = i == 0 ? 0 : stored.ends[i - 1];
        column.add_values(std::span(stored.values).subspan(begin, stored.ends[i] - begin));
        continue;
      }
      const bool is_absent = stored.lengths[i] == PackIndex::InField::kAbsent;
      column.source.push_back(is_absent ? RecordTable::FieldColumn::kMissing : source);
      column.record.push_back(
          {.offset = offsets[from_[f]], .length = stored.length(i), .number = static_cast<std::uint32_t>(i)});
    }
  }

  const DatasetOptions& options_;
  PackIndex set_;
  IndexDraft draft_;
  std::vector<std::string> classes_;
  std::vector<std::int32_t> labels_;  // by class of the set: its number here, or -1
  std::vector<std::size_t> from_;     // by field of the table: its number in the set
  std::map<RecordTable::Kind, std::uint16_t> kind_numbers_;
  Format::OtherClasses other_classes_ = Format::OtherClasses::bad;  // in the original's format
  std::map<std::string, std::uint64_t, std::less<>> left_out_;      // samples of such classes
};

// What a shard's index says about the whole set, without samples.
PackIndex set_of(const PackIndex& index) {
  PackIndex set;
  set.format = index.format;
  set.samples = index.samples;
  set.has_regions = index.has_regions;
  set.has_difficult = index.has_difficult;
  set.classes = index.classes;
  set.counts = index.counts;
  for (const auto& stored : index.fields) set.fields.emplace_back().field = stored.field;
  return set;
}

bool is_pack(PathContents& contents) {
  if (contents.is_folder()) return std::ranges::any_of(contents.listing().others, is_pack_name);
  const auto head = contents.head();
  return head.size() >= kPackMagic.size() && std::memcmp(head.data(), kPackMagic.data(), kPackMagic.size()) == 0;
}

// The index holds the codec's tables once; decoders get them from Dataset::tables().
IndexDraft build_pack(PathContents& contents) {
  std::vector<std::string> names;
  if (contents.is_folder()) {
    for (const auto name : contents.listing().others) {
      if (is_pack_name(name)) names.emplace_back(name);
    }
  } else if (contents.is_pattern() || store::is_url(contents.root())) {
    for (const std::string& file : contents.files()) names.emplace_back(base_name(file));
  } else {
    throw path_error(contents.options(), "is one shard of a packed dataset; name the folder that it is in");
  }
  sort_pack_names(names);
  if (names.empty()) throw path_error(contents.options(), "has no shard of a packed dataset (*.fbpack)");
  std::optional<PackMerger> merger;
  open_shards(contents, names, [&](OpenedShard& shard, std::size_t number) {
    if (!merger) merger.emplace(contents, set_of(shard.index));
    merger->add(shard, names[number]);
  });
  IndexDraft draft = merger->take();
  draft.table.held = tables_in(contents, names.front());
  if (draft.table.kinds.empty()) draft.table.kinds = {{}};
  if (!draft.table.source.empty()) return draft;
  throw path_error(contents.options(), "no sample in the packed dataset" + draft.skipped.first_bad());
}

}  // namespace

const Format formats::pack{.needs = "a folder that forebay pack made",
                           .path = Format::Path::either,
                           .detect = is_pack,
                           .build = build_pack,
                           .takes_patterns = true,
                           .chooses_image = true,  // the section with which it was packed may stay
                           .has_objects = true,
                           .keeps_names = true,
                           .holds_tables = true,
                           .reads_urls = true};

}  // namespace forebay::data
