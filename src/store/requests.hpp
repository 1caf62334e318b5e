#pragma once

#include <string>
#include <vector>

#include "http.hpp"

// GET requests for objects: endpoints, signatures, redirects, and the interpretation of answers other than the data.
namespace forebay::store {

// Throws as described in objects.hpp for every status but 200, 206, 304 and 416. After an answer that asks the client
// to slow down (503 and the like) it waits before it throws: with full jitter, or for as long as Retry-After says,
// within bounds.
Reply get(const std::string& url, const std::vector<std::string>& headers, Body& body);
// Whether the server has both what a URL with "%20" in it stands for and an object of that very name, "%2520".
[[nodiscard]] bool has_two_meanings(const std::string& url);
// Gets a page of a bucket's listing; `query` must have its keys in order.
Reply get_list(const std::string& url, const std::string& query, Body& body);

}  // namespace forebay::store
