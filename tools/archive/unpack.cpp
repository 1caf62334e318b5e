// `forebay unpack`: restores the files that a set was packed from, below a new folder.
//
// Shards are unpacked one after another; several threads read the records of one shard and restore
// the originals. Names are chosen in the order of samples (Turns), so that of two files with one
// name it is always the first that gets it. Files are written in parallel.
//
// Names in a set are not trusted. They are cut so that they stay below the folder (safe_name) and
// written without following links (OutputFolder), never over a file that exists. Where that fails,
// the file goes into renamed/.

#include "unpack.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <mutex>
#include <span>
#include <system_error>

#include <forebay/error.hpp>

#include "base/output_file.hpp"
#include "base/text.hpp"
#include "data/container_bytes.hpp"
#include "data/fields.hpp"
#include "data/image_kinds.hpp"
#include "data/pack_shard.hpp"
#include "data/parallel.hpp"
#include "data/scan.hpp"
#include "lending.hpp"
#include "pack_plan.hpp"
#include "read_back.hpp"

namespace forebay::archive {
namespace {

constexpr std::string_view kRecord = "[record ";
constexpr std::string_view kObject = "#object ";

std::uint64_t hash_of_name(std::string_view name) { return data::hash128(std::as_bytes(std::span(name))).low; }

}  // namespace

// Common file systems limit a part of a path to 255 bytes. "..", "." and a leading slash are
// dropped.
std::string safe_name(std::string_view name) {
  constexpr std::size_t kLongestPart = 255;
  constexpr std::size_t kLongest = 3000;
  if (name.size() > kLongest || name.find('\0') != std::string_view::npos) return {};
  std::string safe;
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find('/'));
    name.remove_prefix(std::min(name.size(), part.size() + 1));
    if (part.size() > kLongestPart) return {};
    if (!part.empty() && part != "." && part != "..") safe.append(safe.empty() ? "" : "/").append(part);
  }
  return safe;
}

// Keys are the dataset's names for messages: "x.tar[record 5, n01/a]" becomes "x.tar/n01/a.jpg",
// "x.jpg#object 2" becomes "x.jpg".
std::string unpacked_name(std::string_view key, std::string_view ending) {
  if (const auto object = key.rfind(kObject); object != std::string_view::npos) {
    const std::string_view number = key.substr(object + kObject.size());
    const bool is_number = !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
    if (is_number) key = key.substr(0, object);
  }
  const auto record = key.find(kRecord);
  if (record == std::string_view::npos || !key.ends_with(']')) return std::string(key);
  const std::string_view container = key.substr(0, record);
  std::string_view number = key.substr(record + kRecord.size());
  number.remove_suffix(1);
  std::string name;
  if (const auto comma = number.find(", "); comma != std::string_view::npos) {
    name = number.substr(comma + 2);
  } else {
    constexpr std::size_t kDigits = 8;
    name = std::string(number.size() < kDigits ? kDigits - number.size() : 0, '0') + std::string(number);
  }
  return std::string(container) + "/" + name + (name.ends_with(ending) ? "" : std::string(ending));
}

void Turns::Turn::wait() {
  std::unique_lock lock(turns_.mutex_);
  turns_.moved_.wait(lock, [this] { return turns_.next_ == number_; });
}

// Waits first, because turns are passed on in the order of numbers.
void Turns::Turn::pass() {
  if (has_passed_) return;
  wait();
  {
    const std::lock_guard lock(turns_.mutex_);
    ++turns_.next_;
  }
  turns_.moved_.notify_all();
  has_passed_ = true;
}

// A name cannot be both a folder and a file, so the folder and all folders above it must not be
// files.
bool UnpackNames::claim_folder(std::string_view name) {
  for (std::size_t end = name.find('/'); end != std::string_view::npos; end = name.find('/', end + 1)) {
    if (files_.contains(hash_of_name(name.substr(0, end)))) return false;
  }
  if (files_.contains(hash_of_name(name))) return false;
  for (std::size_t end = name.find('/'); end != std::string_view::npos; end = name.find('/', end + 1)) {
    folders_.insert(hash_of_name(name.substr(0, end)));
  }
  folders_.insert(hash_of_name(name));
  return true;
}

