#include <forebay/summary.hpp>

#include "figure_json.hpp"
#include "figures.hpp"

namespace forebay {
namespace {

FigureJson object_of(const Summary& summary) {
  FigureJson out = FigureJson::object();
  put_figures(out, summary_figures(), summary);
  return out;
}

}  // namespace

Summary combine(std::span<const Summary> ranks) {
  Summary job;
  combine_figures(summary_figures(), ranks, job);
  return job;
}

std::string to_json(const Summary& summary) { return object_of(summary).dump(2); }

std::string to_json(const Summary& job, std::span<const Summary> ranks) {
  FigureJson out = object_of(job);
  out["ranks"] = FigureJson::array();
  for (const Summary& rank : ranks) out["ranks"].push_back(object_of(rank));
  return out.dump(2);
}

Summary summary_from_json(const std::string& json) {
  try {
    Summary out;
    get_figures(FigureJson::parse(json), summary_figures(), out, "summary");
    return out;
  } catch (const nlohmann::json::exception& e) {
    throw Error("summary: not the JSON of a summary: " + std::string(e.what()));
  }
}

}  // namespace forebay
