// Text from anywhere: made fit for terminals and JSON, and read.

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"

namespace forebay {
namespace {

TEST_CASE("text for JSON and terminals") {
  CHECK(valid_utf8("plain \xe2\x82\xac \xf0\x9f\x98\x80") == "plain \xe2\x82\xac \xf0\x9f\x98\x80");
  CHECK(valid_utf8("\xc0\x80") == "\\xc0\\x80");                    // overlong
  CHECK(valid_utf8("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // surrogate
  CHECK(valid_utf8("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // past the last code point
  CHECK(valid_utf8("a\xe2\x82") == "a\\xe2\\x82");                  // cut short
  CHECK(valid_utf8("\n") == "\n");
  CHECK(printable_lines("a\nb\r\x1b[2J\xff") == "a\nb\\x0d\\x1b[2J\\xff");
  CHECK(printable("a\nb\x7f\xc2\x9b") == "a\\x0ab\\x7f\\xc2\\x9b");
  // Right-to-left override, isolates and marks; a line separator. Names in Arabic and Hebrew stay.
  CHECK(printable("a\xe2\x80\xaegpj.exe") == "a\\xe2\\x80\\xaegpj.exe");
  CHECK(printable("\xe2\x81\xa6\xe2\x80\x8f\xd8\x9c\xe2\x80\xa8") ==
        "\\xe2\\x81\\xa6\\xe2\\x80\\x8f\\xd8\\x9c\\xe2\\x80\\xa8");
  CHECK(printable("\xd7\xa9\xd8\xa8") == "\xd7\xa9\xd8\xa8");
  CHECK(clip("\xe2\x82\xac"
             "abc",
             2) ==
        "\xe2\x82\xac"
        "a");
  CHECK(clip("abc", 3) == "abc");
  CHECK(clip("abc", 0).empty());
}

TEST_CASE("base64 is that of RFC 4648, and nothing else is read as it") {
  const std::vector<std::pair<std::string, std::string>> kPairs{{"", ""},
                                                                {"f", "Zg=="},
                                                                {"fo", "Zm8="},
                                                                {"foo", "Zm9v"},
                                                                {"foob", "Zm9vYg=="},
                                                                {"fooba", "Zm9vYmE="},
                                                                {"foobar", "Zm9vYmFy"},
                                                                {std::string("\xFB\xFF\x00", 3), "+/8A"}};
  for (const auto& [bytes, text] : kPairs) {
    CHECK(base64(bytes) == text);
    CHECK(from_base64(text) == bytes);
  }
  for (const char* const text : {"Z", "Zg", "Zg=", "Zg==Zg==", "Z===", "====", "Zm9v\n", "Zm 9", "Zm9-", "Zm9_"}) {
    CAPTURE(text);
    CHECK_FALSE(from_base64(text).has_value());
  }
}

TEST_CASE("blanks are taken off both ends, and nowhere else") {
  CHECK(without_blanks("").empty());
  CHECK(without_blanks(" \t\r\n\v\f").empty());
  CHECK(without_blanks("a") == "a");
  CHECK(without_blanks(" \ta \t b\r\n") == "a \t b");
  CHECK(without_blanks("\xc2\xa0"
                       "a\0 ") ==
        "\xc2\xa0"
        "a");
  CHECK(without_blanks(std::string_view("a\0 ", 3)) == std::string_view("a\0", 2));
}

}  // namespace
}  // namespace forebay