// Names and contents are represented by 64 bits of a hash.
UnpackNames::Claim UnpackNames::claim(std::string_view name, std::uint64_t bytes) {
  const std::uint64_t hash = hash_of_name(name);
  if (const auto found = files_.find(hash); found != files_.end()) {
    return found->second == bytes ? Claim::is_same : Claim::is_taken;
  }
  if (folders_.contains(hash)) return Claim::is_taken;
  const auto slash = name.rfind('/');
  if (slash != std::string_view::npos && !claim_folder(name.substr(0, slash))) return Claim::is_taken;
  files_.emplace(hash, bytes);
  return Claim::is_free;
}

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRenamed = "renamed";

bool leaves_folder(std::string_view name) {
  return name.starts_with("../") || name.find("/../") != std::string_view::npos;
}

bool begins_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::ranges::equal(bytes.first(magic.size()), std::as_bytes(std::span(magic)));
}

// The usual extension of a file with these bytes, for images that had no file name of their own,
// such as records.
std::string_view ending_of(std::span<const std::byte> bytes) {
  if (begins_with(bytes, "\xFF\xD8\xFF")) return ".jpg";
  if (begins_with(bytes, "\x89PNG")) return ".png";
  if (begins_with(bytes, "RIFF")) return ".webp";
  if (begins_with(bytes, "II*") || begins_with(bytes, {"MM\0*", 4})) return ".tif";
  if (begins_with(bytes, "\x93NUMPY")) return ".npy";
  return ".bin";
}

// These begin with letters, as texts of fields may.
std::string_view ending_of_image(std::span<const std::byte> bytes) {
  if (begins_with(bytes, "II+") || begins_with(bytes, {"MM\0+", 4})) return ".tif";
  if (begins_with(bytes, "BM")) return ".bmp";
  const bool is_netpbm =
      bytes.size() > 1 && bytes[0] == std::byte{'P'} && bytes[1] >= std::byte{'1'} && bytes[1] <= std::byte{'6'};
  return is_netpbm ? ".pnm" : ending_of(bytes);
}

bool is_array(const data::RecordTable::Kind& kind, std::size_t bytes) {
  if (kind.encoding != Encoding::raw || kind.channels <= 0 || kind.width <= 0 || kind.height <= 0) return false;
  const auto row = static_cast<std::uint64_t>(kind.width) * static_cast<std::uint64_t>(kind.channels);
  return bytes % row == 0 && bytes / row == static_cast<std::uint64_t>(kind.height);
}

// Pixels of a record that has no header, as an array that NumPy and a run read: grey or RGB, channels last.
std::vector<std::byte> to_npy(std::span<const std::byte> pixels, const data::RecordTable::Kind& kind) {
  const auto channels = static_cast<std::size_t>(kind.channels);
  std::string head = "{'descr': '|u1', 'fortran_order': False, 'shape': (" + std::to_string(kind.height) + ", " +
                     std::to_string(kind.width) + (channels == 1 ? "" : ", " + std::to_string(channels)) + "), }";
  constexpr std::size_t kBefore = 10;  // magic, version, length
  constexpr std::size_t kAligned = 64;
  head.resize((kBefore + head.size() + 1 + kAligned - 1) / kAligned * kAligned - kBefore - 1, ' ');
  head += '\n';
  const std::string begin = std::string("\x93NUMPY\1\0", 8) + static_cast<char>(head.size() & 0xFF) +
                            static_cast<char>(head.size() >> 8) + head;
  std::vector<std::byte> bytes(begin.size() + pixels.size());
  std::ranges::copy(std::as_bytes(std::span(begin)), bytes.begin());
  const std::size_t places = pixels.size() / channels;
  for (std::size_t place = 0; place < places; ++place) {
    for (std::size_t channel = 0; channel < channels; ++channel) {
      const std::size_t to = kind.bgr ? channels - 1 - channel : channel;
      bytes[begin.size() + place * channels + to] =
          pixels[kind.planar ? channel * places + place : place * channels + channel];
    }
  }
  return bytes;
}

// Whether the error means that the file system does not accept the name, or that it exists already
// (perhaps with other capitals). With other errors, such as a full disk, another name would not
// help.
bool is_about_name(int error) noexcept {
  constexpr std::array kErrors{EEXIST, EISDIR, ENOTDIR, ENAMETOOLONG, EILSEQ, EINVAL, ELOOP};
  return std::ranges::find(kErrors, error) != kErrors.end();
}

