#ifndef HEADWAY_RUNTIME_MAIN_MODEL_OPTIONS_H_
#define HEADWAY_RUNTIME_MAIN_MODEL_OPTIONS_H_

#include <optional>
#include <string>

#include "kernels/activations.h"
#include "runtime/tensor/dtype.h"

namespace headway {

// The flags that choose a checkpoint and how it is computed; shared by every verb that loads one.
struct ModelOptions {
  std::string model;             // a .gguf file or a Hugging Face folder
  DType kv_dtype = DType::kF16;  // kF16, kBF16 or kF32
  // Nothing: q8 where the checkpoint's linears are quantised, else f32.
  std::optional<kernels::ActivationFormat> activations;
  // A name of kernels::FindOps; empty: the fastest that the processor has. Decides no bits.
  std::string kernels;
  int threads = 0;  // of one rank; 0: the machine's cores / ranks of a node, at least 1
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MAIN_MODEL_OPTIONS_H_
