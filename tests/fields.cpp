// Fields of a batch beside image and label, from a data set of the program's own to the lease.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/field.hpp>
#include <forebay/tensor.hpp>

namespace forebay {
namespace {

TEST_CASE("a shape has up to eight extents, and a number has none") {
  CHECK(Shape{}.empty());
  CHECK(Shape{}.elements() == 1);
  const Shape shape{4, 3, 2};
  CHECK(shape.size() == 3);
  CHECK(shape[1] == 3);
  CHECK(shape.elements() == 24);
  CHECK(std::vector<std::int64_t>(shape.begin(), shape.end()) == std::vector<std::int64_t>{4, 3, 2});
  CHECK(shape == Shape{4, 3, 2});
  CHECK(shape == std::array<std::int64_t, 3>{4, 3, 2});
  CHECK(shape != Shape{4, 3});
  CHECK(shape != Shape{4, 3, 1});
  CHECK(Shape{7, 0, 7}.elements() == 0);
  Shape eight{1, 2, 3, 4, 5, 6, 7};
  eight.push_back(8);
  CHECK(eight.size() == Shape::kMost);
  CHECK_THROWS_AS(eight.push_back(9), Error);
}

TEST_CASE("every type has a size and a name") {
  const std::array types{DType::float32, DType::float16, DType::bfloat16, DType::uint8,
                         DType::int32,   DType::int64,   DType::float64};
  std::vector<std::size_t> sizes;
  for (const DType type : types) {
    sizes.push_back(size_of(type));
    CHECK(to_string(type) != "?");
  }
  CHECK(sizes == std::vector<std::size_t>{4, 2, 2, 1, 4, 8, 8});
}

TEST_CASE("a field takes what its shape and type take") {
  CHECK(Field{.name = "age"}.sample_bytes() == 4);
  CHECK(Field{.name = "depth", .kind = FieldKind::array, .dtype = DType::float16, .shape = {6, 5}}.sample_bytes() ==
        60);
  CHECK(to_string(FieldKind::class_number) == "class");
  CHECK(is_ragged(FieldKind::bytes));
  CHECK(follows_view(FieldKind::mask));
  CHECK_FALSE(follows_view(FieldKind::array));
}

}  // namespace
}  // namespace forebay
