#include <exception>
#include <string>

#include <forebay/error.hpp>

#include <nanobind/nanobind.h>

#include "answers.hpp"
#include "batch.hpp"
#include "dataset.hpp"
#include "feeder.hpp"
#include "given.hpp"

namespace {

namespace nb = nanobind;

// forebay/errors.py defines the types, some of which derive from ValueError or TimeoutError as
// well.
void translate(const std::exception_ptr& thrown, void* /*payload*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const forebay::Error& error) {
    const nb::object raised = nb::module_::import_("forebay.errors").attr(forebay::python::class_of(error));
    PyObject* const text = PyUnicode_DecodeUTF8(
        error.what(), static_cast<Py_ssize_t>(std::char_traits<char>::length(error.what())), "replace");
    PyErr_SetObject(raised.ptr(), text);
    Py_XDECREF(text);
  }
}

}  // namespace

NB_MODULE(_core, module) {
  module.doc() = "Forebay's library, as forebay/*.py use it.";
  // A feeder that a reference cycle keeps alive has been closed by the time of exit, so there is
  // nothing to warn about.
  nb::set_leak_warnings(false);
  nb::register_exception_translator(translate);
  module.attr("version") = FOREBAY_VERSION;
  forebay::python::bind_datasets(module);
  forebay::python::bind_batch(module);
  forebay::python::bind_signals(module);
  forebay::python::bind_feeder(module);
}
