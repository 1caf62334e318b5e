// The state of a job as text: it reads back as it was, stays small, and nothing else is taken for a state.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include <forebay/error.hpp>
#include <forebay/random.hpp>
#include <nlohmann/json.hpp>

#include "order/hand_over.hpp"
#include "order/job_state.hpp"
#include "order/ledger.hpp"
#include "states.hpp"
#include "support.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay {
namespace {

using testing::blocks_of;
using testing::job;
using testing::leave;
using testing::put_in_order;
using testing::random_state;
using Json = nlohmann::ordered_json;

constexpr std::size_t kLimit = std::size_t{64} << 10U;

// Small, with an item of every kind in its lists.
JobState small_state() {
  JobState state = job(8, 2, 43, 3, 2);
  state.settings = {{"seed", "17"}, {"dataset.batch_size", "64"}};
  leave(state, [](std::uint32_t rank) { return 9 + 3 * rank; });
  state.left.erase(state.left.begin() + 2);
  state.left[4].owner = 1 - state.left[4].owner;
  return state;
}

// What reading the text as a state is refused with; "" when it is accepted.
std::string refusal(const std::string& text) {
  try {
    (void)parse_state(text, "run/feed.state");
  } catch (const ConfigError& error) {
    CHECK(std::string(error.what()).starts_with("run/feed.state "));
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The document with the checksum that it should have.
std::string sealed(Json json) {
  json.erase("checksum");
  std::string text = json.dump();
  text.pop_back();
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  return text + ",\"checksum\":\"" + digits + "\"}\n";
}

// What the small state is refused with after a change of its document, checksum made right.
template <typename Change>
std::string refusal_after(Change&& change) {
  Json json = Json::parse(to_text(small_state()));
  change(json);
  return refusal(sealed(std::move(json)));
}

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
  CHECK(json.at("forebay_state") == 1);
  CHECK(json.at("steps") == state.steps);
  CHECK(json.at("settings") == Json{{"dataset.batch_size", "64"}, {"seed", "17"}});
  // Shards 0 2 4 6 1 3 5 7 of both epochs, one of them taken out and one given to the other rank.
  CHECK(json.at("left") == Json::parse("[3,-1,2,2,3,3,[1,3,0],3,[8,0]]"));
  CHECK(json.at("cut") == Json::array());
  CHECK(sealed(json) == text);
}

TEST_CASE("the example in docs/state.md is a state, and what the page says about it is true") {
  std::ifstream page(forebay::testing::source_dir() / "docs" / "state.md");
  std::string line;
  while (std::getline(page, line) && !line.starts_with("{\"forebay_state\"")) {
  }
  const JobState state = parse_state(line + "\n", "the example");
  CHECK(to_text(state) == line + "\n");
  JobState told = job(8, 2, 43, 3, 2);
  leave(told, [](std::uint32_t rank) { return rank == 0 ? 24U : 9U; });
  REQUIRE(told.left[3] == Piece{.epoch = 3, .begin = 2, .end = 5, .shard = 7, .owner = 1});
  told.left[3].end = 4;
  told.left.push_back({.epoch = 3, .begin = 4, .end = 5, .shard = 7, .owner = 0});
  put_in_order(told);
  CHECK(state.left == told.left);
}

TEST_CASE("equal states have equal texts, and states read back") {
  const std::uint64_t seed = 41;
  CAPTURE(seed);
  Random random(seed);
  std::size_t pieces = 0;
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    const JobState state = random_state(random);
    pieces += state.left.size();
    check_round_trip(state);
  }
  CHECK(pieces > 50'000);

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

TEST_CASE("what ranks leave without hand-over takes a few bytes per rank") {
  Random random(5);
  for (const std::uint32_t ranks : {1U, 4U, 64U, 512U, 1024U}) {
    CAPTURE(ranks);
    JobState state = job(1024, ranks, 1'000'003, 12, 2);
    const std::uint64_t base = 1'000'000 / ranks * 3 / 4;
    leave(state, [&](std::uint32_t) { return base + random.below(1 + 500'000 / ranks); });
    check_round_trip(state);
    const std::size_t size = to_text(state).size();
    MESSAGE(ranks << " ranks: " << size << " bytes for " << state.left.size() << " pieces");
    CHECK(size < 1400 + 32 * ranks);
  }
}

TEST_CASE("the worst states stay below 64 KiB") {
  const std::uint64_t seed = 7;
  CAPTURE(seed);
  Random random(seed);
  // Three epochs of a large dataset (5 million batches each), every shard somewhere else and with any rank; 1,024
  // pieces are cut off and with another one.
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
  // Thousands of epochs of a small dataset, in each of them one shard left, and 768 pieces with another rank.
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
    MESSAGE("3072 epochs of " << batches << " batches: " << size << " bytes for " << state.left.size() << " pieces");
    CHECK(size < kLimit);
  }
}

TEST_CASE("a job whose ranks hand everything over again and again has a small state") {
  for (const std::uint64_t batches : {1024ULL * 40, 50'000'000ULL}) {
    for (const std::uint32_t ranks : {2U, 8U, 64U, 512U}) {
      for (const std::uint64_t slow : {0U, 300U, 8000U}) {
        CAPTURE(batches);
        CAPTURE(ranks);
        CAPTURE(slow);
        Ledger ledger({.batches = batches, .shards = 1024, .ranks = ranks, .epochs = UINT64_MAX}, 1000, 1000, {},
                      ranks);
        for (std::uint32_t round = 0; round < 12; ++round) {
          // Another rank is the only fast one each time.
          std::vector<RankWork> works(ranks, {.backlog = 4, .pace = slow, .frontier = 1000});
          works[round % ranks].pace = 65'536;
          std::vector<Piece> pieces(ledger.pieces().begin(), ledger.pieces().end());
          hand_over(pieces, works, false);
          ledger.replace(pieces);
          if (round % 4 != 0 && round != 11) continue;
          JobState state = job(1024, ranks, batches, 1000, static_cast<std::uint32_t>(ledger.opened() - 1000));
          state.left.assign(ledger.pieces().begin(), ledger.pieces().end());
          CHECK(to_text(state).size() < kLimit / 2);
        }
      }
    }
  }
}

TEST_CASE("a text with another byte anywhere is refused") {
  const std::string text = to_text(small_state());
  REQUIRE(refusal(text).empty());
  std::size_t accepted = 0;
  std::string changed = text;
  for (std::size_t i = 0; i < text.size(); ++i) {
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
  const std::uint64_t seed = 23;
  CAPTURE(seed);
  Random random(seed);
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
        "{\"forebay_state\":\"1\"}\n", "{\"forebay_state\":-1}\n", "{\"forebay_state\":1.0}"}) {
    CAPTURE(other);
    CHECK(contains(refusal(other), "is not a Forebay state: it has no \"forebay_state\""));
  }
  CHECK(contains(refusal("hello"), "is not JSON at byte 1;"));
  CHECK(contains(refusal(std::string("\0\0\0", 3)), "is not JSON at byte 1;"));
  CHECK(contains(refusal("{\"forebay_state\":1,\"steps\":12x}"), "is not JSON at byte 30;"));
  CHECK(contains(refusal("{\"forebay_state\":1}\n{}"), "is not JSON at byte 21;"));
  CHECK(contains(refusal("{\"forebay_state\":1,\"steps\":1e999}\n"), "is not JSON: "));
  CHECK(contains(refusal("{\"forebay_state\":1,\"policy\":\"\xff\"}\n"), "is not JSON at byte"));
  CHECK(refusal("{\"forebay_state\":2}\n") ==
        "run/feed.state is a state of version 2, written by a newer Forebay; this one reads version 1: resume with the "
        "Forebay that saved it");
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
  CHECK(contains(refusal("{\"forebay_state\":1}\n"), "does not end with a checksum"));
}

TEST_CASE("a member that is missing or of a wrong type is named") {
  for (const std::string name : {"steps", "epochs", "opened", "fresh_samples", "ranks", "batches", "virtual_shards",
                                 "samples", "dataset", "policy", "settings", "left", "cut"}) {
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

TEST_CASE("numbers and pieces that cannot be are refused with which and why") {
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

  CHECK(contains(with("left", Json::parse("[[15,0]]")), "left has 15 shards, and the opened epochs have 16"));
  CHECK(contains(with("left", Json::parse("[0,[16,0]]")), "left[1] goes beyond the last shard"));
  CHECK(contains(with("left", Json::parse("[0,-16]")), "left[1] goes beyond the last shard"));
  CHECK(contains(with("left", Json::parse("[-9223372036854775808]")), "left[0] goes beyond"));
  CHECK(contains(with("left", Json::parse("[[18446744073709551615,0]]")), "left[0] goes beyond"));
  for (const char* item :
       {"[]", "[1]", "[1,2,3,4]", "[-1,0]", "[1,2,-3]", "[1,-1]", "\"1\"", "1.5", "null", "{}", "[[1],0]"}) {
    CAPTURE(item);
    CHECK(
        contains(with("left", Json::array({Json::parse(item)})), "left[0] is neither a whole number nor two or three"));
  }
  CHECK(contains(with("left", Json::parse("[6,[15,0]]")),
                 "blocks 6 to 6 of shard 0 in epoch 3 are not a part of its 6 blocks"));
  CHECK(contains(with("left", Json::parse("[18446744073709551615,[15,0]]")), "are not a part of its 6 blocks"));

  CHECK(contains(with("left", Json::parse("[[15,0],[1,0,2]]")), "belong to rank 2 of 2"));
  CHECK(contains(with("left", Json::parse("[[15,0],[1,0,4294967297]]")), "belong to rank 4294967295 of 2"));

  for (const char* item : {"[]", "[3]", "[3,5,2,1]", "[3,5,2,1,0,0]", "[3,5,2,-3,0]", "[3,5,2,1,\"0\"]", "7", "null"}) {
    CAPTURE(item);
    CHECK(contains(with("cut", Json::array({Json::parse(item)})), "cut[0] is not an epoch and four whole numbers"));
  }
  CHECK(contains(with("cut", Json::parse("[[2,5,2,1,0]]")), "are outside the opened epochs, 3 to 5"));
  CHECK(contains(with("cut", Json::parse("[[5,5,2,1,0]]")), "are outside the opened epochs"));
  CHECK(contains(with("cut", Json::parse("[[3,8,2,1,0]]")), "are outside the 8 virtual shards"));
  CHECK(contains(with("cut", Json::parse("[[3,4294967296,2,1,0]]")), "are outside the 8 virtual shards"));
  CHECK(contains(with("cut", Json::parse("[[3,5,3,0,0]]")), "blocks 3 to 3 of shard 5 in epoch 3 are not a part"));
  CHECK(contains(with("cut", Json::parse("[[3,5,3,4,0]]")), "are not a part of its 5 blocks"));
  CHECK(contains(with("cut", Json::parse("[[3,5,3,18446744073709551615,0]]")), "are not a part of its 5 blocks"));
  CHECK(contains(with("cut", Json::parse("[[3,5,0,1,2]]")), "belong to rank 2 of 2"));
  CHECK(contains(with("cut", Json::parse("[[3,5,0,1,4294967297]]")), "belong to rank 4294967295 of 2"));
  CHECK(contains(with("cut", Json::parse("[[3,5,3,1,0,5,0,1,0]]")), "cut is out of order"));
  CHECK(contains(with("cut", Json::parse("[[4,5,3,1,0],[3,5,0,1,0]]")), "cut is out of order"));
  CHECK(contains(with("cut", Json::parse("[[3,5,0,2,0,5,1,1,0]]")),
                 "blocks 1 to 2 of shard 5 in epoch 3 are left twice in part"));
  CHECK(contains(with("cut", Json::parse("[[4,5,3,1,0]]")), "are left twice in part"));
}

TEST_CASE("a state that is deep, long or claims too much is refused, in memory proportional to its size") {
  for (const std::size_t depth : {10U, 1000U, 1'000'000U}) {
    CAPTURE(depth);
    CHECK(contains(refusal(std::string(depth, '[')), "nested that deep"));
    CHECK(
        contains(refusal("{\"forebay_state\":1,\"left\":" + std::string(depth, '[') + std::string(depth, ']') + "}\n"),
                 "nested that deep"));
    std::string objects;
    for (std::size_t i = 0; i < depth; ++i) objects += "{\"a\":";
    CHECK(contains(refusal(objects), "nested that deep"));
  }
  CHECK(contains(refusal("{\"forebay_state\":1,\"left\":[" + std::string(1'000'000, '9') + "]}\n"), "is not JSON: "));
  CHECK(contains(refusal("{\"" + std::string(1'000'000, 'a')), "is cut off"));
  const std::string greedy = refusal_after([](Json& json) {
    json["virtual_shards"] = 1U << 20U;
    json["batches"] = UINT64_MAX;
    json["opened"] = 3 + (1ULL << 16U);
    json["left"] = Json::array({Json::array({1ULL << 36U, 0})});
  });
  CHECK(contains(greedy, "left[0] makes more pieces than a job can have open, 3145728"));
  // A few bytes that stand for a number for each of a billion epochs.
  const std::string endless = refusal_after([](Json& json) {
    json["opened"] = 1'000'000'003;
    json["left"] = Json::array({-1'000'000'000 * json["virtual_shards"].get<std::int64_t>()});
  });
  CHECK(contains(endless, "opened is 1000000003 where epochs is 3, and at most 65536 epochs can be open"));
}

TEST_CASE("an impossible state is not written") {
  const auto error = [](auto&& change) {
    JobState state = small_state();
    change(state);
    try {
      (void)to_text(state);
    } catch (const Error& thrown) {
      return std::string(thrown.what());
    }
    return std::string();
  };
  CHECK(error([](JobState&) {}).empty());
  CHECK(contains(error([](JobState& state) { state.ranks = 0; }), "a bug in Forebay: ranks is 0"));
  CHECK(contains(error([](JobState& state) { state.left[1].owner = 2; }), "belong to rank 2 of 2"));
  CHECK(contains(error([](JobState& state) { std::swap(state.left[0], state.left[1]); }), "are out of order"));
  CHECK(contains(error([](JobState& state) { state.left.push_back(state.left.back()); }), "are left twice in part"));
}

}  // namespace
}  // namespace forebay
