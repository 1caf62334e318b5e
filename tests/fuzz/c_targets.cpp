#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <forebay/forebay.h>
#include <forebay/interop.hpp>

#include "dataset_support.hpp"
#include "support.hpp"
#include "taken.hpp"
#include "targets.hpp"

// Calls to the C interface in any order, with whatever a caller may pass and callbacks may return.
// What the headers forbid is left out: dangling pointers, and handles that ended with their feeder.
namespace forebay::fuzz {
namespace {

constexpr std::uint64_t kSamples = 12;
constexpr std::size_t kPixels = 16;

const char* const kConfiguration =
    "device = \"host\"\n"
    "[dataset]\nbatch_size = 4\nshuffle = false\ndrop_last = false\n"
    "[transform]\ncrop = \"none\"\nsize = [4, 4]\nmirror = 0\ndtype = \"uint8\"\nlayout = \"NHWC\"\n"
    "[workers]\nio = 1\ndecode = 1\nhedge = \"off\"\n"
    "[queue]\ncapacity = 2\nmax_leases = 3\n"
    "[policy]\nwatchdog_s = 60\n"
    "[telemetry]\ndir = \"\"\ninterval_s = 0\nlive = \"never\"\n";

// Does not change once it is made, because many threads call it at once.
struct Callbacks {
  explicit Callbacks(Taken& taken) : is_odd(taken.below(4) == 1) {
    for (auto& each : bytes_of) each = is_odd && taken.flag() ? taken.byte() : kPixels;
    if (!is_odd) return;
    sample.label = taken.number<std::int8_t>();
    sample.encoding = taken.number<std::int8_t>() % 3;
    sample.width = taken.number<std::int32_t>();
    sample.height = taken.number<std::int32_t>();
    sample.channels = taken.number<std::int8_t>();
    sample.planar = taken.flag();
    sample.has_box = taken.flag();
    sample.left = taken.number<std::int32_t>();
    sample.top = taken.number<std::int32_t>();
    sample.right = taken.number<std::int32_t>();
    sample.bottom = taken.number<std::int32_t>();
    which = taken.byte() % kSamples;
    status = taken.number<std::int8_t>() % 4;
  }

  static forebay_status describe(void* context, std::uint64_t id, forebay_sample* to, char* message) {
    const auto& self = *static_cast<const Callbacks*>(context);
    if (self.is_odd && id == self.which) {
      const std::size_t size = to->struct_size;
      *to = self.sample;
      to->struct_size = size;
    } else {
      to->label = 1;
      to->encoding = FOREBAY_RAW_PIXELS;
      to->width = to->height = 4;
      to->channels = 1;
    }
    std::strcpy(message, "odd");
    return FOREBAY_OK;
  }
  static forebay_status read(void* context, std::uint64_t id, forebay_target* target, char* /*message*/) {
    const auto& self = *static_cast<const Callbacks*>(context);
    if (self.is_odd && id == self.which && self.status != FOREBAY_OK) return self.status;
    const std::size_t bytes = self.bytes_of[id];
    void* const room = forebay_target_reserve(target, bytes);
    if (room == nullptr) return FOREBAY_ERROR;
    std::memset(room, static_cast<int>(id), bytes);
    return FOREBAY_OK;
  }

  static void destroy(void* context) { ++static_cast<Callbacks*>(context)->destroyed; }

