#pragma once

// Writes containers byte for byte as other programs do.
#include <zlib.h>

#include "base/crc32c.hpp"
#include "dataset_support.hpp"
#include "test.hpp"

namespace forebay::testing {

// Recognised as a JPEG by its first bytes.
inline const std::string kJpeg = "\xFF\xD8\xFF\xE0 some picture";

template <typename Number>
std::string little_endian(Number number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

// Protocol Buffers.
inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7U) bytes += static_cast<char>(value | 0x80U);
  return bytes + static_cast<char>(value);
}
inline std::string wire_number(std::uint32_t field, std::uint64_t value) {
  return varint(std::uint64_t{field} << 3U) + varint(value);
}
inline std::string wire_bytes(std::uint32_t field, std::string_view bytes) {
  return varint((std::uint64_t{field} << 3U) | 2U) + varint(bytes.size()) + std::string(bytes);
}

// The features of a tf.train.Example.
inline std::string bytes_feature(const std::vector<std::string>& values) {
  std::string list;
  for (const auto& value : values) list += wire_bytes(1, value);
  return wire_bytes(1, list);
}
inline std::string int64_feature(const std::vector<std::int64_t>& values) {
  std::string packed;
  for (const auto value : values) packed += varint(static_cast<std::uint64_t>(value));
  return wire_bytes(3, wire_bytes(1, packed));
}
inline std::string float_feature(const std::vector<float>& values) {
  std::string packed;
  for (const auto value : values) packed += little_endian(value);
  return wire_bytes(2, wire_bytes(1, packed));
}
inline std::string example(const std::vector<std::pair<std::string, std::string>>& features) {
  std::string map;
  for (const auto& [name, feature] : features) map += wire_bytes(1, wire_bytes(1, name) + wire_bytes(2, feature));
  return wire_bytes(1, map);
}
inline std::string image_example(const std::string& image, std::int64_t label) {
  return example({{"image/encoded", bytes_feature({image})}, {"image/class/label", int64_feature({label})}});
}

inline std::string masked_sum(std::string_view bytes) { return little_endian(masked_crc32c(crc32c(bytes_of(bytes)))); }
inline std::string tf_record(const std::string& data) {
  const std::string length = little_endian(std::uint64_t{data.size()});
  return length + masked_sum(length) + data + masked_sum(data);
}

// A member of a tar archive with a V7 header, which `change` may modify. Its checksum is correct.
using TarHeader = std::array<char, 512>;
inline std::string tar_member(const std::string& name, const std::string& content, char type = '0',
                              const std::function<void(TarHeader&)>& change = {}) {
  TarHeader header{};
  name.copy(header.data(), 100);
  std::snprintf(header.data() + 100, 8, "%07o", 0644U);
  std::snprintf(header.data() + 124, 12, "%011zo", content.size());
  header[156] = type;
  if (change) change(header);
  std::memset(header.data() + 148, ' ', 8);
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(header.data() + 148, 8, "%06o", sum);
  const std::string padding((512 - content.size() % 512) % 512, '\0');
  return std::string(header.data(), header.size()) + content + padding;
}
inline std::string tar_end() { return std::string(1024, '\0'); }
// A line of a pax header.
inline std::string pax_line(const std::string& key, const std::string& value) {
  const std::string rest = " " + key + "=" + value + "\n";
  std::size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) length = std::to_string(length).size() + rest.size();
  return std::to_string(length) + rest;
}
inline std::string tar_sample(const std::string& key, const std::string& image, const std::string& label) {
  return tar_member(key + ".jpg", image) + tar_member(key + ".cls", label);
}

// A part of a RecordIO file, with its padding. Flag 0: a whole record; 1, 2, 3: the first, a middle
// and the last part.
inline std::string record_part(const std::string& data, std::uint32_t flag = 0) {
  const auto flags = (flag << 29U) | static_cast<std::uint32_t>(data.size());
  return little_endian(std::uint32_t{0xCED7230A}) + little_endian(flags) + data +
         std::string((4 - data.size() % 4) % 4, '\0');
}
// The data of an image record, with one label in its header, or with several after it.
inline std::string image_record(const std::string& image, float label, std::uint64_t id = 0) {
  return little_endian(std::uint32_t{0}) + little_endian(label) + little_endian(id) + little_endian(std::uint64_t{0}) +
         image;
}
inline std::string image_record(const std::string& image, const std::vector<float>& labels) {
  std::string header = little_endian(static_cast<std::uint32_t>(labels.size())) + std::string(20, '\0');
  for (const float label : labels) header += little_endian(label);
  return header + image;
}

// The data file of an LMDB environment after transaction 1: leaf pages of at most `most` entries,
// below one branch page if there are several; values that do not fit are on overflow pages. Keys
// must be sorted.
struct LmdbFile {
  static constexpr std::size_t kPage = 4096;
  using Entries = std::vector<std::pair<std::string, std::string>>;

