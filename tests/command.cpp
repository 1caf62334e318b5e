// The command line itself: help, usage errors, exit codes, completion. What the commands do is
// tested elsewhere.
#include <nlohmann/json.hpp>

#include "process.hpp"
#include "test.hpp"

namespace forebay::test_command {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;
using Json = nlohmann::json;

using Outcome = testing::Ended;
using testing::run_command;

std::string made_set(const TemporaryDirectory& dir) {
  std::string data = (dir / "data").string();
  REQUIRE(run_command({"make-dataset", data, "--images", "12", "--classes", "3", "--size", "64x48"}).code == 0);
  return data;
}

TEST_CASE("version and help") {
  const Outcome version = run_command({"--version"});
  CHECK(version.code == 0);
  CHECK(version.output.starts_with("forebay "));
  const Outcome help = run_command({"--help"});
  CHECK(help.code == 0);
  CHECK(run_command({"-v"}).output == version.output);
  CHECK(run_command({"help"}).output == help.output);
  for (const char* command : {"feed", "index", "config", "make-dataset", "simulate", "completion"}) {
    CAPTURE(command);
    CHECK(help.says(command));
    const Outcome own = run_command({command, "--help"});
    CHECK(own.code == 0);
    CHECK(own.says("Usage: "));
    CHECK(own.says("Examples:"));
    CHECK(run_command({"help", command}).output == own.output);
  }
}

TEST_CASE("index and pack want some of each class, as runs do") {
  const TemporaryDirectory dir;
  const std::string list = (dir / "list.txt").string();
  std::string lines;
  for (int i = 0; i < 1300; ++i) lines += "a.jpg,cat\n";
  std::ofstream(dir / "a.jpg") << "jpeg";
  for (int i = 0; i < 20; ++i) {
    const std::string name = "b" + std::to_string(i) + ".jpg";
    lines += name + ",dog\n";
    if (i < 8) std::ofstream(dir / name) << "jpeg";
  }
  std::ofstream(dir / "list.txt") << lines;
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"index", list}, {"pack", list, (dir / "out").string()}}) {
    const Outcome lost = run_command(arguments);
    CHECK(lost.code == 1);
    CHECK(lost.says(" of the 20 samples of class \"dog\" are bad, such as "));
    std::vector<std::string> allowed = arguments;
    allowed.insert(allowed.end(), {"--set", "max_bad=12"});
    CHECK(run_command(allowed).code == 0);
  }
}

TEST_CASE("index says which files of a list are missing, and fails above the budget") {
  const TemporaryDirectory dir;
  std::ofstream(dir / "a.jpg") << "jpeg";
  std::ofstream(dir / "list.txt") << "a.jpg 0\ngone.jpg 1\n";
  const std::string list = (dir / "list.txt").string();
  const Outcome within = run_command({"index", list, "--set", "max_bad=1"});
  CHECK(within.code == 0);
  CHECK(run_command({"index", list}).code == 1);  // half of the dataset is missing
  CHECK(within.says("missing      1 of the 2 files; relative paths begin in " + dir.path().string()));
  CHECK(within.says("gone.jpg: cannot open: no such file"));
  const Outcome above = run_command({"index", list, "--set", "max_bad=0", "--json"});
  CHECK(above.code == 1);
  CHECK(above.says("1 of 2 samples are bad, but max_bad allows 0"));
  CHECK(above.says("\"missing\":[{\"path\":"));
  CHECK(run_command({"index", list, "--set", "on_bad=fail"}).code == 1);
  CHECK(run_command({"index", list, "--set", "max_bad=0.5"}).code == 0);

  // The files of a saved index are checked only on request.
  const std::string saved = (dir / "saved").string();
  CHECK(run_command({"index", list, "--save", saved, "--set", "max_bad=1"}).code == 0);
  CHECK(run_command({"index", saved, "--set", "max_bad=0"}).code == 0);
  CHECK(run_command({"index", saved, "--set", "max_bad=0", "--check"}).code == 1);

  std::ofstream(dir / "list.txt") << "gone.jpg 1\n";
  const Outcome none = run_command({"index", list});
  CHECK(none.code == 1);
  CHECK(none.says("1 of 1 samples are bad, but a run needs some that are not"));
}

