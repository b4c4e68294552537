#include "runtime/cluster/grpc_status.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/google/rpc/error_details.pb.h"
#include "proto/google/rpc/status.pb.h"
#include "proto/headway/v1/node.pb.h"
#include "runtime/cluster/error_details.h"

namespace headway {
namespace {

using testing::HasSubstr;

TEST(GrpcStatusTest, CodeTextAndDetailsCrossTheWire) {
  for (const absl::Status& status : {
           absl::OkStatus(),
           absl::NotFoundError("no such reservation"),
           WithCause(absl::UnavailableError("peer gone"), FailureCause::kTargetUnreachable),
           WithCause(WithRetryDelay(absl::ResourceExhaustedError("full"), 1.5),
                     FailureCause::kReservationLost),
       }) {
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  }
}

TEST(GrpcStatusTest, TheDetailsAreThoseThatOtherClientsRead) {
  const grpc::Status status = ToGrpc(WithRetryDelay(absl::ResourceExhaustedError("full"), 1.5));
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_EQ(details.code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(details.message(), "full");
  ASSERT_EQ(details.details_size(), 1);
  EXPECT_EQ(details.details(0).type_url(), "type.googleapis.com/google.rpc.RetryInfo");
  google::rpc::RetryInfo info;
  ASSERT_TRUE(details.details(0).UnpackTo(&info));
  EXPECT_EQ(info.retry_delay().seconds(), 1);
  EXPECT_EQ(info.retry_delay().nanos(), 500'000'000);
  EXPECT_EQ(ToGrpc(absl::ResourceExhaustedError("full")).error_details(), "");
}

TEST(GrpcStatusTest, DetailsThatCannotBeReadAreLeftOut) {
  const grpc::Status status(grpc::StatusCode::UNAVAILABLE, "gone", "\xff\xff");
  EXPECT_EQ(FromGrpc(status), absl::UnavailableError("gone"));
}

TEST(GrpcStatusTest, KeepsCodeAndText) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "top_p: 1.5 \xc3\xa9\n");
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  }
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
}

TEST(GrpcStatusTest, CutsLongTextsBetweenCharacters) {
  std::string text = "x";
  for (int i = 0; i < 3000; ++i) text += "\xc3\xa9";
  const std::string sent = ToGrpc(absl::InvalidArgumentError(text)).error_message();
  EXPECT_LT(sent.size(), 2020u);
  EXPECT_THAT(sent, HasSubstr("\xc3\xa9... (cut)"));
}

TEST(ErrorDetailsTest, AreReadBackAndSurviveAnnotation) {
  const absl::Status plain = absl::UnavailableError("gone");
  EXPECT_EQ(CauseOf(plain), FailureCause::kNode);
  EXPECT_EQ(RetryDelaySeconds(plain), std::nullopt);
  EXPECT_EQ(CauseOf(absl::OkStatus()), FailureCause::kNode);
  EXPECT_EQ(WithCause(plain, FailureCause::kNode), plain);
  for (FailureCause cause : {FailureCause::kTargetUnreachable, FailureCause::kReservationLost}) {
    const absl::Status status =
        AnnotateKeepingDetails(WithRetryDelay(WithCause(plain, cause), 0.25), "node 7");
    EXPECT_EQ(status.message(), "node 7: gone");
    EXPECT_EQ(CauseOf(status), cause);
    EXPECT_EQ(RetryDelaySeconds(status), 0.25);
  }
  EXPECT_TRUE(WithCause(absl::OkStatus(), FailureCause::kReservationLost).ok());
}

TEST(ErrorDetailsTest, ACauseThatOnlyANewerNodeKnowsIsTheNodesOwn) {
  v1::NodeFailure failure;
  failure.set_cause(static_cast<v1::NodeFailure::Cause>(77));
  absl::Status status = absl::UnavailableError("new");
  status.SetPayload("type.googleapis.com/headway.v1.NodeFailure",
                    absl::Cord(failure.SerializeAsString()));
  EXPECT_EQ(CauseOf(status), FailureCause::kNode);
}

}  // namespace
}  // namespace headway
