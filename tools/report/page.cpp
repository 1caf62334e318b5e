#include "page.hpp"

#include "comparison.hpp"
#include "heat_map.hpp"
#include "html.hpp"
#include "page_style.hpp"
#include "run_section.hpp"

namespace forebay::report {

// One file: styles, charts and images are in it, and nothing is fetched. It begins with
// kReportMark, by which a report may be overwritten.
std::string report_page(const std::vector<RunData>& runs, const std::string& made) {
  const bool is_one = runs.size() == 1;
  const std::string title =
      is_one ? "Run " + html::text(runs.front().name) : "Comparison of " + std::to_string(runs.size()) + " runs";
  std::string page(kReportMark);
  page +=
      "<html lang='en'>\n<head>\n<meta charset='utf-8'/>\n"
      "<meta name='viewport' content='width=device-width, initial-scale=1'/>\n"
      "<meta name='color-scheme' content='light dark'/>\n<title>" +
      title + " - Forebay</title>\n<link rel='icon' href='data:,'/>\n<style>\n" + std::string(kPageStyle) +
      ".scale .bar{background:" + scale_css() + "}\n</style>\n</head>\n<body>\n";
  page += "<a class='skip' href='#main'>To the report</a>\n<header>\n<h1>" + title + "</h1>\n<p>Forebay, " +
          html::text(made) + "</p>\n";
  if (!is_one) {
    page += "<nav aria-label='Runs'><ul>\n";
    for (std::size_t i = 0; i < runs.size(); ++i) {
      page += "<li><a href='#run" + std::to_string(i) + "'>" + html::text(runs[i].name) + "</a></li>\n";
    }
    page += "</ul></nav>\n";
  }
  page += "</header>\n<main id='main'>\n";
  if (!is_one) page += comparison_section(runs);
  const std::size_t most_rows = most_heat_rows(runs);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    page += "<section id='run" + std::to_string(i) + "' aria-labelledby='run" + std::to_string(i) +
            "name'>\n<h2 id='run" + std::to_string(i) + "name'>" +
            (is_one ? "What limits it" : html::text(runs[i].name)) + "</h2>\n" + run_section(runs[i], most_rows) +
            "</section>\n";
  }
  return page + "</main>\n</body>\n</html>\n";
}

}  // namespace forebay::report
