#include <sys/wait.h>

#include "jpeg/pixel_kernels.hpp"
#include "make/jpeg_decoder.hpp"
#include "test.hpp"

// Compares every JPEG of the real data with the installed djpeg.
namespace forebay::test_jpeg_truth {
namespace {

namespace fs = std::filesystem;

struct Process {
  int exit_code = -1;  // -1: killed by a signal
  std::string output;
};

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

// Some files would keep djpeg busy for minutes; ten seconds are enough.
Process run_djpeg(const std::string& arguments) {
  const auto command = "ulimit -t 10; exec djpeg " + arguments + " 2>/dev/null";
  Process process;
  // NOLINTNEXTLINE(cert-env33-c): the command is this test's own
  std::FILE* pipe = ::popen(command.c_str(), "re");
  if (pipe == nullptr) return process;
  std::vector<char> block(1U << 20U);
  for (std::size_t n = 0; (n = std::fread(block.data(), 1, block.size(), pipe)) > 0;) {
    process.output.append(block.data(), n);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) process.exit_code = WEXITSTATUS(status);
  return process;
}

// A number in a PNM header.
std::size_t read_number(const std::string& pnm, std::size_t& at) {
  while (std::isspace(static_cast<unsigned char>(pnm[at])) != 0) ++at;
  std::size_t value = 0;
  for (; std::isdigit(static_cast<unsigned char>(pnm[at])) != 0; ++at) {
    value = value * 10 + static_cast<std::size_t>(pnm[at] - '0');
  }
  return value;
}

// Whether the image equals the P5 or P6 file.
bool same_pixels(const forebay::make::Image& image, const std::string& pnm) {
  if (pnm.size() < 8 || pnm[0] != 'P' || (pnm[1] != '5' && pnm[1] != '6')) return false;
  const std::size_t channels = pnm[1] == '5' ? 1 : 3;
  std::size_t at = 2;
  const auto width = read_number(pnm, at);
  const auto height = read_number(pnm, at);
  if (read_number(pnm, at) != 255) return false;
  ++at;
  if (width != static_cast<std::size_t>(image.width) || height != static_cast<std::size_t>(image.height)) return false;
  if (pnm.size() - at != width * height * channels) return false;
  const auto* expected = reinterpret_cast<const std::uint8_t*>(pnm.data()) + at;
  if (channels == 3) return std::equal(expected, expected + width * height * 3, image.pixels.begin());
  const std::uint8_t* pixel = image.pixels.data();
  for (std::size_t i = 0; i < width * height; ++i, pixel += 3) {
    if (pixel[0] != expected[i] || pixel[1] != expected[i] || pixel[2] != expected[i]) return false;
  }
  return true;
}

bool begins_as_jpeg(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  char start[2] = {};
  file.read(start, 2);
  return file.gcount() == 2 && start[0] == '\xff' && start[1] == '\xd8';
}

enum class Outcome {
  equal,
  different,         // must not occur
  refused_readable,  // djpeg reads it with exit code 0, Forebay does not
  too_many_pixels,   // refused by the header; djpeg is not run
  warned_equal,      // djpeg warns (exit code 2), and the pixels are the same
  warned_different,
  warned_refused,
  refused_by_both,
  only_we_read,
};

struct Result {
  Outcome outcome = Outcome::different;
  std::string reason;  // why Forebay refused it
};

Result compare(const fs::path& path, forebay::make::JpegDecoder& decoder, forebay::make::Image& image) {
  const auto content = forebay::testing::read_text(path);
  std::optional<std::string> refused;
  try {
    decoder.decode(std::as_bytes(std::span(content)), {.exif = false}, image);
  } catch (const forebay::SampleError& error) {
    refused = error.what();
    if (refused->find("max_pixels") != std::string::npos) return {Outcome::too_many_pixels, *refused};
  }
  const auto djpeg = run_djpeg("-pnm " + quoted(path.string()));
  const bool equal = !refused && same_pixels(image, djpeg.output);
  const auto reason = refused.value_or("");
  switch (djpeg.exit_code) {
    case 0:
      if (refused) return {Outcome::refused_readable, reason};
      return {equal ? Outcome::equal : Outcome::different, reason};
    case 2:
      if (refused) return {Outcome::warned_refused, reason};
      return {equal ? Outcome::warned_equal : Outcome::warned_different, reason};
    default: return {refused ? Outcome::refused_by_both : Outcome::only_we_read, reason};
  }
}

}  // namespace

TEST_CASE("every JPEG that djpeg reads decodes to the same bytes") {
  const auto data = forebay::testing::real_data();
  if (!data) return;
  if (const int code = run_djpeg("-version").exit_code; code == 127 || code == -1) {
    MESSAGE("skipped: djpeg is not installed (package libjpeg-turbo-progs)");
    return;
  }
  std::vector<fs::path> files = forebay::testing::files_in(*data);
  std::erase_if(files, [](const fs::path& path) { return !begins_as_jpeg(path); });
  REQUIRE_FALSE(files.empty());

  std::vector<Result> results(files.size());
  std::atomic<std::size_t> next{0};
  {
    const auto work = [&] {
      forebay::make::JpegDecoder decoder(forebay::jpeg::trusted_pixel_kernels());
      forebay::make::Image image;
      for (std::size_t i = 0; (i = next++) < files.size();) results[i] = compare(files[i], decoder, image);
    };
    const std::jthread helper(work);
    work();
  }

  const auto list = [&](Outcome outcome) {
    std::string text;
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (results[i].outcome == outcome)
        text += "\n  " + fs::relative(files[i], *data).string() + " " + results[i].reason;
    }
    return text;
  };
  const auto count = [&](Outcome outcome) {
    return std::count_if(results.begin(), results.end(), [&](const auto& r) { return r.outcome == outcome; });
  };
  MESSAGE(files.size() << " files; djpeg exit 0: " << count(Outcome::equal) << " equal, " << count(Outcome::different)
                       << " different, " << count(Outcome::refused_readable)
                       << " refused by us; exit 2 (warnings): " << count(Outcome::warned_equal) << " equal, "
                       << count(Outcome::warned_refused) << " refused by us; other: " << count(Outcome::refused_by_both)
                       << " refused by both; over max_pixels: " << count(Outcome::too_many_pixels));
  MESSAGE("read by djpeg, refused by us:" << list(Outcome::refused_readable));
  MESSAGE("over max_pixels:" << list(Outcome::too_many_pixels));
  CHECK_MESSAGE(count(Outcome::different) == 0, list(Outcome::different));
  CHECK_MESSAGE(count(Outcome::warned_different) == 0, list(Outcome::warned_different));
  CHECK_MESSAGE(count(Outcome::only_we_read) == 0, list(Outcome::only_we_read));
  CHECK(count(Outcome::equal) > 0);
  // Only the limit on scans may refuse what djpeg reads.
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (results[i].outcome == Outcome::refused_readable) {
      CHECK_MESSAGE(results[i].reason == "more than 100 scans", files[i].string() << ": " << results[i].reason);
    }
  }
}

}  // namespace forebay::test_jpeg_truth
