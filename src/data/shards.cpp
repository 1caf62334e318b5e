// Builds an index from containers (tar, TFRecord, RecordIO and the like), each read by its format's
// function into a ShardDraft.
//
// First the files are found. Then several threads read each file from beginning to end, but only
// headers and labels. A compressed file is inflated, and its records go into the index as a whole,
// because nothing can be read from the middle of a gzip file. Last, merge_shards()
// (shard_merger.cpp) decides on one thread what the labels of all files mean together, and appends
// the drafts in the order of files, so that the result does not depend on threads.
//
// A damaged record is left out and reported. Damage that hides where the next record begins ends
// the file, and the records before it are kept. A store that fails is an error of the build.

#include "shards.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "base/crc32c.hpp"
#include "base/retry.hpp"
#include "base/text.hpp"
#include "container_bytes.hpp"
#include "file_nature.hpp"
#include "folder_roles.hpp"
#include "formats.hpp"
#include "object_samples.hpp"
#include "parallel.hpp"
#include "path_pattern.hpp"
#include "store/files.hpp"

namespace forebay::data {
namespace {

// Chosen: enough to see what is wrong. Without a limit, a container of the wrong kind would report
// each of a hundred million records.
constexpr std::uint64_t kBadNamed = 10'000;

// Throws SampleError unless the checksum after the bytes matches: a CRC-32C masked as TFRecord
// specifies (rotated by 15 bits, plus a constant), because the CRC of data that contain a CRC is
// not reliable.
void check_sum(ContainerBytes& bytes, const Extent& checked) {
  const auto expected = bytes.number<std::uint32_t>(checked.end());
  if (masked_crc32c(crc32c(bytes.at(checked))) == expected) return;
  throw at_byte(checked.offset, "the " + std::to_string(checked.length) +
                                    " bytes of the record are damaged: they do not have the CRC-32C that follows "
                                    "them");
}

ConfigError shard_error(PathContents& contents, const std::string& path, std::string_view problem) {
  const bool is_the_path = path == contents.root();
  return path_error(contents.options(), (is_the_path ? "" : path + ": ") + std::string(problem));
}

// Reads the records up to damage that hides the rest. A failing store is an error instead, because
// the file may be undamaged.
void read_contents(PathContents& contents, const std::string& path, ContainerBytes& bytes, const ShardFormat& format,
                   ShardDraft& draft) {
  try {
    format.read(bytes, draft);
  } catch (const SampleError& error) {
    if (error.is_transient()) throw shard_error(contents, path, error.what());
    draft.add_bad_file(std::string(error.what()) + "; what follows cannot be read");
  }
}

// The stamp is taken before the first record is read, so that it does not match later if the file
// changes meanwhile.
ShardDraft read_shard(PathContents& contents, const std::string& path, const ShardFormat& format,
                      const WantedFields& wanted, ShardDraft::Progress& progress) {
  OpenFile file;
  Inflated inflated;
  RecordTable::Stamp stamp;
  bool is_compressed = false;
  try {
    file = store::open_patiently(path);
    stamp = RecordTable::stamp_of(file);
    is_compressed = is_gzip(file);
    if (is_compressed) inflated = inflate(file);
  } catch (const SampleError& error) {
    throw shard_error(contents, path, error.what());
  }
  ShardDraft draft(path, stamp, progress);
  draft.want(wanted);
  const std::string nature = is_compressed ? nature_of(inflated.bytes) : nature_of_file(file);
  if (!nature.empty()) {
    draft.add_bad_file("the file is " + nature);
    return draft;
  }
  if (is_compressed) {
    ContainerBytes bytes{std::span<const std::byte>(inflated.bytes)};
    read_contents(contents, path, bytes, format, draft);
    if (!inflated.problem.empty()) draft.add_bad_file(inflated.problem);
  } else {
    ContainerBytes bytes(file);
    read_contents(contents, path, bytes, format, draft);
  }
  return draft;
}

// Whether a word of the name begins with "train", unlike "constrained", or means it ("trn"). Folders often have files
// for training and validation side by side, "train-000.tar" and "val-000.tar".
bool is_for_training(std::string_view given) {
  if (part_in_name(given) == "train") return true;
  const std::string name = lower_case(given);
  for (auto at = name.find("train"); at != std::string_view::npos; at = name.find("train", at + 1)) {
    if (at == 0 || name[at - 1] < 'a' || name[at - 1] > 'z') return true;
  }
  return false;
}

// Warns of files in the folder's folders, if they are known: nobody asked for a walk through all of them. Those whose
// path says another part of the dataset than the files that are read are left out for that, and read by no pattern.
void warn_of_folders(PathContents& contents, bool (*is_name)(std::string_view), std::span<const std::string> read,
                     SkipLog& skipped) {
  const std::string& root = contents.root();
  if (contents.scanned_tree() == nullptr) return;
  std::set<std::string> parts{"", "train"};
  for (const std::string& path : read) parts.insert(part_in_name(base_name(path)));
  std::vector<std::string> below;
  for (const std::string_view path : contents.scanned_tree()->others) {
    const std::vector<std::string_view> names = split(path, '/');
    const auto is_ours = [&](std::string_view name) { return parts.contains(part_in_name(name)); };
    if (names.size() > 1 && is_name(names.back()) && std::ranges::all_of(names, is_ours))
      below.push_back(join_path(root, path));
  }
  if (below.empty()) return;
  const std::string pattern = store::is_url(root) ? "" : pattern_of_files(root, read, below);
  skipped.add_warning(root, counted(below.size(), "file") + " of this kind in its folders " +
                                (below.size() == 1 ? "is" : "are") + " not read" +
                                (pattern.empty() ? "" : "; dataset.path = \"" + pattern + "\" reads those too"));
}

// Warns of files in a folder of another kind.
void warn_of_others(PathContents& contents, bool (*is_name)(std::string_view), SkipLog& skipped) {
  const auto is_shard = [](std::string_view name) {
    return std::ranges::any_of(kFormats, [&](const NamedFormat& known) {
      return known.format->is_shard != nullptr && known.format->is_shard(name);
    });
  };
  for (const std::string_view name : contents.listing().others) {
    if (is_name(name) || !is_shard(name)) continue;
    skipped.add_warning(join_path(contents.root(), name), "not read: the folder is read for files of another format");
  }
}

// The files of a folder that would belong to the format if they were not compressed by a method
// that is not supported.
std::vector<std::string> foreign_shards(PathContents& contents, bool (*is_name)(std::string_view)) {
  std::vector<std::string> files;
  if (!contents.is_folder()) return files;
  for (const std::string_view name : contents.listing().others) {
    for (const std::string_view ending : {".xz", ".bz2", ".zst", ".lz4", ".zip", ".7z"}) {
      const bool is_foreign = name.ends_with(ending) && is_name(name.substr(0, name.size() - ending.size()));
      if (is_foreign) files.push_back(join_path(contents.root(), name));
    }
  }
  return files;
}

}  // namespace

// Windows editors write a byte order mark at the beginning of a UTF-8 file; it is not part of the
// class.
FoundLabel label_of_text(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  text = without_blanks(text);
  if (text.empty()) throw SampleError("its class is an empty text");
  if (text.size() > kLongestClassName)
    throw SampleError("its class is a text of " + std::to_string(text.size()) + " bytes");
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (std::ranges::any_of(text, is_control)) {
    throw SampleError("its class has control characters, as no name has them: " + printable(text));
  }
  return FoundLabel::named(std::string(text));
}

// Chosen: a number beyond 1e9 is not a class number, and up to there a double is exact.
FoundLabel label_of_float(double number) {
  constexpr double kLargest = 1e9;
  const bool is_whole = std::isfinite(number) && std::fabs(number) <= kLargest && std::trunc(number) == number;
  return is_whole ? FoundLabel::of(static_cast<std::int64_t>(number)) : FoundLabel::odd("it is " + shortest(number));
}

namespace {

// One-hot needs two places at least: a list of one number is a class number.
template <typename Number>
FoundLabel label_of_numbers(std::span<const Number> numbers) {
  const auto is_zero = [](Number number) { return number == 0; };
  const auto hot = std::ranges::find_if_not(numbers, is_zero);
  const bool is_one_hot = numbers.size() > 1 && numbers.size() < kMostOneHot && hot != numbers.end() && *hot == 1 &&
                          std::all_of(hot + 1, numbers.end(), is_zero);
  if (is_one_hot) {
    return {.kind = FoundLabel::Kind::one_hot,
            .number = hot - numbers.begin(),
            .classes = static_cast<std::uint32_t>(numbers.size())};
  }
  if (numbers.empty()) return FoundLabel::none();
  return FoundLabel::odd("it has " + std::to_string(numbers.size()) +
                         (numbers.size() >= kMostOneHot ? " or more numbers" : " numbers"));
}

}  // namespace

FoundLabel label_of_list(std::span<const std::int64_t> numbers) {
  return numbers.size() == 1 ? FoundLabel::of(numbers.front()) : label_of_numbers(numbers);
}
FoundLabel label_of_list(std::span<const float> numbers) {
  return numbers.size() == 1 ? label_of_float(numbers.front()) : label_of_numbers(numbers);
}

// Sides are limited to 2^24 so that height * width * 3 cannot overflow 64 bits.
std::optional<RecordTable::Kind> raw_kind(std::int64_t height, std::int64_t width, std::int64_t channels,
                                          std::uint64_t bytes) {
  constexpr std::int64_t kLargestSide = std::int64_t{1} << 24U;
  const bool is_shape = height > 0 && width > 0 && height <= kLargestSide && width <= kLargestSide &&
                        (channels == 1 || channels == 3) && bytes <= kLargestSampleFile;
  if (!is_shape || static_cast<std::uint64_t>(height * width * channels) != bytes) return std::nullopt;
  return RecordTable::Kind{.encoding = Encoding::raw,
                           .width = static_cast<std::int32_t>(width),
                           .height = static_cast<std::int32_t>(height),
                           .channels = static_cast<std::int32_t>(channels)};
}

// The progress counters are relaxed, because they only feed a display.
void ShardDraft::begin(std::uint64_t offset, std::string_view key) {
  if (next_ == std::numeric_limits<std::uint32_t>::max()) throw SampleError("it has more than 2^32 - 1 records");
  begins_ = offset;
  reach(offset);
  progress_->records.fetch_add(1, std::memory_order_relaxed);
  key_ = key;
  ++next_;
}

void ShardDraft::reach(std::uint64_t offset) {
  if (offset <= reached_) return;
  progress_->bytes.fetch_add(offset - reached_, std::memory_order_relaxed);
  reached_ = offset;
}

// The reason begins with the byte of the damage if it names one, otherwise with that of the record.
void ShardDraft::add_bad(std::string reason) {
  if (++bad_ > kBadNamed) return;
  if (!reason.starts_with("byte ")) reason.insert(0, "byte " + std::to_string(begins_) + ": ");
  skipped_.add_bad(record_name(path_, number(), key_), std::move(reason));
}

void ShardDraft::add_uncounted() {
  if (bad_ > kBadNamed) add_bad_file("and " + std::to_string(bad_ - kBadNamed) + " more records that cannot be used");
}

// Neighbouring samples are mostly of one kind, so the newest kind is compared before the map is
// searched.
std::uint16_t ShardDraft::kind_number(const RecordTable::Kind& kind) {
  if (!kind_list_.empty() && kind == kind_list_.back()) return static_cast<std::uint16_t>(kind_list_.size() - 1);
  const auto number = number_of_kind(kind, kind_list_, kind_numbers_);
  if (!number) throw SampleError("its raw pixels have too rare a shape");
  return *number;
}

// Keeps equal consecutive texts once, and at most a thousand; one last entry stands for all others.
std::int64_t ShardDraft::odd_number(const std::string& what) {
  constexpr std::size_t kNamed = 1000;
  if (odd_.size() <= kNamed && (odd_.empty() || odd_.back() != what)) {
    odd_.push_back(odd_.size() < kNamed ? what : "it is no class");
  }
  return kOdd - static_cast<std::int64_t>(odd_.size() - 1);
}

// The meaning of labels is decided after all files have been read, so they are stored as numbers in
// disjoint ranges (shards.hpp). Class numbers are below 2^22. Chosen: more classes than any dataset
// has, and a list of them still fits into memory.
std::int64_t ShardDraft::label_number(const FoundLabel& label) {
  constexpr std::int64_t kMostNumbers = std::int64_t{1} << 22U;
  switch (label.kind) {
    case FoundLabel::Kind::absent: return kAbsent;
    case FoundLabel::Kind::unlabelled: return kUnlabelled;
    case FoundLabel::Kind::odd: return odd_number(label.text);
    case FoundLabel::Kind::number:
      if (label.number < 0) throw SampleError("its class number is " + std::to_string(label.number));
      if (label.number < kMostNumbers) return label.number;
      throw SampleError("its class number is " + std::to_string(label.number) + ", where " +
                        std::to_string(kMostNumbers - 1) + " is the largest");
    case FoundLabel::Kind::one_hot:
      one_hot_ = one_hot_ == 0 || one_hot_ == label.classes ? label.classes : kSeveral;
      return kOneHot + label.number;
    case FoundLabel::Kind::text: break;
  }
  const auto [place, is_new] = text_numbers_.try_emplace(label.text, static_cast<std::int64_t>(texts_.size()));
  if (is_new) texts_.push_back(label.text);
  return kTexts - place->second;
}

// All checks that can throw come before the first column is changed, so that all columns keep the
// same length.
void ShardDraft::add(ContainerBytes& bytes, const FoundSample& sample) {
  const Extent& image = sample.image;
  if (image.length == 0) throw SampleError("its image has no bytes");
  if (image.length > kLargestSampleFile || sample.checked.length > kLargestSampleFile) {
    throw SampleError("it has more than the 1 GiB that a sample may have");
  }
  RecordTable::Kind kind = sample.kind;
  RecordTable::Record record{
      .offset = image.offset, .length = static_cast<std::uint32_t>(image.length), .number = number()};
  const std::int64_t label = label_number(sample.label);
  // A large class number determines how many classes there are and is rare, so it is worth
  // verifying its record's checksum. Chosen: above what common datasets have (ImageNet-21k has
  // 21,841).
  constexpr std::int64_t kRare = 32768;
  if (sample.checked.length > 0 && (bytes.is_in_memory() || (label >= kRare && label < kOneHot)))
    check_sum(bytes, sample.checked);
  if (bytes.is_in_memory()) {
    record.offset = held_.size();
  } else if (sample.checked.length > 0) {
    kind.checked = true;
    record.before = static_cast<std::uint32_t>(image.offset - sample.checked.offset);
    record.after = static_cast<std::uint32_t>(sample.checked.end() - image.end());
  }
  kinds_.push_back(kind_number(kind));
  records_.push_back(record);
  labels_.push_back(label);
  keys_.add(key_);
  are_held_.push_back(bytes.is_in_memory());
  const auto hold = [&](const Extent& extent) {
    const auto pixels = bytes.at(extent);
    held_.insert(held_.end(), pixels.begin(), pixels.end());
  };
  if (bytes.is_in_memory()) hold(image);
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const auto& [elements, form, place] = sample.fields[i];
    InFields& field = fields_[i];
    field.values.insert(field.values.end(), elements.begin(), elements.end());
    field.ends.push_back(field.values.size());
    field.forms.push_back(form);
    field.records.push_back({.offset = bytes.is_in_memory() ? held_.size() : place.offset,
                             .length = static_cast<std::uint32_t>(place.length),
                             .number = number()});
    if (bytes.is_in_memory()) hold(place);
  }
  if (label < 0 || label >= kOneHot || sample.class_name.empty() || sample.class_name.size() > kLongestClassName)
    return;
  // If a number has two names, neither can be used; the empty name tells the merger so.
  const auto [known, is_new] = class_names_.try_emplace(label, sample.class_name);
  if (!is_new && known->second != sample.class_name) known->second.clear();
}