TEST_CASE("names from the disk cannot steer the terminal") {
  const TemporaryDirectory dir;
  const std::string evil = "\x1b[2Jx\xff\n";
  std::filesystem::create_directories(dir / "data" / ("class" + evil));
  std::ofstream(dir / "data" / ("class" + evil) / "a.jpg") << "jpeg";
  std::ofstream(dir / "data" / ("class" + evil) / ("note" + evil + ".txt")) << "text";
  std::ofstream(dir / ("list" + evil)) << "gone" + evil.substr(0, evil.size() - 1) + ".jpg\n";
  const std::vector<std::vector<std::string>> commands{{"index", (dir / "data").string()},
                                                       {"index", (dir / ("list" + evil)).string()},
                                                       {"index", (dir / ("nothing" + evil)).string()},
                                                       {"feed", (dir / ("nothing" + evil)).string()}};
  for (const auto& arguments : commands) {
    const Outcome outcome = run_command(arguments);
    CAPTURE(outcome.output);
    CHECK_FALSE(outcome.says("\x1b"));
    CHECK_FALSE(outcome.says("\xff"));
    CHECK(outcome.says("\\x1b[2Jx\\xff"));
  }
}

TEST_CASE("bad usage ends with 2 and one line that names it") {
  struct Case {
    std::vector<std::string> arguments;
    std::string message;
  };
  for (const Case& bad : std::vector<Case>{
           {{}, "no command was given (see forebay --help)"},
           {{"inedx"}, R"(there is no command or option "inedx"; did you mean index? (see forebay --help))"},
           {{"help", "inedx"}, R"(there is no command "inedx"; did you mean index? (see forebay --help))"},
           {{"xyzzy"}, "there is no command or option \"xyzzy\" (see forebay --help)"},
           {{"simulate", "--stepps=3"},
            "there is no option --stepps; did you mean --steps? (see forebay simulate --help)"},
           {{"feed", "x", "--xyzzy", "3"}, "there is no option --xyzzy (see forebay feed --help)"},
           {{"feed", "x", "--steps", "-1"}, "--steps: expected a number above 0, found -1 (see forebay feed --help)"},
           {{"simulate", "--steps", "0"}, "--steps: expected a number above 0, found 0"},
           {{"simulate", "--json", "/no/such/folder/x"}, "--json: cannot write /no/such/folder/x: there is no folder"},
           {{"index", "x", "--save", "/dev"}, "--save: cannot write /dev: it is a folder; name a file"},
           {{"completion", "fish"}, "SHELL"},
           {{"top", "run", "--interval", "1e10"}, "--interval: expected at most 1000000, found 1e10"},
           {{"top", "run", "--interval", "nan"}, "--interval: expected a number above 0, found nan"},
           {{"index"}, "PATH is required (see forebay index --help)"},
           {{"index", "x", "--decode-index"}, "--decode-index needs an index to lie beside: add --save FILE"},
           {{"index", "x", "--fill-cache", "--node", "-1"}, "--node: Value -1 not in range 0 to 1048576 (see "},
           {{"config", "--sett", "a=1"}, "--sett"},
           {{"config", "--set", "policy.lo=1"}, "--set policy.lo=1: unknown key policy.lo: did you mean policy.low?"},
           {{"config", "nope.toml"}, "the configuration nope.toml cannot be read: No such file or directory"},
           {{"config", "nope.toml", "--defaults"}, "--defaults"},
           {{"index", "x", "--format", "vox"}, R"(dataset.format: expected one of "auto", "voc")"},
           {{"index", "/no/such/folder"}, "dataset.path"},
           {{"make-dataset"}, "DIR is required"},
           {{"make-dataset", "x", "--classes", "17"}, "--classes 17: there are shapes for 1 to 16 classes"},
           {{"make-dataset", "x", "--size", "3x"}, "--size 3x: expected WIDTHxHEIGHT"},
           {{"make-dataset", "x", "--images", "0"}, "--images"},
           {{"make-dataset", "x", "--images", "many"}, "--images"},
           {{"make-dataset", "x", "--size", "64x48", "--objects", "9"}, "has room for 2"},
           {{"make-dataset", "x", "--images", "5", "--split", "0.01"}, "--split leaves one part without images"}}) {
    const Outcome outcome = run_command(bad.arguments);
    CAPTURES(outcome.output, bad.message);
    CHECK(outcome.code == 2);
    CHECK(outcome.output.starts_with("forebay: error: "));
    CHECK(outcome.says(bad.message));
    CHECK(outcome.output.find('\n') == outcome.output.size() - 1);
  }
}

