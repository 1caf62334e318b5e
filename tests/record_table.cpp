// The record table behind every index: what a builder put in is read back, and it takes few bytes.
// Also checksums, and how batches are divided among ranks.
#include <forebay/order.hpp>

#include "base/crc32c.hpp"
#include "data/index_image.hpp"
#include "data/record_table.hpp"
#include "dataset_support.hpp"
#include "order/ledger.hpp"
#include "order/rebalance.hpp"
#include "order/schedule.hpp"
#include "test.hpp"

namespace forebay::test_record_table {

using namespace forebay::data;
using namespace forebay::order;

namespace {

using namespace forebay::testing;

IndexRecord below(const TemporaryDirectory& folder) {
  IndexRecord record;
  record.origin.format = "made";
  record.origin.path = folder.path().string();
  record.root = folder.path().string();
  return record;
}

std::size_t content_bytes(const Dataset& dataset) { return image_of(dataset)->content_bytes(); }

// A table of whole files with these labels.
RecordTable files_with(const std::vector<std::int32_t>& labels, int classes) {
  RecordTable table;
  for (int i = 0; i < classes; ++i) table.classes.push_back("c" + std::to_string(i));
  for (std::size_t i = 0; i < labels.size(); ++i) table.add(table.add_source("f" + std::to_string(i)), labels[i]);
  return table;
}

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
  const FolderOf folder{{"small", "0123456789"}};
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

// Long inputs are processed as three streams at once.
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
    // The stamp covers all of such a small file; in a large one, only the checksum can show the
    // damage.
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
  const FolderOf folder{{"small", "0123456789"}};
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
  const FolderOf folder{{"plain", "0123456789"}};
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

// Batches of one sample each.
Order order_of(std::uint64_t batches) {
  return Order(OrderOptions{.samples = batches, .batch_size = 1, .shuffle = false});
}

std::vector<BatchRef> planned(Schedule& schedule, std::uint64_t most = UINT64_MAX) {
  std::vector<BatchRef> batches;
  while (batches.size() < most) {
    const std::optional<BatchRef> batch = schedule.next();
    if (!batch) break;
    batches.push_back(*batch);
  }
  return batches;
}

std::uint64_t size_of(const std::vector<BatchRange>& ranges, std::uint32_t owner) {
  std::uint64_t size = 0;
  for (const BatchRange& range : ranges) size += range.owner == owner ? range.end - range.begin : 0;
  return size;
}

std::string error_of(const Partition& partition) {
  return testing::error_of<ConfigError>([&] { const Ledger ledger(partition); });
}

TEST_CASE("the ranks' batches are all batches, each once, in ascending order, by the shard rule") {
  for (const std::uint32_t shards : {7U, 8U, 13U, 64U, 1024U})
    for (const std::uint64_t batches : {1ULL, 13ULL, 21ULL, 333ULL, 1000ULL, 2999ULL})
      for (std::uint32_t ranks = 1; ranks <= 7; ++ranks) {
        CAPTURES(shards, batches, ranks);
        const Order order = order_of(batches);
        const Partition partition{.batches = batches, .shards = shards, .ranks = ranks, .epochs = 1};
        std::set<std::uint64_t> served;
        bool as_the_rule_says = true;
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          Schedule schedule(order, Ledger(partition), rank);
          const std::vector<BatchRef> own = planned(schedule);
          CHECK(own.size() == batches_of(partition, rank));
          CHECK(own.size() <= most_batches(partition));
          CHECK(schedule.is_exhausted());
          std::uint64_t next_at_least = 0;
          for (const BatchRef& batch : own) {
            as_the_rule_says &= batch.batch % shards % ranks == rank && batch.batch >= next_at_least &&
                                batch.epoch == 0 && !batch.padding && served.insert(batch.batch).second;
            next_at_least = batch.batch + 1;
          }
        }
        CHECK(as_the_rule_says);
        CHECK(served.size() == batches);
        CHECK(*served.rbegin() == batches - 1);
      }
}

TEST_CASE("an epoch has as many steps as the rank with the most batches, also where that is not the first") {
  Partition partition{.batches = 20'000, .shards = 1024, .ranks = 48};
  CHECK(most_batches(partition) == 430);  // equal shares would be 417
  partition.contiguous = true;
  CHECK(most_batches(partition) > batches_of(partition, 0));
}

TEST_CASE("every epoch deals the same batches to a rank, and no epoch beyond the last is planned") {
  const Order order = order_of(125);
  const Partition partition{.batches = 125, .shards = 16, .ranks = 3, .epochs = 3};
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    Schedule schedule(order, Ledger(partition), rank);
    const std::vector<BatchRef> all = planned(schedule);
    const std::uint64_t own = batches_of(partition, rank);
    REQUIRE(all.size() == 3 * own);
    for (std::uint64_t i = own; i < all.size(); ++i) {
      CHECK(all[i].epoch == i / own);
      CHECK(all[i].batch == all[i - own].batch);
    }
    CHECK(schedule.is_exhausted());
  }
}

TEST_CASE("a rank plans on in later epochs while an earlier one is not complete, but not without end") {
  const Order order = order_of(3000);
  const Partition partition{.batches = 3000, .shards = 1024, .ranks = 2};
  Schedule schedule(order, Ledger(partition), 0);
  const std::uint64_t first = planned(schedule).size();
  CHECK(first >= 2 * batches_of(partition, 0));
  CHECK(first <= 8 * batches_of(partition, 0));
  CHECK(schedule.is_idle());
  CHECK_FALSE(schedule.is_exhausted());
  schedule.complete(1);
  CHECK(planned(schedule).size() == batches_of(partition, 0));
}

TEST_CASE("a rank without batches has another rank's to pad with, and none to serve") {
  const Order order = order_of(3);
  const Partition partition{.batches = 3, .shards = 1024, .ranks = 7};
  for (std::uint32_t rank = 0; rank < 7; ++rank) {
    CAPTURE(rank);
    Schedule schedule(order, Ledger(partition), rank);
    CHECK(schedule.next().has_value() == (rank < 3));
    CHECK(schedule.is_exhausted() == (rank >= 3));
    CHECK(schedule.padding().padding);
    CHECK(schedule.padding().batch == rank % 3);
  }
}

TEST_CASE("more ranks than virtual shards are refused by the setting's name") {
  CHECK(error_of({.batches = 5, .shards = 3, .ranks = 4}).find("mpi.virtual_shards = 3") != std::string::npos);
  CHECK(error_of({.batches = 5, .shards = 4, .ranks = 4}).empty());
}

TEST_CASE("what was left of a job is dealt out to fewer and to more ranks, oldest epoch first") {
  const Order order = order_of(40);
  const std::vector<BatchRange> left{{.epoch = 3, .begin = 2, .end = 5, .shard = 0, .owner = 0},
                                     {.epoch = 3, .begin = 4, .end = 5, .shard = 5, .owner = 1},
                                     {.epoch = 4, .begin = 0, .end = 5, .shard = 0, .owner = 0},
                                     {.epoch = 4, .begin = 1, .end = 3, .shard = 5, .owner = 0}};
  for (const std::uint32_t ranks : {1U, 2U, 3U, 8U}) {
    CAPTURE(ranks);
    const Partition partition{.batches = 40, .shards = 8, .ranks = ranks, .epochs = 5};
    std::set<std::pair<std::uint64_t, std::uint64_t>> served;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const Ledger ledger(partition, 3, 5, left, 2);
      CHECK(ledger.to_serve(3) == 4);
      CHECK(ledger.to_serve(4) == 7);
      Schedule schedule(order, ledger, rank);
      std::pair<std::uint64_t, std::uint64_t> last{0, 0};
      for (const BatchRef& batch : planned(schedule)) {
        const std::pair now{batch.epoch, batch.batch};
        CHECK(served.insert(now).second);
        CHECK(now > last);
        last = now;
        // With two ranks, as before, each keeps its ranges; otherwise shard v goes to rank v mod P.
        if (ranks == 2) CHECK(rank == (batch.epoch == 3 && batch.batch % 8 == 5 ? 1 : 0));
        if (ranks != 2) CHECK(rank == batch.batch % 8 % ranks);
      }
    }
    CHECK(served.size() == 11);
    CHECK(served.contains({3, 16}));
    CHECK(served.contains({3, 37}));
    CHECK_FALSE(served.contains({4, 5}));
  }
}

