#include "table.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>

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

Row run(const Check& check, const Setup& setup) {
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

}  // namespace

const std::vector<Check>& checks() {
  static const std::vector<Check> all{{"device", device_row}, {"kernel", kernel_row}, {"soak", soak_row},
                                      {"views", views_row},   {"copy", copy_row},     {"render", render_row},
                                      {"nvjpeg", nvjpeg_row}, {"next", next_row}};
  return all;
}

bool print_table(const Setup& setup, const std::vector<std::string>& names) {
  std::printf("| check | found | wanted | |\n|---|---|---|---|\n");
  bool well = true;
  for (const Check& check : checks()) {
    if (!names.empty() && std::ranges::find(names, check.name) == names.end()) continue;
    const Row row = run(check, setup);
    print(row);
    well = well && row.verdict != Verdict::wrong;
  }
  return well;
}

}  // namespace forebay::gpu_check
