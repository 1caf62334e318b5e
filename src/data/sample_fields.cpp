// Converts a container's value of a field (numbers, texts, boxes) to the elements that the index
// holds, with the field's type and shape. Called for each record, on the threads that read
// containers; an error makes only that sample bad.
//
// Numbers must be preserved: whole numbers stay 64-bit integers until the field's type is known,
// and an integer type that cannot hold a number exactly refuses it. Only floating-point types may
// round.

#include "sample_fields.hpp"

#include <algorithm>
#include <cmath>
#include <forebay/error.hpp>
#include <limits>
#include <utility>

#include "base/text.hpp"
#include "class_text.hpp"

namespace forebay::data {
namespace {

// A double represents every whole number up to this one exactly; a larger one may differ from the
// number that was written.
constexpr std::int64_t kExactInDouble = std::int64_t{1} << 53U;

// Whether the type holds the number exactly; a floating-point type may round it.
template <typename Element>
bool holds(std::int64_t number) noexcept {
  if constexpr (std::is_integral_v<Element>) return std::in_range<Element>(number);
  return true;
}
// Checks the magnitude as a double first, because casting a number that is out of range is
// undefined.
template <typename Element>
bool holds(double number) noexcept {
  if constexpr (std::is_integral_v<Element>) {
    return std::trunc(number) == number && std::fabs(number) <= static_cast<double>(kExactInDouble) &&
           std::in_range<Element>(static_cast<std::int64_t>(number));
  }
  return true;
}

std::string shown(std::int64_t number) { return std::to_string(number); }
std::string shown(double number) { return shortest(number); }

template <typename Element, typename Number>
void append_element(std::vector<std::byte>& bytes, Number number) {
  if (!holds<Element>(number)) throw SampleError("has a number that its type does not hold: " + shown(number));
  const auto element = static_cast<Element>(number);
  const auto raw = std::as_bytes(std::span(&element, 1));
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

template <typename Number>
void append_number(std::vector<std::byte>& bytes, DType type, Number number) {
  switch (type) {
    case DType::uint8: return append_element<std::uint8_t>(bytes, number);
    case DType::int32: return append_element<std::int32_t>(bytes, number);
    case DType::int64: return append_element<std::int64_t>(bytes, number);
    case DType::float64: return append_element<double>(bytes, number);
    case DType::float32: return append_element<float>(bytes, number);
    case DType::float16:
    case DType::bfloat16: break;  // refused by WantedFields
  }
}

std::int64_t class_of_name(const Field& field, const std::string& name) {
  const auto found = std::ranges::find(field.classes, name);
  if (found == field.classes.end()) throw SampleError("has the class \"" + printable(name) + "\", which is not listed");
  return found - field.classes.begin();
}

// The class numbers of a value, which may be numbers or names.
// A text that is listed as a class is that class, even if it looks like a number.
std::vector<std::int64_t> class_numbers(const Field& field, const FieldValue& value) {
  std::vector<std::int64_t> numbers = value.integers;
  for (const double number : value.floats) {
    if (std::trunc(number) != number || std::fabs(number) > 1e15)
      throw SampleError("has a class that is no whole number");
    numbers.push_back(static_cast<std::int64_t>(number));
  }
  for (const std::string& text : value.texts) {
    const auto number = whole_number_in(text);
    const bool is_name = !number || std::ranges::find(field.classes, text) != field.classes.end();
    numbers.push_back(is_name ? class_of_name(field, text) : *number);
  }
  for (const std::int64_t number : numbers) {
    const auto count = static_cast<std::int64_t>(field.classes.size());
    if (number < -1 || (count > 0 && number >= count)) {
      throw SampleError("has class " + std::to_string(number) + " of " + std::to_string(count));
    }
  }
  return numbers;
}

// The value as one 0 or 1 per class, if it can be that.
std::optional<std::vector<std::int64_t>> bits_in(const Field& field, const FieldValue& value) {
  std::vector<std::int64_t> bits = value.integers;
  for (const double number : value.floats) bits.push_back(number == 0 ? 0 : number == 1 ? 1 : -1);
  for (const std::string& text : value.texts) {
    const bool is_name = std::ranges::find(field.classes, text) != field.classes.end();
    bits.push_back(is_name ? -1 : whole_number_in(text).value_or(-1));
  }
  const auto is_bit = [](std::int64_t number) { return number == 0 || number == 1; };
  if (bits.size() != field.classes.size() || !std::ranges::all_of(bits, is_bit)) return std::nullopt;
  return bits;
}

std::vector<std::int64_t> multi_hot(const Field& field, const FieldValue& value) {
  if (auto bits = bits_in(field, value)) return *bits;
  std::vector<std::int64_t> bits(field.classes.size(), 0);
  for (const std::int64_t number : class_numbers(field, value)) {
    if (number >= 0) bits[static_cast<std::size_t>(number)] = 1;
  }
  return bits;
}

double exact_float(std::int64_t number) {
  if (number <= kExactInDouble && number >= -kExactInDouble) return static_cast<double>(number);
  throw SampleError("has whole numbers beyond 2^53 beside others that are fractions: " + std::to_string(number));
}

}  // namespace

// One more than the field can take, so that too many are noticed; bounded for fields with absurd
// shapes.
std::size_t WantedFields::Wanted::most() const noexcept {
  constexpr std::size_t kMany = std::size_t{1} << 20U;
  return std::min(kMany, std::max(field.shape.elements(), field.classes.size()) + 1);
}

// Classes of multilabel fields must be given, since their number is the field's shape.
WantedFields::WantedFields(const DatasetOptions& options) {
  for (const FieldOptions& each : options.fields) {
    if (each.name == "image") image = each.from;
    if (each.name == "label") label = each.from;
    if (is_image_or_label(each.name)) continue;
    Wanted wanted{.field = field_of(each), .from = place_of(each)};
    const std::string key = "fields." + each.name;
    if (wanted.field.kind == FieldKind::multilabel && wanted.field.classes.empty()) {
      throw ConfigError(key + ".classes: name the classes, one for each number of the field");
    }
    const bool is_half = wanted.field.dtype == DType::float16 || wanted.field.dtype == DType::bfloat16;
    if (is_half && !wanted.is_bytes())
      throw ConfigError(key + ".dtype: use float32; a container's numbers are kept so");
    fields.push_back(std::move(wanted));
  }
}

// A value without any class is -1, as for labels.
std::vector<std::byte> elements_of(const WantedFields::Wanted& wanted, const FieldValue& value) {
  const Field& field = wanted.field;
  std::vector<std::byte> bytes;
  if (field.kind == FieldKind::boxes) {
    const auto raw = std::as_bytes(std::span(value.boxes));
    return {raw.begin(), raw.end()};
  }
  if (field.kind == FieldKind::class_number) {
    const auto numbers = class_numbers(field, value);
    if (numbers.size() > 1)
      throw SampleError("has " + std::to_string(numbers.size()) + " classes where one is expected");
    append_number(bytes, field.dtype, numbers.empty() ? std::int64_t{-1} : numbers.front());
    return bytes;
  }
  if (field.kind == FieldKind::multilabel) {
    for (const std::int64_t bit : multi_hot(field, value)) append_number(bytes, field.dtype, bit);
    return bytes;
  }
  if (!value.texts.empty()) {
    throw SampleError("has \"" + printable(value.texts.front().substr(0, 40)) + "\" where a number is expected");
  }
  for (const std::int64_t number : value.integers) append_number(bytes, field.dtype, number);
  for (const double number : value.floats) append_number(bytes, field.dtype, number);
  const std::size_t count = value.integers.size() + value.floats.size();
  if (count == field.shape.elements()) return bytes;
  throw SampleError("has " + std::to_string(count) + (count >= wanted.most() ? " or more" : "") + " numbers where " +
                    std::to_string(field.shape.elements()) + " are expected");
}

SetForm form_of_set(const Field& field, const FieldValue& value) {
  if (field.kind != FieldKind::multilabel || value.integers.size() + value.floats.size() + value.texts.size() == 0) {
    return SetForm::other;
  }
  const auto bits = bits_in(field, value);
  if (!bits) return SetForm::numbers;
  const bool has_zero = std::ranges::find(*bits, 0) != bits->end();
  const bool has_one = std::ranges::find(*bits, 1) != bits->end();
  return has_zero && has_one ? SetForm::zeros_and_ones : has_one ? SetForm::ones : SetForm::zeros;
}

std::vector<std::byte> elements_if_numbers(const WantedFields::Wanted& wanted, SetForm form) {
  const std::vector<std::string>& classes = wanted.field.classes;
  FieldValue value;
  if (form != SetForm::ones) value.texts.push_back(classes[0]);
  if (form != SetForm::zeros && classes.size() > 1) value.texts.push_back(classes[1]);
  return elements_of(wanted, value);
}

void add_number(FieldValue& value, std::int64_t number) {
  if (value.floats.empty()) {
    value.integers.push_back(number);
  } else {
    value.floats.push_back(exact_float(number));
  }
}

void add_number(FieldValue& value, double number) {
  for (const std::int64_t whole : value.integers) value.floats.push_back(exact_float(whole));
  value.integers.clear();
  value.floats.push_back(number);
}

// For members of tar archives: numbers are separated by blanks, commas, semicolons or line breaks,
// names by '|' or line breaks.
FieldValue value_of_text(std::string_view text, FieldKind kind) {
  const bool is_numbers = kind == FieldKind::numbers;
  const std::string_view dividers = is_numbers ? " ,;\t\r\n" : "|\r\n";
  FieldValue value;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(dividers, begin), text.size());
    std::string_view part = text.substr(begin, end - begin);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    begin = end + 1;
    if (part.empty()) continue;
    if (!is_numbers) {
      value.texts.emplace_back(part);
      continue;
    }
    if (const auto whole = parse_number<std::int64_t>(part)) {
      add_number(value, *whole);
    } else if (const auto real = parse_number<double>(part)) {
      add_number(value, *real);
    } else {
      throw SampleError("has \"" + printable(part.substr(0, 40)) + "\" where a number is expected");
    }
  }
  return value;
}

}  // namespace forebay::data
