#ifndef HEADWAY_RUNTIME_MODEL_OVERLAY_CHECKPOINT_H_
#define HEADWAY_RUNTIME_MODEL_OVERLAY_CHECKPOINT_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/checkpoint/checkpoint.h"

namespace headway {

// For tests: a checkpoint with some of its keys and tensors changed or taken away. The base must
// outlive it.
class OverlayCheckpoint : public Checkpoint {
 public:
  using Value = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>,
                             std::vector<std::string>>;

  explicit OverlayCheckpoint(const Checkpoint& base) : base_(base), metadata_(base.metadata()) {}

  void Set(const std::string& key, Value value) { metadata_.changed[key] = std::move(value); }
  // Also all keys beneath it.
  void Remove(const std::string& key) { metadata_.changed[key] = std::nullopt; }

  // The bytes of `tensor` stay the caller's.
  void SetTensor(TensorRef tensor) { tensors_[tensor.name] = std::move(tensor); }
  // Copies the values.
  void SetTensor(const std::string& name, std::vector<int64_t> shape, std::vector<float> values);
  void RemoveTensor(const std::string& name) { tensors_[name] = std::nullopt; }
  void SetSideFile(const std::string& name, std::string text) { files_[name] = std::move(text); }

  Kind kind() const override { return base_.kind(); }
  const Metadata& metadata() const override { return metadata_; }
  std::vector<std::string> TensorNames() const override;
  bool Has(std::string_view name) const override;
  absl::StatusOr<TensorRef> Tensor(std::string_view name) const override;
  absl::StatusOr<std::string> SideFile(std::string_view name) const override;
  uint64_t digest() const override { return base_.digest(); }
  int64_t file_bytes() const override { return base_.file_bytes(); }

 private:
  class OverlayMetadata : public Metadata {
   public:
    explicit OverlayMetadata(const Metadata& base) : base_(base) {}
    bool Has(std::string_view key) const override;
    absl::StatusOr<int64_t> Int(std::string_view key) const override;
    absl::StatusOr<double> Double(std::string_view key) const override;
    absl::StatusOr<bool> Bool(std::string_view key) const override;
    absl::StatusOr<std::string> String(std::string_view key) const override;
    absl::StatusOr<std::vector<std::string>> Strings(std::string_view key) const override;
    absl::StatusOr<std::vector<int64_t>> Ints(std::string_view key) const override;
    absl::StatusOr<std::vector<double>> Doubles(std::string_view key) const override;

    std::map<std::string, std::optional<Value>, std::less<>> changed;

   private:
    template <class T>
    absl::StatusOr<T> Get(std::string_view key,
                          absl::StatusOr<T> (Metadata::*get)(std::string_view) const) const;
    const std::optional<Value>* Find(std::string_view key) const;
    const Metadata& base_;
  };

  const Checkpoint& base_;
  OverlayMetadata metadata_;
  std::map<std::string, std::optional<TensorRef>, std::less<>> tensors_;
  std::map<std::string, std::vector<float>> values_;
  std::map<std::string, std::string, std::less<>> files_;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_MODEL_OVERLAY_CHECKPOINT_H_
