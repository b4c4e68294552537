#include "runtime/comm/ordered_reduce.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace headway {
namespace {

// Floats on a cache line of their own.
class FloatBuffer {
 public:
  absl::Status Allocate(int64_t count) {
    data_.reset(static_cast<float*>(
        ::operator new(static_cast<size_t>(count) * sizeof(float), kAlignment, std::nothrow)));
    if (data_ != nullptr) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        "ordered reduce: no memory for ", count * static_cast<int64_t>(sizeof(float)), " bytes"));
  }
  float* get() const { return data_.get(); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Delete {
    void operator()(float* p) const { ::operator delete(p, kAlignment); }
  };
  std::unique_ptr<float, Delete> data_;
};

std::span<const std::byte> Bytes(const float* data, int64_t count) {
  return std::as_bytes(std::span<const float>(data, static_cast<size_t>(count)));
}

class OrderedReduceImpl : public OrderedReduce {
 public:
  OrderedReduceImpl(Communicator& comm, std::span<const int> bounds, int groups,
                    int64_t max_elements, int64_t gather_elements)
      : comm_(comm),
        groups_(groups),
        max_elements_(max_elements),
        gather_elements_(gather_elements),
        first_node_of_rank_(1, 0),
        sizes_(static_cast<size_t>(comm.size())),
        recv_sizes_(static_cast<size_t>(comm.size())) {
    for (int rank = 0; rank < comm.size(); ++rank) {
      const std::vector<TreeNode> run = MaximalSubtrees(bounds[rank], bounds[rank + 1], groups);
      nodes_.insert(nodes_.end(), run.begin(), run.end());
      first_node_of_rank_.push_back(static_cast<int>(nodes_.size()));
    }
    values_.resize(nodes_.size());
  }

  absl::Status AllocateBuffers() {
    const int64_t all = static_cast<int64_t>(nodes_.size());
    const int64_t mine = nodes_of(comm_.rank());
    HEADWAY_RETURN_IF_ERROR(roots_.Allocate(
        std::max(mine * max_elements_, all * std::min(gather_elements_, max_elements_))));
    if (max_elements_ <= gather_elements_ || comm_.size() == 1) return absl::OkStatus();
    HEADWAY_RETURN_IF_ERROR(send_.Allocate(mine * max_elements_));
    HEADWAY_RETURN_IF_ERROR(recv_.Allocate(all * (max_elements_ / comm_.size() + 1)));
    return sum_.Allocate(max_elements_);
  }

  std::span<const TreeNode> local_nodes() const override {
    return std::span(nodes_).subspan(static_cast<size_t>(first_node_of_rank_[comm_.rank()]),
                                     static_cast<size_t>(nodes_of(comm_.rank())));
  }

  float* root_matrix(int i, int rows, int columns) override {
    const int64_t elements = int64_t{rows} * columns;
    // What is gathered is brought at its place among all roots.
    const int first = Gathers(elements) ? first_node_of_rank_[comm_.rank()] : 0;
    return roots_.get() + (first + i) * elements;
  }

  absl::Status Reduce(int rows, int columns, const float* bias, float* residual,
                      int residual_stride) override {
    const int64_t elements = int64_t{rows} * columns;
    if (rows < 0 || columns < 0 || elements > max_elements_) {
      return absl::InvalidArgumentError(absl::StrCat("ordered reduce: ", rows, " x ", columns,
                                                     " elements, the limit is ", max_elements_));
    }
    const float* sum = nullptr;
    HEADWAY_ASSIGN_OR_RETURN(
        sum, Gathers(elements) ? SumOfGathered(elements) : SumOfExchangedSlices(elements));
    for (int row = 0; row < rows; ++row) {
      const float* from = sum + int64_t{row} * columns;
      float* to = residual + int64_t{row} * residual_stride;
      if (bias != nullptr) {
        for (int c = 0; c < columns; ++c) to[c] += from[c] + bias[c];
      } else {
        for (int c = 0; c < columns; ++c) to[c] += from[c];
      }
    }
    return absl::OkStatus();
  }

 private:
  bool Gathers(int64_t elements) const { return elements <= gather_elements_ || comm_.size() == 1; }
  int nodes_of(int rank) const { return first_node_of_rank_[rank + 1] - first_node_of_rank_[rank]; }

