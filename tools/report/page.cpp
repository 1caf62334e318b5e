#include "page.hpp"

#include <string_view>

#include "html.hpp"
#include "sections.hpp"

namespace forebay::report {
namespace {

// The page's style sheet. Colours differ in lightness too, so that a chart also reads in grey.
constexpr std::string_view kPageStyle = R"css(
:root{color-scheme:light dark;--ground:#fff;--ink:#1b1f24;--soft:#57606a;--line:#d0d7de;--panel:#f6f8fa;--link:#0550ae;
--fresh:#2f6fb7;--reuse:#f3cf9b;--depth:#111;--stall:#c2413b;--census:#7d2ea8;--mean:#1f6f4a;--most:#b35900;
--busy:#2f6fb7;--in:#f0b45b;--out:#a9b1ba}
@media(prefers-color-scheme:dark){:root{--ground:#0f1318;--ink:#e6e9ed;--soft:#a0a9b4;--line:#333b45;--panel:#181e25;
--link:#7ab7ff;--fresh:#4f96e6;--reuse:#5a4422;--depth:#fff;--stall:#ef6f68;--census:#c78bea;--mean:#58c48d;--most:#f0a050;
--busy:#4f96e6;--in:#b98335;--out:#5a636e}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:62rem;padding:1rem;background:var(--ground);color:var(--ink);
font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.6rem;margin:.5rem 0 0}h2{font-size:1.3rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--line)}
h3{font-size:1.1rem;margin:1.6rem 0 .4rem}h4{font-size:1rem;margin:0}
header p{color:var(--soft);margin:.2rem 0}a{color:var(--link)}code{font-size:.9em}
a:focus-visible,summary:focus-visible,.wide:focus-visible{outline:3px solid var(--link);outline-offset:2px}
.skip{position:absolute;left:-999rem}.skip:focus{left:1rem;top:.5rem;background:var(--ground);padding:.3rem}
nav ul{display:flex;flex-wrap:wrap;gap:.3rem 1rem;list-style:none;padding:0;margin:.5rem 0}
.finding{font-size:1.1rem;border-left:4px solid var(--fresh);padding:.6rem .9rem;background:var(--panel);margin:.6rem 0}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(10rem,1fr));gap:.6rem 1rem;margin:1rem 0}
.facts dt{color:var(--soft);font-size:.85rem}.facts dd{margin:0;font-weight:600}
.notes{color:var(--soft);font-size:.9rem;padding-left:1.2rem}
figure{margin:1.2rem 0}figcaption{display:flex;flex-wrap:wrap;gap:.2rem 1rem;align-items:baseline}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1rem;list-style:none;margin:0;padding:0;font-size:.85rem}
.mark{display:inline-block;width:1.1em;height:.75em;margin-right:.35em;border-radius:2px;background:currentColor}
.plot{display:grid;grid-template-columns:3.6rem minmax(0,1fr) 1.8rem;gap:0 .4rem;font-size:.75rem;color:var(--soft);
font-variant-numeric:tabular-nums}
.left,.right{display:flex;flex-direction:column;justify-content:space-between;line-height:1}
.left{text-align:right}.below{grid-column:2;display:flex;justify-content:space-between;padding-top:.2rem}
.chart{border:1px solid var(--line);line-height:0}
svg{width:100%;height:10rem;background:var(--panel)}path{vector-effect:non-scaling-stroke}
.grid{stroke:var(--line);fill:none}.hover rect{fill:transparent}.hover rect:hover{fill:var(--ink);fill-opacity:.15}
path.fresh{fill:var(--fresh)}path.reuse{fill:var(--reuse)}path.stall{fill:var(--stall)}path.census{fill:var(--census)}
path.depth,path.mean,path.most,path[class^=run]{fill:none;stroke-width:2}
path.depth{stroke:var(--depth)}path.mean{stroke:var(--mean)}path.most{stroke:var(--most);stroke-dasharray:5 3}
.mark.fresh,.bar .busy,.mark.busy{background:var(--fresh)}.mark.reuse{background:var(--reuse)}
.mark.depth,.mark.mean,.mark.most{height:.2em;vertical-align:middle}
.mark.depth{background:var(--depth)}.mark.mean{background:var(--mean)}.mark.most{background:var(--most)}
.mark.stall{background:var(--stall)}.mark.census{background:var(--census)}
.run0{--run:#2f6fb7}.run1{--run:#c2413b}.run2{--run:#2a8a57}.run3{--run:#a06a00}
.run4{--run:#8a4fc4}.run5{--run:#118a9c}.run6{--run:#b03a82}.run7{--run:#6b7480}
@media(prefers-color-scheme:dark){.run0{--run:#6aa9f2}.run1{--run:#f28079}.run2{--run:#5cc690}.run3{--run:#e3a93c}
.run4{--run:#c39af0}.run5{--run:#56c5d6}.run6{--run:#ee83bf}.run7{--run:#aab2bc}}
path[class^=run]{stroke:var(--run)}.mark[class*=run]{background:var(--run)}
path.run1,path.run5{stroke-dasharray:7 3}path.run2,path.run6{stroke-dasharray:2 3}path.run3,path.run7{stroke-dasharray:9 3 2 3}
.heat{width:100%;min-height:3rem;image-rendering:pixelated}
.scale{display:flex;gap:.5rem;align-items:center;font-size:.75rem;color:var(--soft);margin:-.6rem 0 1rem 4rem}
.scale .bar{width:10rem;height:.7rem}.scale .none{width:.7rem;height:.7rem;margin-left:1rem;background:#888}
.wide{overflow-x:auto;margin:.6rem 0}table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:.3rem 0}th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:right}
thead th{vertical-align:bottom}th[scope=row],.words th,.words td,th:first-child{text-align:left}
tbody th{font-weight:500}td,th{white-space:nowrap;overflow-wrap:normal}.words td:last-child{white-space:normal;min-width:14rem}
abbr{text-decoration:none}summary{cursor:pointer;padding:.3rem 0;color:var(--link)}
table .bar{display:flex;width:8rem;height:.9rem;border:1px solid var(--line)}.bar span{display:block}
.bar .blocked_in,.mark.blocked_in{background:var(--in)}.bar .blocked_out,.mark.blocked_out{background:var(--out)}
@media print{details{display:none}}
)css";

}  // namespace

// A single file: styles, charts and images are embedded, and nothing is loaded. It begins with
// kReportMark, which tells `forebay report` that it may overwrite the file.
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
