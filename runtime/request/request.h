#ifndef HEADWAY_RUNTIME_REQUEST_REQUEST_H_
#define HEADWAY_RUNTIME_REQUEST_REQUEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/request/sampling_params.h"

namespace headway {

// What a client asks for, past templates and tokenisation. Plain data; validate.h checks it.

// Continue a prompt. Stop strings are the router's affair: nodes know tokens only.
struct GenerateRequest {
  std::string id;               // names it in logs and on nodes; no influence on the answer
  std::vector<int32_t> prompt;  // token ids
  SamplingParams sampling;
  std::vector<std::string> stop;  // ends the output where one of these appears in the text
  bool include_stop_string = false;
  bool include_control_tokens = false;
  bool trace = false;  // digests of every computed position come with the tokens
};

// The log-probability of each token of a text, given those before it.
struct ScoreRequest {
  std::string id;
  std::vector<int32_t> tokens;
  int32_t top = 0;  // also this many most likely tokens a position
  bool trace = false;
};

}  // namespace headway

#endif  // HEADWAY_RUNTIME_REQUEST_REQUEST_H_
