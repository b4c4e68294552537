#include "runtime/server/server.h"

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/dynamic_message.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "proto/headway/v1/node.grpc.pb.h"
#include "runtime/cluster/channel.h"
#include "runtime/server/health_watch.h"

namespace headway {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using testing::HasSubstr;

// Answers GetLoad once it is let go.
class SlowNode final : public v1::Node::Service {
 public:
  grpc::Status GetLoad(grpc::ServerContext*, const v1::NodeLoadRequest*, v1::NodeLoad*) override {
    entered.set_value();
    go.get_future().wait();
    return grpc::Status::OK;
  }
  std::promise<void> entered, go;
};

class ServerTest : public testing::Test {
 protected:
  std::unique_ptr<Server> StartServer() {
    auto server =
        Server::Start("127.0.0.1:0", {{.service = &node_, .name = v1::Node::service_full_name()}});
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }

  static std::string Check(const std::shared_ptr<grpc::Channel>& channel,
                           const std::string& service) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(service);
    HealthCheckResponse response;
    const grpc::Status status = Health::NewStub(channel)->Check(&context, request, &response);
    return status.ok() ? HealthCheckResponse::ServingStatus_Name(response.status())
                       : status.error_message();
  }

  SlowNode node_;
};

TEST_F(ServerTest, ChoosesAPortAndTellsIt) {
  const auto server = StartServer();
  EXPECT_GT(server->port(), 0);
  EXPECT_EQ(server->address(), "127.0.0.1:" + std::to_string(server->port()));
}

TEST_F(ServerTest, EveryAddressIsReachedThroughLoopback) {
  const auto server = Server::Start("0.0.0.0:0", {});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ((*server)->address(), "127.0.0.1:" + std::to_string((*server)->port()));
}

TEST_F(ServerTest, ATakenPortIsAnError) {
  const auto server = StartServer();
  const auto second = Server::Start(server->address(), {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(server->address()));
}

TEST_F(ServerTest, AddressesThatCannotBeReadAreErrors) {
  for (const char* address : {"", "127.0.0.1", ":50051", "127.0.0.1:"}) {
    const auto server = Server::Start(address, {});
    EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(std::string(server.status().message()),
                HasSubstr(std::string("listen: '") + address + "'"));
  }
  EXPECT_FALSE(Server::Start("127.0.0.1:notaport", {}).ok());
  EXPECT_FALSE(Server::Start("no.such.host.invalid:0", {}).ok());
}

TEST_F(ServerTest, HealthFollowsSetServing) {
  const auto server = StartServer();
  const auto channel = OpenChannel(server->address());
  const std::string name = v1::Node::service_full_name();
  EXPECT_EQ(Check(channel, name), "NOT_SERVING");
  EXPECT_EQ(Check(channel, ""), "NOT_SERVING");
  server->SetServing(true);
  EXPECT_EQ(Check(channel, name), "SERVING");
  EXPECT_EQ(Check(channel, ""), "SERVING");
  server->SetServing(false);
  EXPECT_EQ(Check(channel, name), "NOT_SERVING");
  EXPECT_NE(Check(channel, "headway.v1.Nobody"), "NOT_SERVING");
}

TEST_F(ServerTest, HealthIsWatched) {
  const auto server = StartServer();
  const auto stub = Health::NewStub(OpenChannel(server->address()));
  grpc::ClientContext context;
  const auto reader = stub->Watch(&context, {});
  HealthCheckResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  server->SetServing(true);
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  context.TryCancel();
  reader->Finish();
}

TEST_F(ServerTest, HealthFollowsWhatIsServed) {
  const auto server = StartServer();
  const auto stub = Health::NewStub(OpenChannel(server->address()));
  std::atomic<bool> stuck = false;
  grpc::ClientContext context;
  HealthCheckResponse response;
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> reader;
  {
    const HealthWatch watch(
        [&] { return stuck ? absl::UnavailableError("stuck") : absl::OkStatus(); }, *server, 0.01);
    reader = stub->Watch(&context, {});
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
    stuck = true;
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
    stuck = false;
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  }
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  context.TryCancel();
  reader->Finish();
}

TEST_F(ServerTest, ShutdownLetsRunningCallsEnd) {
  const auto server = StartServer();
  server->SetServing(true);
  const auto channel = OpenChannel(server->address());
  const auto stub = v1::Node::NewStub(channel);
  grpc::Status status = grpc::Status::CANCELLED;
  std::thread client([&] {
    grpc::ClientContext context;
    v1::NodeLoad load;
    status = stub->GetLoad(&context, {}, &load);
  });
  node_.entered.get_future().wait();
  std::thread stopper([&] { server->Shutdown(60); });
  // New calls are refused while the old one runs.
  while (true) {
    grpc::ClientContext context;
    v1::NodeInfo info;
    if (stub->GetInfo(&context, {}, &info).error_code() == grpc::StatusCode::UNAVAILABLE) break;
  }
  node_.go.set_value();
  client.join();
  stopper.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  server->Shutdown(60);
}

// The library that answers reflection holds its messages: they are taken from there, since a second
// copy of the .proto could not be linked beside them.
TEST_F(ServerTest, ReflectionListsTheServices) {
  const auto server = StartServer();
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  const auto* request_type =
      pool->FindMessageTypeByName("grpc.reflection.v1alpha.ServerReflectionRequest");
  const auto* response_type =
      pool->FindMessageTypeByName("grpc.reflection.v1alpha.ServerReflectionResponse");
  ASSERT_NE(request_type, nullptr);
  auto* factory = google::protobuf::MessageFactory::generated_factory();
  const std::unique_ptr<google::protobuf::Message> request(
      factory->GetPrototype(request_type)->New());
  const std::unique_ptr<google::protobuf::Message> response(
      factory->GetPrototype(response_type)->New());
  request->GetReflection()->SetString(request.get(), request_type->FindFieldByName("list_services"),
                                      "*");

  grpc::GenericStub stub(OpenChannel(server->address()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  const auto wait = [&] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  call->StartCall(nullptr);
  ASSERT_TRUE(wait());
  const grpc::Slice slice(request->SerializeAsString());
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  ASSERT_TRUE(wait());
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  ASSERT_TRUE(wait());
  grpc::Slice bytes;
  ASSERT_TRUE(answer.DumpToSingleSlice(&bytes).ok());
  ASSERT_TRUE(response->ParseFromArray(bytes.begin(), static_cast<int>(bytes.size())));
  EXPECT_THAT(response->ShortDebugString(), HasSubstr("headway.v1.Node"));
  EXPECT_THAT(response->ShortDebugString(), HasSubstr("grpc.health.v1.Health"));
  call->WritesDone(nullptr);
  ASSERT_TRUE(wait());
  grpc::Status status;
  call->Finish(&status, nullptr);
  ASSERT_TRUE(wait());
  EXPECT_TRUE(status.ok());
}

}  // namespace
}  // namespace headway
