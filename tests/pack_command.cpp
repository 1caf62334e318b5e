// forebay pack and unpack: the command, killed runs, several processes, and the batches of a packed
// set.
#include <poll.h>
#include <signal.h>
#include <random>

#include "pack_support.hpp"
#include "process.hpp"
#include "test.hpp"

namespace forebay::test_pack_command {
namespace {

namespace fs = std::filesystem;
using namespace testing;

using Outcome = testing::Ended;

std::string made(const TemporaryDirectory& dir, const std::string& layout, const std::string& images) {
  const std::string data = (dir / "data").string();
  const Outcome outcome =
      run_command({"make-dataset", data, "--images", images, "--classes", "3", "--size", "96x64", "--layout", layout});
  REQUIRE(outcome.code == 0);
  return data;
}

// The log of served batches.
std::string batches_of(const fs::path& dir, const std::string& data, std::vector<std::string> more) {
  const fs::path log = dir / "log";
  std::ofstream(dir / "feed.toml") << "";
  std::vector<std::string> arguments{"feed", (dir / "feed.toml").string(), "--log-ids", log.string()};
  more.insert(more.end(), {"dataset.path=" + data, "dataset.batch_size=8", "transform.size=[32, 32]",
                           "policy.name=block", "queue.capacity=2", "telemetry.dir="});
  for (const std::string& each : more) arguments.insert(arguments.end(), {"--set", each});
  const Outcome outcome = run_command(arguments);
  CAPTURE(outcome.output);
  REQUIRE(outcome.code == 0);
  std::string lines;
  for (const auto& [name, text] : files_below(log)) lines += text;
  fs::remove_all(log);
  return lines;
}

TEST_CASE("pack, verify, index, unpack") {
  const TemporaryDirectory dir;
  const std::string data = made(dir, "folder", "20");
  const std::string set = (dir / "set").string();
  const Outcome packed = run_command({"pack", data, set, "--shard-size", "1MiB"});
  CHECK(packed.code == 0);
  CHECK(contains(packed.output, "samples      20\n"));
  CHECK(contains(packed.output, "1 written, 0 kept, of 1"));
  CHECK(contains(run_command({"pack", data, set, "--shard-size", "1MiB"}).output, "0 written, 1 kept, of 1"));
  const Outcome verified = run_command({"pack", "--verify", set});
  CHECK(verified.code == 0);
  CHECK(contains(verified.output, "damaged      0\n"));
  CHECK(contains(run_command({"index", set}).output, "format       pack\n"));
  const std::string again = (dir / "again").string();
  CHECK(run_command({"unpack", set, again}).code == 0);
  CHECK(files_below(again) == files_below(data));

  CHECK(run_command({"pack", data}).code == 2);
  CHECK(run_command({"pack", data, data}).code == 2);
  CHECK(run_command({"pack", set, (dir / "twice").string()}).code == 2);
  CHECK(run_command({"pack", "--verify", data}).code == 2);
  CHECK(run_command({"pack", data, set, "--shard-size", "lots"}).code == 2);
  CHECK(run_command({"pack", data, set, "--part", "3/2"}).code == 2);
  CHECK(run_command({"unpack", set, again}).code == 2);
  CHECK(run_command({"pack", "--verify", set, "--part", "1/2"}).code == 2);
  CHECK(run_command({"pack", data, set, "--as-is", "--pixels", "16"}).code == 2);

  CHECK(contains(run_command({"pack", data, data + "/packed"}).output, "lies within the folder of the dataset"));
  CHECK_FALSE(fs::exists(data + "/packed"));
  CHECK(run_command({"pack", data, data + ".packed", "--pixels", "16"}).code == 0);
  CHECK(contains(run_command({"pack", data + ".packed", (dir / "twice").string()}).output, "is packed already"));
}

TEST_CASE("a saved index is packed as it was made, and says what cannot be chosen any more") {
  const TemporaryDirectory dir;
  const std::string data = made(dir, "voc", "12");
  const std::string index = (dir / "saved.index").string();
  const std::string images = "dataset.samples=\"images\"";
  REQUIRE(run_command({"index", data, "--set", images, "--save", index}).code == 0);
  REQUIRE(run_command({"pack", data, (dir / "direct").string(), "--set", images}).code == 0);
  REQUIRE(run_command({"pack", index, (dir / "saved").string()}).code == 0);
  CHECK(shards_below(dir / "saved") == shards_below(dir / "direct"));
  CHECK(run_command({"index", (dir / "saved").string(), "--set", images}).code == 0);
  CHECK(contains(run_command({"pack", index, (dir / "other").string(), "--set", images}).output, "is a saved index"));
  CHECK(run_command({"pack", index, (dir / "other").string(), "--format", "voc"}).code == 2);
}

TEST_CASE("more bad samples than max_bad allows end packing, which resumes when they are mended") {
  const TemporaryDirectory dir;
  const std::string data = made(dir, "folder", "10");
  const std::string index = (dir / "saved.index").string();
  REQUIRE(run_command({"index", data, "--save", index}).code == 0);
  fs::path gone;
  for (const auto& [name, bytes] : files_below(data)) gone = fs::path(data) / name;
  fs::rename(gone, dir / "gone");
  const std::string set = (dir / "set").string();
  const Outcome refused = run_command({"pack", index, set, "--set", "max_bad=0"});
  CHECK(refused.code == 1);
  CHECK(contains(refused.output, gone.filename().string()));
  const Outcome allowed = run_command({"pack", index, set});
  CHECK(allowed.code == 0);
  CHECK(contains(allowed.output, "left out     1 sample\n"));
  fs::rename(dir / "gone", gone);
  CHECK(contains(run_command({"pack", index, set, "--set", "max_bad=0"}).output, "1 written, 0 kept"));
}

TEST_CASE("what the index left out as bad counts when the data are packed, and is named") {
  const TemporaryDirectory dir;
  const std::string data = made(dir, "voc", "10");
  std::ofstream(dir / "data/Annotations/000003.xml") << "<annotation";
  for (const char* strict : {"max_bad=0", "on_bad=\"fail\""}) {
    const Outcome refused = run_command({"pack", data, (dir / "none").string(), "--set", strict});
    CAPTURE(refused.output);
    CHECK(refused.code == 1);
    CHECK(contains(refused.output, "000003.xml"));
    CHECK(contains(refused.output, "the index left out 1 bad sample, which the set would lack"));
  }
  const Outcome packed = run_command({"pack", data, (dir / "set").string(), "--set", "max_bad=1"});
  CAPTURE(packed.output);
  CHECK(packed.code == 0);
  CHECK(contains(packed.output, "not packed   1 sample that the index left out as bad\n"));
  CHECK(contains(packed.output, "000003.xml: "));
}

TEST_CASE("verify and unpack name what is damaged, and fail") {
  const TemporaryDirectory dir;
  const std::string data = made(dir, "folder", "10");
  const std::string set = (dir / "set").string();
  CHECK(run_command({"pack", data, set, "--threads", "-1"}).code == 2);
  REQUIRE(run_command({"pack", data, set, "--as-is"}).code == 0);
  const fs::path shard = dir / "set/00000-of-00001.fbpack";
  std::string bytes = read_text(shard);
  bytes[4096 + 100] = static_cast<char>(bytes[4096 + 100] ^ 1);
  std::ofstream(shard, std::ios::binary) << bytes;
  const Outcome verified = run_command({"pack", "--verify", set});
  CHECK(verified.code == 1);
  CHECK(contains(verified.output, "00000-of-00001.fbpack[record 0, "));
  const Outcome unpacked = run_command({"unpack", set, (dir / "again").string()});
  CHECK(unpacked.code == 1);
  CHECK(contains(unpacked.output, "files        9"));
}

// Kills packing by `parts` processes, one of them at a time, and resumes it; the bytes must be those of one process
// that was not killed.
void check_killed(const std::string& images, const std::vector<std::string>& pack, std::size_t files, int kills,
                  int parts = 1) {
  const TemporaryDirectory dir;
  const std::string data = made(dir, "folder", images);
  const auto command = [&](const fs::path& out, int part, int of) {
    std::vector<std::string> arguments{testing::built_command(), "pack", data, out.string(), "--part"};
    arguments.push_back(std::to_string(part) + "/" + std::to_string(of));
    arguments.insert(arguments.end(), pack.begin(), pack.end());
    return arguments;
  };
  testing::Process once(command(dir / "once", 1, 1), dir / "output");
  REQUIRE(once.wait() == 0);
  const auto expected = shards_below(dir / "once");
  CHECK(expected.size() >= files - 1);

  std::mt19937 random(20261123);  // NOLINT(bugprone-random-generator-seed)
  int killed = 0;
  for (int round = 0; round < kills / 4; ++round) {
    const fs::path out = dir / ("killed" + std::to_string(round));
    // Killed a few times, each time a little later, whatever it was doing; then it may finish.
    for (int time = 0; time <= 4; ++time) {
      std::deque<testing::Process> running;
      for (int part = 1; part <= parts; ++part) {
        running.emplace_back(command(out, part, parts), dir / ("output" + std::to_string(part)));
      }
      if (time < 4) {
        ::poll(nullptr, 0, static_cast<int>(5 + random() % (40U << static_cast<unsigned>(time))));
        ::kill(running[random() % running.size()].pid(), SIGKILL);
      }
      for (testing::Process& process : running) {
        const int code = process.wait();
        if (time == 4) CHECK(code == 0);
        killed += code == 128 + SIGKILL ? 1 : 0;
      }
    }
    CHECK(shards_below(out) == expected);
  }
  CHECK(killed > 0);
}

TEST_CASE("a run killed at any moment and begun again makes the same bytes as one that was not") {
  const bool few = testing::kSanitized;
  const std::vector<std::string> small{"--shard-size", "1MiB", "--threads", "2", "--as-is"};
  const std::string images = few ? "600" : "3000";
  const std::size_t files = few ? 2 : 7;
  check_killed(images, small, files, testing::kills(few ? 4 : 20));
  check_killed(images, small, files, testing::kills(few ? 4 : 8), 2);
  check_killed("40", {"--threads", "2"}, 3, testing::kills(few ? 4 : 8));
}

TEST_CASE("a feeder makes the same batches of a packed set, in either order, and splits it alike") {
  const TemporaryDirectory dir;
  for (const std::string layout : {"voc", "folder"}) {
    CAPTURE(layout);
    fs::remove_all(dir / "data");
    fs::remove_all(dir / "set");
    const std::string data = made(dir, layout, "40");
    const std::string set = (dir / "set").string();
    REQUIRE(run_command({"pack", data, set, "--shard-size", "1MiB"}).code == 0);
    for (const std::vector<std::string>& more : {std::vector<std::string>{"run.epochs=2"},
                                                 {"dataset.order=shards", "dataset.window=16", "dataset.run=4"},
                                                 {"dataset.split=[0.5, 0.5]", "dataset.part=1"},
                                                 {"run.eval=true"},
                                                 {"workers.direct=true"}}) {
      CAPTURE(more.front());
      const std::string expected = batches_of(dir.path(), data, more);
      CHECK(std::ranges::count(expected, '\n') > 1);
      CHECK(batches_of(dir.path(), set, more) == expected);
    }
  }
}

}  // namespace
}  // namespace forebay::test_pack_command
