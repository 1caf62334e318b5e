// What `forebay index` reports about a dataset: counts of labels and boxes, which are all in the
// index, written for people and for programs. No threads.

#include "index_report.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <span>

#include <forebay/field.hpp>

#include "base/text.hpp"
#include "data/index_image.hpp"
#include "data/memory_target.hpp"
#include "output.hpp"
#include "ranks/coordinator.hpp"

namespace forebay::cli {
namespace {

using Count = std::pair<std::string, std::uint64_t>;

constexpr std::size_t kMostLines = 20;  // of lists of classes and of reasons

// Names and counts in two columns, the most frequent first. Numbers are right-aligned.
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
    text += std::string("  ") +
            (entry.bad    ? "bad    "
             : entry.told ? "warning "
                          : "other  ") +
            printable(entry.path) + ": " + printable(entry.reason) + "\n";
  }
  if (shown < skipped.size()) text += "  ... and " + grouped(skipped.size() - shown) + " more (--skipped N)\n";
  return text;
}

std::string missing_text(const IndexReport& report, std::uint64_t most) {
  const auto& files = report.missing.files;
  if (files.empty()) return "";
  std::string text =
      row("missing", grouped(files.size()) + " of the " + grouped(report.dataset.counts().images) +
                         " files; relative paths begin in " + printable(data::image_of(report.dataset)->record().root));
  const auto shown = static_cast<std::size_t>(std::min<std::uint64_t>(most, files.size()));
  for (const Skipped& entry : std::span(files).first(shown)) {
    text += "  " + printable(entry.path) + ": " + printable(entry.reason) + "\n";
  }
  if (shown < files.size()) text += "  ... and " + grouped(files.size() - shown) + " more (--skipped N)\n";
  return text;
}

std::string boxes_text(const IndexReport& report) {
  std::string text;
  for (const BoxCounts& counts : report.boxes) {
    text += row(counts.field, grouped(counts.boxes) + " boxes, " + grouped(counts.largest) + " in one sample at most");
    text += counts_text(counts.per_class);
    if (counts.too_many == 0) continue;
    text += "             " + grouped(counts.too_many) + " samples are bad: they have more than fields." +
            counts.field + ".most = " + std::to_string(counts.room) + "\n";
  }
  return text;
}

// The noun for the dataset's files.
std::string files_noun(const Dataset& dataset) {
  const bool are_clips = dataset.size() > 0 && dataset.sample(0).encoding == Encoding::video;
  return are_clips ? "videos" : "images";
}

}  // namespace

// Boxes are in the index, so reading those of every sample is fast.
BoxCounts::BoxCounts(const Dataset& dataset, std::size_t number) {
  data::MemoryTarget target;
  const Field& counted = dataset.fields()[number];
  field = counted.name;
  room = counted.shape[0];
  std::map<std::int32_t, std::uint64_t> by_label;
  for (std::uint64_t id = 0; id < dataset.size(); ++id) {
    dataset.read_field(id, number, target);
    const std::uint64_t here = target.bytes.size() / sizeof(LabelledBox);
    for (std::uint64_t i = 0; i < here; ++i) {
      LabelledBox box;
      std::memcpy(&box, target.bytes.data() + i * sizeof box, sizeof box);
      ++by_label[box.label];
    }
    boxes += here;
    largest = std::max(largest, here);
    too_many += here > static_cast<std::uint64_t>(room) ? 1 : 0;
  }
  for (const auto& [label, count] : by_label) {
    const bool is_named = label >= 0 && static_cast<std::size_t>(label) < counted.classes.size();
    per_class.emplace_back(is_named ? counted.classes[static_cast<std::size_t>(label)] : std::to_string(label), count);
  }
}

IndexReport::IndexReport(const Dataset& reported)
    : dataset(reported), per_class(reported.classes().size()), fingerprint(hex(forebay::fingerprint(reported), 16)) {
  for (std::uint64_t id = 0; id < dataset.size(); ++id) {
    const std::int64_t label = dataset.sample(id).label;
    const bool is_named = label >= 0 && static_cast<std::uint64_t>(label) < per_class.size();
    ++(is_named ? per_class[static_cast<std::size_t>(label)] : unlabelled);
  }
  for (std::size_t i = 0; i < dataset.fields().size(); ++i) {
    if (dataset.fields()[i].kind == FieldKind::boxes) boxes.emplace_back(dataset, i);
  }
  bad = ranks::bad_entries(dataset);
  const data::IndexImage* image = data::image_of(dataset);
  bytes = image != nullptr ? image->bytes() : dataset.serialize().size();
}

// Includes the fingerprint, which recordings and saved states compare.
std::string to_text(const IndexReport& report, std::uint64_t most_skipped) {
  const IndexCounts counts = report.dataset.counts();
  return row("format", std::string(report.dataset.format())) + row(files_noun(report.dataset), grouped(counts.images)) +
         row("annotations", grouped(counts.annotations)) + row("objects", grouped(counts.objects)) +
         row("samples", grouped(report.dataset.size())) + classes_text(report) + boxes_text(report) +
         skipped_text(report, most_skipped) + missing_text(report, most_skipped) +
         row("fingerprint", report.fingerprint) + row("index", size_text(report.bytes)) +
         (report.mixing ? row("mixed", to_text(*report.mixing)) : "");
}

nlohmann::ordered_json to_json(const IndexReport& report) {
  using Json = nlohmann::ordered_json;
  const IndexCounts counts = report.dataset.counts();
  Json classes = Json::object();
  for (std::size_t i = 0; i < report.per_class.size(); ++i) {
    classes[report.dataset.classes()[i]] = report.per_class[i];
  }
  Json boxes = Json::object();
  for (const BoxCounts& of : report.boxes) {
    Json entry{{"boxes", of.boxes}, {"largest", of.largest}, {"too_many", of.too_many}};
    for (const auto& [name, count] : of.per_class) entry["classes"][name] = count;
    boxes[of.field] = std::move(entry);
  }
  Json skipped = Json::array();
  for (const Skipped& entry : report.dataset.skipped()) {
    skipped.push_back({{"path", entry.path}, {"reason", entry.reason}, {"bad", entry.bad}, {"told", entry.told}});
  }
  Json missing = Json::array();
  for (const Skipped& entry : report.missing.files) missing.push_back({{"path", entry.path}, {"reason", entry.reason}});
  Json json{{"format", report.dataset.format()}, {files_noun(report.dataset), counts.images},
            {"annotations", counts.annotations}, {"objects", counts.objects},
            {"samples", report.dataset.size()},  {"classes", std::move(classes)},
            {"boxes", std::move(boxes)},         {"skipped", std::move(skipped)},
            {"missing", std::move(missing)},     {"fingerprint", report.fingerprint}};
  if (report.mixing) {
    const auto figures = [](const order::Mixing& mixing) {
      return Json{
          {"displacement", mixing.displacement}, {"neighbours", mixing.neighbours}, {"together", mixing.together}};
    };
    json["mixing"] = {{"order", figures(report.mixing->mixing)}, {"shuffle", figures(report.mixing->shuffle)}};
    if (report.mixing->meetings > 0) json["mixing"]["meetings"] = report.mixing->meetings;
  }
  return json;
}

}  // namespace forebay::cli