  bool is_odd;
  std::atomic<int> destroyed{0};
  std::array<std::size_t, kSamples> bytes_of{};
  forebay_sample sample{};
  std::uint64_t which = 0;
  forebay_status status = FOREBAY_OK;
};

std::filesystem::path state_file() {
  static const testing::TemporaryDirectory folder;
  return folder / "state";
}

class Caller {
 public:
  explicit Caller(Taken& taken) : taken_(taken), callbacks_(taken) {}
  ~Caller() { end(); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  bool run() {
    std::filesystem::remove(state_file());
    make();
    const bool was_made = feeder_ != nullptr;
    for (int calls = 0; calls < 64 && !taken_.is_at_end(); ++calls) call();
    end();
    if (callbacks_.destroyed != (was_taken_ ? 1 : 0)) throw std::logic_error("what was taken is destroyed once");
    return was_made;
  }

 private:
  void check(forebay_status status) {
    if (*forebay_status_name(status) == '?') throw std::logic_error("a status that is none");
    if ((status < 0) != (error_ != nullptr) || (error_ != nullptr && forebay_error_status(error_) != status)) {
      throw std::logic_error("an error without its status, or the other way round");
    }
    forebay_error_free(error_);
    error_ = nullptr;
  }

  void make() {
    forebay_dataset dataset{};
    dataset.struct_size = sizeof dataset;
    dataset.context = &callbacks_;
    dataset.size = kSamples;
    dataset.sample = Callbacks::describe;
    dataset.read = Callbacks::read;
    dataset.destroy = Callbacks::destroy;
    forebay_policy policy{};
    policy.struct_size = sizeof policy;
    policy.context = this;
    policy.name = "fuzz";
    policy.decide = [](void* self, const forebay_signals* signals) {
      return static_cast<Caller*>(self)->decisions_[signals->step % kDecisions];
    };
    for (auto& each : decisions_) each = taken_.below(16) == 1 ? taken_.number<std::int8_t>() : taken_.byte() % 2;
    const std::string setting(taken_.text());
    const std::string name = "policy.name=" + std::string(taken_.flag() ? "fuzz" : "adaptive");
    const std::array<const char*, 2> settings{name.c_str(), setting.c_str()};
    forebay_feeder_options options{};
    options.struct_size = sizeof options - (taken_.below(64) == 1 ? 1 : 0);
    options.text = taken_.below(64) == 1 ? nullptr : kConfiguration;
    options.settings = settings.data();
    options.setting_count = setting.empty() ? 1 : 2;
    options.dataset = taken_.below(64) == 1 ? nullptr : &dataset;
    options.policy = &policy;
    options.log = [](void*, std::int32_t, const char*) {};
    options.waiting_context = this;
    options.while_waiting = [](void* self) { return static_cast<Caller*>(self)->is_impatient(); };
    looks_left_ = 20'000;
    const forebay_status status = forebay_feeder_new(&options, &feeder_, &error_);
    was_taken_ = options.dataset != nullptr && status != FOREBAY_ERROR_ARGUMENT;
    check(status);
  }

  // Bounds each wait, in case the dataset never delivers a batch.
  bool is_impatient() { return --looks_left_ < 0; }

  static void end(DLManagedTensorVersioned*& tensor) {
    auto* const shared = reinterpret_cast<dlpack::DLManagedTensorVersioned*>(std::exchange(tensor, nullptr));
    if (shared != nullptr) shared->deleter(shared);
  }
  // Tensors may outlive the feeder, so they end last.
  void end() {
    for (auto& batch : batches_) forebay_batch_release(std::exchange(batch, nullptr));
    if (forebay_feeder_free(std::exchange(feeder_, nullptr)) != FOREBAY_OK) throw std::logic_error("it was not ended");
    for (auto& tensor : tensors_) end(tensor);
    forebay_error_free(std::exchange(error_, nullptr));
  }

  forebay_batch*& any_batch() { return batches_[taken_.below(batches_.size())]; }
  forebay_feeder* any_feeder() { return taken_.below(32) == 1 ? nullptr : feeder_; }

  void call() {
    looks_left_ = 2;
    switch (taken_.below(16)) {
      case 0:
      case 1:
      case 2: return next();
      case 3: return forebay_batch_release(any_batch());  // possibly a released one, which stays in its place
      case 4: return describe(any_batch());
      case 5: return copy(any_batch());
      case 6: return views(any_batch());
      case 7: return share(any_batch());
      case 8: return check(forebay_feeder_next_epoch(any_feeder(), &error_));
      case 9: return state();
      case 10: return restore();
      case 11: return texts();
      case 12: return fields();
      case 13:
        if (taken_.below(4) == 1) check(forebay_feeder_close(any_feeder(), &error_));
        return;
      case 14:
        if (taken_.below(4) == 1) forebay_feeder_request_stop(any_feeder());
        return;
      default: return file();
    }
  }

  void next() {
    forebay_batch*& place = any_batch();
    forebay_batch_release(place);
    const std::array<double, 4> timeouts{0, 0.001, 1e308, -1};
    check(forebay_feeder_next(any_feeder(), timeouts[taken_.below(4)], nullptr,
                              taken_.below(64) == 1 ? nullptr : &place, &error_));
  }
  void describe(const forebay_batch* batch) {
    forebay_tensor tensor{};
    tensor.struct_size = taken_.below(16) == 1 ? taken_.byte() : sizeof tensor;
    check(forebay_batch_tensor(batch, taken_.byte(), &tensor, &error_));
    tensor.struct_size = sizeof tensor;
    const forebay_status status =
        forebay_batch_tensor_named(batch, taken_.flag() ? "image" : "label", &tensor, &error_);
    if (status == FOREBAY_OK && tensor.bytes > 0)
      sum_ += static_cast<const unsigned char*>(tensor.data)[tensor.bytes - 1];
    check(status);
    check(forebay_batch_counts(batch, taken_.byte(), &tensor, &error_));
    const std::uint32_t size = forebay_batch_size(batch);
    if (size > 0)
      sum_ += static_cast<std::uint64_t>(forebay_batch_labels(batch)[size - 1]) + forebay_batch_ids(batch)[size - 1];
    sum_ += forebay_batch_step(batch) + forebay_batch_epoch(batch) + forebay_batch_use_index(batch);
  }
  void copy(const forebay_batch* batch) {
    std::vector<unsigned char> room(taken_.flag() ? 4 * kPixels * 3 : taken_.byte());
    check(forebay_batch_copy(batch, taken_.below(3), room.data(), room.size(), &error_));
  }
  void views(const forebay_batch* batch) {
    std::vector<forebay_view> room(taken_.below(8));
    const std::size_t size = taken_.below(16) == 1 ? taken_.below(sizeof(forebay_view)) : sizeof(forebay_view);
    check(forebay_batch_views(batch, room.data(), size, room.size(), &error_));
  }
  void share(forebay_batch* batch) {
    auto& place = tensors_[taken_.below(tensors_.size())];
    end(place);
    check(forebay_batch_dlpack(batch, taken_.below(4), &place, &error_));
  }
  void state() {
    char* text = nullptr;
    std::size_t length = 0;
    const forebay_status status = forebay_feeder_state(any_feeder(), &text, &length, &error_);
    if (status == FOREBAY_OK) state_.assign(text, length);
    check(status);
    forebay_text_free(text);
  }
  void restore() {
    std::string text = taken_.flag() ? state_ : std::string(taken_.text());
    if (!text.empty() && taken_.below(4) == 1) text[taken_.byte() % text.size()] = static_cast<char>(taken_.byte());
    check(forebay_feeder_restore_state(any_feeder(), text.data(), text.size(), &error_));
  }
  void texts() {
    constexpr std::array kTexts{forebay_feeder_describe, forebay_feeder_configuration, forebay_feeder_summary,
                                forebay_feeder_profile};
    char* text = nullptr;
    check(kTexts[taken_.below(4)](any_feeder(), taken_.below(16) == 1 ? nullptr : &text, &error_));
    forebay_text_free(text);
  }
  void fields() {
    forebay_field field{};
    field.struct_size = taken_.below(16) == 1 ? taken_.byte() : sizeof field;
    check(forebay_feeder_field(any_feeder(), taken_.below(4), &field, &error_));
    std::size_t number = 0;
    const std::string name(taken_.text());
    check(forebay_feeder_field_number(any_feeder(), name.c_str(), &number, &error_));
  }
  void file() {
    const std::string path = state_file();
    bool was_there = false;
    if (taken_.flag())
      check(forebay_feeder_save(any_feeder(), path.c_str(), &error_));
    else
      check(forebay_feeder_restore(any_feeder(), path.c_str(), taken_.flag() ? &was_there : nullptr, &error_));
  }

  static constexpr std::size_t kDecisions = 8;

  Taken& taken_;
  Callbacks callbacks_;
  std::array<std::int32_t, kDecisions> decisions_{};
  int looks_left_ = 0;  // until a wait is given up
  bool was_taken_ = false;
  forebay_feeder* feeder_ = nullptr;
  forebay_error* error_ = nullptr;
  std::array<forebay_batch*, 4> batches_{};
  std::array<DLManagedTensorVersioned*, 2> tensors_{};
  std::string state_;
  std::uint64_t sum_ = 0;
};

}  // namespace

bool use_c_interface(std::string_view input) {
  Taken taken(input);
  return Caller(taken).run();
}

std::vector<std::string> c_interface_seeds() {
  const std::string plain(kSamples + 1 + 16, '\0');
  return {plain + std::string("\0\1\0\0\0\0\4\1\0\1\7\0\1\3\1\11\13\2\14\0\5image", 26),
          plain + std::string("\0\0\0\0\0\0\10\0\1\3\11\12\1\2\17\1\15\1", 18)};
}

}  // namespace forebay::fuzz
