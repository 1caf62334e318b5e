// Loads FFmpeg's libraries, once, and finds their functions by the names that their headers
// declare. A build against one major version accepts only that version, because the shared
// structures have other members in the next.

#include "libav.hpp"

#include <dlfcn.h>
#include <array>
#include <type_traits>

#include "index_video.hpp"

namespace forebay::video {
namespace {

#define FOREBAY_TEXT_OF(NUMBER) #NUMBER
#define FOREBAY_LIBRARY(NAME, MAJOR) "lib" NAME ".so." FOREBAY_TEXT_OF(MAJOR)

struct Libraries {
  void* avutil;
  void* avcodec;
  void* avformat;
  void* swscale;
};

Libav load() {
  constexpr const char* kAvutil = FOREBAY_LIBRARY("avutil", LIBAVUTIL_VERSION_MAJOR);
  // A program that uses them itself has its own opinion of what they should print. Otherwise errors say it.
  const bool were_there = ::dlopen(kAvutil, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) != nullptr;
  const auto open = [](const char* name) { return ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); };
  const Libraries libraries{.avutil = open(kAvutil),
                            .avcodec = open(FOREBAY_LIBRARY("avcodec", LIBAVCODEC_VERSION_MAJOR)),
                            .avformat = open(FOREBAY_LIBRARY("avformat", LIBAVFORMAT_VERSION_MAJOR)),
                            .swscale = open(FOREBAY_LIBRARY("swscale", LIBSWSCALE_VERSION_MAJOR))};
  Libav loaded;
  bool is_whole = true;
  const auto find = [&](void* library, auto& function, const char* name) {
    if (library != nullptr)
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    is_whole = is_whole && function != nullptr;
  };
#define FOREBAY_LIBAV_FIND(LIBRARY, NAME) find(libraries.LIBRARY, loaded.NAME, #NAME);
  FOREBAY_LIBAV(FOREBAY_LIBAV_FIND)
#undef FOREBAY_LIBAV_FIND
  if (!is_whole) {
    loaded.problem = "no video can be read: FFmpeg's libraries, of the version that this build of Forebay was made for, are "
                     "not on this machine; install them (" FOREBAY_LIBRARY("avformat", LIBAVFORMAT_VERSION_MAJOR) " and "
                     FOREBAY_LIBRARY("swscale", LIBSWSCALE_VERSION_MAJOR) "; Debian 12: libavformat59 libswscale6)";
  } else if (!were_there) {
    loaded.av_log_set_level(AV_LOG_QUIET);
  }
  return loaded;
}

}  // namespace

std::string Libav::describe(int error) const {
  std::array<char, AV_ERROR_MAX_STRING_SIZE> text{};
  (void)av_strerror(error, text.data(), text.size());
  return text.data();
}

const Libav& libav() {
  static const auto& loaded = *new Libav(load());  // never destroyed, as threads of a feeder outlive exit()
  return loaded;
}

std::string_view problem_of_videos() { return libav().problem; }

}  // namespace forebay::video
