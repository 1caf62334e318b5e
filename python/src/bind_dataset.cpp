// The Python interface of datasets. Only forebay/*.py call these functions, after they have checked
// and converted the arguments: lists of names are bytes (file names need not be UTF-8), columns are
// buffers.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <forebay/options.hpp>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "data/class_text.hpp"
#include "data/fields.hpp"

#include "answers.hpp"
#include "dataset.hpp"
#include "processes.hpp"

namespace forebay::python {
namespace {

using namespace nb::literals;

// Converts a list of bytes; file names need not be UTF-8. REQUIRES: the GIL.
std::vector<std::string> to_strings(const nb::list& names) {
  std::vector<std::string> all;
  all.reserve(names.size());
  for (const nb::handle name : names) {
    const auto bytes = nb::cast<nb::bytes>(name);
    all.emplace_back(bytes.c_str(), bytes.size());
  }
  return all;
}

// Copies the elements of anything with the buffer protocol as values of T; the buffer's owner may
// change them later.
template <typename T>
std::vector<T> elements_in(nb::handle object) {
  const Buffer buffer(object, PyBUF_C_CONTIGUOUS);
  std::vector<T> values(buffer.bytes().size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), buffer.bytes().data(), values.size() * sizeof(T));
  return values;
}

// The field of the only section [fields.NAME] in `options`, with these classes.
Field declared_field(const Options& options, const nb::list& classes) {
  FieldOptions field = options.dataset.fields.at(0);
  field.classes = to_strings(classes);
  return data::field_of(field);
}

// Converts a Column of forebay/_columns.py.
Column column_from(nb::handle column) {
  return {.field = nb::cast<Field>(column.attr("field")),
          .values = elements_in<std::byte>(column.attr("values")),
          .ends = elements_in<std::uint64_t>(column.attr("ends")),
          .paths = to_strings(nb::cast<nb::list>(column.attr("paths")))};
}

// `fields`: Columns, or FieldSpecs for fields that are only declared.
SampleList list_from(std::vector<std::int64_t> labels, const nb::list& classes, const nb::list& fields) {
  SampleList list{.labels = std::move(labels), .classes = to_strings(classes)};
  for (const nb::handle field : fields) {
    list.columns.push_back(nb::hasattr(field, "values") ? column_from(field) : Column{.field = nb::cast<Field>(field)});
  }
  return list;
}

// Images in memory, given as addresses and sizes of 64 bits each. The dataset holds the object that
// owns the memory.
std::vector<std::span<const std::byte>> images_at(nb::handle addresses, nb::handle sizes) {
  const auto begins = elements_in<std::uint64_t>(addresses);
  const auto bytes = elements_in<std::uint64_t>(sizes);
  std::vector<std::span<const std::byte>> images;
  images.reserve(begins.size());
  for (std::size_t i = 0; i < begins.size(); ++i) {
    images.emplace_back(reinterpret_cast<const std::byte*>(begins[i]), static_cast<std::size_t>(bytes.at(i)));
  }
  return images;
}

}  // namespace

