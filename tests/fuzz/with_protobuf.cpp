#include <bit>
#include <memory>
#include <stdexcept>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/stubs/logging.h>

#include "example_reader.hpp"

// Describes tf.train.Example in code, as tensorflow/core/example/{example,feature}.proto do.
namespace forebay::fuzz {
namespace {

using google::protobuf::DescriptorProto;
using google::protobuf::FieldDescriptor;
using google::protobuf::FieldDescriptorProto;
using google::protobuf::Message;

FieldDescriptorProto* add_field(DescriptorProto* message, const char* name, int number, FieldDescriptorProto::Type type,
                                bool is_repeated, const char* of = nullptr) {
  FieldDescriptorProto* const field = message->add_field();
  field->set_name(name);
  field->set_number(number);
  field->set_type(type);
  field->set_label(is_repeated ? FieldDescriptorProto::LABEL_REPEATED : FieldDescriptorProto::LABEL_OPTIONAL);
  if (of != nullptr) field->set_type_name(of);
  return field;
}

class Schema {
 public:
  Schema() {
    google::protobuf::SetLogHandler(nullptr);  // a fuzzer makes many texts that are not UTF-8
    google::protobuf::FileDescriptorProto file;
    file.set_name("example.proto");
    file.set_package("t");
    file.set_syntax("proto3");
    const auto add_list = [&](const char* name, FieldDescriptorProto::Type type) {
      DescriptorProto* const list = file.add_message_type();
      list->set_name(name);
      add_field(list, "value", 1, type, true);
    };
    add_list("BytesList", FieldDescriptorProto::TYPE_BYTES);
    add_list("FloatList", FieldDescriptorProto::TYPE_FLOAT);
    add_list("Int64List", FieldDescriptorProto::TYPE_INT64);
    DescriptorProto* const feature = file.add_message_type();
    feature->set_name("Feature");
    feature->add_oneof_decl()->set_name("kind");
    int number = 0;
    for (const char* const list : {".t.BytesList", ".t.FloatList", ".t.Int64List"}) {
      ++number;
      const std::string name = "list" + std::to_string(number);
      add_field(feature, name.c_str(), number, FieldDescriptorProto::TYPE_MESSAGE, false, list)->set_oneof_index(0);
    }
    DescriptorProto* const features = file.add_message_type();
    features->set_name("Features");
    DescriptorProto* const entry = features->add_nested_type();
    entry->set_name("FeatureEntry");
    entry->mutable_options()->set_map_entry(true);
    add_field(entry, "key", 1, FieldDescriptorProto::TYPE_STRING, false);
    add_field(entry, "value", 2, FieldDescriptorProto::TYPE_MESSAGE, false, ".t.Feature");
    add_field(features, "feature", 1, FieldDescriptorProto::TYPE_MESSAGE, true, ".t.Features.FeatureEntry");
    DescriptorProto* const example = file.add_message_type();
    example->set_name("Example");
    add_field(example, "features", 1, FieldDescriptorProto::TYPE_MESSAGE, false, ".t.Features");
    if (pool_.BuildFile(file) == nullptr) throw std::logic_error("the description of tf.train.Example is refused");
    example_ = factory_.GetPrototype(pool_.FindMessageTypeByName("t.Example"));
  }

  [[nodiscard]] std::unique_ptr<Message> make() const { return std::unique_ptr<Message>(example_->New()); }

 private:
  google::protobuf::DescriptorPool pool_;
  google::protobuf::DynamicMessageFactory factory_{&pool_};
  const Message* example_ = nullptr;
};

const FieldDescriptor* field_of(const Message& message, int number) {
  return message.GetDescriptor()->FindFieldByNumber(number);
}

FeatureValues values_of(const Message& feature) {
  FeatureValues values;
  const auto& reflection = *feature.GetReflection();
  for (int type = 1; type <= 3; ++type) {
    if (!reflection.HasField(feature, field_of(feature, type))) continue;
    values.type = type;
    const Message& list = reflection.GetMessage(feature, field_of(feature, type));
    const FieldDescriptor* const value = field_of(list, 1);
    const auto& of_list = *list.GetReflection();
    for (int i = 0; i < of_list.FieldSize(list, value); ++i) {
      if (type == 1) values.strings.push_back(of_list.GetRepeatedString(list, value, i));
      if (type == 2) values.floats.push_back(std::bit_cast<std::uint32_t>(of_list.GetRepeatedFloat(list, value, i)));
      if (type == 3) values.integers.push_back(of_list.GetRepeatedInt64(list, value, i));
    }
  }
  return values;
}

}  // namespace

bool has_protobuf() noexcept { return true; }

std::optional<ExampleValues> read_by_protobuf(std::span<const std::byte> message) {
  static const Schema schema;
  const auto example = schema.make();
  if (!example->ParseFromArray(message.data(), static_cast<int>(message.size()))) return std::nullopt;
  ExampleValues all;
  const auto& reflection = *example->GetReflection();
  if (!reflection.HasField(*example, field_of(*example, 1))) return all;
  const Message& features = reflection.GetMessage(*example, field_of(*example, 1));
  const FieldDescriptor* const map = field_of(features, 1);
  for (int i = 0; i < features.GetReflection()->FieldSize(features, map); ++i) {
    const Message& entry = features.GetReflection()->GetRepeatedMessage(features, map, i);
    const auto& of_entry = *entry.GetReflection();
    // As in any Protocol Buffers map, the last entry with a name counts.
    all[of_entry.GetString(entry, field_of(entry, 1))] = values_of(of_entry.GetMessage(entry, field_of(entry, 2)));
  }
  return all;
}

}  // namespace forebay::fuzz