  // Every rank gets all roots and adds all of them.
  absl::StatusOr<const float*> SumOfGathered(int64_t elements) {
    float* roots = roots_.get();
    for (int rank = 0; rank < comm_.size(); ++rank) {
      sizes_[rank] = nodes_of(rank) * elements * static_cast<int64_t>(sizeof(float));
    }
    if (comm_.size() > 1) {
      const std::span<const std::byte> mine = Bytes(
          roots + first_node_of_rank_[comm_.rank()] * elements, nodes_of(comm_.rank()) * elements);
      HEADWAY_RETURN_IF_ERROR(comm_.Gather(-1, mine, sizes_, reinterpret_cast<std::byte*>(roots)));
    }
    Combine(roots, elements, roots);
    return roots;
  }

  // Every rank gets one slice of all roots, adds it, and gives the sum to all.
  absl::StatusOr<const float*> SumOfExchangedSlices(int64_t elements) {
    const int size = comm_.size();
    const int me = comm_.rank();
    const auto slice_begin = [&](int rank) { return elements * rank / size; };
    const auto slice = [&](int rank) { return slice_begin(rank + 1) - slice_begin(rank); };

    float* packed = send_.get();
    for (int rank = 0; rank < size; ++rank) {
      for (int i = 0; i < nodes_of(me); ++i) {
        packed = std::copy_n(roots_.get() + i * elements + slice_begin(rank), slice(rank), packed);
      }
      sizes_[rank] = nodes_of(me) * slice(rank) * static_cast<int64_t>(sizeof(float));
      recv_sizes_[rank] = nodes_of(rank) * slice(me) * static_cast<int64_t>(sizeof(float));
    }
    HEADWAY_RETURN_IF_ERROR(comm_.AllToAll(Bytes(send_.get(), packed - send_.get()), sizes_,
                                           reinterpret_cast<std::byte*>(recv_.get()), recv_sizes_));
    float* mine = sum_.get() + slice_begin(me);
    Combine(recv_.get(), slice(me), mine);
    for (int rank = 0; rank < size; ++rank) {
      sizes_[rank] = slice(rank) * static_cast<int64_t>(sizeof(float));
    }
    HEADWAY_RETURN_IF_ERROR(
        comm_.Gather(-1, Bytes(mine, slice(me)), sizes_, reinterpret_cast<std::byte*>(sum_.get())));
    return sum_.get();
  }

  // `roots`: one run of `count` floats a node, in the order of nodes_.
  void Combine(float* roots, int64_t count, float* out) {
    for (size_t i = 0; i < values_.size(); ++i) {
      values_[i] = roots + static_cast<int64_t>(i) * count;
    }
    CombineSubtrees(nodes_, values_, groups_, static_cast<int>(count), out);
  }

  Communicator& comm_;
  const int groups_;
  const int64_t max_elements_;
  const int64_t gather_elements_;
  std::vector<TreeNode> nodes_;          // of all ranks, ascending
  std::vector<int> first_node_of_rank_;  // [size + 1] offsets in nodes_

  FloatBuffer roots_;  // own roots; what is gathered: all roots
  FloatBuffer send_;   // own roots, cut by receiver
  FloatBuffer recv_;   // this rank's slice of all roots
  FloatBuffer sum_;    // [rows, columns]
  // Arguments of calls, kept so that no call allocates.
  std::vector<float*> values_;
  std::vector<int64_t> sizes_;
  std::vector<int64_t> recv_sizes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<OrderedReduce>> OrderedReduce::Create(Communicator& comm,
                                                                     std::vector<int> bounds,
                                                                     int groups,
                                                                     int64_t max_elements,
                                                                     int64_t gather_elements) {
  if (groups < 1 || groups > kMaxReductionGroups) {
    return absl::InvalidArgumentError(absl::StrCat("ordered reduce: ", groups, " groups, 1 to ",
                                                   kMaxReductionGroups, " are possible"));
  }
  if (static_cast<int>(bounds.size()) != comm.size() + 1 || bounds.front() != 0 ||
      bounds.back() != groups || !std::is_sorted(bounds.begin(), bounds.end())) {
    return absl::InvalidArgumentError(absl::StrCat("ordered reduce: bounds must be ",
                                                   comm.size() + 1, " ascending offsets from 0 to ",
                                                   groups));
  }
  constexpr int64_t kMostElements = std::numeric_limits<int>::max();  // CombineSubtrees counts so
  if (max_elements < 1 || max_elements > kMostElements) {
    return absl::InvalidArgumentError(absl::StrCat("ordered reduce: max_elements is ", max_elements,
                                                   ", 1 to ", kMostElements, " are possible"));
  }
  auto reduce = std::make_unique<OrderedReduceImpl>(comm, bounds, groups, max_elements,
                                                    std::max<int64_t>(gather_elements, 0));
  HEADWAY_RETURN_IF_ERROR(reduce->AllocateBuffers());
  return reduce;
}

}  // namespace headway
