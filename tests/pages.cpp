// The tables in the pages match the descriptions in the code; FOREBAY_WRITE_PAGES=1 rewrites them.
// The meaning of a key is only in its page.
#include <forebay/options.hpp>
#include <variant>

#include "config/schema.hpp"
#include "config/values.hpp"
#include "data/formats.hpp"
#include "make/builtin_operations.hpp"
#include "measure/figures.hpp"
#include "test.hpp"

namespace forebay::test_pages {

using namespace forebay::data;
using namespace forebay::make;
using namespace forebay::measure;

namespace {

std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

// "samples per batch" as "Samples per batch."
std::string sentence(std::string_view text) {
  std::string out(text);
  out[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(out[0])));
  return out + ".";
}

std::string row(const std::string& key, std::string_view unit, std::string_view meaning) {
  return "| " + key + " | " + std::string(unit) + " | " + cell(meaning) + " |\n";
}

// The permitted values, in fewer words than in a refusal.
std::string values_of(const config::Kind& kind) {
  std::string text = config::expectation(kind);
  const auto shorten = [&](std::string_view words, std::string_view by) {
    if (const std::size_t at = text.find(words); at != std::string::npos) text.replace(at, words.size(), by);
  };
  shorten(", or text such as \"256MiB\" or \"64MB\"", "");
  shorten("a number of bytes from 0", "bytes from 0");
  shorten("a number of bytes from 1", "bytes from 1");
  shorten("an array of strings such as [\"cat\", \"dog\"]", "texts");
  shorten("a whole number from", "integer");
  shorten("whole numbers from", "integers");
  shorten("a number from ", "");
  shorten("a number of 0 or more", "0 or more");
  shorten("a number above 0 and up to", "above 0, up to");
  shorten("numbers from", "numbers");
  shorten("an array of ", "");
  shorten("a string", "text");
  shorten("true or false", "flag");
  shorten("one of ", "");
  return cell(text);
}

std::string in_code(std::string_view key) { return "`" + std::string(key) + "`"; }

template <typename Record>
std::string job_of(const Figure<Record>& figure) {
  const auto* const rule = std::get_if<OfRanks>(&figure.job);
  if (rule == nullptr) return "follows";
  switch (*rule) {
    case OfRanks::none: return "";
    case OfRanks::sum: return "sum";
    case OfRanks::mean: return "mean";
    case OfRanks::mean_over_steps: return "mean over steps";
    case OfRanks::least: return "least";
    case OfRanks::most: break;
  }
  return "most";
}

// Rows for figures that only ranks have.
template <typename Record>
std::string figures_of(Figures<Record> figures) {
  std::string out = "| key | unit | meaning |\n|---|---|---|\n";
  for (const Figure<Record>& figure : figures) out += row(in_code(figure.key), figure.unit, figure.meaning);
  return out;
}

// Rows for figures that ranks and jobs have.
constexpr const char* kHeadOfJob = "| key | unit | of a job | meaning |\n|---|---|---|---|\n";
template <typename Record>
std::string rows_with_job(Figures<Record> figures, const std::string& prefix = "") {
  std::string out;
  for (const Figure<Record>& figure : figures) {
    out += row(prefix + in_code(figure.key), std::string(figure.unit) + " | " + job_of(figure), figure.meaning);
  }
  return out;
}

template <typename Record>
std::string rows_of(std::span<const ProfilePart<Record>> parts) {
  std::string out;
  for (const ProfilePart<Record>& part : parts) {
    out += row(in_code(std::string(part.group) + "." + std::string(part.name)), std::string(part.unit) + " | ",
               part.meaning);
  }
  return out;
}

// A page whose tables are between <!-- table: NAME --> and <!-- end of table -->.
class Page {
 public:
  explicit Page(std::string_view name) : file_(testing::source_dir() / "docs" / name) {
    std::ifstream in(file_);
    text_.assign(std::istreambuf_iterator<char>(in), {});
    REQUIRE_FALSE(text_.empty());
  }
  ~Page() {
    if (writes()) std::ofstream(file_) << text_;
  }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  void check_table(const std::string& name, const std::string& expected) {
    CAPTURE(name);
    const std::size_t at = text_.find(mark(name));
    REQUIRE_MESSAGE(at != std::string::npos, file_, " has no line ", mark(name));
    const std::size_t begin = at + mark(name).size();
    const std::size_t end = text_.find(kEnd, begin);
    REQUIRE(end != std::string::npos);
    if (writes()) text_.replace(begin, end - begin, expected);
    const bool is_current = text_.substr(begin).starts_with(expected + kEnd);
    CHECK_MESSAGE(is_current, file_, " differs from the code's description, which comes to\n", expected,
                  "Run this test once with FOREBAY_WRITE_PAGES=1 and commit the page.");
    ++checked_;
  }

  // The last cell of a row; "" if there is no such row.
  [[nodiscard]] std::string last_cell(const std::string& table, std::string_view key) const {
    const std::size_t begin = std::min(text_.find(mark(table)), text_.size());
    const std::string rows = text_.substr(begin, text_.find(kEnd, begin) - begin);
    const std::size_t row = rows.find("\n| `" + std::string(key) + "` |");
    if (row == std::string::npos) return "";
    const std::size_t end = rows.find(" |\n", row);
    const std::size_t cell = rows.rfind(" | ", end - 1) + 3;
    return rows.substr(cell, end - cell);
  }

  // Checks that every table of this page is generated.
  void check_complete() const {
    std::size_t marks = 0;
    for (std::size_t at = text_.find("<!-- table:"); at != std::string::npos; at = text_.find("<!-- table:", at + 1)) {
      ++marks;
    }
    CHECK(marks == checked_);
  }

