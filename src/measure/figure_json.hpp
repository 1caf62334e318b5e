#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include <forebay/error.hpp>
#include <nlohmann/json.hpp>

#include "figure.hpp"

// Figures as members of a JSON object, numbers in full.
namespace forebay {

using FigureJson = nlohmann::ordered_json;

template <typename Record>
void put_figures(FigureJson& object, Figures<Record> figures, const Record& record) {
  for (const Figure<Record>& figure : figures) {
    visit_place(figure, [&](auto place) { object[std::string(figure.key)] = record.*place; });
  }
}

// Undoes put_figures(). Throws Error naming `what` and the key, and the library's exception where one is missing.
template <typename Record>
void get_figures(const FigureJson& object, Figures<Record> figures, Record& record, const std::string& what) {
  for (const Figure<Record>& figure : figures) {
    const FigureJson& number = object.at(std::string(figure.key));
    visit_place(figure, [&](auto place) {
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

}  // namespace forebay