TEST_CASE("epochs after the saved ones are dealt out as usual") {
  const Order order = order_of(6);
  const Partition partition{.batches = 6, .shards = 6, .ranks = 1, .epochs = 4};
  Schedule schedule(order, Ledger(partition, 1, 2, {{.epoch = 1, .begin = 0, .end = 1, .shard = 4, .owner = 0}}, 1), 0);
  const auto batches = planned(schedule);
  REQUIRE(batches.size() == 1 + 6 + 6);
  CHECK(batches[0] == BatchRef{.epoch = 1, .batch = 4, .size = 1});
  CHECK(batches[1] == BatchRef{.epoch = 2, .batch = 0, .size = 1});
  CHECK(batches.back() == BatchRef{.epoch = 3, .batch = 5, .size = 1});
}

TEST_CASE("nothing is handed over between ranks that keep pace, nor before a rank has served something") {
  std::vector<BatchRange> ranges;
  for (std::uint32_t shard = 0; shard < 16; ++shard) ranges.push_back({0, 10 + shard % 3, 40, shard, shard % 4});
  const std::vector<BatchRange> before = ranges;
  std::vector<RankWork> ranks(4, {.backlog = 19, .pace = 0, .frontier = 0});
  rebalance(ranges, ranks, {});
  CHECK(ranges == before);
  for (std::size_t rank = 0; rank < 4; ++rank) ranks[rank].pace = 100 + 3 * rank;
  rebalance(ranges, ranks, {});
  CHECK(ranges == before);
}

