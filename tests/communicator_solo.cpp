#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <forebay/communicator.hpp>

using forebay::solo_communicator;

TEST_CASE("one rank on its own is the whole job") {
  const auto alone = solo_communicator();
  CHECK(alone->rank() == 0);
  CHECK(alone->size() == 1);
  CHECK(alone->duplicate()->size() == 1);
  CHECK(alone->close(0));
}

TEST_CASE("a sum over one rank is complete at once and changes nothing") {
  const auto alone = solo_communicator();
  std::array<std::int64_t, 3> values{4, -1, 0};
  alone->start_reduction(0, values);
  CHECK(alone->test(0));
  CHECK(values == std::array<std::int64_t, 3>{4, -1, 0});
  alone->start_reduction(0, values);
  CHECK(alone->test(0));
  CHECK(alone->test(forebay::Communicator::kChannels - 1));
}

TEST_CASE("broadcast and all_gather return what this rank gave") {
  const auto alone = solo_communicator();
  const std::vector<std::byte> bytes{std::byte{1}, std::byte{2}};
  CHECK(alone->broadcast(bytes, 0) == bytes);
  CHECK(alone->all_gather("mine") == std::vector<std::string>{"mine"});
}

TEST_CASE("memory shared with nobody is zero and writable") {
  const auto alone = solo_communicator();
  const auto memory = alone->share_on_node(4096);
  REQUIRE(memory->bytes().size() == 4096);
  CHECK(std::ranges::all_of(memory->bytes(), [](std::byte b) { return b == std::byte{0}; }));
  memory->bytes()[4095] = std::byte{7};
  CHECK(memory->bytes()[4095] == std::byte{7});
}

TEST_CASE("a word of one's own is nobody else's") {
  const auto alone = solo_communicator();
  alone->tell("I am alone");
  CHECK_FALSE(alone->listen());
  alone->abort("nobody's job");
  alone->note_failure("nobody to tell");
}