// What bash completion offers for the last word of a command line.
std::string completed(const std::string& line) {
  const TemporaryDirectory dir;
  const std::string script = "source <(" + testing::built_command() + " completion bash); COMP_WORDS=(" + line +
                             "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _forebay; echo \"${COMPREPLY[@]}\"";
  testing::Process process({"bash", "-c", script}, dir / "output");
  REQUIRE(process.wait() == 0);
  return process.output();
}

TEST_CASE("of an option of feed that is given twice the last counts, as a job script passes arguments on") {
  const TemporaryDirectory dir;
  std::ofstream(dir / "feed.toml") << "dataset.path = \"" << made_set(dir) << "\"\ndataset.batch_size = 4\n";
  const auto file = [&](const char* name) { return (dir / name).string(); };
  const Outcome outcome = run_command({"feed",
                                       file("feed.toml"),
                                       "--set=telemetry.dir=",
                                       "--state",
                                       file("a"),
                                       "--save-every",
                                       "500",
                                       "--stop-exit-code",
                                       "85",
                                       "--steps",
                                       "1",
                                       "--state",
                                       file("b"),
                                       "--save-every",
                                       "2",
                                       "--stop-exit-code",
                                       "86",
                                       "--steps",
                                       "2",
                                       "--summary",
                                       file("none/x"),
                                       "--summary",
                                       file("s.json")});
  CAPTURE(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(Json::parse(std::ifstream(dir / "s.json")).at("steps") == 2);
  CHECK(fs::exists(dir / "b"));
  CHECK_FALSE(fs::exists(dir / "a"));
}

TEST_CASE("an output has a name, and no store's") {
  const TemporaryDirectory dir;
  const std::string data = made_set(dir);
  const std::string config = (dir / "feed.toml").string();
  const std::string run = "--set=telemetry.dir=" + (dir / "run").string();
  std::ofstream(config) << "dataset.path = \"" << data << "\"\ndataset.batch_size = 4\n";
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"feed", config, run, "--state", ""},
                                                    {"feed", config, run, "--log-ids", ""},
                                                    {"index", data, "--save", ""},
                                                    {"pack", data, ""},
                                                    {"index", ""}}) {
    CAPTURE(arguments);
    const Outcome outcome = run_command(arguments);
    CHECK(outcome.code == 2);
    CHECK(outcome.says(" was given an empty value: name it, or leave the option out"));
  }
  const std::string set = (dir / "set").string();
  REQUIRE(run_command({"pack", data, set}).code == 0);
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"feed", config, run, "--epochs=1", "--state", "s3://b/x.state"},
        {"feed", config, run, "--epochs=1", "--log-ids", "S3://b/ids"},
        {"feed", config, run, "--epochs=1", "--trace", "s3://b/trace"},
        {"index", data, "--save", "s3://b/x.index"},
        {"pack", data, "s3://b/pk"},
        {"unpack", set, "s3://b/files"}}) {
    CAPTURE(arguments);
    const Outcome outcome = run_command(arguments);
    CHECK(outcome.code == 2);
    CHECK(outcome.says("it is a URL, and only files are written"));
  }
  CHECK_FALSE(fs::exists("s3:"));
}

TEST_CASE("bash completes commands, flags and choices, and zsh's script knows the same") {
  CHECK(completed("forebay si") == "simulate\n");
  CHECK(completed("forebay feed --sta") == "--state\n");
  CHECK(completed("forebay simulate --mode lo") == "local lockstep\n");
  CHECK(completed("forebay help con") == "config\n");
  CHECK(completed("forebay feed --set policy.na") == "policy.name\n");
  CHECK(completed("forebay index /et --save /et") == "/etc\n");
  CHECK(completed("forebay feed --steps /et") == "\n");
  const Outcome zsh = run_command({"completion", "zsh"});
  REQUIRE(zsh.code == 0);
  CHECK(zsh.output.starts_with("#compdef forebay\n"));
  CHECK(zsh.says("'*--mode[how the ranks decide]:--mode:(local lockstep)'"));
}

