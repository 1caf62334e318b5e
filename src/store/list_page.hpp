#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace forebay::store {

// A page of a bucket's list of objects, as ListObjectsV2 answers.
struct ListPage {
  bool goes_on = false;
  std::string token;  // names the next page; "" if this is the last one, or the store does not say
};

// Calls `found` with the name of each object and each folder ("name/") in it, relative to the prefix `below`; others,
// and the prefix itself, are left out. Nothing is returned if `text` is no such page. Any thread.
[[nodiscard]] std::optional<ListPage> read_list_page(std::string_view text, std::string_view below,
                                                     const std::function<void(std::string_view)>& found);

}  // namespace forebay::store
