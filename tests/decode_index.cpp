// `forebay index --decode-index`: what it writes, and when it leaves alone what is there.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "process.hpp"
#include "support.hpp"

namespace forebay {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Outcome {
  int code;
  std::string output;  // standard output and standard error
};

Outcome run(std::vector<std::string> arguments) {
  const testing::TemporaryDirectory dir;
  arguments.insert(arguments.begin(), testing::built_command());
  testing::Process process(arguments, dir / "output");
  const int code = process.wait();
  return {code, process.output()};
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, const std::string& content) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

// JPEG files that a decode index knows.
std::vector<std::string> pictures(int count) {
  const testing::TemporaryDirectory dir;
  const std::string data = (dir / "data").string();
  const Outcome made =
      run({"make-dataset", data, "--images", std::to_string(count), "--classes", "2", "--size", "240x200"});
  REQUIRE_MESSAGE(made.code == 0, made.output);
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(data)) {
    if (entry.path().extension() == ".jpg") files.push_back(content_of(entry.path()));
  }
  REQUIRE(files.size() == static_cast<std::size_t>(count));
  return files;
}

// The report of `forebay index --decode-index --json`.
Json report_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "index");
  arguments.insert(arguments.end(), {"--decode-index", "--json"});
  const Outcome outcome = run(arguments);
  REQUIRE_MESSAGE(outcome.code == 0, outcome.output);
  return Json::parse(outcome.output).at("decode_index");
}

TEST_CASE("what a store does not give now is not left out of a decode index: the one that is there stays") {
  // Ends earlier than its size says, each time: an error that may pass.
  const fs::path failing = "/sys/devices/system/cpu/online";
  REQUIRE(fs::file_size(failing) > content_of(failing).size());
  const testing::TemporaryDirectory dir;
  const auto all = pictures(4);
  const auto place = [&](std::size_t i) { return dir / "data" / "x" / (std::to_string(i) + ".jpg"); };
  for (std::size_t i = 0; i < all.size(); ++i) write(place(i), all[i]);
  const std::string index = (dir / "x.index").string();
  const Json good = report_of({(dir / "data").string(), "--format", "folder", "--save", index});
  CHECK(good.at("images") == 4);
  CHECK(good.at("known") == 4);
  CHECK(good.at("unreadable") == 0);
  CHECK(good.at("kept") == false);
  CHECK(good.at("file") == index + ".points");
  CHECK(good.at("bytes") == fs::file_size(index + ".points"));
  const std::string points = content_of(index + ".points");

  fs::remove(place(2));
  fs::create_symlink(failing, place(2));
  for (const bool is_json : {false, true}) {
    std::vector<std::string> arguments{"index", index, "--decode-index"};
    if (is_json) arguments.emplace_back("--json");
    const Outcome failed = run(arguments);
    CAPTURE(failed.output);
    CHECK(failed.code == 1);
    CHECK(testing::contains(failed.output, place(2).string() + ": ended at byte"));
    CHECK(testing::contains(failed.output, "(read 4 times); the decode index was not written"));
    CHECK(content_of(index + ".points") == points);
  }
  fs::remove(place(2));
  write(place(2), all[2]);
  CHECK(report_of({index}) == good);
  CHECK(content_of(index + ".points") == points);
}

TEST_CASE("an empty decode index replaces none") {
  const testing::TemporaryDirectory dir;
  const auto all = pictures(2);
  const auto put = [&](std::size_t cut) {
    for (const std::size_t i : {0U, 1U}) {
      write(dir / "data" / std::to_string(i) / "a.jpg", all[i].substr(0, all[i].size() - cut));
    }
  };
  const std::string index = (dir / "x.index").string();
  put(0);
  CHECK(report_of({(dir / "data").string(), "--save", index}).at("known") == 2);
  const std::string points = content_of(index + ".points");
  put(50);
  const Json kept = report_of({index});
  CHECK(kept.at("images") == 2);
  CHECK(kept.at("known") == 0);
  CHECK(kept.at("kept") == true);
  CHECK(content_of(index + ".points") == points);
  const Outcome text = run({"index", index, "--decode-index"});
  CHECK_MESSAGE(testing::contains(text.output, "decode index left as it was"), text.output);
  // Where there is none, an empty one says that somebody looked.
  fs::remove(index + ".points");
  CHECK(report_of({index}).at("kept") == false);
  CHECK(fs::exists(index + ".points"));
}

TEST_CASE("pictures of fields are in a decode index too") {
  const testing::TemporaryDirectory dir;
  const auto all = pictures(5);
  for (const std::size_t i : {0U, 1U}) {
    write(dir / "data" / "x" / (std::to_string(i) + ".jpg"), all[i]);
    write(dir / "right" / (std::to_string(i) + ".jpg"), all[i + 2]);
  }
  const std::vector<std::string> arguments{(dir / "data").string(),
                                           "--format",
                                           "folder",
                                           "--set",
                                           "fields.right.kind=image",
                                           "--set",
                                           "fields.right.from=\"../right/{stem}.jpg\"",
                                           "--save",
                                           (dir / "x.index").string()};
  const Json report = report_of(arguments);
  CHECK(report.at("images") == 4);
  CHECK(report.at("known") == 4);
  fs::remove(dir / "right" / "1.jpg");
  const Json fewer = report_of({(dir / "x.index").string()});
  CHECK(fewer.at("known") == 3);
  CHECK(fewer.at("unreadable") == 1);
}

}  // namespace
}  // namespace forebay
