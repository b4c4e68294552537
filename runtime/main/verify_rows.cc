#include "runtime/main/verify_rows.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/ops.h"

namespace headway {
namespace {

constexpr int kCompanions = 8;
constexpr int kChunks[] = {1, 16, 64};
// Scalar code takes as long for so many tokens as the others for all.
constexpr int kScalarTokens = 40;

bool Has(std::span<const VerifyAxis> axes, VerifyAxis axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// One setting of an axis: how rows call it, and what it changes.
struct Setting {
  std::string name;
  std::function<void(LocalGroupOptions& options, int& companions)> apply;
  int prompt_limit = 0;  // as VerifyRow's
};

std::vector<Setting> SettingsOf(VerifyAxis axis, int max_degree) {
  std::vector<Setting> settings;
  switch (axis) {
    case VerifyAxis::kChunks:
      settings.push_back({"whole prompt at once", [](LocalGroupOptions&, int&) {}});
      for (const int chunk : kChunks) {
        settings.push_back(
            {absl::StrCat("chunks of ", chunk),
             [chunk](LocalGroupOptions& options, int&) { options.node.max_chunk = chunk; }});
      }
      break;
    case VerifyAxis::kBatch:
      settings.push_back({"alone", [](LocalGroupOptions&, int&) {}});
      settings.push_back({absl::StrCat("with ", kCompanions, " others"),
                          [](LocalGroupOptions&, int& companions) { companions = kCompanions; }});
      break;
    case VerifyAxis::kThreads:
      for (const int threads : {1, 2}) {
        settings.push_back(
            {absl::StrCat(threads, threads == 1 ? " thread" : " threads"),
             [threads](LocalGroupOptions& options, int&) { options.engine.threads = threads; }});
      }
      break;
    case VerifyAxis::kKernels:
      for (const kernels::Ops* ops : kernels::SupportedCpuOps()) {
        const bool scalar = std::string_view(ops->name) == "scalar";
        settings.push_back(
            {absl::StrCat("kernels ", ops->name, scalar ? ", start of the prompt" : ""),
             [ops](LocalGroupOptions& options, int&) { options.engine.ops = ops; },
             scalar ? kScalarTokens : 0});
      }
      break;
    case VerifyAxis::kDegrees:
      for (int degree = 1; degree <= max_degree; ++degree) {
        settings.push_back(
            {absl::StrCat("degree ", degree), [degree](LocalGroupOptions& options, int&) {
               options.degree = degree;
               options.engine.threads = 1;
             }});
      }
      break;
    case VerifyAxis::kNodes:  // of several processes
      break;
  }
  return settings;
}

}  // namespace

std::vector<std::unique_ptr<VerifyRow>> EngineRows(const Checkpoint& checkpoint,
                                                   const LocalGroupOptions& base, int max_degree,
                                                   std::span<const VerifyAxis> axes) {
  std::vector<std::unique_ptr<VerifyRow>> rows;
  for (const auto& [axis, axis_name] : kVerifyAxes) {
    if (!Has(axes, axis)) continue;
    for (const Setting& setting : SettingsOf(axis, max_degree)) {
      // Alone is what every other row is.
      if (axis == VerifyAxis::kBatch && setting.name == "alone") continue;
      LocalGroupOptions options = base;
      int companions = 0;
      setting.apply(options, companions);
      rows.push_back(NewMixedRow(absl::StrCat("cached, ", setting.name), checkpoint, options,
                                 companions, setting.prompt_limit));
    }
  }
  return rows;
}

std::vector<std::unique_ptr<VerifyRow>> EngineProduct(const Checkpoint& checkpoint,
                                                      const LocalGroupOptions& base, int max_degree,
                                                      std::span<const VerifyAxis> axes) {
  struct Row {
    std::string name = "cached";
    LocalGroupOptions options;
    int companions = 0;
    int prompt_limit = 0;
  };
  std::vector<Row> product = {{.options = base}};
  // Degrees first: their one thread a rank is what the axis of threads then changes.
  for (const VerifyAxis axis : {VerifyAxis::kDegrees, VerifyAxis::kChunks, VerifyAxis::kBatch,
                                VerifyAxis::kThreads, VerifyAxis::kKernels}) {
    if (!Has(axes, axis)) continue;
    const std::vector<Setting> settings = SettingsOf(axis, max_degree);
    if (settings.empty()) continue;
    std::vector<Row> longer;
    for (const Row& row : product) {
      for (const Setting& setting : settings) {
        Row& next = longer.emplace_back(row);
        absl::StrAppend(&next.name, ", ", setting.name);
        setting.apply(next.options, next.companions);
        next.prompt_limit = std::max(next.prompt_limit, setting.prompt_limit);
      }
    }
    product = std::move(longer);
  }
  std::vector<std::unique_ptr<VerifyRow>> rows;
  for (Row& row : product) {
    rows.push_back(NewMixedRow(std::move(row.name), checkpoint, std::move(row.options),
                               row.companions, row.prompt_limit));
  }
  return rows;
}

}  // namespace headway
