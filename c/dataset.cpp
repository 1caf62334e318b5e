// A Dataset made of C callbacks. Reader threads call read and read_field at any time, several at
// once; the program must support that.
//
// Exceptions cannot pass through C: one that reserve() throws is stored in forebay_target and
// rethrown after the callback has returned. Like every dataset of a program, this one is wrapped in
// the library's guards (data/guarded_dataset.cpp).

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <forebay/options.hpp>

#include "errors.hpp"
#include "parts.hpp"
#include "structs.hpp"

// The target that a callback reads into. A callback cannot throw: a null from reserve tells it to
// end, and the stored exception is rethrown afterwards.
struct forebay_target {
  forebay::ReadTarget& target;
  std::exception_ptr thrown = nullptr;
  std::byte no_bytes = {};  // a non-null address for an empty sample
};

// Null tells the callback to end, so an empty sample gets an address that is not null, to which the
// callback writes nothing.
void* forebay_target_reserve(forebay_target* target, size_t bytes) {
  if (target == nullptr) return nullptr;
  try {
    std::byte* const room = target->target.reserve(bytes).data();
    return room != nullptr ? room : &target->no_bytes;
  } catch (...) {
    target->thrown = std::current_exception();
    return nullptr;
  }
}

namespace forebay::c {
namespace {

class GivenDataset final : public Dataset {
 public:
  // identity_ represents the dataset's contents when ranks compare it and when a saved state is
  // resumed.
  GivenDataset(const forebay_dataset& given, std::vector<Field> fields, std::shared_ptr<void> owner)
      : calls_(given),
        owner_(std::move(owner)),
        name_(given.name != nullptr ? given.name : "callbacks"),
        fields_(std::move(fields)) {
    for (const char* const name : std::span(given.classes, given.class_count)) classes_.emplace_back(name);
    add_to_identity(name_);
    add_to_identity({reinterpret_cast<const char*>(&calls_.size), sizeof(calls_.size)});
    for (const std::string& name : classes_) add_to_identity(name);
    add_to_identity({static_cast<const char*>(given.identity), given.identity_size});
  }

  [[nodiscard]] std::string_view format() const noexcept override { return name_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return calls_.size; }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return classes_; }
  [[nodiscard]] const std::vector<Skipped>& skipped() const noexcept override { return skipped_; }
  [[nodiscard]] IndexCounts counts() const noexcept override { return {.images = calls_.size}; }
  [[nodiscard]] std::vector<std::byte> serialize() const override { return identity_; }

  // Without the callback every sample is an unlabelled encoded image.
  [[nodiscard]] Sample sample(std::uint64_t id) const override {
    forebay_sample said{};
    said.struct_size = sizeof(said);
    said.label = -1;
    if (calls_.sample == nullptr) return to_sample(said);
    Message message;
    const forebay_status status = calls_.sample(calls_.context, id, &said, message.room());
    if (status != FOREBAY_OK) throw Error(failure_of("the callback", status, message.text()));
    return to_sample(said);
  }

  [[nodiscard]] std::string name(std::uint64_t id) const override {
    if (calls_.name_of == nullptr) return {};  // the library makes up a name
    Message name;
    calls_.name_of(calls_.context, id, name.room());
    return name.text();
  }

  void read(std::uint64_t id, ReadTarget& target) const override {
    read_part(target,
              [&](forebay_target* room, char* message) { return calls_.read(calls_.context, id, room, message); });
  }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  void read_field(std::uint64_t id, std::size_t field, ReadTarget& target) const override {
    read_part(target, [&](forebay_target* room, char* message) {
      return calls_.read_field(calls_.context, id, field, room, message);
    });
  }

 private:
  // FOREBAY_ERROR_TRANSIENT: the library may try again.
  template <typename Call>
  static void read_part(ReadTarget& target, Call&& call) {
    forebay_target room{.target = target};
    Message message;
    const forebay_status status = call(&room, message.room());
    if (room.thrown) std::rethrow_exception(room.thrown);
    if (status == FOREBAY_OK) return;
    const std::string why = *message.text() != '\0' ? message.text() : failure_of("its read callback", status, "");
    throw SampleError(why,
                      status == FOREBAY_ERROR_TRANSIENT ? SampleError::Kind::transient : SampleError::Kind::permanent);
  }

