// A checkpoint: named tensors and text in one safetensors file. Not for: what the names mean (the trainer decides).
#pragma once

#include <capstan/nn/state_dict.h>

#include <map>
#include <string>

namespace capstan::nn {

struct Checkpoint {
  StateDict tensors;
  /// Format version, step, options, data position …, as text.
  std::map<std::string, std::string> metadata;
};

/// Writes the file atomically: the old one stays whole until the new one is on the disk. Errors name the path.
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint);

/// Reads and checks the whole file. Errors name the path and what is wrong.
Checkpoint load_checkpoint(const std::string& path);

}  // namespace capstan::nn
