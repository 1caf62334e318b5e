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
// Gets a page of a bucket's listing; `query` must have its keys in order.
Reply get_list(const std::string& url, const std::string& query, Body& body);

}  // namespace forebay::store
