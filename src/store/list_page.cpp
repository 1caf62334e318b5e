#include "list_page.hpp"

#include <tinyxml2.h>

#include "url.hpp"

namespace forebay::store {
namespace {

std::string text_in(const tinyxml2::XMLElement& element, const char* name) {
  const auto* const child = element.FirstChildElement(name);
  const char* const text = child == nullptr ? nullptr : child->GetText();
  return text == nullptr ? "" : text;
}

}  // namespace

std::optional<ListPage> read_list_page(std::string_view text, std::string_view below,
                                       const std::function<void(std::string_view)>& found) {
  tinyxml2::XMLDocument document;
  if (document.Parse(text.data(), text.size()) != tinyxml2::XML_SUCCESS) return std::nullopt;
  const auto* const root = document.RootElement();
  if (root == nullptr || std::string_view(root->Name()) != "ListBucketResult") return std::nullopt;

  const bool is_encoded = text_in(*root, "EncodingType") == "url";
  const auto tell = [&](const char* element, const char* child) {
    for (const auto* each = root->FirstChildElement(element); each != nullptr;
         each = each->NextSiblingElement(element)) {
      const std::string encoded = text_in(*each, child);
      const std::string name = is_encoded ? percent_decoded(encoded) : encoded;
      if (name.size() > below.size() && name.starts_with(below)) found(std::string_view(name).substr(below.size()));
    }
  };
  tell("Contents", "Key");
  tell("CommonPrefixes", "Prefix");
  ListPage page;
  page.goes_on = text_in(*root, "IsTruncated") == "true";
  if (page.goes_on) page.token = text_in(*root, "NextContinuationToken");
  return page;
}

}  // namespace forebay::store
