#ifndef HEADWAY_RUNTIME_CHECKPOINT_GGML_TYPES_H_
#define HEADWAY_RUNTIME_CHECKPOINT_GGML_TYPES_H_

#include <cstdint>
#include <optional>

#include "runtime/tensor/dtype.h"

namespace headway {

// A tensor type of GGML. Those without a DType cannot be computed with here, but their sizes are
// known, so a file that holds some can be checked, and its other tensors used.
struct GgmlType {
  uint32_t id = 0;
  const char* name = "";
  int block_elements = 1;  // along the innermost dimension
  int block_bytes = 0;
  std::optional<DType> dtype;
};

// Null for an id that this table does not know.
const GgmlType* FindGgmlType(uint32_t id);

}  // namespace headway

#endif  // HEADWAY_RUNTIME_CHECKPOINT_GGML_TYPES_H_
