#include "tests/fuzz/use_checkpoint.h"

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/base/check.h"
#include "runtime/tensor/dtype.h"
#include "tests/fuzz/fuzz_input.h"

namespace headway::fuzz {
namespace {

template <class T>
bool Check(const absl::StatusOr<T>& value) {
  if (!value.ok()) CheckError(value.status());
  return value.ok();
}

}  // namespace

void UseKey(const Metadata& metadata, std::string_view key) {
  Check(metadata.Int(key));
  Check(metadata.Bool(key));
  Check(metadata.String(key));
  Check(metadata.Strings(key));
  Check(metadata.Ints(key));
  if (const auto value = metadata.Double(key); Check(value)) HEADWAY_CHECK(std::isfinite(*value));
  if (const auto values = metadata.Doubles(key); Check(values)) {
    for (const double value : *values) HEADWAY_CHECK(std::isfinite(value));
  }
}

void UseTensors(const Checkpoint& checkpoint) {
  for (const std::string& name : checkpoint.TensorNames()) {
    HEADWAY_CHECK(checkpoint.Has(name));
    const absl::StatusOr<TensorRef> tensor = checkpoint.Tensor(name);
    if (!Check(tensor)) continue;
    int64_t elements = 1;
    for (const int64_t extent : tensor->shape) {
      HEADWAY_CHECK(extent >= 0);
      elements *= extent;
    }
    if (elements == 0) continue;
    const int64_t rows = elements / tensor->columns();
    for (int64_t i = 0; i < rows; ++i) {
      Touch({tensor->row(i), static_cast<size_t>(RowBytes(tensor->dtype, tensor->columns()))});
    }
  }
}

}  // namespace headway::fuzz
