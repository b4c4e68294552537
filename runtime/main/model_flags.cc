#include "runtime/main/model_flags.h"

#include <algorithm>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"

namespace headway {
namespace {

constexpr int kMaxThreads = 1024;

std::string ActivationsName(kernels::ActivationFormat format) {
  return format == kernels::ActivationFormat::kQ8 ? "q8" : "f32";
}

}  // namespace

void AddModelFlags(Flags& flags, bool model_required, ModelOptions* options) {
  // What is typed, until it is checked as a whole.
  struct Typed {
    std::string kv_dtype = "f16";
    std::string activations;
  };
  const auto typed = std::make_shared<Typed>();
  flags.Add("--model", &options->model,
            {.value = "PATH", .help = "checkpoint: a .gguf file or a Hugging Face folder"});
  flags.AddChoice("--kv-dtype", &typed->kv_dtype, {"f16", "bf16", "f32"},
                  {.value = "", .help = "number format of the KV cache"});
  flags.AddChoice("--activations", &typed->activations, {"q8", "f32"},
                  {.value = "",
                   .help = "number format of the inputs of linears; part of what decides the bits",
                   .default_text = "q8 where the weights are quantised, else f32"});
  flags.Add("--threads", &options->threads, 0, kMaxThreads,
            {.value = "N",
             .help = "threads of one rank",
             .default_text = "the machine's cores / ranks of a node"});
  flags.Check([=]() -> std::optional<std::string> {
    if (model_required && options->model.empty()) return "--model PATH is needed";
    options->kv_dtype = typed->kv_dtype == "f16"    ? DType::kF16
                        : typed->kv_dtype == "bf16" ? DType::kBF16
                                                    : DType::kF32;
    if (typed->activations == "q8") options->activations = kernels::ActivationFormat::kQ8;
    if (typed->activations == "f32") options->activations = kernels::ActivationFormat::kF32;
    return std::nullopt;
  });
}

std::vector<std::string> ModelFlagsOf(const ModelOptions& options) {
  std::vector<std::string> flags = {"--kv-dtype", std::string(DTypeName(options.kv_dtype))};
  if (options.activations.has_value()) {
    flags.insert(flags.end(), {"--activations", ActivationsName(*options.activations)});
  }
  if (options.threads > 0) {
    flags.insert(flags.end(), {"--threads", absl::StrCat(options.threads)});
  }
  return flags;
}

int ThreadsOrDefault(const ModelOptions& options, int ranks) {
  if (options.threads > 0) return options.threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / std::max(1, ranks));
}

}  // namespace headway
