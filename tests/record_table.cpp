#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <forebay/error.hpp>

#include "base/crc32c.hpp"
#include "data/index_image.hpp"
#include "data/record_table.hpp"
#include "dataset_support.hpp"
#include "support.hpp"

// The table that every index is: what a builder put in comes out, in few bytes.

using namespace forebay;
using namespace forebay::testing;

namespace {

IndexRecord below(const TemporaryDirectory& folder) {
  IndexRecord record;
  record.origin.format = "made";
  record.origin.path = folder.path().string();
  record.root = folder.path().string();
  return record;
}

std::size_t content_bytes(const Dataset& dataset) { return image_of(dataset)->content_bytes(); }

// Whole files with these labels.
RecordTable files_with(const std::vector<std::int32_t>& labels, int classes) {
  RecordTable table;
  for (int i = 0; i < classes; ++i) table.classes.push_back("c" + std::to_string(i));
  for (std::size_t i = 0; i < labels.size(); ++i) table.add(table.add_source("f" + std::to_string(i)), labels[i]);
  return table;
}

}  // namespace

TEST_CASE("records of several files, offsets and kinds come out as they went in") {
  const TemporaryDirectory folder;
  constexpr std::uint64_t kFar = std::uint64_t{5} << 30U;
  write_file(folder / "small", "0123456789");
  write_file(folder / "sparse", "head");
  std::filesystem::resize_file(folder / "sparse", kFar);
  std::ofstream(folder / "sparse", std::ios::binary | std::ios::app) << "tail";

  RecordTable table;
  table.classes = {"a", "b"};
  table.kinds = {{}, {.encoding = Encoding::raw, .width = 2, .height = 1, .channels = 3, .planar = true}};
  const std::uint32_t small = table.add_source("small", open_regular((folder / "small").string()));
  const std::uint32_t sparse =
      table.add_source((folder / "sparse").string(), open_regular((folder / "sparse").string()));
  const auto add = [&](std::uint32_t source, std::int32_t label, RecordTable::Record record, std::uint16_t kind) {
    table.add(source, label);
    table.record.push_back(record);
    table.kind.push_back(kind);
  };
  add(small, 1, {.offset = 4, .length = 6, .number = 7}, 1);
  add(sparse, -1, {.offset = kFar, .length = 4, .number = 4'000'000'000}, 0);
  add(small, 0, {.offset = 10, .length = 0, .number = 8}, 0);
  add(sparse, 1, {.offset = kFar - 1, .length = 2, .number = 0}, 0);

  const auto made = make_dataset(below(folder), std::move(table));
  const auto restored = restore_dataset(made->serialize(), "memory");
  for (const Dataset* dataset : {made.get(), restored.get()}) {
    REQUIRE(dataset->size() == 4);
    CHECK(read_sample(*dataset, 0) == "456789");
    CHECK(read_sample(*dataset, 1) == "tail");
    CHECK(read_sample(*dataset, 2).empty());
    CHECK(read_sample(*dataset, 3) == std::string("\0t", 2));
    CHECK(dataset->name(0) == (folder / "small").string() + "[record 7]");
    CHECK(dataset->name(1) == (folder / "sparse").string() + "[record 4000000000]");
    CHECK(dataset->sample(0).encoding == Encoding::raw);
    CHECK(dataset->sample(0).planar);
    CHECK(dataset->sample(0).width == 2);
    CHECK(dataset->sample(1).encoding == Encoding::jpeg);
    CHECK(dataset->sample(1).label == -1);
    CHECK(dataset->sample(3).label == 1);
    CHECK(dataset->source(3) == 3);
  }
}

TEST_CASE("records that the index holds itself are read from it, and damage among them is found") {
  const TemporaryDirectory folder;
  RecordTable table;
  (void)table.add_source("gone.gz");
  for (const char c : std::string("abcdef")) table.held.push_back(static_cast<std::byte>(c));
  for (std::uint32_t i = 0; i < 3; ++i) {
    table.add(0, -1);
    table.record.push_back({.offset = i * 2, .length = 2, .number = i});
  }
  const auto dataset = make_dataset(below(folder), std::move(table));
  CHECK(read_sample(*dataset, 0) == "ab");
  CHECK(read_sample(*dataset, 2) == "ef");
  auto damaged = dataset->serialize();
  damaged.back() = std::byte{'x'};
  const auto use = [&] { (void)read_sample(*restore_dataset(damaged, "memory"), 2); };
  CHECK(contains(error_of(use), "memory: a damaged index"));
}

TEST_CASE("a record that reaches past its file is refused before it is read") {
  const TemporaryDirectory folder;
  write_file(folder / "small", "0123456789");
  for (const RecordTable::Record record :
       {RecordTable::Record{.offset = 5, .length = 6}, RecordTable::Record{.offset = 11, .length = 0},
        RecordTable::Record{.offset = std::uint64_t{1} << 62U, .length = 1}}) {
    RecordTable table;
    (void)table.add_source("small", open_regular((folder / "small").string()));
    table.add(0, -1);
    table.record.push_back(record);
    const auto use = [&] { (void)read_sample(*make_dataset(below(folder), std::move(table)), 0); };
    CHECK(contains(error_of(use), "a record reaches past the end of its file"));
  }
}

TEST_CASE("a CRC-32C is that of its definition, in one go or in pieces, with the processor's instruction or without") {
  CHECK(crc32c(bytes_of("123456789")) == 0xE3069283U);
  CHECK(crc32c_by_tables(bytes_of("123456789")) == 0xE3069283U);
  CHECK(crc32c({}) == 0);
  std::string text;
  for (int i = 0; i < 100; ++i) text += static_cast<char>(i * 37);
  const auto bytes = bytes_of(text);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    CHECK(crc32c(bytes.subspan(cut), crc32c_by_tables(bytes.first(cut))) == crc32c(bytes));
    CHECK(crc32c_by_tables(bytes.subspan(cut), crc32c(bytes.first(cut))) == crc32c(bytes));
  }
}

// Long ones are read in three places at once.
TEST_CASE("a CRC-32C by the processor's instruction is that by tables, whatever the length") {
  std::string text;
  std::uint32_t state = 1;
  for (int i = 0; i < 20000; ++i) text += static_cast<char>((state = state * 1664525U + 1013904223U) >> 24U);
  const auto bytes = bytes_of(text);
  for (std::size_t length = 0; length <= bytes.size(); length += 1 + length % 97) {
    CAPTURE(length);
    CHECK(crc32c(bytes.first(length), 7) == crc32c_by_tables(bytes.first(length), 7));
  }
  for (const std::size_t length : {3071U, 3072U, 3073U, 6143U, 6144U, 9216U}) {
    CAPTURE(length);
    CHECK(crc32c(bytes.subspan(1, length)) == crc32c_by_tables(bytes.subspan(1, length)));
  }
}

TEST_CASE("a record with a checksum is read only if all that this covers is as it was") {
  const TemporaryDirectory folder;
  const std::string covered = "before|the image|after";
  const std::uint32_t sum = masked_crc32c(crc32c(bytes_of(covered)));
  std::string file = "head" + covered;
  file.append(reinterpret_cast<const char*>(&sum), sizeof sum).append("next");
  write_file(folder / "records", file);
  RecordTable table;
  table.kinds = {{.checked = true}};
  (void)table.add_source("records", open_regular((folder / "records").string()));
  table.add(0, -1);
  table.record.push_back({.offset = 11, .length = 9, .number = 0, .before = 7, .after = 6});
  const auto bytes = make_dataset(below(folder), std::move(table))->serialize();
  CHECK(read_sample(*restore_dataset(bytes, "memory"), 0) == "the image");

  for (std::size_t at = 4; at < file.size() - 4; ++at) {
    // The stamp covers so small a file whole; a saved index of a large one has to notice by the checksum.
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    write_file(folder / "records", damaged);
    RecordTable other;
    other.kinds = {{.checked = true}};
    (void)other.add_source("records", open_regular((folder / "records").string()));
    other.add(0, -1);
    other.record.push_back({.offset = 11, .length = 9, .number = 0, .before = 7, .after = 6});
    const auto dataset = make_dataset(below(folder), std::move(other));
    CHECK(
        contains(error_of([&] { (void)read_sample(*dataset, 0); }), "byte 4: the 22 bytes of the record are damaged"));
  }
}

TEST_CASE("what a checksum covers must lie within the file") {
  const TemporaryDirectory folder;
  write_file(folder / "small", "0123456789");
  for (const RecordTable::Record record : {RecordTable::Record{.offset = 2, .length = 2, .before = 3},
                                           RecordTable::Record{.offset = 2, .length = 2, .after = 3},
                                           RecordTable::Record{.offset = 2, .length = 2, .after = 0x40000000}}) {
    RecordTable table;
    table.kinds = {{.checked = true}};
    (void)table.add_source("small", open_regular((folder / "small").string()));
    table.add(0, -1);
    table.record.push_back(record);
    const auto use = [&] { (void)read_sample(*make_dataset(below(folder), std::move(table)), 0); };
    CHECK(contains(error_of(use), "a record reaches past the end of its file"));
  }
}

TEST_CASE("some files' records may be held and others not, and keys are part of names") {
  const TemporaryDirectory folder;
  write_file(folder / "plain", "0123456789");
  RecordTable table;
  table.kinds = {{}, {.encoding = Encoding::raw, .width = 1, .height = 1, .channels = 3, .bgr = true}};
  (void)table.add_source("packed.gz", RecordTable::Stamp{});
  (void)table.add_source("plain", open_regular((folder / "plain").string()));
  for (const char c : std::string("abcdef")) table.held.push_back(static_cast<std::byte>(c));
  for (std::uint32_t i = 0; i < 4; ++i) {
    table.add(i % 2, -1);
    table.record.push_back({.offset = i, .length = 3, .number = i});
    table.kind.push_back(static_cast<std::uint16_t>(i / 2));
    table.keys.add(i == 3 ? "" : "key " + std::to_string(i));
  }
  const auto dataset = restore_dataset(make_dataset(below(folder), std::move(table))->serialize(), "memory");
  CHECK(read_sample(*dataset, 0) == "abc");
  CHECK(read_sample(*dataset, 1) == "123");
  CHECK(read_sample(*dataset, 2) == "cde");
  CHECK(dataset->name(1) == (folder / "plain").string() + "[record 1, key 1]");
  CHECK(dataset->name(2) == (folder / "packed.gz").string() + "[record 2, key 2]");
  CHECK(dataset->name(3) == (folder / "plain").string() + "[record 3]");
  CHECK_FALSE(dataset->sample(0).bgr);
  CHECK(dataset->sample(3).bgr);
}

TEST_CASE("numbers take as few bytes as they need, and none where they are regular") {
  const TemporaryDirectory folder;
  constexpr std::size_t kSamples = 1000;
  const auto bytes_with = [&](std::int32_t most) {
    std::vector<std::int32_t> labels(kSamples);
    for (std::size_t i = 0; i < kSamples; ++i) labels[i] = static_cast<std::int32_t>(i * i) % (most + 1);
    labels[3] = most;
    auto table = files_with(labels, 1);
    table.classes.assign(static_cast<std::size_t>(most) + 1, "c");
    const std::size_t without = 9 * table.classes.size() + table.sources.bytes().size();
    const auto dataset = make_dataset(below(folder), std::move(table));
    for (std::size_t i = 0; i < kSamples; ++i) CHECK(dataset->sample(i).label == labels[i]);
    return content_bytes(*dataset) - without;
  };
  const std::size_t narrow = bytes_with(127);
  CHECK(bytes_with(128) == narrow + kSamples);
  CHECK(bytes_with(32'768) == narrow + 3 * kSamples);

  RecordTable table = files_with(std::vector<std::int32_t>(kSamples, -1), 0);
  const std::size_t paths = table.sources.bytes().size();
  const auto unlabelled = make_dataset(below(folder), std::move(table));
  CHECK(unlabelled->sample(999).label == -1);
  CHECK(content_bytes(*unlabelled) - paths == narrow - kSamples);

  RecordTable records;
  write_file(folder / "many", std::string(10 * kSamples, 'x'));
  (void)records.add_source("many", open_regular((folder / "many").string()));
  for (std::uint32_t i = 0; i < kSamples; ++i) {
    records.add(0, -1);
    records.record.push_back({.offset = i * 10, .length = 10, .number = i});
  }
  CHECK(content_bytes(*make_dataset(below(folder), std::move(records))) < 400);
}
