// Files that others put where Forebay writes: links, FIFOs and folders under temporary names
// neither redirect a write nor block it, and files are readable only as the umask allows.
#include <sys/stat.h>
#include <unistd.h>

#include "base/output_file.hpp"
#include "base/text.hpp"
#include "measure/metrics.hpp"
#include "measure/run_files.hpp"
#include "process.hpp"
#include "screen.hpp"
#include "store/sha256.hpp"
#include "store/signature.hpp"
#include "store/url.hpp"
#include "test.hpp"

namespace forebay::test_output_files {

using namespace forebay::measure;
using namespace forebay::store;

namespace {

namespace fs = std::filesystem;
using namespace testing;

constexpr std::string_view kPrecious = "precious";

// A folder prepared by an attacker: "link" and "nowhere" point to files elsewhere, and "fifo" has
// no reader.
struct HostileFolder {
  TemporaryDirectory dir;
  fs::path victim = dir / "victim";
  fs::path folder = dir / "shared";

  HostileFolder() {
    std::ofstream(victim) << kPrecious;
    fs::create_directory(folder);
    fs::create_directory(dir / "elsewhere");
    fs::create_symlink(victim, folder / "link");
    fs::create_symlink(dir / "made-elsewhere", folder / "nowhere");
    fs::create_symlink(dir / "elsewhere", folder / "to-folder");
    REQUIRE(::mkfifo((folder / "fifo").c_str(), 0666) == 0);
  }

  void check_nothing_else_was_written() const {
    CHECK(read_text(victim) == kPrecious);
    CHECK_FALSE(fs::exists(dir / "made-elsewhere"));
    CHECK(fs::is_empty(dir / "elsewhere"));
  }
};

template <typename Call>
std::string error_of(Call&& call) {
  return testing::error_of([&] { call(); });
}

mode_t mode_of(const fs::path& file) {
  struct stat status {};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  return status.st_mode & 0777U;
}

// Sets the process's umask; tests of one program run one after another.
class WithUmask {
 public:
  explicit WithUmask(mode_t mask) : before_(::umask(mask)) {}
  ~WithUmask() { ::umask(before_); }
  WithUmask(const WithUmask&) = delete;
  WithUmask& operator=(const WithUmask&) = delete;

