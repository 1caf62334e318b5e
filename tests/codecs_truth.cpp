// Compares every PNG, WebP and TIFF file of the real data with Pillow's result (truth/images.tsv).
#include <charconv>

#include "dataset_support.hpp"
#include "make/image_decoder.hpp"
#include "sha256.hpp"
#include "test.hpp"

namespace forebay::test_codecs_truth {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using forebay::testing::sha256;

// A line of the table.
struct Truth {
  std::string path;
  std::string magic;   // "png"
  std::string result;  // Pillow's: ok, err, skipped-bomb
  std::string mode;
  std::string sha256;  // of the pixels after convert("RGB")
};

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find('\t', begin), line.size());
    fields.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return fields;
}

std::vector<Truth> read_truth(const fs::path& table) {
  constexpr std::size_t kFields = 25;
  std::vector<Truth> all;
  std::ifstream file(table);
  for (std::string line; std::getline(file, line);) {
    const auto fields = fields_of(line);
    if (fields.size() != kFields) continue;
    const auto& magic = fields[3];
    if (magic != "png" && magic != "webp" && magic != "tiff") continue;
    all.push_back({fields[0], magic, fields[20], fields[21], fields[24].empty() ? fields[23] : fields[24]});
  }
  return all;
}

bool can_decode(const std::string& magic) {
  const std::string_view title = magic == "png" ? "PNG" : magic == "webp" ? "WebP" : "TIFF";
  return std::ranges::any_of(forebay::make::kCodecs, [&](const forebay::make::NamedCodec& codec) {
    return codec.title == title && codec.kind->make != nullptr;
  });
}

struct Decoded {
  std::string sha256;
  std::optional<std::string> refusal;
};

Decoded decode(const fs::path& path, forebay::make::ImageDecoder& decoder) {
  const std::vector<std::byte> content = forebay::testing::read_bytes(path);
  forebay::make::Image image;
  try {
    const auto size = decoder.open(content, {.exif = false});
    decoder.decode({0, 0, size.width, size.height}, 1, image);
  } catch (const forebay::SampleError& error) {
    return {"", error.what()};
  }
  const auto bytes = static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height) * 3;
  return {sha256({reinterpret_cast<const char*>(image.pixels.data()), bytes}), std::nullopt};
}

// Files whose pixels differ from Pillow's, or that only one of the two refuses, each for a reason
// given in docs/data.md.
bool is_known(const Truth& truth, const Decoded& decoded) {
  // 16-bit grey: Pillow clips values at 255; Forebay divides them by 256.
  if (truth.mode == "I" && !decoded.refusal) return true;
  // Damaged or truncated outside of the pixels.
  static const std::vector<std::string> kRead = forebay::testing::words(
      "ztxt_bomb.png chunk_no_fctl.png unknown_compression_method.png 2d6d6bcc2d03afc5e08e8ec203d7bb54656e21e3-5 "
      "bbdc16a15585c266443a3aa4a0dfe66ae42de588-5 d61111036fdc816412a907a21e5a958ebdf2cfa2-6 "
      "ff64c465b906b75c6b939bdc5eba0dc24f3ca9e4-4 0b7d50ac449fd59eb3de00647636d0c9.png "
      "c-9032e447e32e09aef5b7de2fab42494d.png c-m1-a4842373fc20cc42b8e023a329761915.png "
      "m1-1fc0c0de88608a9445d6f98a544b5abc.png");
  // Damaged in the palette or the pixels; Pillow then invents pixels, or does not check.
  static const std::vector<std::string> kRefused = forebay::testing::words(
      "invalid-palette.png 4930d001f211f78029c9deace8bb8671e27a5397-4 df6c8819922811197eb8b17369e379060099fce8-1 "
      "c-m1-49e39033e275de9786d8c41f834c710b.png c-m1-6bfb149151f58d124d6fa76eaad75520.png "
      "f427b6bee1acd1fea3ec953bc556a18a.png");
  const std::string name = fs::path(truth.path).filename().string();
  if (truth.result == "ok") return decoded.refusal && std::ranges::find(kRefused, name) != kRefused.end();
  return !decoded.refusal && std::ranges::find(kRead, name) != kRead.end();
}

