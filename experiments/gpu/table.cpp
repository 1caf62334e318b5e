#include "checks.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>

#include <forebay/error.hpp>
#include <nlohmann/json.hpp>

namespace forebay::gpu_check {
namespace {

const char* text_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::fine: return "ok";
    case Verdict::missed: return "MISSED";
    case Verdict::wrong: return "WRONG";
    case Verdict::unknown: return "";
  }
  return "";
}

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

Row run(const Check& check, Setup setup) {
  if (setup.end) {
    const double left_s = seconds(*setup.end - Clock::now());
    if (left_s <= 0) return {.subject = check.name, .found = "not run: the minutes are over", .wanted = ""};
    setup.soak_s = std::min(setup.soak_s, left_s);
  }
  try {
    return check.run(setup);
  } catch (const std::exception& error) {
    return {.subject = check.name, .found = error.what(), .wanted = "", .verdict = Verdict::wrong};
  }
}

void print(const Row& row) {
  std::printf("| %s | %s | %s | %s |\n", row.subject.c_str(), row.found.c_str(), row.wanted.c_str(),
              text_of(row.verdict));
  std::fflush(stdout);
}

nlohmann::json record_of(const Check& check, const Row& row, double taken_s) {
  return {{"check", check.name},  {"subject", row.subject},          {"found", row.found},
          {"wanted", row.wanted}, {"verdict", text_of(row.verdict)}, {"seconds", taken_s},
          {"rounds", row.rounds}};
}

void write(const nlohmann::json& rows, const std::filesystem::path& path) {
  if (path.empty()) return;
  std::ofstream file(path);
  file << rows.dump(1) << '\n';
  if (!file.flush()) throw ConfigError("--json: " + path.string() + " cannot be written");
}

}  // namespace

// What is short and says most comes first.
const std::vector<Check>& checks() {
  static const std::vector<Check> all{{"device", device_row}, {"next", next_row},     {"copy", copy_row},
                                      {"render", render_row}, {"nvjpeg", nvjpeg_row}, {"kernel", kernel_row},
                                      {"views", views_row},   {"soak", soak_row}};
  return all;
}

bool print_table(const Setup& setup, const std::vector<std::string>& names) {
  std::printf("| check | found | wanted | |\n|---|---|---|---|\n");
  bool well = true;
  nlohmann::json rows = nlohmann::json::array();
  write(rows, setup.json);
  for (const Check& check : checks()) {
    if (!names.empty() && std::ranges::find(names, check.name) == names.end()) continue;
    const Clock::time_point start = Clock::now();
    const Row row = run(check, setup);
    print(row);
    rows.push_back(record_of(check, row, seconds(Clock::now() - start)));
    write(rows, setup.json);
    well = well && row.verdict != Verdict::wrong;
  }
  return well;
}

}  // namespace forebay::gpu_check
