#include <capstan/nn/io/checkpoint.h>
#include <capstan/nn/io/safetensors.h>

#include <vector>

namespace capstan::nn {

void save_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  std::vector<Tensor> dense;
  std::vector<SafetensorsTensor> entries;
  for (const auto& [name, x] : checkpoint.tensors) {
    const Tensor& whole = dense.emplace_back(x.dense());
    const auto* bytes =
        static_cast<const std::byte*>(whole.view().bytes) + whole.layout().offset() * size_of(whole.dtype());
    entries.push_back({name,
                       whole.dtype(),
                       whole.shape(),
                       {bytes, static_cast<std::size_t>(whole.elements() * size_of(whole.dtype()))}});
  }
  write_safetensors(path, entries, checkpoint.metadata);
}

Checkpoint load_checkpoint(const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  Checkpoint checkpoint{{}, file.metadata()};
  for (const SafetensorsEntry& entry : file.entries()) {
    Buffer buffer(entry.shape, entry.dtype);
    file.read(entry, {static_cast<std::byte*>(buffer.view().bytes), entry.bytes()});
    checkpoint.tensors.emplace(entry.name, std::move(buffer));
  }
  return checkpoint;
}

}  // namespace capstan::nn