TEST_CASE("every image that Pillow reads has the same pixels") {
  const auto data = forebay::testing::real_data();
  if (!data) return;
  const std::vector<Truth> all = read_truth(*data / "truth/images.tsv");
  REQUIRE_FALSE(all.empty());
  forebay::make::ImageDecoder decoder;
  std::size_t equal = 0;
  std::size_t refused_by_both = 0;
  std::string known;
  for (const Truth& truth : all) {
    const fs::path path = *data / truth.path;
    if (!fs::exists(path) || !can_decode(truth.magic)) continue;
    CAPTURE(truth.path);
    const Decoded decoded = decode(path, decoder);
    const std::string ours = decoded.refusal.value_or("decoded");
    CAPTURE(ours);
    if (truth.result == "ok" && decoded.sha256 == truth.sha256) {
      ++equal;
    } else if (truth.result != "ok" && decoded.refusal) {
      ++refused_by_both;
    } else {
      known += "\n  " + truth.path + ": Pillow " + truth.result + " " + truth.mode + " " + truth.sha256.substr(0, 60) +
               ", ours: " + ours;
      CHECK(is_known(truth, decoded));
    }
  }
  MESSAGE(equal << " equal, " << refused_by_both << " refused by both; known differences:" << known);
  CHECK(equal > 0);
}

// Containers that other programs wrote, compared with what other readers found in them:
// truth/records.tsv of the real data.

namespace containers {

struct TruthRow {
  std::string key;
  std::string labels;
  std::string sum;
};
using Truth = std::map<std::string, std::vector<TruthRow>>;  // by file

Truth read_truth(const fs::path& file) {
  Truth truth;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> fields;
    std::istringstream text(line);
    for (std::string field; std::getline(text, field, '\t');) fields.push_back(field);
    fields.resize(8);
    truth[fields[0]].push_back({.key = fields[2], .labels = fields[3], .sum = fields[5]});
  }
  return truth;
}

// "shard.tar[record 5, n01/a]": the number and the key.
std::pair<std::size_t, std::string> number_and_key(const std::string& name) {
  const auto begin = name.rfind("[record ") + 8;
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(name.data() + begin, name.data() + name.size(), number);
  const std::string rest(end, name.data() + name.size() - 1);
  return {number, rest.empty() ? "" : rest.substr(2)};
}

// The number after `mark` in a text; -1 if there is none.
double number_after(const std::string& text, const std::string& mark) {
  const auto at = text.find(mark);
  if (at == std::string::npos) return -1;
  std::size_t used = 0;
  const std::string number = text.substr(at + mark.size(), 24);
  try {
    return std::stod(number, &used);
  } catch (const std::exception&) {
    return -1;
  }
}

struct Expected {
  std::string file;
  std::uint64_t samples = 0;
  std::size_t bad = 0;
};

// A single label in the truth must be the sample's; with several or none, the sample has no label.
void check_label(std::int64_t label, const TruthRow& row, const std::string& mark) {
  const bool has_several = row.labels.find(", ", row.labels.find(mark)) < row.labels.find(']', row.labels.find(mark));
  const double expected = has_several ? -1 : number_after(row.labels, mark);
  CHECK(static_cast<double>(label) ==
        (expected < 0 || expected != static_cast<double>(static_cast<std::int64_t>(expected)) ? -1 : expected));
}

void check_rows(const fs::path& data, const Truth& truth, const Expected& expected, const std::string& format,
                const std::string& mark) {
  CAPTURE(expected.file);
  const auto dataset = build_dataset(options_for(data / expected.file, format));
  CHECK(dataset->size() == expected.samples);
  CHECK(count_bad(*dataset) == expected.bad);
  const auto& rows = truth.at(expected.file);
  for (std::uint64_t id = 0; id < dataset->size(); ++id) {
    const auto [number, key] = number_and_key(dataset->name(id));
    REQUIRE(number < rows.size());
    CHECK((key.empty() || key == rows[number].key));
    std::string bytes;
    const std::string error = error_of([&] { bytes = read_sample(*dataset, id); });
    if (contains(rows[number].labels, "data crc") || contains(rows[number].labels, "BAD")) {
      CHECK_FALSE(error.empty());
      continue;
    }
    CHECK(error == "");
    CHECK(sha256(bytes) == rows[number].sum);
    check_label(dataset->sample(id).label, rows[number], mark);
  }
}

