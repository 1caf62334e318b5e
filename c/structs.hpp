#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include "errors.hpp"

// Structs that cross the interface start with struct_size, which tells how many members the
// caller's version has.
namespace forebay::c {

template <typename Struct>
void require_size(std::size_t size, const char* name) {
  if (size >= sizeof(Struct)) return;  // nothing was added since version 1.0
  refuse(std::string(name) + ": struct_size is " + std::to_string(size) + "; set it to sizeof(" + name +
         "), which is " + std::to_string(sizeof(Struct)));
}

// Copies a struct that the caller passed. A longer struct is accepted if the members that this
// library does not know are zero. Throws FOREBAY_ERROR_ARGUMENT.
template <typename Struct>
Struct read_struct(const Struct* passed, const char* name) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  const std::size_t size = given(passed, name)->struct_size;
  require_size<Struct>(size, name);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(passed);
  const std::span<const unsigned char> unknown(bytes + sizeof(Struct), size - sizeof(Struct));
  if (std::ranges::any_of(unknown, [](unsigned char byte) { return byte != 0; })) {
    refuse(std::string(name) + ": it has members that this library does not know; it is older than the program's " +
           "headers (forebay_c_version())");
  }
  Struct copy;
  std::memcpy(&copy, passed, sizeof(Struct));
  copy.struct_size = sizeof(Struct);
  return copy;
}

// Fills in a struct of the caller; struct_size stays as it was. Throws FOREBAY_ERROR_ARGUMENT.
template <typename Struct>
void write_struct(Struct* passed, Struct value, const char* name) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  require_size<Struct>(given(passed, name)->struct_size, name);
  value.struct_size = passed->struct_size;
  std::memcpy(passed, &value, sizeof(Struct));
}

}  // namespace forebay::c