 private:
  static constexpr const char* kEnd = "<!-- end of table -->";
  static std::string mark(const std::string& table) { return "<!-- table: " + table + " -->\n"; }
  static bool writes() { return std::getenv("FOREBAY_WRITE_PAGES") != nullptr; }

  std::filesystem::path file_;
  std::string text_;
  std::size_t checked_ = 0;
};

// The meaning of a key: for operations, from their own table; for a new key, its help, until the
// page says more.
std::string meaning_of(const config::Key& key, const std::string& in_page) {
  if (full_name(key) == "transform.operations") return std::string(kOperationsOnPage);
  return in_page.empty() ? cell(sentence(key.help)) : in_page;
}

void check_keys_of(std::string_view section, const std::string& table, Page& page) {
  std::string out = "| key | default | value | meaning |\n|---|---|---|---|\n";
  for (const config::Key& key : config::keys()) {
    if (key.section != section) continue;
    out += "| `" + std::string(key.name) + "` | `" + cell(config::value_text(key, Options{})) + "` | " +
           values_of(key.kind) + " | " + meaning_of(key, page.last_cell(table, key.name)) + " |\n";
  }
  page.check_table(table, out);
}

void check_formats(Page& page) {
  std::string out = "| format | what it reads |\n|---|---|\n";
  for (const NamedFormat& format : kFormats) {
    out += "| " + in_code(format.name) + " | " + cell(format.help) + " |\n";
  }
  page.check_table("formats", out);
}

// The defaults are those of a field with no other keys.
void check_field_keys(Page& page) {
  const std::string table = "keys of fields.NAME";
  Options plain;
  plain.dataset.fields.emplace_back();
  std::string out = "| key | default | value | meaning |\n|---|---|---|---|\n";
  for (const config::Key& key : config::field_keys()) {
    const auto* const choice = std::get_if<config::Choice>(&key.kind);
    const bool is_left_out = choice != nullptr && choice->get(plain) >= choice->names.size();
    out += "| `" + std::string(key.name) + "` | " +
           (is_left_out ? "" : "`" + cell(config::value_text(key, plain)) + "` ") + "| " + values_of(key.kind) + " | " +
           meaning_of(key, page.last_cell(table, key.name)) + " |\n";
  }
  page.check_table(table, out);
}

TEST_CASE("docs/configuration.md has every key with its default, values and meaning") {
  Page page("configuration.md");
  check_keys_of("", "keys", page);
  for (const config::Section& section : config::sections()) {
    check_keys_of(section.name, "keys of " + std::string(section.name), page);
  }
  check_formats(page);
  check_field_keys(page);
  page.check_complete();
}

TEST_CASE("docs/telemetry.md has every figure with its unit and meaning, and what a job's is") {
  Page page("telemetry.md");
  page.check_table("steps", figures_of(step_figures()));
  page.check_table("intervals", figures_of(interval_figures()));
  page.check_table("summary", kHeadOfJob + rows_with_job(summary_figures()));
  page.check_table("profile", kHeadOfJob + rows_with_job(profile_figures()) + rows_of(profile_stages()) +
                                  rows_with_job(stage_figures(), "... ") + rows_of(profile_queues()) +
                                  rows_with_job(queue_figures(), "... "));
  page.check_complete();
}

// The table of figures is complete, and a summary as text.

TEST_CASE("every member of a record is one of its figures") {
  using forebay::testing::members;
  CHECK(members<Summary>() == summary_figures().size());
  CHECK(members<Interval>() == interval_figures().size());
  CHECK(members<StageProfile>() == stage_figures().size());
  CHECK(members<QueueProfile>() == queue_figures().size());
  CHECK(members<Profile>() == profile_figures().size() + profile_stages().size() + profile_queues().size());
}

TEST_CASE("a summary in words has a line for each group of figures, and leaves out what did not happen") {
  Summary summary;
  summary.steps = 400;
  summary.fresh = 160;
  summary.fresh_fraction = 0.4;
  summary.reused = 240;
  summary.epochs = 1;
  summary.au = 0.981;
  summary.fresh_au = 0.3924;
  summary.stall_s = 0.25;
  summary.produce_rate = 15.9;
  summary.consume_rate = 48.2;
  summary.images_per_s = 1234.5;
  summary.exhausted_steps = 7;
  summary.uses_p50 = 2;
  summary.uses_p99 = 9;
  summary.uses_max = 11;
  summary.adjacent_reuse_fraction = 0.25;
  summary.bytes_read = 12'345'678;
  const std::string usual =
      "steps     400: 160 fresh (40.0 %), 240 reused; 1 epoch complete\n"
      "time      AU 98.1 %, fresh AU 39.2 %, stall 0.250 s\n"
      "rates     lambda 15.90 batches/s, mu 48.20 steps/s; 1234 fresh images/s\n"
      "queue     exhausted at 7 steps; uses per batch p50 2, p99 9, most 11; 25.0 % of steps repeat the last batch\n";
  CHECK(summary_text(summary) == usual + "data      12.3 MB read, 0 bad samples\n");

  summary.bad_samples = 1;
  summary.left_out = 1;
  summary.hedged_reads = 6;
  summary.hedges_won = 5;
  summary.nvjpeg_fallbacks = 3;  // but no sample decoded by nvJPEG
  summary.dropped_records = 1;
  CHECK(summary_text(summary) ==
        usual +
            "data      12.3 MB read, 1 bad sample (1 left out), 6 slow reads begun twice (5 won)\n"
            "decoding  3 by libjpeg-turbo instead\n"
            "telemetry 1 record dropped\n");
}

}  // namespace
}  // namespace forebay::test_pages
