#include "runtime/main/model_flags.h"

#include <memory>

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
    std::string kv_dtype, activations;
  };
  const auto typed = std::make_shared<Typed>();
  typed->kv_dtype = DTypeName(options->kv_dtype);
  flags.Add("--model", &options->model,
            {.value = "PATH",
             .help = absl::StrCat("checkpoint: a .gguf file or a Hugging Face folder",
                                  model_required ? "; needed" : "")});
  flags.AddChoice("--kv-dtype", &typed->kv_dtype, {"f16", "bf16", "f32"},
                  {.value = "", .help = "number format of the KV cache"});
  flags.AddChoice("--activations", &typed->activations, {"q8", "f32"},
                  {.value = "",
                   .help = "number format of the inputs of linears; part of what decides the bits",
                   .default_text = "q8 where the weights are quantised, else f32"});
  flags.Add("--threads", &options->threads, 1, kMaxThreads,
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

}  // namespace headway
