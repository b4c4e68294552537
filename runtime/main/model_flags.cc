#include "runtime/main/model_flags.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "kernels/ops.h"

namespace headway {
namespace {

constexpr int kMaxThreads = 1024;

std::string ActivationsName(kernels::ActivationFormat format) {
  return format == kernels::ActivationFormat::kQ8 ? "q8" : "f32";
}

}  // namespace

void AddKvDTypeFlag(Flags& flags, DType* dtype, const std::string& help) {
  static constexpr DType kChoices[] = {DType::kF16, DType::kBF16, DType::kF32};
  std::vector<std::string> names;
  for (DType choice : kChoices) names.emplace_back(DTypeName(choice));
  const auto typed = std::make_shared<std::string>(DTypeName(*dtype));
  flags.AddChoice("--kv-dtype", typed.get(), names, {.value = "", .help = help});
  flags.Check([=]() -> std::optional<std::string> {
    for (DType choice : kChoices) {
      if (DTypeName(choice) == *typed) *dtype = choice;
    }
    return std::nullopt;
  });
}

void AddModelFlags(Flags& flags, bool model_required, ModelOptions* options) {
  flags.Add("--model", &options->model,
            {.value = "PATH",
             .help = absl::StrCat("checkpoint: a .gguf file or a Hugging Face folder",
                                  model_required ? "; needed" : "")});
  AddKvDTypeFlag(flags, &options->kv_dtype, "number format of the KV cache");
  const auto activations = std::make_shared<std::string>();
  flags.AddChoice("--activations", activations.get(), {"q8", "f32"},
                  {.value = "",
                   .help = "number format of the inputs of linears; part of what decides the bits",
                   .default_text = "q8 where the weights are quantised, else f32"});
  std::vector<std::string> kernels;
  for (const kernels::Ops* ops : kernels::SupportedCpuOps()) kernels.emplace_back(ops->name);
  flags.AddChoice("--kernels", &options->kernels, kernels,
                  {.value = "",
                   .help = "instructions that the kernels use; all of them give the same bits",
                   .default_text = "the fastest that this processor has"});
  flags.Add("--threads", &options->threads, 1, kMaxThreads,
            {.value = "N",
             .help = "threads of one rank",
             .default_text = "the machine's cores / ranks of a node"});
  flags.Check([=, &flags]() -> std::optional<std::string> {
    if (flags.Given("--model") && options->model.empty()) {
      return "--model: \"\" names no checkpoint; give the path of one";
    }
    if (model_required && options->model.empty()) return "--model PATH is needed";
    if (*activations == "q8") options->activations = kernels::ActivationFormat::kQ8;
    if (*activations == "f32") options->activations = kernels::ActivationFormat::kF32;
    return std::nullopt;
  });
}

std::vector<std::string> ModelFlagsOf(const ModelOptions& options) {
  std::vector<std::string> flags = {"--kv-dtype", std::string(DTypeName(options.kv_dtype))};
  if (options.activations.has_value()) {
    flags.insert(flags.end(), {"--activations", ActivationsName(*options.activations)});
  }
  if (!options.kernels.empty()) flags.insert(flags.end(), {"--kernels", options.kernels});
  if (options.threads > 0) {
    flags.insert(flags.end(), {"--threads", absl::StrCat(options.threads)});
  }
  return flags;
}

}  // namespace headway