  static std::string page_header(std::size_t number, std::uint16_t flags, std::uint32_t room) {
    return little_endian(std::uint64_t{number}) + little_endian(std::uint16_t{0}) + little_endian(flags) +
           little_endian(room);
  }
  // A branch or leaf page. Nodes are at its end, the first one last.
  static std::string node_page(std::size_t number, std::uint16_t flags, const std::vector<std::string>& nodes) {
    std::string places;
    std::string content;
    for (const auto& node : nodes) {
      content = node + std::string(node.size() % 2, '\0') + content;
      places += little_endian(static_cast<std::uint16_t>(kPage - content.size()));
    }
    const auto lower = static_cast<std::uint32_t>(16 + places.size());
    const auto upper = static_cast<std::uint32_t>(kPage - content.size());
    const std::string page = page_header(number, flags, lower | (upper << 16U)) + places;
    return page + std::string(kPage - page.size() - content.size(), '\0') + content;
  }
  static std::string node(std::uint32_t low, std::uint16_t flags, const std::string& key, const std::string& content) {
    return little_endian(low) + little_endian(flags) + little_endian(static_cast<std::uint16_t>(key.size())) + key +
           content;
  }
  static std::string database(std::uint64_t root, std::uint16_t flags = 0) {
    return little_endian(static_cast<std::uint32_t>(kPage)) + little_endian(flags) + std::string(34, '\0') +
           little_endian(root);
  }
  static std::string meta(std::size_t number, std::uint64_t root, std::uint64_t transaction, std::uint16_t flags = 0) {
    const std::string text = page_header(number, 8, 0) + little_endian(std::uint32_t{0xBEEFC0DE}) +
                             little_endian(std::uint32_t{1}) + std::string(16, '\0') + database(~std::uint64_t{0}) +
                             database(root, flags) + std::string(8, '\0') + little_endian(transaction);
    return text + std::string(kPage - text.size(), '\0');
  }

  // Appends the pages of a database and returns its root.
  std::uint64_t add(const Entries& entries, std::size_t most, std::uint16_t flags = 0) {
    std::vector<std::string> below;
    for (std::size_t begin = 0; begin < entries.size(); begin += most) {
      std::vector<std::string> nodes;
      for (std::size_t i = begin; i < std::min(begin + most, entries.size()); ++i) {
        const auto& [key, value] = entries[i];
        const auto length = static_cast<std::uint32_t>(value.size());
        if (value.size() <= 1000) {
          nodes.push_back(node(length, flags, key, value));
          continue;
        }
        const std::size_t first = pages.size() / kPage;
        const auto count = static_cast<std::uint32_t>((16 + value.size() + kPage - 1) / kPage);
        pages += page_header(first, 4, count) + value + std::string(count * kPage - 16 - value.size(), '\0');
        nodes.push_back(node(length, 1, key, little_endian(std::uint64_t{first})));
      }
      const std::size_t leaf = pages.size() / kPage;
      pages += node_page(leaf, 2, nodes);
      below.push_back(node(static_cast<std::uint32_t>(leaf), 0, begin == 0 ? "" : entries[begin].first, ""));
    }
    const std::size_t root = pages.size() / kPage;
    if (below.size() == 1) return root - 1;
    pages += node_page(root, 1, below);
    return root;
  }
  // Completes the environment with this database as the main one.
  std::string with_root(std::uint64_t root, std::uint16_t flags = 0) {
    return pages.replace(0, 2 * kPage, meta(0, ~std::uint64_t{0}, 0) + meta(1, root, 1, flags));
  }
  static std::string of(const Entries& entries, std::size_t most = 3) {
    LmdbFile file;
    return file.with_root(file.add(entries, most));
  }

  std::string pages = std::string(2 * kPage, '\0');
};

// caffe.Datum.
inline std::string datum(std::uint64_t channels, std::uint64_t height, std::uint64_t width, const std::string& data,
                         std::int64_t label) {
  return wire_number(1, channels) + wire_number(2, height) + wire_number(3, width) + wire_bytes(4, data) +
         wire_number(5, static_cast<std::uint64_t>(label));
}
inline std::string encoded_datum(const std::string& image, std::int64_t label) {
  return wire_bytes(4, image) + wire_number(5, static_cast<std::uint64_t>(label)) + wire_number(7, 1);
}

// Truncated, modified and compressed files.
inline void write_gzip(const std::filesystem::path& path, const std::string& content) {
  std::filesystem::create_directories(path.parent_path());
  gzFile file = ::gzopen(path.c_str(), "wb");
  CHECK(::gzwrite(file, content.data(), static_cast<unsigned>(content.size())) == static_cast<int>(content.size()));
  CHECK(::gzclose(file) == Z_OK);
}

// Indexes the file and reads every sample. Whatever the file contains, this must end in readable
// samples or in Forebay's own errors.
inline void use_file(const std::filesystem::path& path, const std::string& format) {
  try {
    const auto dataset = build_dataset(options_for(path, format));
    for (std::uint64_t id = 0; id < dataset->size(); ++id) {
      try {
        (void)read_sample(*dataset, id);
      } catch (const SampleError&) {
      }
    }
  } catch (const ConfigError&) {
  }
}

}  // namespace forebay::testing