class Unpacker {
 public:
  explicit Unpacker(const fs::path& folder) : folder_(folder), path_size_(fs::absolute(folder).native().size()) {
    names_.claim_folder(kRenamed);
  }

  // `turns` orders the samples of the shard, every one of which must be passed here. The turn is
  // passed on in any case, after an error by its destructor; otherwise the samples after it would
  // wait for ever.
  void unpack(const ReadShard& shard, RecordReader& reader, std::size_t sample, Turns& turns) {
    Turns::Turn turn(turns, sample);
    if (shard.shares(sample)) return;
    try {
      const ReadRecord record = reader.read(sample);
      std::vector<File> files = files_of(shard, sample, record);
      turn.wait();
      {
        const std::lock_guard lock(mutex_of_names_);
        for (File& file : files) choose_name(shard, sample, file);
      }
      turn.pass();
      for (const File& file : files) write(shard, sample, file);
    } catch (const SampleError& problem) {
      fail(data::record_name(shard.name, sample, shard.index.keys[sample]), problem.what());
    }
  }
  void fail(const std::string& what, const std::string& why) {
    count([&](UnpackReport& report) { report.failed.push_back({.path = what, .reason = why}); });
  }
  UnpackReport take() { return std::move(report_); }

 private:
  struct File {
    std::string name;  // below the folder; empty if the same file was written already
    std::span<const std::byte> bytes;
    bool is_renamed = false;
    std::vector<std::byte> made = {};  // what `bytes` refers to, if the record does not hold it
  };

  std::vector<File> files_of(const ReadShard& shard, std::size_t sample, const ReadRecord& record) {
    std::vector<File> files;
    const auto& kind = shard.index.kinds[shard.index.kind[sample]];
    const bool is_raw = is_array(kind, record.image.size());
    const std::string name = unpacked_name(shard.index.keys[sample], is_raw ? ".npy" : ending_of_image(record.image));
    if (shard.originals.stored[sample] == data::PackStored::pixels) {
      count([](UnpackReport& report) { ++report.pixels; });
    } else if (is_raw) {
      files.push_back({.name = name, .bytes = {}, .made = to_npy(record.image, kind)});
      files.back().bytes = files.back().made;
    } else {
      files.push_back({.name = name, .bytes = record.image});
    }
    if (shard.index.label[sample] >= 0 && shard.index.format != "folder") {
      count([](UnpackReport& report) { ++report.labels; });
    }
    std::size_t in_file = 0;
    for (const data::PackIndex::InField& stored : shard.index.fields) {
      if (stored.lengths.empty()) continue;
      const std::span<const std::byte> bytes = record.fields[in_file];
      std::string file(shard.originals.files[in_file++][sample]);
      if (stored.lengths[sample] == data::PackIndex::InField::kAbsent) continue;
      // "../depth/cat/1.png" lies beside the folder: without its dots it would be in a class of its own.
      if (file.empty() || leaves_folder(file)) {
        file = file.empty() ? file_of_field(stored.field.name, name, bytes)
                            : "fields/" + stored.field.name + "/" + safe_name(file);
      }
      files.push_back({.name = std::move(file), .bytes = bytes});
    }
    return files;
  }

  // The name of a field that was not a file below the dataset's folder: "fields/FIELD/" and the
  // image's name.
  static std::string file_of_field(const std::string& field, const std::string& image,
                                   std::span<const std::byte> bytes) {
    return "fields/" + field + "/" + std::string(data::without_extension(image)) + std::string(ending_of(bytes));
  }

  // Sets the file's final name. A file's content is compared by hash, as a set may have a hundred
  // million files. REQUIRES: mutex_of_names_ is held, and all samples before this one have their
  // names.
  void choose_name(const ReadShard& shard, std::size_t sample, File& file) {
    file.name = safe_name(file.name);
    const auto claimed =
        file.name.empty() ? UnpackNames::Claim::is_taken : names_.claim(file.name, data::hash128(file.bytes).low);
    if (claimed == UnpackNames::Claim::is_same) file.name.clear();  // a list may have a file several times
    if (claimed == UnpackNames::Claim::is_taken) rename(shard, sample, file);
  }

