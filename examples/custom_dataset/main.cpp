// A dataset from outside Forebay: CIFAR-10 in binary, whose records are a label and 32 x 32 pixels in three planes.
//
//   custom_dataset data_batch_1.bin [section.key=value ...]

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <forebay/feeder.hpp>

namespace {

constexpr std::size_t kSide = 32;
constexpr std::size_t kPlane = kSide * kSide;
constexpr std::size_t kRecord = 1 + 3 * kPlane;

// Immutable after construction, because readers and decoders call it from many threads at once.
class Cifar final : public forebay::Dataset {
 public:
  explicit Cifar(std::string path) : path_(std::move(path)), file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (file_ < 0) throw forebay::ConfigError(path_ + ": " + std::generic_category().message(errno));
    std::ifstream labels(path_, std::ios::binary);
    for (char label = 0; labels.get(label); labels.ignore(3 * kPlane)) labels_.push_back(static_cast<std::byte>(label));
  }
  ~Cifar() override { ::close(file_); }
  Cifar(const Cifar&) = delete;
  Cifar& operator=(const Cifar&) = delete;

  [[nodiscard]] std::string_view format() const noexcept override { return "cifar"; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return labels_.size(); }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return classes_; }

  [[nodiscard]] forebay::Sample sample(std::uint64_t id) const override {
    forebay::Sample sample;
    sample.label = std::to_integer<std::int64_t>(labels_[id]);
    sample.encoding = forebay::Encoding::raw;
    sample.width = sample.height = kSide;
    sample.channels = 3;
    return sample;
  }
  [[nodiscard]] std::string name(std::uint64_t id) const override {
    return path_ + "[record " + std::to_string(id) + "]";
  }

  // What this throws makes the sample a bad one: it goes to the quarantine log, and another takes its place.
  void read(std::uint64_t id, forebay::ReadTarget& target) const override {
    std::array<std::byte, kRecord> record{};
    const auto got = ::pread(file_, record.data(), record.size(), static_cast<off_t>(id * kRecord));
    if (got < 0) {  // the store failed: worth another try
      throw forebay::SampleError(std::generic_category().message(errno), forebay::SampleError::Kind::transient);
    }
    if (static_cast<std::size_t>(got) != record.size()) throw forebay::SampleError("the file ends within the record");
    if (std::to_integer<std::size_t>(record[0]) >= classes_.size()) throw forebay::SampleError("its label is no class");
    const std::span<std::byte> pixels = target.reserve(3 * kPlane);  // rows from the top, channels interleaved
    for (std::size_t i = 0; i < kPlane; ++i) {
      for (std::size_t channel = 0; channel < 3; ++channel) pixels[3 * i + channel] = record[1 + channel * kPlane + i];
    }
  }

  [[nodiscard]] const std::vector<forebay::Skipped>& skipped() const noexcept override { return skipped_; }
  [[nodiscard]] forebay::IndexCounts counts() const noexcept override { return {.images = labels_.size()}; }
  // What tells this data from other data: ranks and saved states are compared by it.
  [[nodiscard]] std::vector<std::byte> serialize() const override { return labels_; }

 private:
  std::string path_;
  int file_;
  std::vector<std::byte> labels_;
  std::vector<std::string> classes_{"airplane", "automobile", "bird",  "cat",  "deer",
                                    "dog",      "frog",       "horse", "ship", "truck"};
  std::vector<forebay::Skipped> skipped_;
};

}  // namespace

int main(int argc, char** argv) try {
  std::vector<std::string> settings{"transform.size=[32, 32]", "transform.crop=none", "telemetry.dir=\"\""};
  settings.insert(settings.end(), argv + std::min(argc, 2), argv + argc);
  forebay::Parts parts;
  parts.dataset = std::make_shared<const Cifar>(argc > 1 ? argv[1] : "data_batch_1.bin");
  forebay::Feeder feeder(forebay::parse_options("", "settings", settings), std::move(parts));
  std::uint64_t samples = 0;
  while (auto batch = feeder.next()) samples += batch->is_fresh() ? batch->size() : 0;
  std::printf("%llu samples served, of %llu records, %llu of them bad\n", static_cast<unsigned long long>(samples),
              static_cast<unsigned long long>(feeder.dataset().size()),
              static_cast<unsigned long long>(feeder.summary().bad_samples));
  return samples > 0 ? 0 : 1;
} catch (const forebay::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
