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
    visit_value(figure, record, [&](const auto& value) {
      if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>>) object[std::string(figure.key)] = value;
    });
  }
}

// Undoes put_figures(). Throws Error naming `what` and the key, and the library's exception where one is missing.
template <typename Record>
void get_figures(const FigureJson& object, Figures<Record> figures, Record& record, const std::string& what) {
  for (const Figure<Record>& figure : figures) {
    const std::string key(figure.key);
    const FigureJson& number = object.at(key);
    visit_value(figure, record, [&](auto& value) {
      using Value = std::remove_reference_t<decltype(value)>;
      if constexpr (std::is_same_v<Value, double>) {
        if (!number.is_number()) throw Error(what + ": \"" + key + "\" is not a number: " + number.dump());
        value = number.get<double>();
      } else if constexpr (std::is_same_v<Value, std::uint64_t>) {
        if (!number.is_number_unsigned()) throw Error(what + ": \"" + key + "\" is not a count: " + number.dump());
        value = number.get<std::uint64_t>();
      }
    });
  }
}

}  // namespace forebay
