#ifndef HEADWAY_KERNELS_REFERENCE_LINEAR_SUM_H_
#define HEADWAY_KERNELS_REFERENCE_LINEAR_SUM_H_

#include <cstddef>
#include <vector>

#include "kernels/linear.h"
#include "runtime/tensor/reduction_tree.h"

namespace headway::kernels::reference {

// The weights of one output, back in the checkpoint's own layout.
std::vector<std::byte> UnpackRow(const PackedLinear& weight, int packed_row);

// weights [inputs] times row `row` of x, over inputs [begin, end): one reduction group (linear.h).
// Of q16 activations, one plane.
float GroupSum(DType format, const std::vector<std::byte>& weights, const Activations& x, int row,
               int begin, int end, int plane = 0);

// A column-parallel linear's element: one group, then the bias of `packed_row` where there is one.
float ColumnSum(const PackedLinear& weight, const std::vector<std::byte>& weights,
                const Activations& x, int row, int packed_row);

// The value of `node`, which covers local groups only.
float NodeSum(DType format, const std::vector<std::byte>& weights, const Activations& x, int row,
              const ReductionGroups& groups, TreeNode node);

}  // namespace headway::kernels::reference

#endif  // HEADWAY_KERNELS_REFERENCE_LINEAR_SUM_H_