TEST_CASE("the manual page has every command and flag") {
  const Outcome page = run_command({"man"});
  REQUIRE(page.code == 0);
  CHECK(page.output.starts_with(".TH FOREBAY 1 "));
  for (const char* part : {".SS forebay feed CONFIG", "\\fB\\-\\-save\\-every\\fR \\fIN\\fR",
                           ".SS forebay make\\-dataset DIR", "Exit codes: 0 ok"}) {
    CAPTURE(part);
    CHECK(page.says(part));
  }
}

TEST_CASE("config prints a configuration that it reads back") {
  const TemporaryDirectory dir;
  const Outcome defaults = run_command({"config"});
  REQUIRE(defaults.code == 0);
  CHECK(run_command({"config", "--defaults"}).output == defaults.output);
  const std::string file = (dir / "feed.toml").string();
  std::ofstream(file) << defaults.output;
  CHECK(run_command({"config", file}).output == defaults.output);
  const Outcome changed = run_command({"config", "--set", "policy.name=greedy", file, "--set", "seed=3"});
  CHECK(changed.code == 0);
  CHECK(changed.says("name = \"greedy\""));
  CHECK(changed.says("seed = 3 "));
  CHECK_FALSE(changed.says("warning"));
  const Outcome misspelt =
      run_command({"config", "--set", "policy.name=adaptiv", "--set", "transform.operations=['blur', 'shear']"});
  CHECK(misspelt.code == 0);  // a program may add them
  CHECK(misspelt.says("warning: policy.name: Forebay has no policy \"adaptiv\"; did you mean adaptive?"));
  CHECK(misspelt.says("warning: transform.operations: Forebay has no operation \"shear\", only blur, colour"));
}

TEST_CASE("index says the same to people and to programs") {
  const TemporaryDirectory dir;
  const std::string data = made_set(dir);
  const Outcome json_text = run_command({"index", data, "--json"});
  REQUIRE(json_text.code == 0);
  const auto json = nlohmann::json::parse(json_text.output);
  CHECK(json.at("format") == "voc");
  CHECK(json.at("images") == 12);
  CHECK(json.at("annotations") == 12);
  CHECK(json.at("samples") == json.at("objects"));
  CHECK(json.at("skipped").empty());
  std::uint64_t in_classes = 0;
  for (const auto& count : json.at("classes")) in_classes += count.get<std::uint64_t>();
  CHECK(in_classes == json.at("samples"));
  CHECK(json.at("classes").size() == 3);

  const Outcome text = run_command({"index", data});
  CHECK(text.code == 0);
  CHECK(text.says(json.at("fingerprint").get<std::string>()));
  CHECK(text.says("circle"));
}

TEST_CASE("index counts the boxes of whole images, and the images that have more than there is room for") {
  const TemporaryDirectory dir;
  const std::string data = made_set(dir);
  const std::vector<std::string> images{
      "index", data, "--set", "dataset.samples=images", "--set", "fields.objects.kind=boxes"};
  const auto with = [&](const std::string& most, const std::string& last) {
    std::vector<std::string> arguments = images;
    arguments.insert(arguments.end(), {"--set", "fields.objects.most=" + most, last});
    return run_command(arguments);
  };
  const auto json = nlohmann::json::parse(with("100", "--json").output);
  CHECK(json.at("samples") == 12);
  const auto& boxes = json.at("boxes").at("objects");
  CHECK(boxes.at("boxes") == json.at("objects"));
  CHECK(boxes.at("too_many") == 0);
  std::uint64_t in_classes = 0;
  for (const auto& count : boxes.at("classes")) in_classes += count.get<std::uint64_t>();
  CHECK(in_classes == boxes.at("boxes"));
  CHECK(boxes.at("largest") > 1);
  const Outcome text = with("1", "--set=on_bad=fail");
  CHECK(text.code == 1);
  CHECK(text.says(" boxes, " + boxes.at("largest").dump() + " in one sample at most"));
  CHECK(text.says(" are bad: they have more than fields.objects.most = 1"));
}

