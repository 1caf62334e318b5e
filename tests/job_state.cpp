// The state of a job as text: its content is correct, and it reads back unchanged.
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "order/job_state.hpp"
#include "order/ledger.hpp"
#include "order/rebalance.hpp"
#include "states.hpp"
#include "test.hpp"

namespace forebay::test_job_state {

using namespace forebay::order;

namespace {

using namespace testing;
using Json = nlohmann::ordered_json;

void check_round_trip(const JobState& state) {
  const std::string text = to_text(state);
  CHECK(parse_state(text, "a state") == state);
  CHECK(text.ends_with("}\n"));
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
}

TEST_CASE("the text is JSON that says what it says") {
  const JobState state = small_state();
  const std::string text = to_text(state);
  const Json json = Json::parse(text);
  CHECK(json.begin().key() == "forebay_state");
  CHECK(json.at("forebay_state") == 2);
  CHECK(json.at("steps") == state.steps);
  CHECK(json.at("settings") == Json{{"dataset.batch_size", "64"}, {"seed", "17"}});
  // Shards 0 to 7 of both epochs, except shard 2 of the first; its shard 5 was handed over to the
  // other rank.
  CHECK(unpacked(json.at("left")) == Json::parse(R"({"epoch":[3,0,0,0,0,0,0,1,0,0,0,0,0,0,0],
                                                     "shard":[0,1,2,1,1,1,1,-7,1,1,1,1,1,1,1],
                                                     "begin":[3,0,0,-1,1,-1,1,-3,0,0,0,0,0,0,0],
                                                     "end":[6,0,-1,0,0,0,0,1,0,0,-1,0,0,0,0],
                                                     "owner":[0,1,0,-1,0,0,1,-1,1,-1,1,-1,1,-1,1]})"));
  CHECK(sealed(json) == text);
}

TEST_CASE("the example in docs/state.md is a state, and what the page says about it is true") {
  std::ifstream page(forebay::testing::source_dir() / "docs" / "state.md");
  std::string line;
  while (std::getline(page, line) && !line.starts_with("{\"forebay_state\"")) {
  }
  const JobState state = parse_state(line + "\n", "the example");
  // Other versions of zlib may compress differently.
  const Json example = Json::parse(line);
  Json written = Json::parse(to_text(state));
  CHECK(unpacked(written.at("left")) == unpacked(example.at("left")));
  written["left"] = example.at("left");
  CHECK(sealed(written) == line + "\n");
  while (std::getline(page, line) && !line.starts_with("{\"epoch\"")) {
  }
  CHECK(Json::parse(line) == unpacked(example.at("left")));
  JobState told = job(8, 2, 43, 3, 2);
  leave(told, [](std::uint32_t rank) { return rank == 0 ? 24U : 9U; });
  REQUIRE(told.left[3] == BatchRange{.epoch = 3, .begin = 2, .end = 5, .shard = 7, .owner = 1});
  told.left[3].end = 4;
  told.left.push_back({.epoch = 3, .begin = 4, .end = 5, .shard = 7, .owner = 0});
  put_in_order(told);
  CHECK(state.left == told.left);
}

TEST_CASE("equal states have equal texts, and states read back") {
  Random random = testing::random_from(41);
  std::size_t ranges = 0;
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    const JobState state = random_state(random);
    ranges += state.left.size();
    check_round_trip(state);
  }
  CHECK(ranges > 50'000);

  JobState last = job(1, 1, 1, UINT64_MAX - 1, 1);
  last.steps = last.fresh_samples = last.samples = UINT64_MAX;
  last.left = {{.epoch = UINT64_MAX - 1, .begin = 0, .end = 1, .shard = 0, .owner = 0}};
  check_round_trip(last);
  last.batches = UINT64_MAX;
  last.left[0].end = UINT64_MAX;
  check_round_trip(last);
  check_round_trip(job(1U << 20U, 1U << 20U, UINT64_MAX, 0, 1U << 16U));
  check_round_trip(job(1024, 4, 100, 7, 0));
}

TEST_CASE("an impossible state is not written") {
  const auto error = [](auto&& change) {
    JobState state = small_state();
    change(state);
    return testing::error_of([&] { (void)to_text(state); });
  };
  CHECK(error([](JobState&) {}).empty());
  CHECK(contains(error([](JobState& state) { state.ranks = 0; }), "a bug in Forebay: ranks is 0"));
  CHECK(contains(error([](JobState& state) { state.left[1].owner = 2; }), "belong to rank 2 of 2"));
  CHECK(contains(error([](JobState& state) { std::swap(state.left[0], state.left[1]); }), "are out of order"));
  CHECK(contains(error([](JobState& state) { state.left.push_back(state.left.back()); }), "are left twice in part"));
}

// Text that is not a state, or not any more, is refused with the cause, in memory proportional to
// its size.

// The message with which the text is refused as a state; "" if it is accepted.
std::string refusal(const std::string& text) {
  try {
    (void)parse_state(text, "run/feed.state");
  } catch (const ConfigError& error) {
    CHECK(std::string(error.what()).starts_with("run/feed.state "));
    return error.what();
  }
  return "";
}

// The message with which the small state is refused after a change of its document; the checksum is
// recomputed.
template <typename Change>
std::string refusal_after(Change&& change) {
  Json json = Json::parse(to_text(small_state()));
  change(json);
  return refusal(sealed(std::move(json)));
}

TEST_CASE("a text with another byte anywhere is refused") {
  const std::string text = to_text(small_state());
  REQUIRE(refusal(text).empty());
  std::size_t accepted = 0;
  std::string changed = text;
  for (std::size_t i = 0; i < text.size(); i += testing::kSanitized ? 7 : 1) {
    for (int byte = 0; byte < 256; ++byte) {
      changed[i] = static_cast<char>(byte);
      if (changed[i] == text[i]) continue;
      try {
        (void)parse_state(changed, "a state");
        ++accepted;
      } catch (const ConfigError&) {
      }
    }
    changed[i] = text[i];
  }
  CHECK(accepted == 0);
}

TEST_CASE("a text that is cut off anywhere is refused as that") {
  const std::string text = to_text(small_state());
  CHECK(contains(refusal(""), "is empty"));
  for (std::size_t size = 1; size < text.size(); ++size) {
    CAPTURE(size);
    CHECK(contains(refusal(text.substr(0, size)), "is cut off after " + std::to_string(size) + " bytes; resume from"));
  }
  for (std::size_t begin = 1; begin < text.size(); ++begin) CHECK(refusal(text.substr(begin)) != "");
}

TEST_CASE("a large text with changed, lost, doubled or exchanged parts is refused") {
  Random random = testing::random_from(23);
  JobState state = job(1024, 300, 1'000'003, 12, 2);
  leave(state, [&](std::uint32_t) { return random.below(4000); });
  const std::string text = to_text(state);
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    const std::size_t at = random.below(text.size());
    const std::size_t length = 1 + random.below(std::min<std::size_t>(text.size() - at, 4096));
    std::string changed = text;
    switch (random.below(4)) {
      case 0: changed.erase(at, length); break;
      case 1: changed.insert(at, text.substr(at, length)); break;
      case 2: changed.replace(at, length, length, '\0'); break;
      default: changed.replace(at, length, to_text(small_state()).substr(0, length)); break;
    }
    if (changed != text) CHECK(refusal(changed) != "");
  }
}

TEST_CASE("anything but a state is refused with the cause") {
  for (const std::string other :
       {"{}", "[]", "null", "17\n", "\"text\"", "{\"forebay\":\"decisions\",\"version\":1}\n",
        "{\"forebay_state\":\"1\"}\n", "{\"forebay_state\":-1}\n", "{\"forebay_state\":2.0}"}) {
    CAPTURE(other);
    CHECK(contains(refusal(other), "is not a Forebay state: it has no \"forebay_state\""));
  }
  CHECK(contains(refusal("hello"), "is not JSON at byte 1;"));
  CHECK(contains(refusal(std::string("\0\0\0", 3)), "is not JSON at byte 1;"));
  CHECK(contains(refusal("{\"forebay_state\":2,\"steps\":12x}"), "is not JSON at byte 30;"));
  CHECK(contains(refusal("{\"forebay_state\":2}\n{}"), "is not JSON at byte 21;"));
  CHECK(contains(refusal("{\"forebay_state\":2,\"steps\":1e999}\n"), "is not JSON: "));
  CHECK(contains(refusal("{\"forebay_state\":2,\"policy\":\"\xff\"}\n"), "is not JSON at byte"));
  CHECK(refusal("{\"forebay_state\":3}\n") ==
        "run/feed.state is a state of version 3, written by a newer Forebay; this one reads version 2: resume with the "
        "Forebay that saved it");
  CHECK(refusal("{\"forebay_state\":1}\n") ==
        "run/feed.state is a state of version 1, written by an older Forebay; this one reads version 2: resume with "
        "the Forebay that saved it");
  CHECK(contains(refusal("{\"forebay_state\":0}\n"), "is a state of version 0, which never was"));
}

TEST_CASE("an edited state is refused, be it with another space only") {
  const std::string text = to_text(small_state());
  std::string edited = text;
  edited.replace(edited.find("adaptive"), 8, "watermrk");
  CHECK(contains(refusal(edited), ", which it was saved with: it was edited, reformatted or damaged"));
  CHECK(contains(refusal(Json::parse(text).dump(2) + "\n"), "does not end with a checksum: it was edited"));
  CHECK(contains(refusal(text.substr(0, text.size() - 2) + " }\n"), "does not end with a checksum"));
  CHECK(contains(refusal(text + "\n"), "does not end with a checksum"));
  CHECK(contains(refusal(" " + text), "has the checksum"));
  CHECK(contains(refusal("{\"forebay_state\":2}\n"), "does not end with a checksum"));
}

TEST_CASE("a member that is missing or of a wrong type is named") {
  for (const std::string name : {"steps", "epochs", "opened", "fresh_samples", "ranks", "batches", "virtual_shards",
                                 "samples", "dataset", "policy", "settings", "left"}) {
    CAPTURE(name);
    CHECK(contains(refusal_after([&](Json& json) { json.erase(name); }),
                   "is not a possible state: " + name + " is missing"));
    for (const Json& wrong : {Json(nullptr), Json(-1), Json(1.5), Json(true)}) {
      CAPTURE(wrong);
      CHECK(contains(refusal_after([&](Json& json) { json[name] = wrong; }), "possible state: " + name + " is not "));
    }
  }
  CHECK(contains(refusal_after([](Json& json) { json["settings"]["seed"] = 17; }), "settings: \"seed\" is not text"));
  CHECK(contains(refusal_after([](Json& json) { json["ranks"] = 1ULL << 32U; }), "ranks is too large"));
  CHECK(refusal_after([](Json& json) { json["more"] = "of a later Forebay"; }).empty());
}

TEST_CASE("numbers and ranges that cannot be are refused with which and why") {
  const auto with = [](const char* member, const Json& value) {
    return refusal_after([&](Json& json) { json[member] = value; });
  };
  CHECK(contains(with("virtual_shards", 0), "virtual_shards is 0, not 1 to 1048576"));
  CHECK(contains(with("virtual_shards", 1048577), "virtual_shards is 1048577"));
  CHECK(contains(with("ranks", 0), "ranks is 0, not 1 to 8"));
  CHECK(contains(with("ranks", 9), "ranks is 9, not 1 to 8"));
  CHECK(contains(with("batches", 0), "batches is 0"));
  CHECK(contains(with("opened", 2), "opened is 2 where epochs is 3"));
  CHECK(contains(with("opened", UINT64_MAX), "opened is 18446744073709551615"));

  for (const char* left : {"[]", "{}", "{\"bytes\":9}", "{\"zlib\":\"\"}", "{\"bytes\":\"9\",\"zlib\":\"\"}",
                           "{\"bytes\":-9,\"zlib\":\"\"}", "{\"bytes\":9,\"zlib\":9}"}) {
    CAPTURE(left);
    CHECK(contains(with("left", Json::parse(left)), "left is not an object with the number"));
  }
}

TEST_CASE("ranges that cannot be unpacked are refused with why") {
  const auto with = [](const Json& left) { return refusal_after([&](Json& json) { json["left"] = left; }); };
  const Json good = Json::parse(to_text(small_state())).at("left");
  REQUIRE(with(good).empty());
  for (const char* text : {"A", "AAA", "AA==AAAA", "AAA*", "AAAA\n"}) {
    CAPTURE(text);
    CHECK(contains(with({{"bytes", 9}, {"zlib", text}}), "is not base64"));
  }
  Json left = good;
  for (const int change : {-1, 1}) {
    left["bytes"] = good.at("bytes").get<int>() + change;
    CHECK(contains(with(left), "does not hold what \"bytes\" says"));
  }
  left = good;
  left["zlib"] = good.at("zlib").get<std::string>().substr(4);
  CHECK(contains(with(left), "does not hold what \"bytes\" says"));
  left["zlib"] = good.at("zlib").get<std::string>().substr(0, 40);
  CHECK(contains(with(left), "does not hold what \"bytes\" says"));
  for (const std::string text : {"", "[]", "17", "{", "{\"epoch\":[", "\xff"}) {
    CAPTURE(text);
    CHECK(contains(with(packed(text)), "\"epoch\" is not a list of whole numbers"));
  }
  CHECK(contains(with(packed(std::string(1000, '['))), "is not a list of whole numbers"));
  for (const char* const name : {"epoch", "shard", "begin", "end", "owner"}) {
    CAPTURE(name);
    const std::string wanted = "\"" + std::string(name) + "\" is not a list of whole numbers";
    Json columns = unpacked(good);
    columns.erase(name);
    CHECK(contains(with(packed(columns.dump())), wanted));
    for (const Json& wrong : {Json(nullptr), Json(1), Json("1"), Json::object(), Json::array({1.5}), Json::array({"1"}),
                              Json::array({Json::array({1})})}) {
      CAPTURE(wrong);
      columns[name] = wrong;
      CHECK(contains(with(packed(columns.dump())), wanted));
    }
    columns = unpacked(good);
    columns[name].push_back(1);
    CHECK(contains(with(packed(columns.dump())), "its lists differ in length"));
  }
}

TEST_CASE("ranges that cannot be are refused with which and why") {
  // The job has epochs 3 and 4 open, 2 ranks, and 8 shards; the first three shards have 6 blocks,
  // the others 5.
  using Rows = std::vector<std::array<std::uint64_t, 5>>;  // epoch, shard, begin, end, owner
  const auto with = [](const Rows& rows) {
    Json columns;
    std::array<std::uint64_t, 5> before{};
    constexpr std::array<const char*, 5> kNames{"epoch", "shard", "begin", "end", "owner"};
    for (const auto& row : rows) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        columns[kNames[i]].push_back(static_cast<std::int64_t>(row[i] - before[i]));
      }
      before = row;
    }
    return refusal_after([&](Json& json) { json["left"] = packed(columns.dump()); });
  };
  REQUIRE(with({{3, 0, 5, 6, 0}, {3, 5, 0, 2, 1}, {4, 5, 2, 3, 0}}).empty());
  CHECK(contains(with({{2, 5, 2, 3, 0}}), "are outside the opened epochs, 3 to 5"));
  CHECK(contains(with({{5, 5, 2, 3, 0}}), "are outside the opened epochs"));
  CHECK(contains(with({{3, 8, 2, 3, 0}}), "are outside the 8 virtual shards"));
  CHECK(contains(with({{3, 4'294'967'296, 2, 3, 0}}), "are outside the 8 virtual shards"));
  CHECK(contains(with({{3, 0, 6, 6, 0}}), "blocks 6 to 6 of shard 0 in epoch 3 are not a part of its 6 blocks"));
  CHECK(contains(with({{3, 0, UINT64_MAX, 6, 0}}), "are not a part of its 6 blocks"));
  CHECK(contains(with({{3, 5, 3, 3, 0}}), "blocks 3 to 3 of shard 5 in epoch 3 are not a part"));
  CHECK(contains(with({{3, 5, 3, 7, 0}}), "are not a part of its 5 blocks"));
  CHECK(contains(with({{3, 5, 3, UINT64_MAX, 0}}), "are not a part of its 5 blocks"));
  CHECK(contains(with({{3, 5, 0, 1, 2}}), "belong to rank 2 of 2"));
  CHECK(contains(with({{3, 5, 0, 1, 4'294'967'297}}), "belong to rank 4294967295 of 2"));
  CHECK(contains(with({{3, 5, 3, 4, 0}, {3, 5, 0, 1, 0}}), "are out of order"));
  CHECK(contains(with({{4, 5, 3, 4, 0}, {3, 5, 0, 1, 0}}), "are out of order"));
  CHECK(
      contains(with({{3, 5, 0, 2, 0}, {3, 5, 1, 2, 0}}), "blocks 1 to 2 of shard 5 in epoch 3 are left twice in part"));
  CHECK(contains(with({{4, 5, 0, 5, 1}, {4, 5, 3, 4, 0}}), "are left twice in part"));
}

TEST_CASE("a state that is deep, long or claims too much is refused, in memory proportional to its size") {
  for (const std::size_t depth : {10U, 1000U, 1'000'000U}) {
    CAPTURE(depth);
    CHECK(contains(refusal(std::string(depth, '[')), "nested that deep"));
    CHECK(
        contains(refusal("{\"forebay_state\":2,\"left\":" + std::string(depth, '[') + std::string(depth, ']') + "}\n"),
                 "nested that deep"));
    std::string objects;
    for (std::size_t i = 0; i < depth; ++i) objects += "{\"a\":";
    CHECK(contains(refusal(objects), "nested that deep"));
  }
  CHECK(contains(refusal("{\"forebay_state\":2,\"left\":[" + std::string(1'000'000, '9') + "]}\n"), "is not JSON: "));
  CHECK(contains(refusal("{\"" + std::string(1'000'000, 'a')), "is cut off"));
  // More ranges than the job can have, more bytes than those ranges can need, more than zlib can
  // make from so few bytes.
  const auto with = [](std::uint32_t shards, const Json& left, std::uint64_t open = 1ULL << 16U) {
    return refusal_after([&](Json& json) {
      json["virtual_shards"] = shards;
      json["batches"] = UINT64_MAX;
      json["opened"] = 3 + open;
      json["left"] = left;
    });
  };
  constexpr std::size_t kMost = 4096 + 8 + 2 * 8;  // for one epoch in 8 shards
  const Json many(kMost + 1, 0);
  const Json columns{{"epoch", many}, {"shard", many}, {"begin", many}, {"end", many}, {"owner", many}};
  CHECK(contains(with(8, packed(columns.dump()), 1), "left has 4121 ranges, and a job can have 4120 at most"));
  Json left = packed(std::string(100'000, '['));
  for (const std::uint64_t bytes : {std::uint64_t{400'000'000}, std::uint64_t{1'000'000}, UINT64_MAX}) {
    left["bytes"] = bytes;
    CHECK(contains(with(1U << 20U, left), "left: " + std::to_string(bytes) + " bytes are more than the ranges of"));
  }
  left = packed(std::string(1'000'000, '['));
  CHECK(contains(with(8, left, 1), "left: 1000000 bytes are more than the ranges of the job can have"));
  CHECK(contains(with(1U << 20U, left), "is not a list of whole numbers"));
  // Reading stops as soon as there are more numbers than the job can have ranges.
  std::string zeros = R"({"epoch":[0)";
  for (std::size_t i = 0; i < 100'000; ++i) zeros += ",0";
  CHECK(contains(with(8, packed(zeros + "]}"), 1), "left has 4121 ranges, and a job can have 4120 at most"));
  std::string list = R"({"forebay_state":2,"left":[0)";
  for (std::size_t i = 0; i < 100'000; ++i) list += ",0";
  CHECK(contains(refusal(list + "]}\n"), "a state has fewer members"));
  const std::string endless = refusal_after([](Json& json) { json["opened"] = 1'000'000'003; });
  CHECK(contains(endless, "opened is 1000000003 where epochs is 3, and at most 65536 epochs can be open"));
}

// States stay small, whatever ranks have handed over to each other.

constexpr std::size_t kLimit = std::size_t{64} << 10U;

TEST_CASE("what ranks leave without hand-over takes a few bytes per rank") {
  Random random(5);
  for (const std::uint32_t ranks : {1U, 4U, 64U, 512U, 1024U}) {
    CAPTURE(ranks);
    JobState state = job(1024, ranks, 1'000'003, 12, 2);
    const std::uint64_t base = 1'000'000 / ranks * 3 / 4;
    leave(state, [&](std::uint32_t) { return base + random.below(1 + 500'000 / ranks); });
    check_round_trip(state);
    const std::size_t size = to_text(state).size();
    MESSAGE(ranks << " ranks: " << size << " bytes for " << state.left.size() << " ranges");
    CHECK(size < 1400 + 32 * ranks);
  }
}

TEST_CASE("the worst states stay below 64 KiB") {
  Random random = testing::random_from(7);
  // Three epochs of a large dataset (5 million batches each), every shard at a different position
  // and with any owner; 1,024 ranges are split off with another owner.
  for (const std::uint32_t ranks : {2U, 300U, 1023U, 1024U}) {
    CAPTURE(ranks);
    JobState state = job(1024, ranks, 1024 * 5'000ULL + 500, 100, 3);
    const auto anybody = [&] { return static_cast<std::uint32_t>(random.below(ranks)); };
    for (std::uint64_t i = 0; i < 3072; ++i) {
      const auto shard = static_cast<std::uint32_t>(i % 1024);
      const std::uint64_t epoch = 100 + i / 1024;
      const std::uint64_t begin = 1'000 + random.below(3'000);
      const std::uint64_t cut = i % 3 == 0 ? begin + 1 + random.below(900) : begin;
      if (cut > begin) {
        state.left.push_back({.epoch = epoch, .begin = begin, .end = cut, .shard = shard, .owner = anybody()});
      }
      state.left.push_back(
          {.epoch = epoch, .begin = cut, .end = blocks_of(state, shard), .shard = shard, .owner = anybody()});
    }
    REQUIRE(state.left.size() == 4 * 1024);
    check_round_trip(state);
    const std::size_t size = to_text(state).size();
    MESSAGE("large epochs, " << ranks << " ranks: " << size << " bytes");
    CHECK(size < kLimit);
  }
  // Thousands of epochs of a small dataset, with one shard left in each of them, and 768 ranges
  // with another owner.
  for (const std::uint64_t batches : {1U, 2U, 64U, 1024U, 2000U}) {
    CAPTURE(batches);
    constexpr std::uint32_t ranks = 1024;
    JobState state = job(1024, ranks, batches, 1'000'000, 3072);
    for (std::uint64_t epoch = state.epochs; epoch < state.opened; ++epoch) {
      const auto shard = static_cast<std::uint32_t>(random.below(std::min<std::uint64_t>(batches, 1024)));
      state.left.push_back(
          {.epoch = epoch, .begin = 0, .end = blocks_of(state, shard), .shard = shard, .owner = shard});
      const auto other = (shard + 1) % static_cast<std::uint32_t>(std::min<std::uint64_t>(batches, 1024));
      if (epoch % 4 != 0 || other == shard) continue;
      state.left.push_back(
          {.epoch = epoch, .begin = 0, .end = blocks_of(state, other), .shard = other, .owner = (other + 512) % ranks});
    }
    put_in_order(state);
    check_round_trip(state);
    const std::size_t size = to_text(state).size();
    MESSAGE("3072 epochs of " << batches << " batches: " << size << " bytes for " << state.left.size() << " ranges");
    CHECK(size < kLimit);
  }
}

TEST_CASE("a job whose ranks hand everything over again and again has a small state") {
  for (const std::uint64_t batches : {1024ULL * 40, 50'000'000ULL}) {
    for (const std::uint32_t ranks : {2U, 8U, 64U, 512U}) {
      if (testing::kSanitized && ranks > 8) break;
      for (const std::uint64_t slow : {0U, 300U, 8000U}) {
        CAPTURES(batches, ranks, slow);
        Ledger ledger({.batches = batches, .shards = 1024, .ranks = ranks, .epochs = UINT64_MAX}, 1000, 1000, {},
                      ranks);
        for (std::uint32_t round = 0; round < 12; ++round) {
          // A different rank is the only fast one each time.
          std::vector<RankWork> works(ranks, {.backlog = 4, .pace = slow, .frontier = 1000});
          works[round % ranks].pace = 65'536;
          std::vector<BatchRange> ranges(ledger.ranges().begin(), ledger.ranges().end());
          rebalance(ranges, works, {});
          ledger.replace(ranges);
          if (round % 4 != 0 && round != 11) continue;
          JobState state = job(1024, ranks, batches, 1000, static_cast<std::uint32_t>(ledger.opened() - 1000));
          state.left.assign(ledger.ranges().begin(), ledger.ranges().end());
          CHECK(to_text(state).size() < kLimit / 2);
        }
      }
    }
  }
}

}  // namespace
}  // namespace forebay::test_job_state