  // Chooses a name in renamed/. REQUIRES: mutex_of_names_ is held.
  void rename(const ReadShard& shard, std::size_t sample, File& file) {
    constexpr int kMostTried = 1000;  // names that a hostile set has taken
    const std::string begin = std::string(kRenamed) + "/" + shard.name + "-" + std::to_string(sample) + "-";
    for (int i = 0; i < kMostTried; ++i) {
      file.name = begin + std::to_string(i) + std::string(ending_of(file.bytes));
      file.is_renamed = names_.claim(file.name, data::hash128(file.bytes).low) == UnpackNames::Claim::is_free;
      if (file.is_renamed) return;
    }
    throw SampleError("its own name is taken or impossible, and so are " + std::to_string(kMostTried) +
                      " others in renamed/");
  }

  // Writes a new file. False if the file system does not accept the name, or if the path is too
  // long. PATH_MAX includes the terminating NUL. Opening relative to a folder's descriptor has no
  // such limit, but programs that open the file by its path do.
  bool write_new(const std::string& name, std::span<const std::byte> bytes) const {
    if (path_size_ + 1 + name.size() >= PATH_MAX) return false;
    const int error = folder_.write(name, bytes, OutputFolder::IfThere::refuse);
    if (error == 0 || is_about_name(error)) return error == 0;
    throw Error(name + ": cannot write it: " + std::generic_category().message(error));
  }

  // The file system may refuse a name that seemed free, for example if it ignores case. The file is
  // then renamed once.
  void write(const ReadShard& shard, std::size_t sample, File file) {
    if (file.name.empty()) return;
    if (!write_new(file.name, file.bytes)) {
      const std::string refused = file.name;
      if (!file.is_renamed) {
        const std::lock_guard lock(mutex_of_names_);
        rename(shard, sample, file);
      }
      if (file.name == refused || !write_new(file.name, file.bytes)) {
        throw SampleError("the file system takes neither its own name nor " + file.name);
      }
    }
    count([&](UnpackReport& report) {
      ++report.files;
      report.bytes += file.bytes.size();
      report.renamed += file.is_renamed ? 1 : 0;
      report.fields += file.name.starts_with("fields/") ? 1 : 0;
    });
  }

  template <typename Count>
  void count(Count&& count) {
    const std::lock_guard lock(mutex_);
    count(report_);
  }

  OutputFolder folder_;
  std::size_t path_size_;  // bytes of the folder's path
  std::mutex mutex_;
  UnpackReport report_;
  std::mutex mutex_of_names_;
  UnpackNames names_;
};

// An empty folder guarantees that no file of the user is overwritten or mixed with those of the
// set.
void require_empty(const fs::path& folder) {
  create_folder(folder);
  if (!fs::is_empty(folder)) throw ConfigError(folder.string() + " is not empty: name another folder");
}

}  // namespace

UnpackReport unpack(const fs::path& set, const fs::path& folder, unsigned threads, const IndexProgress& progress) {
  const std::vector<std::string> names = shards_in(set);
  require_empty(folder);
  Unpacker unpacker(folder);
  std::uint64_t total = 0;
  std::vector<data::PackMember> shards;
  for (const std::string& name : names) {
    try {
      shards.push_back(open_shard_back(set, name).member());
      total += shards.back().header.samples;
    } catch (const SampleError&) {
      // The loop below reports it.
    }
  }
  if (shards.size() == names.size()) {
    if (const std::string problem = data::problem_of_pack(shards, names); !problem.empty()) {
      unpacker.fail(set.string(), problem);
    }
  }
  std::uint64_t done = 0;
  for (const std::string& name : names) {
    try {
      const ReadShard shard = read_shard_back(set, name);
      const std::size_t samples = shard.index.offset.size();
      Turns turns;
      Lending<RecordReader> readers([&] { return std::make_unique<RecordReader>(shard); });
      const auto report = [&](std::uint64_t of_shard, std::uint64_t) {
        if (progress) progress(done + of_shard, total);
      };
      data::run_parallel({samples, threads, report}, [&](std::size_t sample) {
        readers.with([&](RecordReader& reader) { unpacker.unpack(shard, reader, sample, turns); });
      });
      done += samples;
    } catch (const SampleError& problem) {
      unpacker.fail(name, problem.what());
    }
  }
  return unpacker.take();
}

}  // namespace forebay::archive
