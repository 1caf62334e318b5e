#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/error.hpp>

#include "data/build.hpp"
#include "data/index_format.hpp"
#include "dataset_support.hpp"
#include "fake_job.hpp"
#include "index_support.hpp"
#include "job/agreed_start.hpp"
#include "support.hpp"
#include "taken.hpp"
#include "targets.hpp"

using namespace forebay::data;
using namespace forebay::job;

// What rank 0 says about the index, and the index that it sends to a rank that has neither the
// files nor an index.
namespace forebay::fuzz {
namespace {

// The second of two ranks. Rank 0 says these texts, one after the other, and then nothing.
class Told final : public testing::FakeJob::SameRank {
 public:
  Told(testing::FakeJob& job, std::vector<std::vector<std::byte>> texts)
      : SameRank(job.rank(1)), texts_(std::move(texts)) {}

  [[nodiscard]] std::vector<std::byte> broadcast(std::vector<std::byte> /*bytes*/, std::uint32_t /*root*/) override {
    return next_ < texts_.size() ? std::move(texts_[next_++]) : std::vector<std::byte>{};
  }
  [[nodiscard]] std::vector<std::string> all_gather(std::string_view text) override { return {"", std::string(text)}; }

 private:
  std::vector<std::vector<std::byte>> texts_;
  std::size_t next_ = 0;
};

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

const std::vector<std::byte>& sound_index() {
  static const std::vector<std::byte> index = [] {
    const testing::TemporaryDirectory folder;
    testing::write_file(folder / "t.csv", table_seeds().front());
    return build_dataset(testing::options_for(folder / "t.csv", "table"))->serialize();
  }();
  return index;
}

std::vector<std::byte> announcement(std::uint8_t kind, std::uint64_t bytes, std::string_view problem) {
  IndexWriter writer;
  writer(kind, std::uint64_t{7}, bytes, problem);
  return writer.take();
}

bool hear(std::vector<std::vector<std::byte>> texts) {
  testing::FakeJob job(2);
  Told rank(job, std::move(texts));
  try {
    look_at(*share_dataset(DatasetOptions{}, rank));
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

// The first byte says how much of the input is made valid: nothing, the announcement, or also the
// checksums of the index.
bool use_announcement(std::string_view input) {
  Taken taken(input);
  const std::size_t how = taken.below(3);
  if (how == 0) {
    std::vector<std::byte> first = bytes_of(taken.text());
    // The number of bytes follows the kind and the identity. It is kept small here: many gigabytes
    // would be allocated, which is not the subject of this target.
    for (std::size_t at = 9 + 3; at < 9 + 7 && at < first.size(); ++at) first[at] = std::byte{0};
    return hear({std::move(first), bytes_of(taken.rest())});
  }
  std::vector<std::byte> index = bytes_of(taken.rest());
  if (how == 2) {
    const std::vector<char> content(taken.rest().begin(), taken.rest().end());
    index = seal_index(testing::record_of(sound_index()), content.size(), [&](IndexWriter& to) { to.column(content); });
  }
  return hear({announcement(0, index.size(), ""), std::move(index)});
}

std::vector<std::string> announcement_seeds() {
  const std::string index = testing::text_of(sound_index());
  const std::string first = testing::text_of(announcement(0, index.size(), ""));
  return {std::string(1, '\0') + static_cast<char>(first.size()) + first + index, '\1' + index,
          '\2' + testing::text_of(testing::content_of(sound_index()))};
}

}  // namespace forebay::fuzz
