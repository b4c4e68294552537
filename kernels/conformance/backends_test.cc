#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/ops.h"

namespace headway::kernels {
namespace {

TEST(BackendsTest, ScalarIsAlwaysThereAndTheFastestComesFirst) {
  const std::vector<const Ops*> supported = SupportedCpuOps();
  ASSERT_FALSE(supported.empty());
  EXPECT_STREQ(supported.back()->name, "scalar");
  EXPECT_EQ(&BestCpuOps(), supported.front());
}

TEST(BackendsTest, TablesAreFoundByName) {
  for (const Ops* ops : SupportedCpuOps()) EXPECT_EQ(*FindOps(ops->name), ops);
  EXPECT_EQ(*FindOps("reference"), &ReferenceOps());
  const absl::Status unknown = FindOps("mmx").status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.message()),
              testing::AllOf(testing::HasSubstr("mmx"), testing::HasSubstr("scalar, reference")));
}

TEST(BackendsTest, WorkspaceLimitsAreChecked) {
  const WorkspaceLimits good = {.max_rows = 4,
                                .max_positions = 64,
                                .max_width = 64,
                                .max_outputs = 64,
                                .query_heads = 2,
                                .head_dim = 16};
  for (const Ops* ops : SupportedCpuOps()) {
    EXPECT_TRUE(ops->NewWorkspace(good, 2).ok());
    WorkspaceLimits bad = good;
    bad.max_rows = 0;
    EXPECT_THAT(std::string(ops->NewWorkspace(bad, 2).status().message()),
                testing::HasSubstr("max_rows is 0"));
    bad = good;
    bad.head_dim = 1 << 20;
    EXPECT_EQ(ops->NewWorkspace(bad, 2).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ops->NewWorkspace(good, 0).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace headway::kernels