 private:
  mode_t before_;
};

TEST_CASE("a file of a made-up name takes the place of a link, and a FIFO is refused") {
  const HostileFolder hostile;
  for (const char* const name : {"link", "nowhere", "new"}) {
    write_all(open_made(hostile.folder / name), "mine");
    CHECK(fs::is_regular_file(fs::symlink_status(hostile.folder / name)));
    CHECK(read_text(hostile.folder / name) == "mine");
  }
  const auto refused = [&](const char* name) { return error_of([&] { (void)open_made(hostile.folder / name); }); };
  CHECK(refused("fifo").find("FIFO") != std::string::npos);
  CHECK(refused(".").find("directory") != std::string::npos);
  hostile.check_nothing_else_was_written();
}

TEST_CASE("nothing is appended to through a link or to a FIFO") {
  const HostileFolder hostile;
  const auto refused = [&](const char* name) { return error_of([&] { (void)open_to_append(hostile.folder / name); }); };
  CHECK(refused("link").find("it is a symbolic link") != std::string::npos);
  CHECK(refused("nowhere").find("it is a symbolic link") != std::string::npos);
  CHECK(refused("fifo").find("it is a FIFO") != std::string::npos);
  std::ofstream(hostile.folder / "file") << "one\n";
  write_all(open_to_append(hostile.folder / "file"), "two\n");
  CHECK(read_text(hostile.folder / "file") == "one\ntwo\n");
  hostile.check_nothing_else_was_written();
}

TEST_CASE("no link below an output folder is followed") {
  const HostileFolder hostile;
  const OutputFolder folder(hostile.folder);
  const std::string text = "mine";
  const auto bytes = std::as_bytes(std::span(text));
  using IfThere = OutputFolder::IfThere;
  CHECK(folder.write("a/b/c", bytes, IfThere::refuse) == 0);
  CHECK(read_text(hostile.folder / "a/b/c") == text);
  CHECK(folder.write("a/b/c", bytes, IfThere::refuse) == EEXIST);
  CHECK(folder.write("a/b/c", bytes, IfThere::replace) == 0);
  CHECK(folder.write("link", bytes, IfThere::refuse) == EEXIST);
  for (const IfThere if_there : {IfThere::refuse, IfThere::replace}) {
    CHECK(folder.write("to-folder/x", bytes, if_there) == ENOTDIR);
    CHECK(folder.write("to-folder/x/y", bytes, if_there) == ENOTDIR);
    CHECK(folder.write("a/b/c/d", bytes, if_there) == ENOTDIR);
  }
  CHECK(folder.make_folder("to-folder/x") == ENOTDIR);
  CHECK(folder.write("link", bytes, IfThere::replace) == 0);
  CHECK(read_text(hostile.folder / "link") == text);
  hostile.check_nothing_else_was_written();
}

TEST_CASE("a folder that was moved away meanwhile is still the one that is written to") {
  const HostileFolder hostile;
  const OutputFolder folder(hostile.folder);
  fs::rename(hostile.folder, hostile.dir / "moved");
  fs::create_symlink(hostile.dir / "elsewhere", hostile.folder);
  CHECK(folder.write("x", {}, OutputFolder::IfThere::refuse) == 0);
  CHECK(fs::exists(hostile.dir / "moved/x"));
  hostile.check_nothing_else_was_written();
}

TEST_CASE("telemetry goes through no link, whether a run begins or resumes") {
  const HostileFolder hostile;
  Screen screen;
  const auto opening = [&](const char* name, JsonLinesFile::Mode mode) {
    return error_of([&] { JsonLinesFile(hostile.folder / name, screen.log, mode).write("{}\n", 1); });
  };
  const std::string refused = opening("link", JsonLinesFile::Mode::append);
  CHECK(refused.starts_with("telemetry.dir: " + (hostile.folder / "link").string() + ": it is a symbolic link"));
  CHECK(opening("fifo", JsonLinesFile::Mode::append).find("it is a FIFO") != std::string::npos);
  CHECK(opening("link", JsonLinesFile::Mode::truncate).empty());
  CHECK(read_text(hostile.folder / "link") == "{}\n");
  std::ofstream(hostile.folder / "cut") << "{}\n{\"step";
  CHECK(opening("cut", JsonLinesFile::Mode::append).empty());
  CHECK(read_text(hostile.folder / "cut") == "{}\n{\"step\n{}\n");
  hostile.check_nothing_else_was_written();
}

TEST_CASE("figures for Prometheus go through no link, wait for no FIFO and replace no special file") {
  const HostileFolder hostile;
  Screen screen;
  const auto publish = [&](const char* name) {
    const MetricsPlace place{.file = hostile.folder / name, .address = {}, .port = 0};
    return error_of([&] { MetricsOutput(place, "figures\n", screen.log).publish("new figures\n"); });
  };
  fs::create_symlink(hostile.victim, hostile.folder / "a.prom.new");
  CHECK(publish("a.prom").empty());
  CHECK(read_text(hostile.folder / "a.prom") == "new figures\n");
  fs::rename(hostile.folder / "fifo", hostile.folder / "b.prom.new");
  CHECK(publish("b.prom").find("FIFO") != std::string::npos);
  fs::rename(hostile.folder / "b.prom.new", hostile.folder / "c.prom");
  CHECK(publish("c.prom").find("it is a FIFO") != std::string::npos);
  CHECK(fs::is_fifo(hostile.folder / "c.prom"));
  hostile.check_nothing_else_was_written();
}

TEST_CASE("a new file has what the umask leaves, and a replaced one keeps its permissions") {
  const TemporaryDirectory dir;
  const auto save = [&](const char* name) { replace_file(dir / name, std::as_bytes(std::span("text")), ".saving-"); };
  {
    const WithUmask private_files(0077);
    save("private");
    write_all(open_made(dir / "made"), "text");
    CHECK(mode_of(dir / "private") == 0600);
    CHECK(mode_of(dir / "made") == 0600);
  }
  const WithUmask usual(0022);
  save("public");
  CHECK(mode_of(dir / "public") == 0644);
  save("private");
  CHECK(mode_of(dir / "private") == 0600);
  REQUIRE(::chmod((dir / "public").c_str(), 0664) == 0);
  save("public");
  CHECK(mode_of(dir / "public") == 0664);
}

TEST_CASE("a save follows links of the user, and none of a stranger") {
  const TemporaryDirectory dir;
  fs::create_symlink("target", dir / "link");
  CHECK(replaceable(dir / "link") == dir.path() / "target");
  constexpr uid_t kStranger = 65534;
  if (::lchown((dir / "link").c_str(), kStranger, kStranger) != 0) {
    MESSAGE("skipped: only root can give a link to another user");
    return;
  }
  CHECK(error_of([&] { (void)replaceable(dir / "link"); }).find("link of another user") != std::string::npos);
  REQUIRE(::chown(dir.path().c_str(), kStranger, kStranger) == 0);  // the owner of the folder controls its content
  CHECK(replaceable(dir / "link") == dir.path() / "target");
}

// Untrusted text: sanitised for terminals and JSON, and parsed.

TEST_CASE("text for JSON and terminals") {
  CHECK(valid_utf8("plain \xe2\x82\xac \xf0\x9f\x98\x80") == "plain \xe2\x82\xac \xf0\x9f\x98\x80");
  CHECK(valid_utf8("\xc0\x80") == "\\xc0\\x80");                    // overlong
  CHECK(valid_utf8("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // surrogate
  CHECK(valid_utf8("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // past the last code point
  CHECK(valid_utf8("a\xe2\x82") == "a\\xe2\\x82");                  // truncated
  CHECK(valid_utf8("\n") == "\n");
  CHECK(printable_lines("a\nb\r\x1b[2J\xff") == "a\nb\\x0d\\x1b[2J\\xff");
  CHECK(printable("a\nb\x7f\xc2\x9b") == "a\\x0ab\\x7f\\xc2\\x9b");
  // Right-to-left override, isolates and marks, and a line separator. Names in Arabic and Hebrew
  // are unchanged.
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

TEST_CASE("a number is all of a text, in the range of its type") {
  CHECK(parse_number<unsigned>("4294967295") == 4294967295U);
  CHECK(parse_number<int>("-3") == -3);
  CHECK(parse_number<unsigned>("fF", 16) == 255U);
  CHECK(parse_number<double>("1e3") == 1000.0);
  for (const char* const text : {"", " 1", "1 ", "+1", "-1", "1.5", "0x1", "4294967296"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_number<unsigned>(text).has_value());
  }
}

TEST_CASE("texts are divided, joined and counted") {
  CHECK(split("a,,b,", ',') == std::vector<std::string_view>{"a", "", "b", ""});
  CHECK(split("", ',') == std::vector<std::string_view>{""});
  CHECK(joined(std::vector<std::string>{}, ", ").empty());
  CHECK(joined(std::vector<std::string>{"a", "", "b"}, ", ") == "a, , b");
  CHECK(joined(std::array{1, -2}, "x") == "1x-2");
  CHECK(joined(std::array{1, 2}, " ", [](int number) { return std::string(1, static_cast<char>('a' + number)); }) ==
        "b c");
  CHECK(counted(0, "core") == "0 cores");
  CHECK(counted(1, "core") == "1 core");
  const std::array<std::string_view, 3> names{"a", "b\n", "c"};
  CHECK(quoted_names(names, 3) == R"("a", "b\x0a", "c")");
  CHECK(quoted_names(names, 2) == R"("a", "b\x0a", ...)");
  CHECK(lower_case("Z\xc3\x84[a") == "z\xc3\x84[a");
  CHECK(equals_ignoring_case("Image/PNG", "image/png"));
  CHECK_FALSE(equals_ignoring_case("[", "{"));
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

// Names, hashes and signatures of stores.

TEST_CASE("names of objects") {
  CHECK(is_url("s3://b/k"));
  CHECK(is_url("https://h/a.tar"));
  CHECK(contains(error_of([] { return object_name("S3://b/k").key; }), "S3://...: write the scheme"));
  CHECK(is_url("S3://b/k"));
  CHECK_FALSE(is_url("/data/s3://b"));
  CHECK_FALSE(is_url("ftp://h/a"));
  CHECK(is_prefix("s3://b/train"));
  CHECK(is_prefix("s3://b/v1.0/"));
  CHECK_FALSE(is_prefix("s3://b/v1.0"));
  CHECK_FALSE(is_prefix("https://h/train"));
  const ObjectName name = object_name("s3://bucket/a b/c?d");
  CHECK(name.scheme == "s3");
  CHECK(name.host == "bucket");
  CHECK(name.key == "a b/c?d");
  CHECK(contains(error_of([] { (void)object_name("https://user:secret@h/a"); }), "password"));
  CHECK_FALSE(contains(error_of([] { (void)object_name("https://h/a?sig=secret"); }), "secret"));
  CHECK_FALSE(error_of([] { (void)object_name("s3://"); }).empty());
  CHECK(percent_encoded("a b/\xC3\xA9~", "/") == "a%20b/%C3%A9~");
  CHECK(percent_decoded("a%20b/%c3%A9") == "a b/\xC3\xA9");
  CHECK(xml_element("<Error><Code>NoSuchKey</Code></Error>", "Code") == "NoSuchKey");
}

// FIPS 180-2, appendix B, and RFC 4231.
TEST_CASE("SHA-256 and its HMAC") {
  CHECK(store::hex(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(store::hex(sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(store::hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(store::hex(sha256(std::string(1'000'000, 'a'))) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  CHECK(store::hex(hmac_sha256("Jefe", "what do ya want for nothing?")) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(store::hex(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")) ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

// From "Signature Calculations for the Authorization Header" in the Amazon S3 API Reference: its
// two GETs without further headers.
TEST_CASE("signatures of AWS's own examples") {
  const Keys keys{.id = "AKIAIOSFODNN7EXAMPLE", .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", .token = {}};
  const auto time = std::chrono::system_clock::from_time_t(1'369'353'600);  // 2013-05-24
  Signer signer;
  const auto signature = [&](const std::string& query) {
    const auto headers = signer.headers(keys, "us-east-1", "examplebucket.s3.amazonaws.com", "/", query, time);
    const auto found = std::ranges::find_if(headers, [](const auto& line) { return contains(line, "Signature="); });
    REQUIRE(found != headers.end());
    return found->substr(found->rfind('=') + 1);
  };
  CHECK(signature("max-keys=2&prefix=J") == "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
  CHECK(signature("lifecycle=") == "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

}  // namespace
}  // namespace forebay::test_output_files
