#include <forebay/detail/device.hpp>
#include <forebay/error.hpp>

#include "host_device.hpp"

namespace forebay {

std::unique_ptr<Device> make_device(const std::string& name) {
  if (name == "auto" || name == "host") return std::make_unique<HostDevice>();
  throw ConfigError("device = \"" + name + R"(": this build has no such device; use "host" or "auto")");
}

}  // namespace forebay
