#include "assign.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <type_traits>
#include <utility>

#include "size_text.hpp"

namespace forebay::config {
namespace {

std::optional<double> real(const toml::node& node) {
  if (const auto* integer = node.as_integer()) return static_cast<double>(integer->get());
  if (const auto* number = node.as_floating_point()) return number->get();
  return std::nullopt;
}

std::optional<std::int64_t> whole(const toml::node& node) { return node.value_exact<std::int64_t>(); }

template <typename T>
std::optional<T> element(const toml::node& node) {
  if constexpr (std::is_same_v<T, std::string>) return node.value_exact<std::string>();
  if constexpr (std::is_same_v<T, std::int64_t>) return whole(node);
  if constexpr (std::is_same_v<T, double>) return real(node);
}

class Assign {
 public:
  Assign(const toml::node& node, Options& options) : node_(node), options_(options) {}

  bool operator()(const Flag& flag) const { return put(flag.field, node_.value_exact<bool>()); }
  bool operator()(const Integer& integer) const { return put(integer.field, whole(node_)); }
  bool operator()(const Real& number) const { return put(number.field, real(node_)); }
  bool operator()(const Text& text) const { return put(text.field, node_.value_exact<std::string>()); }

  bool operator()(const Seed& seed) const {
    if (const auto number = whole(node_); number && *number >= 0) {
      seed.field.in(options_) = static_cast<std::uint64_t>(*number);
      return true;
    }
    const auto digits = node_.value_exact<std::string>();
    if (!digits || digits->empty()) return false;
    std::uint64_t number = 0;
    const char* const end = digits->data() + digits->size();
    const auto result = std::from_chars(digits->data(), end, number);
    if (result.ec != std::errc{} || result.ptr != end) return false;
    seed.field.in(options_) = number;
    return true;
  }

  bool operator()(const Bytes& bytes) const {
    if (const auto text = node_.value_exact<std::string>()) return put(bytes.field, parse_size(*text));
    return put(bytes.field, whole(node_));
  }

  bool operator()(const Threads& threads) const {
    if (node_.value_exact<std::string>() == "auto") return put(threads.field, std::optional<std::int64_t>(0));
    return put(threads.field, whole(node_));
  }

  template <typename T, std::size_t N>
  bool operator()(const Tuple<T, N>& tuple) const {
    const auto* array = node_.as_array();
    if (array == nullptr || array->size() != N) return false;
    std::array<T, N> values{};
    return elements(*array, values.begin()) && put(tuple.field, std::optional(values));
  }

  bool operator()(const TextList& list) const {
    const auto* array = node_.as_array();
    if (array == nullptr) return false;
    std::vector<std::string> values(array->size());
    return elements(*array, values.begin()) && put(list.field, std::optional(std::move(values)));
  }

  bool operator()(const Choice& choice) const {
    const auto name = node_.value_exact<std::string>();
    if (!name) return false;
    const auto at = std::ranges::find(choice.names, *name);
    if (at == choice.names.end()) return false;
    choice.set(options_, static_cast<std::size_t>(at - choice.names.begin()));
    return true;
  }

  bool operator()(const Budget& budget) const {
    if (const auto count = whole(node_)) return put(budget.field, std::optional<BadBudget>(*count));
    if (const auto share = real(node_)) return put(budget.field, std::optional<BadBudget>(*share));
    return false;
  }

 private:
  template <typename T>
  [[nodiscard]] bool put(const Field<T>& field, std::optional<T> value) const {
    if (value) field.in(options_) = std::move(*value);
    return value.has_value();
  }

  template <typename Iterator>
  static bool elements(const toml::array& array, Iterator out) {
    for (const toml::node& node : array) {
      auto value = element<std::iter_value_t<Iterator>>(node);
      if (!value) return false;
      *out++ = std::move(*value);
    }
    return true;
  }

  const toml::node& node_;
  Options& options_;
};

}  // namespace

bool assign(const Kind& kind, const toml::node& node, Options& options) {
  return std::visit(Assign(node, options), kind);
}

std::string description(const toml::node& node) {
  constexpr std::size_t kMostShown = 60;
  if (node.is_table()) return "a section";
  std::ostringstream text;
  text << toml::toml_formatter(node, toml::format_flags::none);
  if (!node.is_array()) {
    text << " (" << node.type() << ")";
  } else if (text.str().size() > kMostShown) {
    return "an array of " + std::to_string(node.as_array()->size()) + " values";
  }
  return text.str();
}

}  // namespace forebay::config