TEST_CASE("index says how well windows mix the samples, and a global order where it is asked to") {
  const TemporaryDirectory dir;
  const std::string data = made_set(dir);
  const auto mixing = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"index", data, "--json"});
    const Outcome outcome = run_command(arguments);
    REQUIRE_MESSAGE(outcome.code == 0, outcome.output);
    const auto json = nlohmann::json::parse(outcome.output);
    return json.contains("mixing") ? json.at("mixing") : nlohmann::json();
  };
  CHECK(mixing({}).is_null());
  const auto global = mixing({"--mixing"});
  CHECK(global.at("order") == global.at("shuffle"));
  const auto stored = mixing({"--mixing", "--set", "dataset.shuffle=false"});
  CHECK(stored.at("order").at("displacement") == 0);
  const auto windows = mixing({"--set", "dataset.order=shards", "--set", "dataset.window=4", "--set", "dataset.run=4",
                               "--set", "dataset.batch_size=4"});
  CHECK(windows.at("order").at("together") > windows.at("shuffle").at("together"));
  CHECK(mixing({"--set", "dataset.order=local"}).at("meetings") == 2);
  const std::vector<std::string> local{"--set", "dataset.order=local", "--set", "dataset.nodes=5"};
  CHECK(mixing(local).at("meetings") == 5);

  const Outcome text = run_command({"index", data, "--set", "dataset.order=shards", "--set", "dataset.window=2048"});
  CHECK(text.says("mixed        in windows of 2,048, runs of 32: of a batch of "));
  CHECK(text.says(" samples lie within 32 of each other in storage (a true shuffle: "));
  CHECK_FALSE(run_command({"index", data}).says("mixed"));
  const Outcome parts = run_command({"index", data, "--set", "dataset.order=local", "--set", "dataset.exchange=0.05"});
  CHECK(parts.says("mixed        in 2 parts, 5 % exchanged: of a batch of "));
  CHECK(parts.says("together again in the next epoch 1.81 times as often as in a true shuffle"));
}

TEST_CASE("index takes a configuration, saves, and finds what was saved") {
  const TemporaryDirectory dir;
  const std::string data = made_set(dir);
  const std::string config = (dir / "feed.toml").string();
  const std::string saved = (dir / "saved.index").string();
  std::ofstream(config) << "[dataset]\npath = \"" << data << "\"\nformat = \"voc\"\n";
  const Outcome built = run_command({"index", config, "--save", saved, "--json"});
  REQUIRE_MESSAGE(built.code == 0, built.output);
  REQUIRE(fs::exists(saved));
  const Outcome loaded = run_command({"index", config, "--set", "dataset.index=" + saved, "--json"});
  REQUIRE_MESSAGE(loaded.code == 0, loaded.output);
  CHECK(loaded.output == built.output);
}

TEST_CASE("no output replaces the configuration, the data, or what is not Forebay's") {
  const TemporaryDirectory dir;
  const std::string list = (dir / "own.csv").string();
  const std::string config = (dir / "feed.toml").string();
  const std::string json = (dir / "weights.json").string();
  std::ofstream(list) << "file,label\na.jpg,cat\n";
  std::ofstream(config) << "[dataset]\npath = \"" << list << "\"\n";
  std::ofstream(json) << "{}";
  const std::string kept = testing::read_text(list) + testing::read_text(config);
  const std::string weights = "dataset.weights=" + json;
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"index", list, "--save", list},
                                                    {"index", config, "--save", config},
                                                    {"feed", config, "--epochs=1", "--summary", config},
                                                    {"feed", config, "--epochs=1", "--summary", list},
                                                    {"feed", config, "--epochs=1", "--trace", config},
                                                    {"feed", config, "--epochs=1", "--set", weights, "--summary", json},
                                                    {"simulate", "--json", list},
                                                    {"simulate", config, "--json", config}}) {
    CAPTURE(arguments);
    const Outcome outcome = run_command(arguments);
    CAPTURE(outcome.output);
    CHECK(outcome.code == 2);
    CHECK((outcome.says("would be lost: name another, or remove it") || outcome.says("this command reads it")));
    CHECK(testing::read_text(list) + testing::read_text(config) == kept);
  }
  CHECK(testing::read_text(json) == "{}");
}

