#include <doctest/doctest.h>

#include <charconv>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "dataset_support.hpp"
#include "sha256.hpp"
#include "support.hpp"

// Containers that other programs wrote, against what readers of others found in them: truth/records.tsv of the real
// data.

using namespace forebay;
using namespace forebay::testing;

namespace {

namespace fs = std::filesystem;

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

// The number behind `mark` in a text; -1 when there is none.
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

// One label in the truth is the sample's; several or none leave it without one.
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

}  // namespace

TEST_CASE("SHA-256 is what it should be") {
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_CASE("TFRecord, RecordIO and LMDB files hold what other readers find in them") {
  const auto data = real_data();
  if (!data) {
    MESSAGE("skipped: no real data (FOREBAY_DATA)");
    return;
  }
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
                                                    {"made/tfrecord/two_images.tfrecord", 1},
                                                    {"made/tfrecord/unknown_fields.tfrecord", 1},
                                                    {"made/tfrecord/value_before_key.tfrecord", 1},
                                                    {"made/tfrecord/zero_len_record.tfrecord", 1, 1}}) {
    check_rows(*data, truth, file, "tfrecord", "\"image/class/label\": [");
  }
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
  if (!data) {
    MESSAGE("skipped: no real data (FOREBAY_DATA)");
    return;
  }
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
  // Of its 9 labels two are no class numbers: too many for damage.
  const DatasetOptions mixed = options_for(*data / "made/tar/label_forms.tar", "webdataset");
  CHECK_THROWS_WITH_AS((void)build_dataset(mixed), doctest::Contains("label \"abc\" is no class number"), ConfigError);
}