  // `reserved` must be 0, so that it can be given a meaning later.
  static Sample to_sample(const forebay_sample& said) {
    Sample sample;
    sample.label = said.label;
    if (said.has_box) sample.box = Box{said.left, said.top, said.right, said.bottom};
    if (said.encoding != FOREBAY_ENCODED_IMAGE && said.encoding != FOREBAY_RAW_PIXELS) {
      throw Error("its encoding is " + std::to_string(said.encoding) + ", which is no forebay_encoding");
    }
    if (said.reserved != 0) throw Error("its reserved member is " + std::to_string(said.reserved) + " and must be 0");
    sample.encoding = said.encoding == FOREBAY_RAW_PIXELS ? Encoding::raw : Encoding::image;
    sample.width = said.width;
    sample.height = said.height;
    sample.channels = said.channels;
    sample.planar = said.planar;
    sample.bgr = said.bgr;
    return sample;
  }

  // Each part is preceded by its length, so that different lists of parts never give the same
  // bytes.
  void add_to_identity(std::string_view part) {
    const std::uint64_t length = part.size();
    for (const auto bytes : {std::as_bytes(std::span(&length, 1)), std::as_bytes(std::span(part))}) {
      identity_.insert(identity_.end(), bytes.begin(), bytes.end());
    }
  }

  forebay_dataset calls_;
  std::shared_ptr<void> owner_;
  std::string name_;
  std::vector<Field> fields_;
  std::vector<std::string> classes_;
  std::vector<std::byte> identity_;
  std::vector<Skipped> skipped_;
};

// Throws FOREBAY_ERROR_ARGUMENT unless 0 <= value <= last.
void require_enumerator(std::int32_t value, std::int32_t last, const char* member) {
  if (value < 0 || value > last) refuse(std::string("forebay_field::") + member + " is " + std::to_string(value));
}

Field to_field(const forebay_field& described) {
  Field field;
  field.name = given(described.name, "forebay_field::name");
  require_enumerator(described.kind, FOREBAY_KIND_BYTES, "kind");
  require_enumerator(described.dtype, FOREBAY_FLOAT64, "dtype");
  require_enumerator(described.rank, FOREBAY_MOST_DIMENSIONS, "rank");
  field.kind = static_cast<FieldKind>(described.kind);
  field.dtype = static_cast<DType>(described.dtype);
  for (const std::int64_t extent : std::span(described.shape, static_cast<std::size_t>(described.rank))) {
    field.shape.push_back(extent);
  }
  if (described.class_count > 0) static_cast<void>(given(described.classes, "forebay_field::classes"));
  for (const char* const name : std::span(described.classes, described.class_count)) {
    field.classes.emplace_back(given(name, "a name of forebay_field::classes"));
  }
  return field;
}

}  // namespace

// The distance between elements is the size of the struct in the caller's version of the header.
// All elements must have the same struct_size.
std::vector<Field> fields_of(const forebay_dataset& dataset) {
  std::vector<Field> fields;
  if (dataset.field_count == 0) return fields;
  const auto* at = reinterpret_cast<const std::byte*>(given(dataset.fields, "forebay_dataset::fields"));
  if (dataset.read_field == nullptr) refuse("forebay_dataset::read_field is null, and there are fields");
  const std::size_t distance = dataset.fields->struct_size;
  for (std::size_t i = 0; i < dataset.field_count; ++i, at += distance) {
    const auto* const described = reinterpret_cast<const forebay_field*>(at);
    fields.push_back(to_field(read_struct(described, "forebay_field")));
    if (described->struct_size != distance) refuse("forebay_dataset::fields have different struct_size");
  }
  return fields;
}

void check(const forebay_dataset& dataset) {
  if (dataset.read == nullptr) refuse("forebay_dataset::read is null");
  if (dataset.size == 0) refuse("forebay_dataset::size is 0: it has no samples");
  if (dataset.class_count > 0 && dataset.classes == nullptr) refuse("forebay_dataset::classes is null");
  for (const char* const name : std::span(dataset.classes, dataset.class_count)) {
    if (name == nullptr) refuse("forebay_dataset::classes has a null");
  }
  if (dataset.identity_size > 0 && dataset.identity == nullptr) refuse("forebay_dataset::identity is null");
}

std::shared_ptr<const Dataset> made_of(const forebay_dataset& dataset, std::vector<Field> fields,
                                       std::shared_ptr<void> owner) {
  return std::make_shared<const GivenDataset>(dataset, std::move(fields), std::move(owner));
}

}  // namespace forebay::c
