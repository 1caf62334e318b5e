// Summaries and profiles as JSON, read back from JSON, and combined over the ranks of a job.
// Everything follows from the tables of figures (figures.hpp). Functions without state, for any
// thread.

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#include <forebay/error.hpp>
#include <forebay/profile.hpp>
#include <forebay/summary.hpp>

#include <nlohmann/json.hpp>

#include "figures.hpp"

namespace forebay {
namespace {

// A figure is a member of a JSON object, with full precision.
using FigureJson = nlohmann::ordered_json;

// The names come only from the table of figures, so that writing and reading cannot differ.
template <typename Record>
void put_figures(FigureJson& object, measure::Figures<Record> figures, const Record& record) {
  for (const measure::Figure<Record>& figure : figures) {
    measure::visit_place(figure, [&](auto place) { object[std::string(figure.key)] = record.*place; });
  }
}

// The inverse of put_figures(). Throws Error, naming `what` and the key, and the library's
// exception if a key is missing.
template <typename Record>
void get_figures(const FigureJson& object, measure::Figures<Record> figures, Record& record, const std::string& what) {
  for (const measure::Figure<Record>& figure : figures) {
    const FigureJson& number = object.at(std::string(figure.key));
    measure::visit_place(figure, [&](auto place) {
      using Value = std::remove_reference_t<decltype(record.*place)>;
      constexpr bool is_count = std::is_same_v<Value, std::uint64_t>;
      if (is_count ? !number.is_number_unsigned() : !number.is_number()) {
        throw Error(what + ": \"" + std::string(figure.key) +
                    (is_count ? "\" is not a count: " : "\" is not a number: ") + number.dump());
      }
      record.*place = number.get<Value>();
    });
  }
}

FigureJson object_of(const Summary& summary) {
  FigureJson out = FigureJson::object();
  put_figures(out, measure::summary_figures(), summary);
  return out;
}

// Calls visit(part, figures of its record) for each stage and each queue.
template <typename Visit>
void for_each_part(Visit&& visit) {
  for (const auto& stage : measure::profile_stages()) visit(stage, measure::stage_figures());
  for (const auto& queue : measure::profile_queues()) visit(queue, measure::queue_figures());
}

}  // namespace

Summary combine(std::span<const Summary> ranks) {
  Summary job;
  measure::combine_figures(measure::summary_figures(), ranks, job);
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
    get_figures(FigureJson::parse(json), measure::summary_figures(), out, "summary");
    return out;
  } catch (const nlohmann::json::exception& e) {
    throw Error("summary: not the JSON of a summary: " + std::string(e.what()));
  }
}

// Each figure says how its ranks are combined: sum, mean, least or most (figures.cpp).
Profile combine(std::span<const Profile> ranks) {
  Profile job;
  measure::combine_figures(measure::profile_figures(), ranks, job);
  for_each_part([&](const auto& part, auto figures) {
    measure::combine_figures(
        figures, ranks, job, [&](auto& profile) -> auto& { return profile.*part.place; });
  });
  return job;
}

std::size_t slowest_rank(std::span<const Profile> ranks) noexcept {
  const auto slowest =
      std::ranges::min_element(ranks, {}, [](const Profile& rank) { return rank.trainer.images_per_s; });
  return static_cast<std::size_t>(slowest - ranks.begin());
}

// The verdict comes first, because it is what a person looks for.
std::string to_json(const Profile& profile) {
  const Finding finding = judge(profile);
  FigureJson out;
  out["bound"] = name_of(finding.bound);
  out["sentence"] = finding.sentence;
  put_figures(out, measure::profile_figures(), profile);
  for_each_part([&](const auto& part, auto figures) {
    put_figures(out[std::string(part.group)][std::string(part.name)], figures, profile.*part.place);
  });
  return out.dump(2);
}

Profile profile_from_json(const std::string& json) {
  try {
    const FigureJson object = FigureJson::parse(json);
    Profile out;
    get_figures(object, measure::profile_figures(), out, "profile");
    for_each_part([&](const auto& part, auto figures) {
      get_figures(object.at(std::string(part.group)).at(std::string(part.name)), figures, out.*part.place, "profile");
    });
    return out;
  } catch (const nlohmann::json::exception& e) {
    throw Error("profile: not the JSON of a profile: " + std::string(e.what()));
  }
}

}  // namespace forebay
