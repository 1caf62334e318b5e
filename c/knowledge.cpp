#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include <forebay/profile.hpp>
#include <forebay/summary.hpp>

#include "feeder.hpp"
#include "structs.hpp"

// What a C program can ask a feeder about itself: fields, counters, and texts such as the summary.
namespace forebay::c {
namespace {

static_assert(static_cast<int>(FieldKind::image) == FOREBAY_KIND_IMAGE);
static_assert(static_cast<int>(FieldKind::mask) == FOREBAY_KIND_MASK);
static_assert(static_cast<int>(FieldKind::class_number) == FOREBAY_KIND_CLASS);
static_assert(static_cast<int>(FieldKind::multilabel) == FOREBAY_KIND_MULTILABEL);
static_assert(static_cast<int>(FieldKind::numbers) == FOREBAY_KIND_NUMBERS);
static_assert(static_cast<int>(FieldKind::boxes) == FOREBAY_KIND_BOXES);
static_assert(static_cast<int>(FieldKind::array) == FOREBAY_KIND_ARRAY);
static_assert(static_cast<int>(FieldKind::bytes) == FOREBAY_KIND_BYTES);

// The pointers refer to the feeder and are valid as long as it exists.
void describe(const DescribedField& known, forebay_field* out) {
  forebay_field field{};
  field.name = known.field.name.c_str();
  field.kind = static_cast<std::int32_t>(known.field.kind);
  field.dtype = static_cast<std::int32_t>(known.field.dtype);
  field.rank = static_cast<std::int32_t>(known.field.shape.size());
  field.is_ragged = is_ragged(known.field.kind);
  std::ranges::copy(known.field.shape, field.shape);
  field.classes = known.classes.data();
  field.class_count = known.classes.size();
  write_struct(out, field, "forebay_field");
}

// Returns a text that `get` makes from the feeder; the caller frees it.
template <typename Get>
forebay_status text_of(forebay_feeder* feeder, char** out, const char* name, forebay_error** error, Get&& get) {
  return call(feeder, error, [&](Feeder& asked) {
    *given(out, name) = nullptr;
    hand_over(get(asked), out, nullptr);
  });
}

}  // namespace
}  // namespace forebay::c

using forebay::Feeder;
using forebay::c::given;
using forebay::c::guarded;
using forebay::c::text_of;

size_t forebay_feeder_field_count(const forebay_feeder* feeder) {
  return feeder == nullptr ? 0 : feeder->fields.size();
}

forebay_status forebay_feeder_field(const forebay_feeder* feeder, size_t number, forebay_field* field,
                                    forebay_error** error) {
  return guarded(error, [&] {
    const auto& known = given(feeder, "feeder")->fields;
    if (number >= known.size()) {
      forebay::c::refuse("there is no field " + std::to_string(number) + "; there are " + std::to_string(known.size()) +
                         ", counted from 0");
    }
    forebay::c::describe(known[number], field);
  });
}

forebay_status forebay_feeder_field_number(const forebay_feeder* feeder, const char* name, size_t* number,
                                           forebay_error** error) {
  return guarded(error,
                 [&] { *given(number, "number") = given(feeder, "feeder")->feeder.field_number(given(name, "name")); });
}

uint64_t forebay_feeder_steps(const forebay_feeder* feeder) { return feeder == nullptr ? 0 : feeder->feeder.steps(); }
uint64_t forebay_feeder_epochs(const forebay_feeder* feeder) {
  return feeder == nullptr ? 0 : feeder->feeder.epochs_completed();
}
uint64_t forebay_feeder_batches_per_epoch(const forebay_feeder* feeder) {
  return feeder == nullptr ? 0 : feeder->feeder.batches_per_epoch();
}
uint64_t forebay_feeder_dataset_size(const forebay_feeder* feeder) {
  return feeder == nullptr ? 0 : feeder->feeder.dataset().size();
}
bool forebay_feeder_was_stopped(const forebay_feeder* feeder) {
  return feeder != nullptr && feeder->feeder.was_stopped();
}

forebay_status forebay_feeder_describe(forebay_feeder* feeder, char** text, forebay_error** error) {
  return text_of(feeder, text, "text", error, [](const Feeder& asked) { return asked.describe(); });
}
forebay_status forebay_feeder_configuration(forebay_feeder* feeder, char** toml, forebay_error** error) {
  return text_of(feeder, toml, "toml", error, [](const Feeder& asked) { return to_toml(asked.options()); });
}
forebay_status forebay_feeder_summary(forebay_feeder* feeder, char** json, forebay_error** error) {
  return text_of(feeder, json, "json", error, [](const Feeder& asked) { return to_json(asked.summary()); });
}
forebay_status forebay_feeder_profile(forebay_feeder* feeder, char** json, forebay_error** error) {
  return text_of(feeder, json, "json", error, [](const Feeder& asked) { return to_json(asked.profile()); });
}
