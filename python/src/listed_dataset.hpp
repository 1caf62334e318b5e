#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/field.hpp>
#include <forebay/given_order.hpp>

namespace forebay::python {

// A field of all samples. Without values and paths it is only declared, and the dataset gets its
// values elsewhere.
struct Column {
  Field field;
  std::vector<std::byte> values = {};    // of all samples, one after another
  std::vector<std::uint64_t> ends = {};  // where the values of each sample end; empty: all have the same size
  std::vector<std::string> paths = {};   // a file for each sample, instead of values
};

// What a program lists about its samples.
struct SampleList {
  std::vector<std::int64_t> labels;  // one for each sample, or none at all: unlabelled
  std::vector<std::string> classes;
  std::vector<Column> columns = {};
};

// Whether errno of a failed system call means that the store failed or a limit of the process was
// reached, as opposed to damaged data.
[[nodiscard]] bool error_may_pass(int error) noexcept;

// Reads a whole file. Throws SampleError.
void read_file(const std::string& path, ReadTarget& target);

// Appends the paths to a text that identifies the data, without their common folder. REQUIRES:
// `paths` is not empty.
void append_paths(std::string& text, const std::vector<std::string>& paths);

// Base of the datasets of Python programs: what is known about a sample without reading it, and
// fields.
class ListedDataset : public Dataset, public InGivenOrder {
 public:
  // Throws ConfigError if the list does not fit the number of samples.
  ListedDataset(std::uint64_t size, SampleList list);

  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return list_.classes; }
  [[nodiscard]] Sample sample(std::uint64_t id) const override {
    Sample sample;
    if (!list_.labels.empty()) sample.label = list_.labels[id];
    return sample;
  }
  [[nodiscard]] std::shared_ptr<const GivenOrder> given_order() const noexcept override { return order_; }
  // To be called before a feeder takes the dataset.
  [[nodiscard]] std::shared_ptr<GivenOrder> order_of(std::uint64_t places) {
    return order_ = std::make_shared<GivenOrder>(size_, places);
  }
  [[nodiscard]] const std::vector<Skipped>& skipped() const noexcept override { return skipped_; }
  [[nodiscard]] IndexCounts counts() const noexcept override { return {.images = size_}; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::string field_name(std::uint64_t id, std::size_t field) const override;
  void read_field(std::uint64_t id, std::size_t field, ReadTarget& target) const override;

 protected:
  // `text`, which identifies the samples, followed by labels, classes and fields as bytes.
  [[nodiscard]] std::vector<std::byte> serialized(std::string text) const;

 private:
  [[nodiscard]] std::span<const std::byte> values(std::uint64_t id, const Column& column) const noexcept;

  std::uint64_t size_;
  SampleList list_;
  std::vector<Field> fields_;
  std::vector<Skipped> skipped_;
  std::shared_ptr<GivenOrder> order_;
};

}  // namespace forebay::python
