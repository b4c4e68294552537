#include "runtime/model/overlay_checkpoint.h"

#include <set>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/base/strings.h"

namespace headway {

void OverlayCheckpoint::SetTensor(const std::string& name, std::vector<int64_t> shape,
                                  std::vector<float> values) {
  std::vector<float>& kept = values_[name];
  kept = std::move(values);
  tensors_[name] = TensorRef{.name = name,
                             .dtype = DType::kF32,
                             .shape = std::move(shape),
                             .data = reinterpret_cast<const std::byte*>(kept.data())};
}

std::vector<std::string> OverlayCheckpoint::TensorNames() const {
  const std::vector<std::string> base = base_.TensorNames();
  std::set<std::string> names(base.begin(), base.end());
  for (const auto& [name, tensor] : tensors_) {
    if (tensor) {
      names.insert(name);
    } else {
      names.erase(name);
    }
  }
  return {names.begin(), names.end()};
}

bool OverlayCheckpoint::Has(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? base_.Has(name) : found->second.has_value();
}

absl::StatusOr<TensorRef> OverlayCheckpoint::Tensor(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return base_.Tensor(name);
  if (found->second) return *found->second;
  return absl::NotFoundError(absl::StrCat("there is no tensor ", ToAbsl(name)));
}

absl::StatusOr<std::string> OverlayCheckpoint::SideFile(std::string_view name) const {
  const auto found = files_.find(name);
  if (found == files_.end()) return base_.SideFile(name);
  return found->second;
}

const std::optional<OverlayCheckpoint::Value>* OverlayCheckpoint::OverlayMetadata::Find(
    std::string_view key) const {
  // The key itself, or the nearest object above it that was taken away.
  if (const auto found = changed.find(key); found != changed.end()) return &found->second;
  for (size_t dot = key.rfind('.'); dot != key.npos && dot > 0; dot = key.rfind('.', dot - 1)) {
    const auto found = changed.find(key.substr(0, dot));
    if (found != changed.end() && !found->second) return &found->second;
  }
  return nullptr;
}

bool OverlayCheckpoint::OverlayMetadata::Has(std::string_view key) const {
  if (const std::optional<Value>* value = Find(key)) return value->has_value();
  // An object that only the overlay has.
  const std::string prefix = std::string(key) + ".";
  const auto below = changed.lower_bound(prefix);
  if (below != changed.end() && below->first.starts_with(prefix) && below->second) return true;
  return base_.Has(key);
}

template <class T>
absl::StatusOr<T> OverlayCheckpoint::OverlayMetadata::Get(
    std::string_view key, absl::StatusOr<T> (Metadata::*get)(std::string_view) const) const {
  const std::optional<Value>* value = Find(key);
  if (value == nullptr) return (base_.*get)(key);
  if (!*value) return absl::NotFoundError(absl::StrCat("there is no key ", ToAbsl(key)));
  if (const T* found = std::get_if<T>(&**value)) return *found;
  return absl::InvalidArgumentError(absl::StrCat("key ", ToAbsl(key), " is of another type"));
}

absl::StatusOr<int64_t> OverlayCheckpoint::OverlayMetadata::Int(std::string_view key) const {
  return Get<int64_t>(key, &Metadata::Int);
}
absl::StatusOr<double> OverlayCheckpoint::OverlayMetadata::Double(std::string_view key) const {
  return Get<double>(key, &Metadata::Double);
}
absl::StatusOr<bool> OverlayCheckpoint::OverlayMetadata::Bool(std::string_view key) const {
  return Get<bool>(key, &Metadata::Bool);
}
absl::StatusOr<std::string> OverlayCheckpoint::OverlayMetadata::String(std::string_view key) const {
  return Get<std::string>(key, &Metadata::String);
}
absl::StatusOr<std::vector<std::string>> OverlayCheckpoint::OverlayMetadata::Strings(
    std::string_view key) const {
  return Get<std::vector<std::string>>(key, &Metadata::Strings);
}
absl::StatusOr<std::vector<int64_t>> OverlayCheckpoint::OverlayMetadata::Ints(
    std::string_view key) const {
  return Get<std::vector<int64_t>>(key, &Metadata::Ints);
}
absl::StatusOr<std::vector<double>> OverlayCheckpoint::OverlayMetadata::Doubles(
    std::string_view key) const {
  if (Find(key) == nullptr) return base_.Doubles(key);
  return absl::InvalidArgumentError(absl::StrCat("key ", ToAbsl(key), " is of another type"));
}

}  // namespace headway
