#ifndef HEADWAY_TESTS_GOLDEN_TENSORS_H_
#define HEADWAY_TESTS_GOLDEN_TENSORS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace headway {

struct GoldenTensor {
  std::vector<int64_t> shape;  // outermost first
  std::vector<float> floats;   // of float32, float16 and bfloat16 tensors
  std::vector<int32_t> ints;   // of integer tensors; uint32 keeps its bits
};

using GoldenTensors = std::map<std::string, GoldenTensor, std::less<>>;

// Reads all tensors of the safetensors file `path`. Ends the test program, naming the file, when it
// cannot be read or holds another type.
GoldenTensors ReadGolden(const std::string& path);

}  // namespace headway

#endif  // HEADWAY_TESTS_GOLDEN_TENSORS_H_
