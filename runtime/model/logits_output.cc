#include "runtime/model/logits_output.h"

#include <algorithm>
#include <numeric>

#include "kernels/activations.h"
#include "runtime/base/status.h"
#include "runtime/model/activation_buffer.h"

namespace headway {
namespace {

constexpr int kChunkRows = 64;  // rows whose logits cross between ranks at a time

absl::Status LocalLogits(const kernels::Ops& ops, kernels::Stream& stream,
                         const kernels::PackedLinear& lm_head, const kernels::Activations& input,
                         int rows, float* out, int64_t stride) {
  if (lm_head.outputs == 0) return absl::OkStatus();  // fewer tiles of the vocabulary than ranks
  return ops.Logits(
      {.input = input, .rows = rows, .weight = lm_head, .logits = out, .stride = stride}, stream);
}

}  // namespace

absl::Status LogitsOutput::Allocate(int vocabulary, int max_rows) {
  vocabulary_ = vocabulary;
  stride_ = kernels::ActivationStride(vocabulary);
  if (max_rows == 0) return absl::OkStatus();
  constexpr int64_t kFloat = sizeof(float);
  if (comm_.rank() == 0) {
    HEADWAY_ASSIGN_OR_RETURN(logits_, HostBuffer::Allocate(max_rows * kFloat * stride_));
  }
  if (plan_.degree == 1) return absl::OkStatus();
  gather_sizes_.resize(plan_.degree);
  for (const RankShard& shard : plan_.ranks) {
    slice_strides_.push_back(
        kernels::ActivationStride(shard.vocabulary_end - shard.vocabulary_begin));
  }
  const int64_t chunk_bytes = std::min(kChunkRows, max_rows) * kFloat;
  if (const int stride = slice_strides_[comm_.rank()]; stride > 0) {
    HEADWAY_ASSIGN_OR_RETURN(slice_, HostBuffer::Allocate(chunk_bytes * stride));
  }
  if (comm_.rank() == 0) {
    const int64_t all = std::accumulate(slice_strides_.begin(), slice_strides_.end(), int64_t{0});
    HEADWAY_ASSIGN_OR_RETURN(gathered_, HostBuffer::Allocate(chunk_bytes * all));
  }
  return absl::OkStatus();
}

absl::Status LogitsOutput::Compute(const kernels::Ops& ops, kernels::Stream& stream,
                                   const kernels::PackedLinear& lm_head,
                                   const kernels::Activations& input, int rows) {
  if (plan_.degree == 1) {
    return LocalLogits(ops, stream, lm_head, input, rows, logits_.As<float>(), stride_);
  }
  for (int row = 0; row < rows; row += kChunkRows) {
    const int chunk = std::min(kChunkRows, rows - row);
    HEADWAY_RETURN_IF_ERROR(LocalLogits(ops, stream, lm_head, RowsFrom(input, row), chunk,
                                        slice_.As<float>(), slice_strides_[comm_.rank()]));
    HEADWAY_RETURN_IF_ERROR(Gather(row, chunk));
  }
  return absl::OkStatus();
}

// Brings the ranks' slices of `rows` rows together as rows from `first_row` on.
absl::Status LogitsOutput::Gather(int first_row, int rows) {
  for (int rank = 0; rank < plan_.degree; ++rank) {
    gather_sizes_[rank] = rows * int64_t{slice_strides_[rank]} * sizeof(float);
  }
  HEADWAY_RETURN_IF_ERROR(
      comm_.Gather(0, {slice_.data(), static_cast<size_t>(gather_sizes_[comm_.rank()])},
                   gather_sizes_, gathered_.data()));
  if (comm_.rank() != 0) return absl::OkStatus();
  const float* from = gathered_.As<float>();
  for (int rank = 0; rank < plan_.degree; ++rank) {
    const RankShard& shard = plan_.ranks[rank];
    for (int row = first_row; row < first_row + rows; ++row, from += slice_strides_[rank]) {
      std::copy_n(from, shard.vocabulary_end - shard.vocabulary_begin,
                  logits_.As<float>() + int64_t{row} * stride_ + shard.vocabulary_begin);
    }
  }
  return absl::OkStatus();
}

}  // namespace headway
