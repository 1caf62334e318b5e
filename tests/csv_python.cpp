// Rows of CSV beside Python's csv module, where there is a Python.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/random.hpp>

#include "data/csv.hpp"
#include "dataset_support.hpp"
#include "fuzz/kept.hpp"
#include "support.hpp"

namespace forebay {
namespace {

namespace fs = std::filesystem;

// As csv_rows.py writes them; "refused" where Forebay says what is wrong and Python does not: a quote that is never
// closed, bytes that are not text.
std::string rows_of(std::string_view table) {
  std::string all;
  try {
    CsvRows rows(table.substr(1), "table", std::string_view(",;\t|")[static_cast<unsigned char>(table.front()) % 4]);
    for (std::vector<std::string_view> fields; rows.next(fields);) {
      all += '(';
      for (const std::string_view field : fields) all += std::to_string(field.size()) + ":" + std::string(field);
      all += ')';
    }
  } catch (const ConfigError&) {
    return "refused";
  }
  return all;
}

std::vector<std::string> tables() {
  std::vector<std::string> all{"0path,label\na.jpg,1\r\nb.jpg,2\n", "1a;\"b \"\"c\"\";d\n\n\"x\ny\"z;\n",
                               "2a\tb\rc\td"};
  Random random(17);
  constexpr std::string_view kLetters = "ab,;|\t\"\"\"\n\r \xC3\xA9";
  for (int i = 0; i < 5000; ++i) {
    std::string table(1, static_cast<char>('0' + random.below(4)));
    for (std::uint64_t k = random.below(30); k > 0; --k) table += kLetters[random.below(kLetters.size())];
    all.push_back(table);
  }
  const std::vector<fuzz::KeptInput> kept = fuzz::kept_inputs(fuzz::corpus() / "csv.tar");
  CHECK(kept.size() >= 16);
  for (const fuzz::KeptInput& input : kept) all.push_back(input.bytes);
  std::erase_if(all, [](const std::string& table) { return table.empty(); });
  return all;
}

TEST_CASE("rows are those of Python's csv module") {
  if (std::system("python3 -c 'import csv, io, struct' 2> /dev/null") != 0) {
    MESSAGE("no Python with its csv module here");
    return;
  }
  const testing::TemporaryDirectory folder;
  const std::vector<std::string> all = tables();
  {
    std::ofstream file(folder / "tables", std::ios::binary);
    for (const std::string& table : all) {
      const auto length = static_cast<std::uint32_t>(table.size());
      file.write(reinterpret_cast<const char*>(&length), sizeof length) << table;
    }
  }
  const fs::path script = testing::source_dir() / "tests" / "csv_rows.py";
  const std::string command =
      "python3 '" + script.string() + "' '" + (folder / "tables").string() + "' '" + (folder / "rows").string() + "'";
  REQUIRE(std::system(command.c_str()) == 0);
  const std::string rows = testing::read_file(folder / "rows");
  std::size_t at = 0;
  std::size_t compared = 0;
  for (const std::string& table : all) {
    CAPTURE(table);
    std::uint32_t length = 0;
    REQUIRE(rows.size() - at >= sizeof length);
    std::memcpy(&length, rows.data() + at, sizeof length);
    const std::string expected = rows.substr(at + sizeof length, length);
    at += sizeof length + length;
    const std::string found = rows_of(table);
    if (found == "refused") continue;
    CHECK(found == expected);
    ++compared;
  }
  CHECK(compared > 2000);
  MESSAGE(compared << " tables");
}

}  // namespace
}  // namespace forebay
