#include "dataset.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include <forebay/error.hpp>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace forebay::python {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what, int error) {
  const bool may_pass = error == EIO || error == ETIMEDOUT || error == ESTALE || error == EAGAIN || error == ENOMEM ||
                        error == EMFILE || error == ENFILE;
  throw SampleError(path + ": cannot " + what + " it: " + std::strerror(error),
                    may_pass ? SampleError::Kind::transient : SampleError::Kind::permanent);
}

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : number_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (number_ < 0) fail(path, "open", errno);
  }
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  int number_;
};

void read_file(const std::string& path, ReadTarget& target) {
  const Descriptor file(path);
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) fail(path, "look at", errno);
  if (!S_ISREG(status.st_mode)) throw SampleError(path + ": it is not a regular file");
  const std::span<std::byte> bytes = target.reserve(static_cast<std::size_t>(status.st_size));
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t got = ::pread(file.number(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, "read", errno);
    if (got == 0) throw SampleError(path + ": it became shorter while it was read", SampleError::Kind::transient);
    done += static_cast<std::size_t>(got);
  }
}

// The common part of both kinds: what is known about a sample without reading it.
class ListedDataset : public Dataset {
 public:
  ListedDataset(std::uint64_t size, SampleList list) : size_(size), list_(std::move(list)) {
    if (size_ == 0) throw ConfigError("the dataset has no samples");
    if (!list_.labels.empty() && list_.labels.size() != size_) {
      throw ConfigError("there are " + std::to_string(size_) + " samples and " + std::to_string(list_.labels.size()) +
                        " labels; give one label for each sample, or none");
    }
    if (list_.classes.empty()) return;
    const auto count = static_cast<std::int64_t>(list_.classes.size());
    const auto wrong =
        std::ranges::find_if(list_.labels, [count](std::int64_t label) { return label < -1 || label >= count; });
    if (wrong == list_.labels.end()) return;
    throw ConfigError("sample " + std::to_string(wrong - list_.labels.begin()) + " has the label " +
                      std::to_string(*wrong) + ", but there are " + std::to_string(count) +
                      " classes; labels are their numbers from 0, or -1 for none");
  }

  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return list_.classes; }
  [[nodiscard]] Sample sample(std::uint64_t id) const override {
    Sample sample;
    if (!list_.labels.empty()) sample.label = list_.labels[id];
    return sample;
  }
  [[nodiscard]] const std::vector<Skipped>& skipped() const noexcept override { return skipped_; }
  [[nodiscard]] IndexCounts counts() const noexcept override { return {.images = size_}; }

 protected:
  // `text`, which identifies the samples, followed by labels and classes as bytes.
  [[nodiscard]] std::vector<std::byte> serialized(std::string text) const {
    for (const std::string& name : list_.classes) text.append(name).push_back('\0');
    text.append(reinterpret_cast<const char*>(list_.labels.data()), list_.labels.size() * sizeof(std::int64_t));
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }

 private:
  std::uint64_t size_;
  SampleList list_;
  std::vector<Skipped> skipped_;
};

// The length of the longest path of a folder, with its slash, that all paths begin with.
std::size_t common_folder(const std::vector<std::string>& paths) {
  std::string_view common = paths.front();
  for (const std::string_view path : paths) {
    const auto [end, other] = std::ranges::mismatch(common, path);
    common = common.substr(0, static_cast<std::size_t>(end - common.begin()));
  }
  const std::size_t slash = common.rfind('/');
  return slash == std::string_view::npos ? 0 : slash + 1;
}

class FilesDataset final : public ListedDataset {
 public:
  FilesDataset(std::vector<std::string> paths, SampleList list)
      : ListedDataset(paths.size(), std::move(list)), paths_(std::move(paths)) {}

  [[nodiscard]] std::string_view format() const noexcept override { return "files"; }
  [[nodiscard]] std::string name(std::uint64_t id) const override { return paths_[id]; }
  void read(std::uint64_t id, ReadTarget& target) const override { read_file(paths_[id], target); }
  [[nodiscard]] std::vector<std::byte> serialize() const override {
    std::string text;
    // Data that were moved as a whole are the same data.
    const std::size_t common = common_folder(paths_);
    for (const std::string& path : paths_) text.append(path, common).push_back('\0');
    return serialized(std::move(text));
  }

 private:
  std::vector<std::string> paths_;
};

