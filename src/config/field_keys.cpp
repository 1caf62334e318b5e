#include <algorithm>
#include <array>

#include "schema.hpp"

// The keys of a section [fields.NAME].
namespace forebay::config {
namespace {

// The field that is being read, written or checked is the last one.
// The schema's functions work on Options, so the field in question is moved to the end of the list.
const FieldOptions& last(const Options& options) { return options.dataset.fields.back(); }
FieldOptions& last(Options& options) { return options.dataset.fields.back(); }

template <auto Member>
constexpr auto member() {
  using Value = std::remove_cvref_t<decltype(std::declval<FieldOptions>().*Member)>;
  return Place<Value>{[](const Options& options) -> const Value& { return last(options).*Member; },
                      [](Options& options) -> Value& { return last(options).*Member; }};
}

// A choice that may be left out; then its index is one past the last name.
template <auto Member>
constexpr Choice optional_choice(std::span<const std::string_view> names) {
  using Value = typename std::remove_cvref_t<decltype(std::declval<FieldOptions>().*Member)>::value_type;
  return {names,
          [](const Options& options) {
            const auto& value = last(options).*Member;
            return value ? static_cast<std::size_t>(*value) : SIZE_MAX;
          },
          [](Options& options, std::size_t place) { last(options).*Member = static_cast<Value>(place); }};
}

constexpr std::array<std::string_view, 8> kKinds{"image",   "mask",  "class", "multilabel",
                                                 "numbers", "boxes", "array", "bytes"};
constexpr std::array<std::string_view, 7> kTypes{"float32", "float16", "bfloat16", "uint8",
                                                 "int32",   "int64",   "float64"};
static_assert(to_string(FieldKind::class_number) == kKinds[static_cast<std::size_t>(FieldKind::class_number)]);
static_assert(to_string(FieldKind::bytes) == kKinds[static_cast<std::size_t>(FieldKind::bytes)]);
static_assert(to_string(DType::float64) == kTypes[static_cast<std::size_t>(DType::float64)]);

constexpr std::int64_t kMostRows = std::int64_t{1} << 40;
constexpr std::string_view kSection = "fields.NAME";

using F = FieldOptions;

constexpr std::array kFieldKeys{
    Key{kSection, "from", Text{member<&F::from>(), {}}, "where a sample has it; \"\" = under its own name"},
    Key{kSection, "kind", optional_choice<&F::kind>(kKinds),
        "image | mask | class | multilabel | numbers | boxes | array | bytes"},
    Key{kSection, "dtype", optional_choice<&F::dtype>(kTypes), "of the batch; left out: the usual one of its kind"},
    Key{kSection, "shape", WholeList{member<&F::shape>(), {1, kMostRows}}, "array, numbers: extents of one sample"},
    Key{kSection, "most", Integer{member<&F::most>(), {0, kMostRows}}, "boxes, bytes: how many a sample has at most"},
    Key{kSection, "min_visible", Real{member<&F::min_visible>(), {0.0, 1.0}},
        "boxes: one that shows a smaller share of its area is left out"},
    Key{kSection, "classes", TextList{member<&F::classes>()}, "class, multilabel, boxes: [] = found and sorted"},
    Key{kSection, "colours", TextList{member<&F::colours>()},
        R"(mask of colours: "R,G,B" or "R,G,B=CLASS" each; [] = its values are classes)"},
    Key{kSection, "channels", Integer{member<&F::channels>(), {0, 3}}, "image: 1 or 3; 0 = 3"},
    Key{kSection, "mean", Tuple<double, 3>{member<&F::mean>(), {-1e6, 1e6}}, "image: (value - mean) / std by channel"},
    Key{kSection, "std", Tuple<double, 3>{member<&F::std>(), {0.0, 1e6, true}}, "image: unused for uint8, as is mean"},
};

}  // namespace

std::span<const Key> field_keys() noexcept { return kFieldKeys; }

const Key* find_field_key(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(kFieldKeys, name, &Key::name);
  return found == kFieldKeys.end() ? nullptr : found;
}

// Moved to the end, or made there.
void select_field(Options& options, std::string_view name) {
  std::vector<FieldOptions>& fields = options.dataset.fields;
  const auto found = std::ranges::find(fields, name, &FieldOptions::name);
  if (found == fields.end()) {
    fields.push_back({.name = std::string(name)});
  } else {
    std::rotate(found, found + 1, fields.end());
  }
}

}  // namespace forebay::config