// Cheap checks come first: the tree is listed only if there are folders.
bool is_folder_of_shards(PathContents& contents, bool (*is_name)(std::string_view)) {
  if (!std::ranges::any_of(contents.listing().others, is_name)) return false;
  if (!contents.listing().images.empty()) return false;
  return contents.listing().folders.empty() || (contents.tree().images.empty() && contents.tree().annotations.empty());
}

std::vector<std::string> shards_of(PathContents& contents, bool (*is_name)(std::string_view),
                                   std::vector<std::string>* others) {
  if (!contents.is_folder()) return contents.files();
  std::vector<std::string> files;
  std::vector<std::string> training;
  for (const auto name : contents.listing().others) {
    if (!is_name(name)) continue;
    files.push_back(join_path(contents.root(), name));
    if (is_for_training(name)) training.push_back(files.back());
  }
  if (others != nullptr && !training.empty()) {
    std::ranges::set_difference(files, training, std::back_inserter(*others));
  }
  return training.empty() ? files : training;
}

// Hashes names, and contents only of compressed files: for plain files the stamps in the index tell
// more.
std::uint64_t hash_shards(const DatasetOptions& options, bool (*is_name)(std::string_view)) {
  const BuildContext context{.options = options, .progress = {}, .threads = 1};
  PathContents contents(context);
  const bool is_remote = store::is_url(contents.root());
  if (is_remote && contents.is_folder()) return 0;  // a folder in a store is not listed again
  // If the matches of a pattern lie in several folders, equal names in different folders are
  // different files. So the path below the pattern's fixed folder is hashed.
  const std::size_t folder = contents.is_pattern() ? folder_of_pattern(contents.root()).size() : 0;
  std::uint64_t hash = 0;
  for (const std::string& path : shards_of(contents, is_name)) {
    std::string_view name = contents.is_pattern() ? std::string_view(path).substr(folder) : base_name(path);
    name.remove_prefix(std::min(name.size(), name.find_first_not_of('/')));
    hash = hash_name(name, hash);
    if (is_remote) continue;
    const std::string plain = lower_case(path);
    if (plain.ends_with(".gz") || plain.ends_with(".tgz")) hash = hash_file(path, "dataset.path", hash);
  }
  return hash;
}