// The object returned for a sample, kept until it is copied.
class Returned {
 public:
  // REQUIRES: the GIL.
  explicit Returned(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  ~Returned() {
    const nb::gil_scoped_acquire gil;
    PyBuffer_Release(&view_);
  }
  Returned(const Returned&) = delete;
  Returned& operator=(const Returned&) = delete;
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

class ObjectDataset final : public ListedDataset {
 public:
  ObjectDataset(nb::object read, std::uint64_t size, SampleList list, std::string identity)
      : ListedDataset(size, std::move(list)), read_(std::move(read)), identity_(std::move(identity)) {}

  [[nodiscard]] std::string_view format() const noexcept override { return "python"; }
  [[nodiscard]] std::string name(std::uint64_t id) const override { return "sample " + std::to_string(id); }
  [[nodiscard]] std::vector<std::byte> serialize() const override { return serialized(identity_); }

  // reserve() may wait for other readers, which may need the GIL, so it must not be held then.
  void read(std::uint64_t id, ReadTarget& target) const override {
    std::unique_ptr<Returned> returned;
    std::string path;
    ask(id, returned, path);
    if (!returned) return read_file(path, target);
    const std::span<const std::byte> bytes = returned->bytes();
    const std::span<std::byte> into = target.reserve(bytes.size());
    std::ranges::copy(bytes, into.begin());
  }

 private:
  void ask(std::uint64_t id, std::unique_ptr<Returned>& returned, std::string& path) const {
    if (!is_running()) throw SampleError("the interpreter has ended");
    const nb::gil_scoped_acquire gil;
    try {
      const nb::object item = read_.get()(id);
      if (nb::isinstance<nb::str>(item)) {
        const nb::object encoded = nb::steal(PyUnicode_EncodeFSDefault(item.ptr()));
        if (!encoded.is_valid()) throw nb::python_error();
        path.assign(PyBytes_AS_STRING(encoded.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(encoded.ptr())));
      } else {
        returned = std::make_unique<Returned>(item);
      }
    } catch (const nb::python_error& error) {
      throw SampleError(text_of(error), error.matches(PyExc_TimeoutError) || error.matches(PyExc_ConnectionError)
                                            ? SampleError::Kind::transient
                                            : SampleError::Kind::permanent);
    }
  }

  Held read_;
  std::string identity_;
};

// Of bytes: names of files need not be UTF-8. REQUIRES: the GIL.
std::vector<std::string> to_strings(const nb::list& names) {
  std::vector<std::string> all;
  all.reserve(names.size());
  for (const nb::handle name : names) {
    const auto bytes = nb::cast<nb::bytes>(name);
    all.emplace_back(bytes.c_str(), bytes.size());
  }
  return all;
}

}  // namespace

std::shared_ptr<Dataset> files_dataset(std::vector<std::string> paths, SampleList list) {
  return std::make_shared<FilesDataset>(std::move(paths), std::move(list));
}

std::shared_ptr<Dataset> object_dataset(nb::object read, std::uint64_t size, SampleList list, std::string identity) {
  return std::make_shared<ObjectDataset>(std::move(read), size, std::move(list), std::move(identity));
}

void bind_datasets(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<Dataset>(module, "DatasetBase", "Samples that a feeder can serve.")
      .def("__len__", [](const Dataset& self) { return self.size(); });
  module.def(
      "files_dataset",
      [](const nb::list& paths, std::vector<std::int64_t> labels, const nb::list& classes) {
        return files_dataset(to_strings(paths), {.labels = std::move(labels), .classes = to_strings(classes)});
      },
      "paths"_a, "labels"_a, "classes"_a,
      nb::sig("def files_dataset(paths: list[bytes], labels: list[int], classes: list[bytes]) -> DatasetBase"));
  module.def(
      "object_dataset",
      [](nb::object read, std::uint64_t size, std::vector<std::int64_t> labels, const nb::list& classes,
         std::string identity) {
        return object_dataset(std::move(read), size, {.labels = std::move(labels), .classes = to_strings(classes)},
                              std::move(identity));
      },
      "read"_a, "size"_a, "labels"_a, "classes"_a, "identity"_a,
      nb::sig("def object_dataset(read: typing.Any, size: int, labels: list[int], classes: list[bytes], identity: str) "
              "-> DatasetBase"));
}

}  // namespace forebay::python
