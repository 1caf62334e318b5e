#include "index_report.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "data/index_image.hpp"
#include "terminal.hpp"

namespace forebay {
namespace {

constexpr std::size_t kMostLines = 20;  // of classes, and of reasons

std::string row(std::string name, const std::string& value) {
  constexpr std::size_t kColumn = 13;
  name.resize(std::max(name.size() + 1, kColumn), ' ');
  return name + value + "\n";
}

using Count = std::pair<std::string, std::uint64_t>;

// Names and counts in two columns, the most frequent first.
std::string counts_text(std::vector<Count> counts) {
  std::ranges::stable_sort(counts, std::ranges::greater{}, &Count::second);
  const std::size_t shown = std::min(counts.size(), kMostLines);
  std::string text;
  for (const auto& [name, count] : std::span(counts).first(shown)) {
    std::string number = grouped(count);
    number.insert(0, number.size() < 11 ? 11 - number.size() : 0, ' ');
    text.append(number).append("  ").append(printable(name)).append("\n");
  }
  if (shown < counts.size()) text += "             ... and " + grouped(counts.size() - shown) + " more\n";
  return text;
}

std::string classes_text(const IndexReport& report) {
  const auto& classes = report.dataset.classes();
  std::vector<Count> counts;
  for (std::size_t i = 0; i < classes.size(); ++i) counts.emplace_back(classes[i], report.per_class[i]);
  std::string text = row("classes", grouped(classes.size())) + counts_text(std::move(counts));
  if (report.unlabelled > 0) text += row("unlabelled", grouped(report.unlabelled));
  return text;
}

std::string skipped_text(const IndexReport& report, std::uint64_t most) {
  const auto& skipped = report.dataset.skipped();
  std::string text = row("skipped", grouped(skipped.size()) + " (" + grouped(report.bad) + " bad)");
  if (skipped.empty() || most == 0) return text;
  std::map<std::string, std::uint64_t> reasons;
  for (const Skipped& entry : skipped) ++reasons[entry.reason];
  text += counts_text({reasons.begin(), reasons.end()});
  const auto shown = static_cast<std::size_t>(std::min<std::uint64_t>(most, skipped.size()));
  for (const Skipped& entry : std::span(skipped).first(shown)) {
    text += std::string("  ") + (entry.bad ? "bad    " : "other  ") + printable(entry.path) + ": " +
            printable(entry.reason) + "\n";
  }
  if (shown < skipped.size()) text += "  ... and " + grouped(skipped.size() - shown) + " more (--skipped N)\n";
  return text;
}

std::string missing_text(const IndexReport& report, std::uint64_t most) {
  const auto& files = report.missing.files;
  if (files.empty()) return "";
  std::string text =
      row("missing", grouped(files.size()) + " of the " + grouped(report.dataset.counts().images) +
                         " files; the list's folder is " + printable(image_of(report.dataset)->record().root));
  const auto shown = static_cast<std::size_t>(std::min<std::uint64_t>(most, files.size()));
  for (const Skipped& entry : std::span(files).first(shown)) {
    text += "  " + printable(entry.path) + ": " + printable(entry.reason) + "\n";
  }
  if (shown < files.size()) text += "  ... and " + grouped(files.size() - shown) + " more (--skipped N)\n";
  return text;
}

}  // namespace

IndexReport::IndexReport(const Dataset& reported)
    : dataset(reported), per_class(reported.classes().size()), fingerprint(hex(forebay::fingerprint(reported), 16)) {
  for (std::uint64_t id = 0; id < dataset.size(); ++id) {
    const std::int64_t label = dataset.sample(id).label;
    const bool is_named = label >= 0 && static_cast<std::uint64_t>(label) < per_class.size();
    ++(is_named ? per_class[static_cast<std::size_t>(label)] : unlabelled);
  }
  bad = static_cast<std::uint64_t>(std::ranges::count(dataset.skipped(), true, &Skipped::bad));
  const IndexImage* image = image_of(dataset);
  bytes = image != nullptr ? image->bytes() : dataset.serialize().size();
}

std::string to_text(const IndexReport& report, std::uint64_t most_skipped) {
  const IndexCounts counts = report.dataset.counts();
  return row("format", std::string(report.dataset.format())) + row("images", grouped(counts.images)) +
         row("annotations", grouped(counts.annotations)) + row("objects", grouped(counts.objects)) +
         row("samples", grouped(report.dataset.size())) + classes_text(report) + skipped_text(report, most_skipped) +
         missing_text(report, most_skipped) + row("fingerprint", report.fingerprint) +
         row("index", size_text(report.bytes));
}

std::string to_json(const IndexReport& report) {
  using Json = nlohmann::ordered_json;
  const IndexCounts counts = report.dataset.counts();
  Json classes = Json::object();
  for (std::size_t i = 0; i < report.per_class.size(); ++i) {
    classes[report.dataset.classes()[i]] = report.per_class[i];
  }
  Json skipped = Json::array();
  for (const Skipped& entry : report.dataset.skipped()) {
    skipped.push_back({{"path", entry.path}, {"reason", entry.reason}, {"bad", entry.bad}});
  }
  Json missing = Json::array();
  for (const Skipped& entry : report.missing.files) missing.push_back({{"path", entry.path}, {"reason", entry.reason}});
  const Json json{
      {"format", report.dataset.format()}, {"images", counts.images},          {"annotations", counts.annotations},
      {"objects", counts.objects},         {"samples", report.dataset.size()}, {"classes", std::move(classes)},
      {"skipped", std::move(skipped)},     {"missing", std::move(missing)},    {"fingerprint", report.fingerprint}};
  // Paths are bytes: those that are not UTF-8 must not end the report.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace forebay
