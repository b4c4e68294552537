#include "runtime/comm/local_communicator.h"

#include <unistd.h>

#include <cstring>
#include <new>

#include "runtime/base/check.h"
#include "runtime/comm/segment_communicator.h"

namespace headway {

std::vector<std::unique_ptr<Communicator>> NewLocalCommunicators(int size, absl::Duration timeout) {
  HEADWAY_CHECK(size >= 1 && size <= kMaxRanks);
  constexpr std::align_val_t kAlignment{alignof(SegmentHeader)};
  const size_t bytes = static_cast<size_t>(SegmentBytes(size));
  std::shared_ptr<std::byte> memory(
      static_cast<std::byte*>(::operator new(bytes, kAlignment)),
      [kAlignment](std::byte* p) { ::operator delete(p, kAlignment); });
  std::memset(memory.get(), 0, bytes);
  FormatSegment(memory.get(), size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    reinterpret_cast<SegmentHeader*>(memory.get())->ranks[rank].pid.store(getpid());
    ranks.push_back(std::make_unique<SegmentCommunicator>(memory, rank, size, timeout,
                                                          /*shared_by_processes=*/false));
  }
  return ranks;
}

}  // namespace headway
