#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "parts.hpp"

// A target for a callback, which cannot throw: null says that the read must end, and what reserve() threw ends it.
struct forebay_target {
  forebay::ReadTarget& target;
  std::exception_ptr thrown = nullptr;
  std::byte no_bytes = {};  // an address for a sample of no bytes
};

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
  GivenDataset(const forebay_dataset& given, std::shared_ptr<void> owner)
      : calls_(given), owner_(std::move(owner)), name_(given.name != nullptr ? given.name : "callbacks") {
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
    if (calls_.name_of == nullptr) return {};  // the library has a word for it
    Message name;
    calls_.name_of(calls_.context, id, name.room());
    return name.text();
  }

  void read(std::uint64_t id, ReadTarget& target) const override {
    forebay_target room{.target = target};
    Message message;
    const forebay_status status = calls_.read(calls_.context, id, &room, message.room());
    if (room.thrown) std::rethrow_exception(room.thrown);
    if (status == FOREBAY_OK) return;
    const std::string why = *message.text() != '\0' ? message.text() : failure_of("its read callback", status, "");
    throw SampleError(why,
                      status == FOREBAY_ERROR_TRANSIENT ? SampleError::Kind::transient : SampleError::Kind::permanent);
  }

 private:
  static Sample to_sample(const forebay_sample& said) {
    Sample sample;
    sample.label = said.label;
    if (said.has_box) sample.box = Box{said.left, said.top, said.right, said.bottom};
    if (said.encoding != FOREBAY_ENCODED_IMAGE && said.encoding != FOREBAY_RAW_PIXELS) {
      throw Error("its encoding is " + std::to_string(said.encoding) + ", which is no forebay_encoding");
    }
    sample.encoding = said.encoding == FOREBAY_RAW_PIXELS ? Encoding::raw : Encoding::image;
    sample.width = said.width;
    sample.height = said.height;
    sample.channels = said.channels;
    sample.planar = said.planar;
    sample.bgr = said.bgr;
    return sample;
  }

  // With its length in front, so that no two sets of parts have the same bytes.
  void add_to_identity(std::string_view part) {
    const std::uint64_t length = part.size();
    for (const auto bytes : {std::as_bytes(std::span(&length, 1)), std::as_bytes(std::span(part))}) {
      identity_.insert(identity_.end(), bytes.begin(), bytes.end());
    }
  }

  forebay_dataset calls_;
  std::shared_ptr<void> owner_;
  std::string name_;
  std::vector<std::string> classes_;
  std::vector<std::byte> identity_;
  std::vector<Skipped> skipped_;
};

}  // namespace

void check(const forebay_dataset& dataset) {
  if (dataset.read == nullptr) refuse("forebay_dataset::read is null");
  if (dataset.size == 0) refuse("forebay_dataset::size is 0: it has no samples");
  if (dataset.class_count > 0 && dataset.classes == nullptr) refuse("forebay_dataset::classes is null");
  for (const char* const name : std::span(dataset.classes, dataset.class_count)) {
    if (name == nullptr) refuse("forebay_dataset::classes has a null");
  }
  if (dataset.identity_size > 0 && dataset.identity == nullptr) refuse("forebay_dataset::identity is null");
}

std::shared_ptr<const Dataset> made_of(const forebay_dataset& dataset, std::shared_ptr<void> owner) {
  return std::make_shared<const GivenDataset>(dataset, std::move(owner));
}

}  // namespace forebay::c
