#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include "data/guarded_dataset.hpp"
#include "data/record_checksum.hpp"
#include "reader_stage.hpp"
#include "support.hpp"

namespace forebay {
namespace {

// A program's dataset with its own read().
class OwnRead final : public testing::FakeDataset {
 public:
  explicit OwnRead(std::function<void(ReadTarget&)> read) : FakeDataset(1), read_(std::move(read)) {}
  void read(std::uint64_t /*id*/, ReadTarget& target) const override { read_(target); }

 private:
  std::function<void(ReadTarget&)> read_;
};

// Like a reader's target: what it throws for more than 100 bytes is not a std::exception, nor the dataset's business.
struct Refusal {};
class SmallTarget final : public ReadTarget {
 public:
  std::span<std::byte> reserve(std::size_t bytes) override {
    if (bytes > 100) throw Refusal();
    memory_.resize(bytes);
    return memory_;
  }

 private:
  std::vector<std::byte> memory_;
};

TEST_CASE("no memory for a sample is a limit of the process, and no damage of the sample") {
  SmallTarget target;
  const auto dataset = guarded(std::make_shared<OwnRead>([](ReadTarget&) { throw std::bad_alloc(); }));
  try {
    dataset->read(0, target);
    FAIL("nothing was thrown");
  } catch (const SampleError& error) {
    FAIL(error.what());
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("no memory for read() of sample 0") != std::string::npos);
  }
  if (testing::kSanitized) return;  // a sanitizer ends the process instead
  try {
    (void)memory_around_record(std::size_t{1} << 60U);
    FAIL("nothing was thrown");
  } catch (const SampleError& error) {
    FAIL(error.what());
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("bytes around a record") != std::string::npos);
  }
}

TEST_CASE("what the reader's memory throws ends the read, whatever a program's dataset makes of it") {
  SmallTarget target;
  const auto read = [&](const std::function<void(ReadTarget&)>& own) {
    guarded(std::make_shared<OwnRead>(own))->read(0, target);
  };
  CHECK_THROWS_AS(read([](ReadTarget& to) { (void)to.reserve(101); }), Refusal);
  CHECK_THROWS_AS(read([](ReadTarget& to) {
                    try {
                      (void)to.reserve(101);
                    } catch (...) {
                      throw SampleError("could not be read");
                    }
                  }),
                  Refusal);
  CHECK_THROWS_AS(read([](ReadTarget& to) {
                    try {
                      (void)to.reserve(101);
                    } catch (...) {
                      throw std::runtime_error("no bytes");
                    }
                  }),
                  Refusal);
  CHECK_THROWS_AS(read([](ReadTarget& to) {
                    try {
                      (void)to.reserve(101);
                    } catch (...) {  // NOLINT(bugprone-empty-catch)
                    }
                  }),
                  Refusal);
  // Another reserve() that succeeds is a success.
  CHECK_NOTHROW(read([](ReadTarget& to) {
    try {
      (void)to.reserve(101);
    } catch (...) {
      (void)to.reserve(100);
    }
  }));
  CHECK_THROWS_AS(read([](ReadTarget& to) {
                    (void)to.reserve(100);
                    throw std::runtime_error("torn");
                  }),
                  SampleError);
}

}  // namespace
}  // namespace forebay
