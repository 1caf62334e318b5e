// Reads telemetry back, and checks the page that `forebay report` makes from it.
#include <tinyxml2.h>

#include "measure/counters.hpp"
#include "measure/figures.hpp"
#include "measure/run_log.hpp"
#include "report/page.hpp"
#include "report/record_lines.hpp"
#include "report/run_data.hpp"
#include "report/time_bins.hpp"
#include "test.hpp"
#include "workplace.hpp"

namespace forebay::test_report {

using namespace forebay::measure;
using namespace forebay::report;

namespace {

namespace fs = std::filesystem;
using doctest::Approx;
using namespace testing;

// A step every 0.1 s: every third is fresh, and each waits for 0.02 s.
StepRecord step_at(std::uint64_t step, double t_s) {
  StepRecord record;
  record.step = step;
  record.use_index = step % 3;
  record.t_s = t_s;
  record.wait_s = step == 0 ? 7 : 0.02;
  record.step_s = t_s == 0 ? 0 : 0.08;
  record.depth = 2 + static_cast<std::uint32_t>(step % 3);
  record.served = step % 3 == 0 ? Decision::fresh : Decision::reuse;
  return record;
}

std::string step_lines(std::uint64_t first, std::uint64_t count) {
  std::string lines;
  for (std::uint64_t i = 0; i < count; ++i) append_json(lines, step_at(first + i, 0.1 * static_cast<double>(i)));
  return lines;
}

std::string interval_lines(std::uint64_t count) {
  std::string lines;
  for (std::uint64_t i = 0; i < count; ++i) {
    Interval interval;
    interval.t_s = 5 * static_cast<double>(i + 1);
    interval.interval_s = 5;
    interval.step_num = 50 * (i + 1) - 1;
    interval.queue_size = 3;
    interval.capacity = 16;
    interval.steps = 50;
    interval.fresh = 20;
    interval.job_uses_max = 4;
    if (i > 0) {  // the first step has no times
      interval.mean_running_time = 0.1;
      interval.stall = 0.2;
    }
    append_json(lines, interval);
  }
  return lines;
}

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

RunHead head_of(std::uint32_t rank, std::uint32_t ranks, Settings settings = {}) {
  return {.rank = rank, .ranks = ranks, .started = utc_now(), .host = "node<1>", .settings = std::move(settings)};
}

Profile storage_bound() {
  Profile profile;
  profile.window_s = 60;
  profile.batches = 1000;
  profile.batch_size = 4;
  profile.queue_capacity = 16;
  profile.read_ms = 20;
  profile.storage = {
      .threads = 2, .busy = 1, .blocked_in = 0, .blocked_out = 0, .images_per_s = 100, .images_per_s_alone = 100};
  profile.trainer = {
      .threads = 1, .busy = 0.5, .blocked_in = 0.5, .blocked_out = 0, .images_per_s = 100, .images_per_s_alone = 200};
  profile.fresh_fraction = 1.0 / 3;
  return profile;
}

std::string end_of_rank() {
  Summary summary;
  summary.steps = 300;
  summary.fresh = 100;
  summary.images_per_s = 1234;
  summary.uses_max = 3;
  return end_line({.summary = summary, .profile = storage_bound()});
}

const Settings kSettings{{"policy.name", "\"adaptive\""}, {"queue.capacity", "16"}, {"dataset.path", "\"a & <b>\""}};

// Two ranks with 30 s of steps, the second with half as many; the run has ended.
void write_run(const fs::path& dir, const Settings& settings = kSettings) {
  for (const std::uint32_t rank : {0U, 1U}) {
    const std::string number = std::to_string(rank);
    write(dir / ("run." + number + ".jsonl"),
          head_line(head_of(rank, 2, rank == 0 ? settings : Settings{})) + end_of_rank());
    write(dir / ("steps." + number + ".jsonl"), step_lines(0, rank == 0 ? 300 : 150));
  }
}

RunData read(const fs::path& dir, const ReadLimits& limits = {}) { return read_run(dir, limits, {}); }

Bin total_of(const RunData& run) {
  Bin total;
  for (const Bin& bin : run.job) total.add(bin);
  return total;
}

bool has_note(const RunData& run, const std::string& part) {
  return std::ranges::any_of(run.notes, [&](const std::string& note) { return contains(note, part); });
}

TEST_CASE("a line is read back as it was written, and a broken one is told apart") {
  const std::vector<std::string_view> wanted{"step", "t_s", "decision", "padding", "depth", "use_index"};
  const LineReader<StepRecord> reader(step_figures(), wanted);
  StepRecord written = step_at(7, 0.7);
  written.padding = true;
  std::string line;
  append_json(line, written);
  line.pop_back();
  StepRecord record;
  CHECK(reader.read(line, record) == "");
  CHECK(record.step == 7);
  CHECK(record.t_s == 0.7);
  CHECK(record.served == Decision::reuse);
  CHECK(record.padding);
  CHECK(record.depth == 3);
  CHECK(record.wait_s == 0);  // not requested
  const auto problem_after = [&](const std::string& from, const std::string& to) {
    std::string changed = line;
    changed.replace(changed.find(from), from.size(), to);
    return reader.read(changed, record);
  };
  CHECK(problem_after("\"step\":7", "\"new\":[{\"a\":\"}\"},[1]], \"step\" : 7") == "");
  CHECK(contains(problem_after("\"step\":7", "\"step\":-7"), "\"step\" cannot be -7"));
  CHECK(contains(problem_after("\"step\":7", "\"step\":7.5"), "\"step\" cannot be"));
  CHECK(contains(problem_after("\"t_s\":0.700000000", "\"t_s\":1e999"), "\"t_s\" cannot be"));
  CHECK(contains(problem_after("reuse", "new"), "\"decision\" cannot be"));
  CHECK(contains(problem_after("\"padding\":true,", ""), "has no \"padding\""));
  for (std::size_t length = 0; length < line.size(); ++length) {
    CAPTURE(length);
    CHECK(reader.read(line.substr(0, length), record) != "");
  }
  for (const char* damaged : {"[]", "{}", "{\"step\":7}}", "{\"step\"7}", "{,}", "\xff\xfe", "null"}) {
    CAPTURE(damaged);
    CHECK(reader.read(damaged, record) != "");
  }
  LineReader<Interval> of_intervals(interval_figures(), std::vector<std::string_view>{"stall", "t_s"});
  Interval interval;
  interval.stall = 1;
  CHECK(of_intervals.read("{\"t_s\":5,\"stall\":null}", interval) == "");
  CHECK_FALSE(interval.stall);
}

TEST_CASE("bins keep every sum, however often they are widened") {
  TimeBins bins;
  for (int i = 0; i < 1000; ++i)
    bins.add(0.37 * i, {.steps = 1, .depths = 1, .depth_sum = 2, .uses_most = i % 7 + 1.0});
  bins.add(10, 250, {.wait_s = 240});
  CHECK(bins.bins().size() <= TimeBins::kMost);
  CHECK(bins.total().steps == Approx(1000));
  CHECK(bins.total().wait_s == Approx(240));
  CHECK(bins.total().uses_most == 7);
  const Bin middle = bins.bins()[static_cast<std::size_t>(100 / bins.width_s())];
  CHECK(middle.wait_s == Approx(bins.width_s()));
  bins.widen_to(bins.width_s() * 8);
  CHECK(bins.total().steps == Approx(1000));
  CHECK(bins.total().wait_s == Approx(240));
  CHECK(bins.bins()[1].depth() == Approx(2));
}

TEST_CASE("a run's steps become its figures over time") {
  const TemporaryDirectory dir;
  write_run(dir / "run");
  const RunData run = read(dir / "run");
  CHECK(run.read_from == "steps");
  CHECK(run.expected == 2);
  CHECK(run.capacity == 16);
  CHECK(run.end_s == Approx(29.9));
  CHECK(run.has_ended());
  CHECK(run.notes.empty());
  const Bin total = total_of(run);
  CHECK(total.steps == Approx(450));
  CHECK(total.fresh == Approx(150));
  CHECK(total.stall() == Approx(0.2));  // the first wait is start-up
  CHECK(total.depth() == Approx(3));
  CHECK(total.uses_most == 3);
  REQUIRE(run.summary());
  CHECK(run.summary()->images_per_s == 2468);
  CHECK(run.profiles().size() == 2);

  // If there are more steps than the limit, stretches give the same figures, and intervals are
  // preferred.
  const ReadLimits few{.steps = 64 << 10, .intervals = 128 << 10};
  write(dir / "run" / "steps.0.jsonl", step_lines(0, 1000));
  write(dir / "run" / "steps.1.jsonl", step_lines(0, 1000));
  const RunData sampled = read(dir / "run", few);
  CHECK(has_note(sampled, "stretches of the files"));
  CHECK(total_of(sampled).steps < 500);
  CHECK(total_of(sampled).fresh_share() == Approx(1.0 / 3).epsilon(0.05));
  CHECK(total_of(sampled).stall() == Approx(0.2).epsilon(0.02));
  CHECK(sampled.end_s > 90);
  write(dir / "run" / "intervals.0.jsonl", interval_lines(60));
  write(dir / "run" / "intervals.1.jsonl", interval_lines(60));
  const RunData coarse = read(dir / "run", few);
  CHECK(coarse.read_from == "intervals");
  CHECK(total_of(coarse).steps == Approx(6000));
  CHECK(total_of(coarse).fresh == Approx(2400));
  CHECK(total_of(coarse).stall() == Approx(0.2));
  CHECK(coarse.end_s == 300);
}

TEST_CASE("a run that goes on, was resumed or was killed is read as far as it goes") {
  const TemporaryDirectory dir;
  const fs::path run = dir / "run";
  write(run / "run.0.jsonl", head_line(head_of(0, 3)));
  write(run / "run.2.jsonl", head_line(head_of(2, 3)));
  write(run / "steps.0.jsonl", step_lines(0, 100) + "{\"step\":100,\"t_s\":9.9");
  write(run / "steps.2.jsonl", "");
  const RunData going = read(run);
  CHECK_FALSE(going.has_ended());
  CHECK(total_of(going).steps == Approx(100));
  CHECK(has_note(going, "nothing of rank 1."));
  CHECK(has_note(going, "no steps of rank 2 yet"));
  CHECK(has_note(going, "still going, or was killed"));
  CHECK_FALSE(going.summary());
  CHECK(contains(report_page({going}, "now"), "not known yet"));

  // Killed in the middle of a line, resumed at step 90.
  write(run / "run.0.jsonl",
        head_line(head_of(0, 1)) + "{\"forebay\":\"en\n" + head_line(head_of(0, 1)) + end_of_rank());
  write(run / "steps.0.jsonl", step_lines(0, 100) + "{\"step\":100,\"t_s\":9.9\n" + step_lines(90, 50));
  fs::remove(run / "steps.2.jsonl");
  fs::remove(run / "run.2.jsonl");
  const RunData resumed = read(run);
  CHECK(resumed.has_ended());
  CHECK(total_of(resumed).steps == Approx(150));
  CHECK(resumed.end_s == Approx(9.9 + 4.9));
  CHECK(resumed.ranks[0].last_step == 139);
  CHECK(has_note(resumed, "resumed 1 time;"));
  CHECK(contains(report_page({resumed}, "now"), "most 3 (last part)"));
  CHECK(contains(report_page({resumed, resumed}, "now"), " (last part)</td>"));
  CHECK(has_note(resumed, "run.0.jsonl:2 is cut short"));
  write(run / "run.0.jsonl", head_line(head_of(0, 1)) + end_of_rank());
  CHECK(has_note(read(run), "steps.0.jsonl:101 is cut short"));
  write(run / "run.0.jsonl", head_line(head_of(0, 1)) + "{\"forebay\":\"end\",\"summary\":{\"steps\":1}}\n");
  CHECK(has_note(read(run), "run.0.jsonl:2 has other figures"));
  write(run / "run.0.jsonl", head_line(head_of(0, 1)) + end_line({.failure = "no batch for 2 s"}));
  CHECK(has_note(read(run), "An error ended the run: no batch for 2 s"));
  CHECK(read(run).has_ended());
}

TEST_CASE("missing and damaged telemetry is named with file and line") {
  const TemporaryDirectory dir;
  const auto failure = [&] { return error_of([&] { return read(dir / "run"); }); };
  CHECK(contains(failure(), "run: there is no such folder"));
  fs::create_symlink("loop", dir / "loop");
  CHECK(contains(error_of([&] { return read(dir / "loop/run"); }), "run cannot be looked into: Too many levels"));
  write(dir / "run", "a file");
  CHECK(contains(failure(), "run is not a folder"));
  fs::remove(dir / "run");
  fs::create_directories(dir / "run");
  CHECK(contains(failure(), "telemetry.per_step = true or telemetry.interval_s above 0"));
  for (const char* damage : {"{\"step\":5}", "garbage", "", "\xff", "{\"step\":5,\"t_s\":-1}"}) {
    CAPTURE(damage);
    write(dir / "run" / "steps.3.jsonl", step_lines(0, 4) + damage + "\n" + step_lines(5, 4));
    CHECK(contains(failure(), "steps.3.jsonl:5: not a line of Forebay's telemetry: "));
  }
  write(dir / "run" / "steps.3.jsonl", step_lines(0, 4));
  CHECK(failure() == "");
  for (const char* damage :
       {R"({"forebay":"run","version":1,"rank":0,"ranks":29223372036854775808,"first_step":0,"started":"","host":""})",
        R"({"forebay":"run","version":1,"rank":0.5,"ranks":2,"first_step":1e300,"started":"","host":""})",
        "{\"forebay\":\"run\",\"version\":2}", "{\"forebay\":\"x\"}", "[[[[[[[[[[[[]]]]]]]]]]]]", "7"}) {
    CAPTURE(damage);
    write(dir / "run" / "run.3.jsonl", std::string(damage) + "\n");
    CHECK(contains(failure(), "run.3.jsonl:1: "));
  }
}

// Calls visit(element) for the page's elements in their order.
void walk(const tinyxml2::XMLElement& element, const std::function<void(const tinyxml2::XMLElement&)>& visit) {
  visit(element);
  for (const auto* child = element.FirstChildElement(); child != nullptr; child = child->NextSiblingElement()) {
    walk(*child, visit);
  }
}

// Checks what browsers and screen readers rely on.
void check_page(const std::string& page) {
  REQUIRE(page.starts_with(kReportMark));
  for (const char* outside : {"<script", "http://", "https://", "@import", "url(", "src=\"/"}) {
    CAPTURE(outside);
    CHECK_FALSE(contains(page, outside));
  }
  tinyxml2::XMLDocument document;
  REQUIRE_MESSAGE(document.Parse(page.c_str()) == tinyxml2::XML_SUCCESS, document.ErrorStr());
  std::set<std::string> ids;
  std::set<std::string> targets;
  int level = 0;
  walk(*document.RootElement(), [&](const tinyxml2::XMLElement& element) {
    const std::string name = element.Name();
    const auto attribute = [&](const char* of) {
      return std::string(element.Attribute(of) != nullptr ? element.Attribute(of) : "");
    };
    CAPTURE(name);
    if (const std::string id = attribute("id"); !id.empty()) CHECK(ids.insert(id).second);
    if (name == "a" || !attribute("aria-labelledby").empty()) {
      targets.insert(name == "a" ? attribute("href").substr(1) : attribute("aria-labelledby"));
    }
    if (name.size() == 2 && name[0] == 'h' && name[1] >= '1' && name[1] <= '6') {
      CHECK(name[1] - '0' <= level + 1);
      level = name[1] - '0';
    }
    if (name == "svg") CHECK(attribute("aria-label").size() > 20);
    if (name == "img") CHECK(attribute("alt").size() > 20);
    if (name == "table") CHECK(element.FirstChildElement("caption") != nullptr);
    if (attribute("class") == "wide") CHECK(attribute("tabindex") == "0");
    if (name == "th") CHECK_FALSE(attribute("scope").empty());
  });
  for (const std::string& target : targets) {
    CAPTURE(target);
    CHECK(ids.contains(target));
  }
}

TEST_CASE("the page says what limits a run, and compares runs by what differs") {
  const TemporaryDirectory dir;
  write_run(dir / "a<script>/run");
  Settings other = kSettings;
  other[1].second = "32";
  other.emplace_back("fields.mask.kind", "\"mask\"");
  write_run(dir / "b/run", other);
  std::vector<RunData> runs{read(dir / "a<script>/run")};
  name_runs(runs);
  const std::string one = report_page(runs, "2026-01-31");
  check_page(one);
  CHECK(contains(one, "storage-bound: a read takes 20.00 ms"));
  CHECK(contains(one, "a &amp; &lt;b&gt;"));
  CHECK(contains(one, "node&lt;1&gt;"));
  CHECK(contains(one, "median 0, p99 0, most 3"));
  CHECK_FALSE(contains(one, "Keys that differ"));

  runs.push_back(read(dir / "b/run"));
  name_runs(runs);
  CHECK(runs[0].name == "a<script>/run");
  const std::string two = report_page(runs, "2026-01-31");
  check_page(two);
  const std::string differing = two.substr(two.find("<caption>Keys that differ"), 900);
  const std::string table = differing.substr(0, differing.find("</table>"));
  CHECK(contains(table, "queue.capacity"));
  CHECK(contains(table, "fields.mask.kind"));
  CHECK_FALSE(contains(table, "policy.name"));
  CHECK(two.size() < 200'000);
}

TEST_CASE("the command puts the page beside the run, and spares files that are not reports") {
  const TemporaryDirectory dir;
  write_run(dir / "run");
  const std::string run = (dir / "run").string();
  const auto report = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "report");
    return testing::run(dir.path(), 1, arguments);
  };
  const auto made = report({run + "/"});
  CHECK_MESSAGE(made.code == 0, made.output);
  CHECK(contains(made.output, "report.html: 1 run, "));
  check_page(testing::read_text(dir / "report.html"));
  CHECK(report({run}).code == 0);
  fs::remove(dir / "report.html");
  fs::create_symlink(dir / "target.html", dir / "report.html");
  CHECK(contains(report({run}).output, "report.html is a link, which is not followed: name the page with --out"));
  CHECK_FALSE(fs::exists(dir / "target.html"));
  write(dir / "notes.html", "mine");
  const auto refused = report({run, "--out", (dir / "notes.html").string()});
  CHECK(refused.code == 2);
  CHECK(contains(refused.output, "is not a report"));
  CHECK(testing::read_text(dir / "notes.html") == "mine");
  CHECK(report({run, run, "--out", (dir / "notes.html").string(), "--force"}).code == 0);
  check_page(testing::read_text(dir / "notes.html"));
  const auto printed = report({run, "--out", "-"});
  CHECK(contains(printed.output, kReportMark));
  const auto missing = report({(dir / "none").string(), "--out", "-"});
  CHECK(missing.code == 1);
  CHECK(contains(missing.output, "none: there is no such folder"));
}

}  // namespace
}  // namespace forebay::test_report