TEST_CASE("a slow rank keeps its share, the others take the rest evenly, and nothing is lost") {
  std::vector<BatchRange> ranges;
  for (std::uint32_t shard = 0; shard < 16; ++shard) ranges.push_back({0, 0, 50, shard, shard % 4});
  std::vector<RankWork> ranks(4, {.backlog = 10, .pace = 100, .frontier = 0});
  ranks[2].pace = 20;
  rebalance(ranges, ranks, {});
  tidy(ranges);
  std::uint64_t total = 0;
  for (std::uint32_t rank = 0; rank < 4; ++rank) total += size_of(ranges, rank);
  CHECK(total == 800);
  // Its share of all 840 batches, minus what it has planned. Shares are rounded down, so it may
  // keep a few more.
  CHECK(size_of(ranges, 2) >= 840 * 20 / 320 - 10);
  CHECK(size_of(ranges, 2) <= 840 * 20 / 320 - 10 + 3);
  for (const std::uint32_t rank : {0U, 1U, 3U}) {
    CHECK(size_of(ranges, rank) >= 251);
    CHECK(size_of(ranges, rank) <= 253);
  }
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].shard == ranges[i - 1].shard) CHECK(ranges[i].begin == ranges[i - 1].end);
  }
}

TEST_CASE("a stalled rank gives away all that it has not planned, the last batches first") {
  std::vector<BatchRange> ranges{{0, 2, 30, 0, 0}, {0, 3, 30, 1, 1}};
  std::vector<RankWork> ranks{{.backlog = 5, .pace = 0, .frontier = 0}, {.backlog = 5, .pace = 7, .frontier = 0}};
  rebalance(ranges, ranks, {});
  CHECK(size_of(ranges, 0) == 0);
  CHECK(size_of(ranges, 1) == 55);

  ranges = {{0, 2, 30, 0, 0}, {0, 3, 10, 1, 1}};
  ranks[0].pace = 7;
  rebalance(ranges, ranks, {});
  tidy(ranges);
  REQUIRE(ranges.size() == 3);
  CHECK(ranges[0].owner == 0);
  CHECK(ranges[0].begin == 2);
  CHECK(ranges[1].owner == 1);
  CHECK(ranges[1].end == 30);
}

TEST_CASE("a rank gets nothing of an epoch that it has gone past when epochs are served in order") {
  const std::vector<BatchRange> ranges{{0, 0, 60, 0, 0}, {1, 0, 60, 0, 0}, {1, 0, 60, 1, 1}};
  std::vector<RankWork> ranks{{.backlog = 0, .pace = 10, .frontier = 0}, {.backlog = 9, .pace = 10, .frontier = 1}};
  std::vector<BatchRange> dealt = ranges;
  rebalance(dealt, ranks, {.keep_epoch_order = true});
  CHECK(std::ranges::none_of(dealt, [](const BatchRange& range) { return range.epoch == 0 && range.owner == 1; }));
  CHECK(std::ranges::any_of(
      dealt, [](const BatchRange& range) { return range.epoch == 1 && range.shard == 0 && range.owner == 1; }));
  dealt = ranges;
  rebalance(dealt, ranks, {});
  CHECK(std::ranges::any_of(dealt, [](const BatchRange& range) { return range.epoch == 0 && range.owner == 1; }));
}

TEST_CASE("tidy sorts, drops what is empty and joins neighbours of one owner") {
  std::vector<BatchRange> ranges{
      {0, 5, 9, 1, 2}, {0, 2, 2, 0, 1}, {0, 1, 5, 1, 2}, {0, 9, 11, 1, 0}, {1, 11, 12, 1, 0}};
  tidy(ranges);
  CHECK(ranges == std::vector<BatchRange>{{0, 1, 9, 1, 2}, {0, 9, 11, 1, 0}, {1, 11, 12, 1, 0}});
  ranges = {{0, 2, 2, 0, 1}};
  tidy(ranges);
  CHECK(ranges.empty());
}

}  // namespace
}  // namespace forebay::test_record_table
