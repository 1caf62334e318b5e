#pragma once

#include <string>
#include <vector>

#include "http.hpp"

// GET requests by name: endpoints, signatures, redirects, and what an answer that is not the data means.
namespace forebay::store {

// Throws as objects.hpp says for every answer but 200, 206, 304 and 416. After an answer that asks for time (503 and
// its like) it waits before it throws: with full jitter, or as long as Retry-After says, within bounds.
Reply get(const std::string& url, const std::vector<std::string>& headers, Body& body);
// A page of the list of a bucket; `query` with its keys in order.
Reply get_list(const std::string& url, const std::string& query, Body& body);

}  // namespace forebay::store