// Fields that the format cannot have are left to complete_fields(), which gets them from elsewhere
// or refuses them.
IndexDraft build_from_shards(PathContents& contents, const ShardFormat& format) {
  WantedFields wanted(contents.options());
  std::erase_if(wanted.fields, [&](const auto& each) { return format.may_have == nullptr || !format.may_have(each); });
  std::vector<std::string> others;
  const std::vector<std::string> paths = shards_of(contents, format.is_name, &others);
  if (paths.empty()) throw path_error(contents.options(), std::string(format.missing));
  std::uint64_t all_bytes = 0;
  std::error_code unknown;
  const bool is_remote = store::is_url(contents.root());
  for (const std::string& path : paths) all_bytes += is_remote ? 0 : std::filesystem::file_size(path, unknown);
  ShardDraft::Progress progress;
  std::vector<std::optional<ShardDraft>> read(paths.size());
  // The total number of records is an estimate until all bytes have been read.
  const auto report = [&](std::uint64_t done, std::uint64_t files) {
    const std::uint64_t records = progress.records.load(std::memory_order_relaxed);
    const double share = static_cast<double>(progress.bytes.load(std::memory_order_relaxed)) /
                         static_cast<double>(std::max<std::uint64_t>(all_bytes, 1));
    const double expected = done == files || share <= 0 ? 0 : static_cast<double>(records) / share;
    if (const auto& tell = contents.context().progress) {
      tell(records, std::max(records, static_cast<std::uint64_t>(expected)));
    }
  };
  // More threads than cores are useful for a store, because they mostly wait for responses.
  const unsigned threads = is_remote ? std::max(contents.context().threads, 32U) : contents.context().threads;
  run_parallel({paths.size(), threads, report},
               [&](std::size_t i) { read[i] = read_shard(contents, paths[i], format, wanted, progress); });
  std::vector<ShardDraft> drafts;
  drafts.reserve(read.size());
  for (auto& draft : read) drafts.push_back(*std::move(draft));
  IndexDraft draft = merge_shards(contents, drafts, wanted, format.missing);
  const std::string& root = contents.root();
  const std::string pattern = contents.is_pattern() ? root.substr(folder_of_pattern(root).size()) : "";
  if (std::string remark = remark_on_parts(paths, pattern); !remark.empty())
    draft.skipped.add_warning(root, std::move(remark));
  if (contents.is_folder()) {
    warn_of_others(contents, format.is_name, draft.skipped);
    warn_of_folders(contents, format.is_name, paths, draft.skipped);
  }
  for (std::string& path : others) {
    draft.skipped.add_note(std::move(path), "not read: names of others in the folder say \"train\"");
  }
  for (std::string& path : foreign_shards(contents, format.is_name)) {
    draft.skipped.add_warning(std::move(path),
                              "not read: of compressed files only those of gzip (.gz) are; decompress it");
  }
  return draft;
}

}  // namespace forebay::data