TEST_CASE("SHA-256 is what it should be") {
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_CASE("TFRecord, RecordIO and LMDB files hold what other readers find in them") {
  const auto data = real_data();
  if (!data) return;
  const Truth truth = read_truth(*data / "truth" / "records.tsv");
  for (const Expected& file : std::vector<Expected>{{"formats/tfrecord/inception_validation-00000-of-00001", 165},
                                                    {"formats/tfrecord/raccoon_test.record", 40},
                                                    {"made/tfrecord/bad_data_crc_r5.tfrecord", 24},
                                                    {"made/tfrecord/bad_len_crc_r3.tfrecord", 3, 1},
                                                    {"made/tfrecord/detection.tfrecord", 5},
                                                    {"made/tfrecord/detection_ragged.tfrecord", 1},
                                                    {"made/tfrecord/dup_key.tfrecord", 1},
                                                    {"made/tfrecord/garbage_tail.tfrecord", 24, 1},
                                                    {"made/tfrecord/group_wiretype.tfrecord", 1},
                                                    {"made/tfrecord/huge_len_r7.tfrecord", 7, 1},
                                                    {"made/tfrecord/labels_unpacked.tfrecord", 4},
                                                    {"made/tfrecord/multilabel.tfrecord", 6},
                                                    {"made/tfrecord/neg_label.tfrecord", 1},
                                                    {"made/tfrecord/ok_24.tfrecord", 24},
                                                    {"made/tfrecord/ok_shard-00000-of-00002", 12},
                                                    {"made/tfrecord/ok_shard-00001-of-00002", 12},
                                                    {"made/tfrecord/split_features.tfrecord", 1},
                                                    {"made/tfrecord/trunc_data.tfrecord", 9, 1},
                                                    {"made/tfrecord/trunc_footer.tfrecord", 9, 1},
                                                    {"made/tfrecord/trunc_header.tfrecord", 9, 1},
                                                    {"made/tfrecord/unknown_fields.tfrecord", 1},
                                                    {"made/tfrecord/value_before_key.tfrecord", 1},
                                                    {"made/tfrecord/zero_len_record.tfrecord", 1, 1}}) {
    check_rows(*data, truth, file, "tfrecord", "\"image/class/label\": [");
  }
  const DatasetOptions two_images = options_for(*data / "made/tfrecord/two_images.tfrecord", "tfrecord");
  CHECK(contains(error_of([&] { (void)build_dataset(two_images); }),
                 "has several byte strings in the feature \"image/encoded\""));
  for (const Expected& file : std::vector<Expected>{{"formats/recordio/faces64/train.rec", 1632},
                                                    {"formats/recordio/dogdet/val.rec", 4},
                                                    {"made/recordio/bad_magic_r4.rec", 4, 1},
                                                    {"made/recordio/badidx.rec", 24},
                                                    {"made/recordio/len_past_end_r2.rec", 2, 1},
                                                    {"made/recordio/multilabel.rec", 5},
                                                    {"made/recordio/multipart.rec", 4},
                                                    {"made/recordio/ok.rec", 24},
                                                    {"made/recordio/png_payload.rec", 1},
                                                    {"made/recordio/raw_payload.rec", 1},
                                                    {"made/recordio/trunc.rec", 6, 1},
                                                    {"made/recordio/trunc_pad.rec", 24}}) {
    check_rows(*data, truth, file, "recordio", "[");
  }
  for (const Expected& file : std::vector<Expected>{{"formats/lmdb/art20_train/data.mdb", 38},
                                                    {"formats/lmdb/nasa32_train/data.mdb", 380},
                                                    {"made/lmdb/big_values/data.mdb", 3},
                                                    {"made/lmdb/datum_encoded/data.mdb", 24},
                                                    {"made/lmdb/datum_raw/data.mdb", 24},
                                                    {"made/lmdb/jpeg_values/data.mdb", 8},
                                                    {"made/lmdb/long_keys/data.mdb", 9}}) {
    check_rows(*data, truth, file, "lmdb", "label=");
  }
}

TEST_CASE("tar archives hold what other readers find in them") {
  const auto data = real_data();
  if (!data) return;
  const Truth truth = read_truth(*data / "truth" / "records.tsv");
  for (const Expected& expected : std::vector<Expected>{{"formats/webdataset/clip_image1.tar", 4},
                                                        {"formats/webdataset/sample.tgz", 90},
                                                        {"made/tar/by_7z.tar", 3},
                                                        {"made/tar/by_bsdtar.tar", 3},
                                                        {"made/tar/by_bsdtar_cpio_ustar.tar", 3},
                                                        {"made/tar/by_busybox.tar", 3},
                                                        {"made/tar/exts.tar", 2, 1},
                                                        {"made/tar/gnu.tar", 12},
                                                        {"made/tar/gnu_longname.tar", 3},
                                                        {"made/tar/gnu_sparse.tar", 3},
                                                        {"made/tar/gzipped.tar", 12},
                                                        {"made/tar/interleaved.tar", 2},
                                                        {"made/tar/missing_image.tar", 1, 1},
                                                        {"made/tar/missing_label.tar", 2, 1},
                                                        {"made/tar/no_eof.tar", 12},
                                                        {"made/tar/ok.tar.gz", 12},
                                                        {"made/tar/one_eof_block.tar", 12},
                                                        {"made/tar/pax.tar", 12},
                                                        {"made/tar/pax_global.tar", 1},
                                                        {"made/tar/pax_longname.tar", 3},
                                                        {"made/tar/pax_sparse.tar", 3},
                                                        {"made/tar/pax_utf8.tar", 2},
                                                        {"made/tar/specials.tar", 2},
                                                        {"made/tar/trailing_garbage.tar", 12},
                                                        {"made/tar/traversal.tar", 2},
                                                        {"made/tar/trunc_header.tar", 1, 1},
                                                        {"made/tar/trunc_member.tar", 5, 1},
                                                        {"made/tar/two_tars.tar", 12},
                                                        {"made/tar/ustar.tar", 12},
                                                        {"made/tar/ustar_prefix.tar", 3},
                                                        {"made/tar/v7.tar", 2},
                                                        {"made/tar/zero_member.tar", 1, 1}}) {
    CAPTURE(expected.file);
    const auto dataset = build_dataset(options_for(*data / expected.file, "webdataset"));
    CHECK(dataset->size() == expected.samples);
    CHECK(count_bad(*dataset) == expected.bad);
    std::map<std::string, std::string> sums;
    for (const TruthRow& row : truth.at(expected.file)) sums[row.key] = row.sum;
    for (std::uint64_t id = 0; id < dataset->size(); ++id) {
      const auto [number, key] = number_and_key(dataset->name(id));
      std::string image;
      for (const char* ending : {".jpg", ".JPG", ".jpeg", ".JPEG", ".png"}) {
        if (image.empty() && sums.contains(key + ending)) image = sums[key + ending];
      }
      CAPTURE(key);
      CHECK(sha256(read_sample(*dataset, id)) == image);
      const std::int64_t label = dataset->sample(id).label;
      const std::string text = std::to_string(label);
      if (!sums.contains(key + ".cls")) {
        CHECK(label == -1);
      } else {
        CHECK((sums[key + ".cls"] == sha256(text) || sums[key + ".cls"] == sha256(text + "\n")));
      }
    }
  }
  // Two of its 9 labels are not class numbers: too many to be damage.
  const DatasetOptions mixed = options_for(*data / "made/tar/label_forms.tar", "webdataset");
  CHECK_THROWS_WITH_AS((void)build_dataset(mixed), doctest::Contains("label \"abc\" is no class number"), ConfigError);
}

}  // namespace containers

}  // namespace
}  // namespace forebay::test_codecs_truth