void bind_datasets(nb::module_& module) {
  nb::class_<Field>(module, "FieldSpec", "A field that a program declares, as a section [fields.NAME] does.")
      .def_ro("name", &Field::name)
      .def_prop_ro("kind", [](const Field& self) { return to_string(self.kind); })
      .def_prop_ro("dtype", [](const Field& self) { return to_string(self.dtype); })
      .def_prop_ro(
          "shape",
          [](const Field& self) { return nb::tuple(nb::cast(std::vector(self.shape.begin(), self.shape.end()))); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "classes", [](const Field& self) { return to_paths(self.classes); },
          nb::sig("def classes(self) -> list[str]"))
      .def_ro("min_visible", &Field::min_visible);
  module.def("declared_field", &declared_field, "options"_a, "classes"_a,
             nb::sig("def declared_field(options: Options, classes: list[bytes]) -> FieldSpec"));
  module.def(
      "are_class_numbers",
      [](const nb::list& texts) {
        data::LabelCensus census;
        for (const std::string& text : to_strings(texts)) census.add(text);
        return census.are_numbers("labels");
      },
      "texts"_a, nb::sig("def are_class_numbers(texts: list[bytes]) -> bool"));
  nb::class_<Dataset>(module, "DatasetBase", "Samples that a feeder can serve.")
      .def("__len__", [](const Dataset& self) { return self.size(); })
      .def(
          "_close",
          [](Dataset& self) {
            if (auto* const asked = dynamic_cast<AnsweringDataset*>(&self); asked != nullptr) asked->close();
          },
          "Ends the processes that read samples, if any.")
      .def(
          "_order_of",
          [](Dataset& self, std::uint64_t places) { return dynamic_cast<ListedDataset&>(self).order_of(places); },
          "places"_a, "Declares that the program gives the order of its epochs, each of this many places.");
  nb::class_<GivenOrder>(module, "GivenOrder", "The sample at each place of an epoch.")
      .def("has", &GivenOrder::has, "epoch"_a, "True if the order of that epoch has been given.")
      .def(
          "give",
          [](GivenOrder& self, std::uint64_t epoch, nb::handle ids) {
            self.give(epoch, elements_in<std::uint32_t>(ids));
          },
          "epoch"_a, "ids"_a, nb::sig("def give(self, epoch: int, ids: typing.Any) -> None"),
          "Gives the order of an epoch, before its loop, as uint32.");
  module.def(
      "files_dataset",
      [](const nb::list& paths, std::vector<std::int64_t> labels, const nb::list& classes, const nb::list& columns) {
        return files_dataset(to_strings(paths), list_from(std::move(labels), classes, columns));
      },
      "paths"_a, "labels"_a, "classes"_a, "columns"_a,
      nb::sig("def files_dataset(paths: list[bytes], labels: list[int], classes: list[bytes], "
              "columns: list[typing.Any]) -> DatasetBase"));
  module.def(
      "memory_dataset",
      [](nb::object owner, nb::handle addresses, nb::handle sizes, std::vector<std::int64_t> labels,
         const nb::list& classes, const nb::list& columns, std::string identity) {
        return memory_dataset(std::move(owner), images_at(addresses, sizes),
                              list_from(std::move(labels), classes, columns), std::move(identity));
      },
      "owner"_a, "addresses"_a, "sizes"_a, "labels"_a, "classes"_a, "columns"_a, "identity"_a,
      nb::sig("def memory_dataset(owner: typing.Any, addresses: typing.Any, sizes: typing.Any, labels: list[int], "
              "classes: list[bytes], columns: list[typing.Any], identity: str) -> DatasetBase"));
  module.def(
      "object_dataset",
      [](nb::object read, std::uint64_t size, std::vector<std::int64_t> labels, const nb::list& classes,
         const nb::list& fields, std::string identity) -> std::shared_ptr<Dataset> {
        return object_dataset(std::move(read), size, list_from(std::move(labels), classes, fields),
                              std::move(identity));
      },
      "read"_a, "size"_a, "labels"_a, "classes"_a, "fields"_a, "identity"_a,
      nb::sig("def object_dataset(read: typing.Any, size: int, labels: list[int], classes: list[bytes], "
              "fields: list[typing.Any], identity: str) -> DatasetBase"));
  module.def(
      "process_dataset",
      [](nb::object pool, std::uint64_t size, std::vector<std::int64_t> labels, const nb::list& classes,
         const nb::list& fields, std::string identity) -> std::shared_ptr<Dataset> {
        return process_dataset(std::move(pool), size, list_from(std::move(labels), classes, fields),
                               std::move(identity));
      },
      "pool"_a, "size"_a, "labels"_a, "classes"_a, "fields"_a, "identity"_a,
      nb::sig("def process_dataset(pool: typing.Any, size: int, labels: list[int], classes: list[bytes], "
              "fields: list[typing.Any], identity: str) -> DatasetBase"));
}

}  // namespace forebay::python
