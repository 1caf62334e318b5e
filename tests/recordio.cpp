#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <forebay/error.hpp>

#include "container_files.hpp"
#include "dataset_support.hpp"
#include "hostile_files.hpp"
#include "support.hpp"

// MXNet's RecordIO: records in one part and in several, labels in the header and behind it, broken files.

using namespace forebay;
using namespace forebay::testing;

namespace {

const std::string kMagic = little_endian(std::uint32_t{0xCED7230A});

std::unique_ptr<Dataset> dataset_of(const TemporaryDirectory& folder, const std::string& records) {
  write_file(folder / "x.rec", records);
  return build_dataset(options_for(folder / "x.rec"));
}

}  // namespace

TEST_CASE("records of each length, with one label or several") {
  const TemporaryDirectory folder;
  std::string records;
  for (int i = 0; i < 5; ++i)
    records += record_part(image_record(kJpeg + std::string(static_cast<std::size_t>(i), 'x'), static_cast<float>(i)));
  records += record_part(image_record(kJpeg, 2.5F)) + record_part(image_record(kJpeg, -1.0F)) +
             record_part(image_record(kJpeg, std::vector<float>{3.0F})) +
             record_part(image_record(kJpeg + "end", std::vector<float>{3.0F, 1.0F, 2.0F}));
  const auto dataset = dataset_of(folder, records);
  CHECK(dataset->format() == "recordio");
  CHECK(labels_of(*dataset) == std::vector<std::int64_t>{0, 1, 2, 3, 4, -1, -1, 3, -1});
  CHECK(dataset->classes() == std::vector<std::string>{"0", "1", "2", "3", "4"});
  for (std::uint64_t i = 0; i < 5; ++i) CHECK(read_sample(*dataset, i) == kJpeg + std::string(i, 'x'));
  CHECK(read_sample(*dataset, 7) == kJpeg);
  CHECK(read_sample(*dataset, 8) == kJpeg + "end");
  CHECK(dataset->name(3) == (folder / "x.rec").string() + "[record 3]");
  REQUIRE(dataset->skipped().size() == 1);
  CHECK(dataset->skipped()[0].told);
  CHECK(contains(dataset->skipped()[0].reason, "2 of 9 samples are served with label -1: theirs is no class"));
  CHECK(contains(dataset->skipped()[0].reason, "the first: it is 2.5"));
  // The padding of the last record need not be there.
  CHECK(dataset_of(folder, record_part(image_record(kJpeg, 0.0F)).substr(0, 8 + 24 + kJpeg.size()))->size() == 1);
}

TEST_CASE("a record in several parts is put together again with the magic number between them") {
  const TemporaryDirectory folder;
  const std::string first = image_record(kJpeg + "abc", 1.0F);
  const std::string records = record_part(image_record(kJpeg, 0.0F)) + record_part(first, 1) +
                              record_part("middle", 2) + record_part("", 2) + record_part("end", 3) +
                              record_part(image_record(kJpeg + "z", 2.0F));
  const auto dataset = dataset_of(folder, records);
  CHECK(labels_of(*dataset) == std::vector<std::int64_t>{0, 1, 2});
  CHECK(read_sample(*dataset, 0) == kJpeg);
  CHECK(read_sample(*dataset, 1) == kJpeg + "abc" + kMagic + "middle" + kMagic + kMagic + "end");
  CHECK(read_sample(*dataset, 2) == kJpeg + "z");
  CHECK(dataset->name(1) == (folder / "x.rec").string() + "[record 1]");
  CHECK(dataset->name(2) == (folder / "x.rec").string() + "[record 2]");
  const auto restored = restore_dataset(dataset->serialize(), "memory");
  CHECK(read_sample(*restored, 1) == read_sample(*dataset, 1));
  // Also where the header itself is cut.
  const auto cut = dataset_of(folder, record_part(first.substr(0, 8), 1) + record_part(first.substr(12), 3));
  CHECK(read_sample(*cut, 0) == kJpeg + "abc");
}

TEST_CASE("parts without their others, and records that are none, are left out by name") {
  const TemporaryDirectory folder;
  const std::string good = record_part(image_record(kJpeg, 0.0F));
  const auto dataset =
      dataset_of(folder, record_part("orphan!!", 2) + good + record_part("begun", 1) + good + record_part("short") +
                             record_part(little_endian(std::uint32_t{1U << 31U}) + std::string(40, 'x')) +
                             record_part(image_record("", 1.0F)) + record_part("begun", 1) + record_part("again", 1));
  CHECK(dataset->size() == 2);
  CHECK(count_bad(*dataset) == 7);
  const auto reason = [&](int record) {
    const Skipped* found = find_skipped(*dataset, "[record " + std::to_string(record) + "]");
    return found == nullptr ? "" : found->reason;
  };
  CHECK(reason(0) == "byte 0: the continuation of a record that does not begin");
  CHECK(reason(2) == "byte " + std::to_string(16 + good.size()) + ": the beginning of a record that does not end");
  const std::size_t third = 16 + good.size() + 16 + good.size();  // where the short record begins
  CHECK(reason(4) == "byte " + std::to_string(third) + ": has 5 bytes, less than the header of an image record");
  CHECK(reason(5) ==
        "byte " + std::to_string(third + 16) + ": has not the 2147483648 labels that its header announces");
  CHECK(reason(6) == "byte " + std::to_string(third + 16 + 52) + ": its image has no bytes");
  CHECK(contains(reason(7), "the beginning of a record that does not end"));
  CHECK(contains(reason(8), "the beginning of a record that does not end"));
}

TEST_CASE("a file that is damaged keeps what stands before that") {
  const TemporaryDirectory folder;
  const std::string good = record_part(image_record(kJpeg, 0.0F));
  for (const auto& [tail, reason] : std::vector<std::pair<std::string, std::string>>{
           {"xxxx" + good.substr(4), "no record: it does not begin with RecordIO's magic number"},
           {good.substr(0, 7), "it ends within the header of a record"},
           {good.substr(0, 30), "it ends within a record of 41 bytes"},
           {kMagic + little_endian(std::uint32_t{(1U << 29U) - 1}), "it ends within a record of 536870911 bytes"},
           {kMagic + little_endian(std::uint32_t{7U << 29U}), "a record of a kind that there is not"}}) {
    const auto dataset = dataset_of(folder, good + good + tail);
    CHECK(dataset->size() == 2);
    REQUIRE(count_bad(*dataset) == 1);
    CHECK(contains(dataset->skipped()[0].reason, "byte " + std::to_string(2 * good.size()) + ": " + reason));
  }
  CHECK(contains(error_of([&] { (void)dataset_of(folder, ""); }), "no image record of RecordIO"));
}

TEST_CASE("whatever is in a RecordIO file ends in samples or in errors") {
  const TemporaryDirectory folder;
  const std::string content = record_part(image_record(kJpeg, 0.0F)) + record_part(image_record(kJpeg, 1.0F), 1) +
                              record_part("last", 3) + record_part(image_record(kJpeg, std::vector<float>{1.0F, 2.0F}));
  use_broken_files(folder, "x.rec", content, "recordio");
}
