// The Python interface of a batch: names, signatures and docstrings. batch.cpp does the work. Here
// are the conversions between the arguments of Python and C++, and the three libraries whose
// tensors can be requested by name (PyTorch, JAX, CuPy), each imported when it is first used.
//
// All of it runs on the thread that calls from Python, with the GIL held. help() and the type stubs
// show the docstrings, so each says what the caller gets and how long it is valid.

#include <utility>

#include <forebay/error.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "batch.hpp"

namespace forebay::python {
namespace {

using namespace nb::literals;

[[noreturn]] void refuse_pickling(const char* why) { throw nb::type_error(why); }

// The field that is the default target next to the image: the label or, for mixed batches, whose
// rows are not of a single class, the weights of the labels.
std::size_t number_of_target(const Batch& batch) {
  const auto& fields = batch.fields();
  return fields.size() > 2 && fields[2].name == "label_weights" ? 2 : 1;
}

// Returns take(number) for each named field, by default the image and the target: a single result
// by itself, several as a tuple, as usual in Python.
template <typename Take>
nb::object each(const Batch& batch, const nb::args& names, Take&& take) {
  if (names.size() == 0) return nb::make_tuple(take(std::size_t{0}), take(number_of_target(batch)));
  nb::list all;
  for (const nb::handle name : names) all.append(take(batch.number_of(nb::cast<std::string>(name))));
  if (all.size() == 1) return nb::object(all[0]);
  return nb::tuple(all);
}

// Whether the program gets a copy. By default it does if the memory may be served again, because
// PyTorch and CuPy cannot prevent writing to a shared tensor.
bool is_copied(const Batch& batch, std::size_t number, nb::handle copy) {
  return copy.is_none() ? batch.may_return(number) : nb::cast<bool>(copy);
}

// Uses PyTorch's current stream on the device, so that later work there is ordered after the batch.
nb::object to_torch(const Batch& batch, const nb::args& names, nb::handle copy) {
  const nb::module_ torch = nb::module_::import_("torch");
  return each(batch, names, [&](std::size_t number) -> nb::object {
    if (number == 1 && batch.is_on_host()) return torch.attr("from_numpy")(batch.field(1));
    const Tensor tensor = batch.tensor(number);
    nb::object stream = nb::none();
    if (const TensorView seen = tensor.view(); seen.device == DeviceKind::cuda) {
      stream = torch.attr("cuda").attr("current_stream")(seen.device_index).attr("cuda_stream");
    }
    // The unversioned form, which has no read-only flag: PyTorch has no read-only tensors.
    const nb::object shared = torch.attr("from_dlpack")(tensor.dlpack(stream, nb::none(), nb::none(), nb::none()));
    return is_copied(batch, number, copy) ? shared.attr("clone")() : shared;
  });
}

bool jax_has_gpus() {
  try {
    (void)nb::module_::import_("jax").attr("devices")("cuda");
    return true;
  } catch (const nb::python_error&) {
    return false;
  }
}

// Labels are always copied.
nb::object to_jax(const Batch& batch, const nb::args& names) {
  const nb::object from_dlpack = nb::module_::import_("jax.dlpack").attr("from_dlpack");
  return each(batch, names, [&](std::size_t number) -> nb::object {
    if (number == 1) return nb::module_::import_("jax.numpy").attr("asarray")(batch.field(1));
    try {
      return batch.lend(number, from_dlpack);
    } catch (const nb::python_error& error) {
      // A copy through the host would be slow without a word.
      if (batch.is_on_host() || jax_has_gpus()) throw;
      throw Error("JAX does not take a batch that is on a GPU (" + std::string(nb::str(error.value()).c_str()) +
                  "): give the feeder device=\"host\", or install JAX with CUDA");
    }
  });
}

nb::object to_cupy(const Batch& batch, const nb::args& names, nb::handle copy) {
  const nb::module_ cupy = nb::module_::import_("cupy");
  // Keeps the stream's object, because CuPy destroys a stream together with its object.
  if (!batch.is_on_host()) batch.lease()->keep(Held(cupy.attr("cuda").attr("get_current_stream")()));
  return each(batch, names, [&](std::size_t number) -> nb::object {
    if (number == 1 && batch.is_on_host()) return cupy.attr("asarray")(batch.field(1));
    const nb::object shared = cupy.attr("from_dlpack")(batch.tensor(number));
    return is_copied(batch, number, copy) ? shared.attr("copy")() : shared;
  });
}

nb::list views_of(const Batch& batch) {
  const nb::object type = nb::module_::import_("forebay._batch").attr("SampleView");
  nb::list all;
  for (const SampleView& view : batch.lease()->views()) {
    const Box& region = view.region;
    all.append(type(region.left, region.top, region.right, region.bottom, view.width, view.height, view.mirror));
  }
  return all;
}

void bind_tensor(nb::module_& module) {
  nb::class_<Tensor>(
      module, "Tensor",
      "A field of a batch, without a copy, for any library that reads DLPack. It is read-only, and keeps "
      "the batch's place in memory for as long as it lives.")
      .def_prop_ro("shape", &Tensor::shape, nb::sig("def shape(self) -> tuple[int, ...]"),
                   "The extents, the number of rows first: transform.views for each sample.")
      .def_prop_ro(
          "dtype", [](const Tensor& self) { return to_string(self.view().dtype); },
          "The type of the elements: \"uint8\", \"float32\", \"bfloat16\" and so on.")
      .def_prop_ro(
          "device", [](const Tensor& self) { return self.view().device == DeviceKind::host ? "host" : "cuda"; },
          "\"host\" or \"cuda\".")
      .def("numpy", &Tensor::numpy, nb::sig("def numpy(self) -> typing.Any"),
           "A read-only array of NumPy, without a copy. Raises Error for a tensor on a GPU; bfloat16 needs ml_dtypes.")
      .def(
          "__dlpack__",
          [](const Tensor& self, nb::handle stream, nb::handle max_version, nb::handle device, nb::handle copy) {
            return self.dlpack(stream, max_version, device, copy);
          },
          nb::kw_only(), "stream"_a = nb::none(), "max_version"_a = nb::none(), "dl_device"_a = nb::none(),
          "copy"_a = nb::none(),
          "For from_dlpack() of any library. Raises BufferError for a request that cannot be met.")
      .def("__dlpack_device__", &Tensor::device, nb::sig("def __dlpack_device__(self) -> tuple[int, int]"),
           "DLPack's number for the kind of device, and the device's index.")
      .def_prop_ro("__cuda_array_interface__", &Tensor::cuda_array_interface,
                   nb::sig("def __cuda_array_interface__(self) -> dict[str, typing.Any]"),
                   "For libraries that use this interface instead of DLPack. Only tensors on a GPU have it.");
}

void bind_facts(nb::class_<Batch>& batch) {
  batch
      .def_prop_ro(
          "size", [](const Batch& self) { return self.size; },
          "Samples in the batch: fewer than dataset.batch_size in a short last batch and in evaluation.")
      .def("__len__", [](const Batch& self) { return self.size; })
      .def_prop_ro(
          "epoch", [](const Batch& self) { return self.epoch; }, "The epoch that the batch belongs to, from 0.")
      .def_prop_ro(
          "number", [](const Batch& self) { return self.number; }, "Its number in the epoch, over all ranks.")
      .def_prop_ro(
          "step", [](const Batch& self) { return self.step; },
          "The number of this step, from 0; a resumed run continues counting.")
      .def_prop_ro(
          "use_index", [](const Batch& self) { return self.use_index; },
          "How often the batch was served before this step; 0 means that it is fresh.")
      .def_prop_ro(
          "is_fresh", [](const Batch& self) { return self.use_index == 0; },
          "True if the batch is served for the first time.")
      .def_prop_ro(
          "job_fresh_samples", [](const Batch& self) { return self.job_fresh_samples; },
          "Samples that all ranks together had served fresh; the same on every rank at the same step.")
      .def_prop_ro("is_released", &Batch::is_released, "True once the batch has ended and its fields are gone.");
}

void bind_fields(nb::class_<Batch>& batch) {
  batch
      .def_prop_ro(
          "images", [](const Batch& self) { return self.field(0); }, nb::sig("def images(self) -> typing.Any"),
          "[rows, channels, height, width], or [rows, height, width, channels] with transform.layout = \"NHWC\": a "
          "read-only array of NumPy without a copy, or a Tensor where the batch is on a GPU or its type is bfloat16.")
      .def_prop_ro(
          "labels", [](const Batch& self) { return self.field(1); }, nb::sig("def labels(self) -> typing.Any"),
          "Class numbers, [rows] of int64, -1 = unlabelled: a copy, in memory of the host. torch() and cupy() have "
          "them where the images are.")
      .def_prop_ro("ids", &Batch::ids, nb::sig("def ids(self) -> typing.Any"),
                   "Numbers of the samples in the dataset, [size] of uint64: a copy.")
      .def("__iter__",
           [](const Batch& /*self*/) {
             throw nb::type_error("a batch is no pair: images, labels = batch.torch(), or numpy(), jax(), cupy()");
           })
      .def(
          "__getitem__", [](const Batch& self, std::string_view name) { return self.field(self.number_of(name)); },
          "name"_a, nb::sig("def __getitem__(self, name: str) -> typing.Any"),
          "The field of this name: \"image\", \"label\", or one of the dataset's own.")
      .def(
          "__getattr__",
          [](const Batch& self, std::string_view name) {
            const auto number = self.find(name);
            if (!number) throw nb::attribute_error(("a batch has no field \"" + std::string(name) + "\"").c_str());
            return self.field(*number);
          },
          nb::sig("def __getattr__(self, name: str) -> typing.Any"))
      .def(
          "keys",
          [](const Batch& self) {
            nb::list names;
            for (const Field& field : self.fields()) names.append(nb::str(field.name.c_str(), field.name.size()));
            return names;
          },
          nb::sig("def keys(self) -> list[str]"), "The names of the fields.")
      .def(
          "counts", [](const Batch& self, std::string_view name) { return self.counts(self.number_of(name)); },
          "name"_a, nb::sig("def counts(self, name: str) -> typing.Any"),
          "For a ragged field (boxes, bytes): how many entries of each row are filled, [rows] of int32.")
      .def("views", &views_of, nb::sig("def views(self) -> list[typing.Any]"),
           "The region of its image that each row shows, as a list of SampleView, for targets of your own.");
}

void bind_hand_over(nb::class_<Batch>& batch) {
  batch
      .def(
          "tensor", [](const Batch& self, std::string_view name) { return self.tensor(self.number_of(name)); },
          "name"_a = "image", "A field as an object with __dlpack__, on the device where it is.")
      .def(
          "numpy",
          [](const Batch& self, const nb::args& names) {
            return each(self, names, [&](std::size_t number) -> nb::object {
              return number == 1 ? self.field(1) : self.tensor(number).numpy();
            });
          },
          nb::sig("def numpy(self, *names: str) -> typing.Any"),
          "The fields of these names as NumPy arrays: one, or a tuple. The default is \"image\" and \"label\" or, for "
          "mixed batches, \"image\" and \"label_weights\".")
      .def("torch", &to_torch, "names"_a, "copy"_a = nb::none(),
           nb::sig("def torch(self, *names: str, copy: bool | None = None) -> typing.Any"),
           "The same fields as PyTorch tensors, on the device where they are. If a reuse may serve the same bytes "
           "again, "
           "they are copies, which you may change. copy=False: the tensors share the batch's memory; do not write to "
           "them, which next() detects in host memory. copy=True: always copies.")
      .def("jax", &to_jax, nb::sig("def jax(self, *names: str) -> typing.Any"),
           "The same fields as JAX arrays. A computation that has begun keeps the batch until it is done; next() waits "
           "for "
           "such computations while queue.max_leases batches are held. For a batch on a GPU they are copies, because "
           "JAX "
           "does not tell when it has finished reading.")
      .def("cupy", &to_cupy, "names"_a, "copy"_a = nb::none(),
           nb::sig("def cupy(self, *names: str, copy: bool | None = None) -> typing.Any"),
           "The same fields as CuPy arrays, for batches on a GPU.")
      .def(
          "__dlpack__",
          [](const Batch& self, nb::handle stream, nb::handle max_version, nb::handle device, nb::handle copy) {
            return self.tensor(0).dlpack(stream, max_version, device, copy);
          },
          nb::kw_only(), "stream"_a = nb::none(), "max_version"_a = nb::none(), "dl_device"_a = nb::none(),
          "copy"_a = nb::none(), "The images.")
      .def(
          "__dlpack_device__", [](const Batch& self) { return self.tensor(0).device(); },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"), "The device of the images, in DLPack's terms.")
      .def("copy", &Batch::copy, nb::sig("def copy(self) -> typing.Any"),
           "A BatchCopy: all fields in host memory of their own, to keep as long as you like.");
}

}  // namespace

void bind_batch(nb::module_& module) {
  bind_tensor(module);
  nb::class_<Batch> batch(module, "Batch",
                          "One step's batch: the right to use one place of the queue. A loop releases it when it asks "
                          "for the next one; feeder.next() hands it to you until release() or the end of its `with` "
                          "block. Arrays and tensors that were taken from it keep the place for as long as they live.");
  bind_facts(batch);
  bind_fields(batch);
  bind_hand_over(batch);
  batch
      .def(
          "release",
          [](Batch& self, nb::handle stream) {
            if (stream.is_none()) return self.release();
            self.release(GivenStream(stream));
          },
          "stream"_a = nb::none(), nb::sig("def release(self, stream: typing.Any = None) -> None"),
          "Ends the batch. What was taken from it stays valid for as long as it lives. `stream`: another CUDA stream "
          "on which it was used; its place is filled again after what is on that stream by the end of all that was "
          "taken.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); }, nb::sig("def __enter__(self) -> Batch"))
      .def(
          "__exit__", [](Batch& self, const nb::args&) { self.release(); },
          nb::sig("def __exit__(self, *args: object) -> None"))
      .def(
          "__reduce__",
          [](const Batch&) {
            refuse_pickling(
                "a batch cannot be pickled: it is a place in the feeder's memory. Pickle batch.copy(), or give each "
                "process a feeder of its own");
          },
          nb::sig("def __reduce__(self) -> typing.Any"))
      .def("__repr__", [](const Batch& self) {
        return "<forebay.Batch: step " + std::to_string(self.step) + ", epoch " + std::to_string(self.epoch) + ", " +
               std::to_string(self.size) + " samples, " +
               (self.use_index == 0 ? std::string("fresh") : "reuse " + std::to_string(self.use_index)) +
               (self.is_released() ? ", released>" : ">");
      });
}

}  // namespace forebay::python
