#include <filesystem>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include <forebay/dataset.hpp>
#include <forebay/error.hpp>

#include "archive/pack_check.hpp"
#include "archive/pack_set.hpp"
#include "archive/unpack.hpp"
#include "dataset_support.hpp"
#include "jpeg_support.hpp"
#include "shard_bytes.hpp"
#include "support.hpp"
#include "taken.hpp"
#include "targets.hpp"

using namespace forebay::archive;
using namespace forebay::data;

// Packed datasets that another program could have written: every checksum is valid.
namespace forebay::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr const char* kShard = "00000-of-00001.fbpack";
// What the rest of an input is, according to its first byte.
enum Kind { index, originals, shard, kKinds };

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

PackHeader header_of(std::string_view bytes) {
  PackHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header;
}

// A valid set of one shard, with JPEG files packed as coefficients, other files, and masks beside
// them.
class PackedSet {
 public:
  PackedSet() {
    for (int i = 0; i < 4; ++i) {
      const std::string stem = std::to_string(i);
      const std::string photo = text_of(testing::make_jpeg({.width = 17, .height = 9}));
      testing::write_file(folder_ / ("in/JPEGImages/" + stem + ".jpg"), i < 2 ? photo : "photo " + stem);
      testing::write_file(folder_ / ("in/Masks/" + stem + ".png"), "mask " + stem);
      testing::write_file(folder_ / ("in/Annotations/" + stem + ".xml"), testing::annotation(testing::object("dog")));
    }
    options_ = testing::options_for(folder_ / "in", "voc");
    options_.samples = SampleUnit::images;
    FieldOptions mask;
    mask.name = "mask";
    mask.kind = FieldKind::mask;
    mask.from = "Masks/{stem}.png";
    options_.fields = {mask};
    PackSettings settings;
    settings.out = set();
    settings.samples = options_.samples;
    settings.threads = 1;
    (void)pack_dataset(*build_dataset(options_), settings, {});
    sound_ = testing::read_text(set() / kShard);
    options_.path = set().string();
    options_.format = "pack";
    fs::remove_all(folder_ / "in");
    sound_names_ = names();
  }

  [[nodiscard]] fs::path set() const { return folder_ / "set"; }
  [[nodiscard]] const std::string& sound() const noexcept { return sound_; }
  [[nodiscard]] std::string raw(PackPart PackHeader::*part) const {
    const PackPart place = header_of(sound_).*part;
    return testing::inflated_part(std::string_view(sound_).substr(place.offset, place.bytes), place.raw_bytes);
  }

  // Returns whether a run accepts the shard.
  bool use(const std::string& bytes) {
    testing::replace_file(set() / kShard, bytes);
    bool is_accepted = false;
    for (const bool has_fields : {true, false}) {
      DatasetOptions options = options_;
      if (!has_fields) options.fields.clear();
      is_accepted = use_path(options) || is_accepted;
    }
    try {
      (void)check_pack(set(), 1, {});
    } catch (const Error&) {
    }
    if (is_accepted) unpack_here();
    return is_accepted;
  }

 private:
  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) all.insert(entry.path().string());
    return all;
  }

  // Nothing may be written outside the folder that was named.
  void unpack_here() {
    const fs::path out = folder_ / "out";
    try {
      (void)unpack(set(), out, 1, {});
    } catch (const Error&) {
    }
    fs::remove_all(out);
    if (names() != sound_names_) throw std::logic_error("a file was written elsewhere");
  }

  testing::TemporaryDirectory folder_;
  std::string sound_;
  std::set<std::string> sound_names_;  // of files and folders
  DatasetOptions options_;
};

PackedSet& packed_set() {
  static PackedSet one;
  return one;
}

// The bytes with the checksums and sizes of their parts corrected.
std::string sealed(std::string bytes) {
  if (bytes.size() < kPackBlock) return bytes;
  return testing::with_header(bytes, [&](PackHeader& header) {
    header.magic = kPackMagic;
    header.version = kPackVersion;
    header.file_bytes = bytes.size();
    for (PackPart PackHeader::*each : {&PackHeader::tables, &PackHeader::index, &PackHeader::originals}) {
      PackPart& part = header.*each;
      if (part.offset > bytes.size() || part.bytes > bytes.size() - part.offset) continue;
      part.crc = crc32c(std::as_bytes(std::span(bytes)).subspan(part.offset, part.bytes));
    }
  });
}

// Valid bytes with the number of samples and the uncompressed content of one part taken from the
// input.
std::string with_raw_part(PackPart PackHeader::*part, std::string_view input) {
  Taken taken(input);
  const std::uint64_t samples = taken.byte();
  const std::string raw(taken.rest());
  const std::string changed = testing::with_part(packed_set().sound(), part, testing::deflated_part(raw), raw.size());
  return testing::with_header(changed, [&](PackHeader& header) { header.samples = samples; });
}

}  // namespace

bool use_pack(std::string_view input) {
  if (input.empty()) return false;
  const std::string_view rest = input.substr(1);
  switch (static_cast<unsigned char>(input.front()) % kKinds) {
    case index: return packed_set().use(with_raw_part(&PackHeader::index, rest));
    case originals: return packed_set().use(with_raw_part(&PackHeader::originals, rest));
    default: return packed_set().use(sealed(std::string(rest)));
  }
}

std::vector<std::string> pack_seeds() {
  const PackedSet& set = packed_set();
  const auto seed = [](Kind kind, const std::string& rest) { return static_cast<char>(kind) + rest; };
  return {seed(index, "\4" + set.raw(&PackHeader::index)), seed(originals, "\4" + set.raw(&PackHeader::originals)),
          seed(shard, set.sound())};
}

}  // namespace forebay::fuzz
