// What other libraries learn about a lease's images, on the host; cuda_interop.cpp tests the GPU.
#include <forebay/interop.hpp>

#include "device/host_device.hpp"
#include "ring/slot_store.hpp"
#include "test.hpp"

namespace forebay::test_interop {

using namespace forebay::device;
using namespace forebay::ring;

namespace {

using testing::error_of;

constexpr SlotFormat kTiny{.batch_size = 4, .height = 2, .width = 5, .dtype = DType::uint8, .layout = Layout::nhwc};

std::shared_ptr<SlotStore> make_store(const SlotFormat& format, std::uint32_t size) {
  auto store = std::make_shared<SlotStore>(std::make_shared<HostDevice>(), format, SlotCounts{.slots = 2});
  store->slot(1).batch = {.epoch = 0, .batch = 0, .size = size};
  return store;
}

std::shared_ptr<Lease> lend(const std::shared_ptr<SlotStore>& store, std::uint32_t slot = 1) {
  return std::make_shared<Lease>(LeaseMaker::make(store, slot, {}));
}

// Acts as a consumer: takes the pointer and calls the deleter when it is done.
template <typename Managed>
void consume(Managed* tensor) {
  tensor->deleter(tensor);
}

TEST_CASE("a tensor says what the images are, for every type and layout") {
  struct Type {
    DType dtype;
    std::uint8_t code;  // DLPack: 1 unsigned integer, 2 floating point, 4 bfloat16
    std::uint8_t bits;
  };
  for (const Type& type : {Type{DType::float32, 2, 32}, Type{DType::float16, 2, 16}, Type{DType::bfloat16, 4, 16},
                           Type{DType::uint8, 1, 8}}) {
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      CAPTURES(to_string(type.dtype), static_cast<int>(layout));
      SlotFormat format = kTiny;
      format.dtype = type.dtype;
      format.layout = layout;
      const auto store = make_store(format, 3);
      const auto lease = lend(store);
      const auto look_at = [&](const dlpack::DLTensor& tensor) {
        const bool planes = layout == Layout::nchw;
        const std::array<std::int64_t, 4> shape =
            planes ? std::array<std::int64_t, 4>{3, 3, 2, 5} : std::array<std::int64_t, 4>{3, 2, 5, 3};
        const std::array<std::int64_t, 4> strides =
            planes ? std::array<std::int64_t, 4>{30, 10, 5, 1} : std::array<std::int64_t, 4>{30, 15, 3, 1};
        CHECK(tensor.data == lease->images().data);
        CHECK(tensor.byte_offset == 0);
        CHECK(tensor.device.device_type == 1);
        CHECK(tensor.device.device_id == 0);
        REQUIRE(tensor.ndim == 4);
        CHECK(std::memcmp(tensor.shape, shape.data(), sizeof(shape)) == 0);
        CHECK(std::memcmp(tensor.strides, strides.data(), sizeof(strides)) == 0);
        CHECK(tensor.dtype.code == type.code);
        CHECK(tensor.dtype.bits == type.bits);
        CHECK(tensor.dtype.lanes == 1);
      };
      const auto versioned = to_dlpack(lease);
      CHECK(versioned->version.major == 1);
      CHECK(versioned->flags == 1);  // read-only
      look_at(versioned->dl_tensor);
      look_at(to_dlpack_unversioned(lease)->dl_tensor);
    }
  }
}

TEST_CASE("a batch without samples has no data") {
  const auto store = make_store(kTiny, 3);
  const auto tensor = to_dlpack(lend(store, LeaseMaker::kEmpty));
  CHECK(tensor->dl_tensor.data == nullptr);
  CHECK(tensor->dl_tensor.shape[0] == 0);
  CHECK(tensor->dl_tensor.strides[0] == 30);
}

TEST_CASE("tensors keep the lease, and the last of them ends it, on any thread") {
  const auto store = make_store(kTiny, 4);
  auto lease = lend(store);
  auto* const versioned = to_dlpack(lease).release();
  auto* const old = to_dlpack_unversioned(lease).release();
  lease.reset();
  CHECK(store->held() == 1);
  CHECK(store->slot(1).leases == 1);
  std::thread([=] { consume(old); }).join();
  CHECK(store->held() == 1);
  std::thread([=] { consume(versioned); }).join();
  CHECK(store->held() == 0);
  CHECK(store->slot(1).leases == 0);
}

TEST_CASE("tensors that end at the same time end the lease once") {
  const auto store = make_store(kTiny, 4);
  for (int round = 0; round < 50; ++round) {
    auto lease = lend(store);
    std::vector<std::thread> consumers;
    for (int i = 0; i < 4; ++i) {
      consumers.emplace_back([tensor = to_dlpack(lease).release()] { consume(tensor); });
    }
    lease->release();
    lease.reset();
    for (std::thread& consumer : consumers) consumer.join();
    REQUIRE(store->held() == 0);
    REQUIRE(store->slot(1).leases == 0);
  }
}

TEST_CASE("a tensor that is never taken also ends the lease") {
  const auto store = make_store(kTiny, 4);
  static_cast<void>(to_dlpack(lend(store)));
  CHECK(store->held() == 0);
}

TEST_CASE("a tensor's memory outlives store, feeder and lease") {
  auto store = make_store(kTiny, 4);
  std::memset(store->begin_of(1), 0x5a, kTiny.tensor_bytes());
  const std::weak_ptr<SlotStore> gone = store;
  const auto lease = lend(store);
  store.reset();
  auto tensor = to_dlpack(lease);
  lease->release();  // in the order of a stream, before the consumer releases it
  REQUIRE_FALSE(gone.expired());
  CHECK(gone.lock()->held() == 0);
  CHECK(static_cast<const std::uint8_t*>(tensor->dl_tensor.data)[kTiny.tensor_bytes() - 1] == 0x5a);
  tensor.reset();
  CHECK(gone.expired());
}

TEST_CASE("labels are a tensor too, in both forms") {
  const auto store = make_store(kTiny, 3);
  const auto lease = lend(store);
  const auto tensor = to_dlpack(lease, 1);
  const auto older = to_dlpack_unversioned(lease, 1);
  for (const dlpack::DLTensor& labels : {tensor->dl_tensor, older->dl_tensor}) {
    CHECK(labels.data == lease->labels().data());
    CHECK(labels.ndim == 1);
    CHECK(labels.shape[0] == 3);
    CHECK(labels.dtype.bits == 64);
  }
  CHECK_THROWS_AS((void)to_dlpack_unversioned(lease, 2), Error);
}

TEST_CASE("a lease that has ended cannot be handed over") {
  const auto store = make_store(kTiny, 4);
  const auto lease = lend(store);
  CHECK(lease->memory() != nullptr);
  lease->release();
  CHECK(lease->memory() == nullptr);
  CHECK(error_of([&] { return to_dlpack(lease); }).find("to_dlpack(): the lease has ended") == 0);
  CHECK(error_of([&] { return to_dlpack_unversioned(lease); }).find("to_dlpack_unversioned(): the lease") == 0);
  CHECK(error_of([&] { return cuda_array_interface(*lease); }).find("cuda_array_interface(): the lease") == 0);
  CHECK(error_of([] { return to_dlpack(nullptr); }).find("there is no lease") != std::string::npos);
}

TEST_CASE("a batch on the host has no __cuda_array_interface__") {
  const auto store = make_store(kTiny, 4);
  const auto lease = lend(store);
  const std::string error = error_of([&] { return cuda_array_interface(*lease); });
  CAPTURE(error);
  CHECK(testing::contains(error, "to_dlpack()"));
}

}  // namespace
}  // namespace forebay::test_interop