TEST_CASE("index --check reads a saved index whole and names the bytes that are damaged") {
  const TemporaryDirectory dir;
  const std::string saved = (dir / "saved.index").string();
  REQUIRE(run_command({"index", made_set(dir), "--save", saved}).code == 0);
  const Outcome sound = run_command({"index", saved, "--check"});
  CHECK(sound.code == 0);
  CHECK(sound.says("checked      every byte of the index"));
  CHECK(sound.says("circle"));
  {
    std::fstream file(saved, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('?');
  }
  const Outcome damaged = run_command({"index", saved, "--check"});
  CHECK(damaged.code == 1);
  CHECK(damaged.says("index " + saved + ": a damaged index: the checksum of bytes "));
}

TEST_CASE("index names what it left out, and why") {
  const TemporaryDirectory dir;
  const std::string data = made_set(dir);
  std::ofstream(fs::path(data) / "Annotations" / "000003.xml") << "<annotation><object></annotation>";
  const Outcome text = run_command({"index", data});
  CHECK(text.code == 0);
  CHECK(text.says("(1 bad)"));
  CHECK(text.says("000003"));
}

// `forebay index --decode-index`: what it writes, and when it leaves an existing file alone.

void write(const fs::path& path, const std::string& content) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

// JPEG files that a decode index can cover.
std::vector<std::string> pictures(int count) {
  const testing::TemporaryDirectory dir;
  const std::string data = (dir / "data").string();
  const Outcome made =
      run_command({"make-dataset", data, "--images", std::to_string(count), "--classes", "2", "--size", "240x200"});
  REQUIRE_MESSAGE(made.code == 0, made.output);
  std::vector<std::string> files;
  for (const fs::path& path : testing::files_in(data)) {
    if (path.extension() == ".jpg") files.push_back(testing::read_text(path));
  }
  REQUIRE(files.size() == static_cast<std::size_t>(count));
  return files;
}

// The report of `forebay index --decode-index --json`.
Json report_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "index");
  arguments.insert(arguments.end(), {"--decode-index", "--json"});
  const Outcome outcome = run_command(arguments);
  REQUIRE_MESSAGE(outcome.code == 0, outcome.output);
  return Json::parse(outcome.output).at("decode_index");
}

TEST_CASE("what a store does not give now is not left out of a decode index: the one that is there stays") {
  // Each read ends before the size that stat() gives, which counts as a transient error.
  const fs::path failing = "/sys/devices/system/cpu/online";
  REQUIRE(fs::file_size(failing) > testing::read_text(failing).size());
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
  const std::string points = testing::read_text(index + ".points");

  fs::remove(place(2));
  fs::create_symlink(failing, place(2));
  for (const bool is_json : {false, true}) {
    std::vector<std::string> arguments{"index", index, "--decode-index"};
    if (is_json) arguments.emplace_back("--json");
    const Outcome failed = run_command(arguments);
    CAPTURE(failed.output);
    CHECK(failed.code == 1);
    CHECK(testing::contains(failed.output, place(2).string() + ": ended at byte"));
    CHECK(testing::contains(failed.output, "(read 4 times); the decode index was not written"));
    CHECK(testing::read_text(index + ".points") == points);
  }
  fs::remove(place(2));
  write(place(2), all[2]);
  CHECK(report_of({index}) == good);
  CHECK(testing::read_text(index + ".points") == points);
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
  const std::string points = testing::read_text(index + ".points");
  put(50);
  const Json kept = report_of({index});
  CHECK(kept.at("images") == 2);
  CHECK(kept.at("known") == 0);
  CHECK(kept.at("kept") == true);
  CHECK(testing::read_text(index + ".points") == points);
  const Outcome text = run_command({"index", index, "--decode-index"});
  CHECK_MESSAGE(testing::contains(text.output, "decode index left as it was"), text.output);
  // If there is none yet, an empty one is written, which shows that the dataset was examined.
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
}  // namespace forebay::test_command
