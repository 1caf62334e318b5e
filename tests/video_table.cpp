#include "video/video_table.hpp"
#include "test.hpp"

// The tables of videos, without any video.
namespace forebay::test_video_table {

using namespace forebay::testing;
using namespace forebay::video;

TEST_CASE("where decoding may begin for a frame") {
  Random random = random_from(11);
  for (int round = 0; round < 200; ++round) {
    VideoTable table;
    std::vector<std::int64_t> times;
    for (std::uint64_t i = random.below(20) + 1; i > 0; --i) {
      table.packets.push_back({.is_key = random.below(3) == 0});
      times.push_back(static_cast<std::int64_t>(random.below(12)));
    }
    table.rank_by(times);
    std::vector<std::uint32_t> some;
    for (std::uint32_t i = 0; i < table.packets.size(); ++i) {
      if (random.below(3) > 0) some.push_back(i);
    }
    const std::vector<std::uint32_t> entries = table.entries(some);
    REQUIRE(entries.size() == some.size());
    for (std::size_t i = 0; i < some.size(); ++i) {
      std::uint32_t wanted = some[i];
      while (wanted > 0 && !(table.packets[wanted].is_key && table.packets[wanted].rank <= table.packets[some[i]].rank))
        --wanted;
      CHECK(entries[i] == wanted);
    }
  }
  // A table of a long video takes time in proportion to its length, whatever its packets claim.
  constexpr std::uint32_t kLong = 1U << 20U;
  VideoTable backwards;
  for (std::uint32_t i = 0; i < kLong; ++i) backwards.packets.push_back({.rank = kLong - 1 - i, .is_key = true});
  std::vector<std::uint32_t> all(kLong);
  std::iota(all.begin(), all.end(), 0U);
  CHECK(backwards.entries(all) == all);
}

TEST_CASE("tables are what they were, and damaged ones are refused") {
  VideoTable table{.stream = {.codec = "h264",
                              .pixel_format = "yuv420p",
                              .extradata = {std::byte{1}, std::byte{2}},
                              .tag = 7,
                              .profile = -99,
                              .level = 30,
                              .bits_per_sample = 24,
                              .width = 640,
                              .height = 360,
                              .colour_range = 2,
                              .matrix = 9,
                              .delay = 1},
                   .orientation = 6};
  table.packets = {{.offset = 1000, .bytes = 70'000, .is_key = true},
                   {.offset = 90'000, .bytes = 5, .is_disposable = true},
                   {.offset = 80'000, .bytes = 300, .is_hidden = true}};
  table.rank_by(std::array<std::int64_t, 3>{-512, 2048, 1024});
  CHECK(delay_of(table.packets) == 1);
  CHECK(table.shown() == std::vector<std::uint32_t>{0, 1});
  const auto bytes = table.serialize();
  std::size_t length = 0;
  const VideoTable back = VideoTable::parse(bytes, length);
  CHECK(length == bytes.size());
  CHECK(back.stream == table.stream);
  CHECK(back.serialize() == bytes);
  CHECK(back.packets[1].rank == 2);
  CHECK(back.packets[1].offset == 90'000);
  const auto refusal = [&](std::span<const std::byte> from) {
    return error_of<SampleError>([&] { return VideoTable::parse(from, length); });
  };
  for (std::size_t size = 0; size < bytes.size(); ++size) CHECK(refusal(std::span(bytes).first(size)) != "");
  table.packets[1].rank = 1;  // same as another packet's
  CHECK(refusal(table.serialize()) != "");
  table.packets[1].rank = 3;
  CHECK(refusal(table.serialize()) != "");
}

}  // namespace forebay::test_video_table
