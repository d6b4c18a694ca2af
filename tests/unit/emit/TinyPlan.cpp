#include "tests/unit/emit/TinyPlan.h"

#include "runtime/base/Status.h"
#include "tests/unit/format/TinyArtifact.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

using moert::strCat;

static moec::WeightSource sourceOf(std::string name, const moert::MatrixShape &shape) {
  moec::WeightSource source;
  source.tensor = std::move(name);
  source.rows = shape.rows;
  source.cols = shape.cols;
  return source;
}

moec::EmitPlan tinyPlan() {
  moec::EmitPlan plan;
  plan.artifact = tinyArtifact();
  for (const moert::ResidentWeight &weight : plan.artifact.residents)
    plan.residentSources.push_back(sourceOf(weight.name, weight.shape));
  for (moert::MoeLayer &layer : plan.artifact.moeLayers) {
    plan.scalesInputs.push_back(false);
    auto &experts = plan.expertSources.emplace_back();
    for (size_t e = 0; e < layer.experts.size(); ++e) {
      auto &matrices = experts.emplace_back();
      for (const moert::ExpertMatrix &matrix : layer.matrices) {
        const char *names[] = {"gate", "up", "down"};
        matrices.push_back(
            sourceOf(strCat("layer", layer.layer, ".expert", e, ".", names[size_t(matrix.part)]),
                     matrix.shape));
      }
    }
  }
  for (moert::Plan &budget : plan.artifact.plans)
    budget.quotaPages.assign(plan.artifact.moeLayers.size(), 1);
  return plan;
}

static std::vector<moec::WeightSource> allSources(const moec::EmitPlan &plan) {
  std::vector<moec::WeightSource> sources = plan.residentSources;
  for (const auto &layer : plan.expertSources)
    for (const auto &expert : layer)
      sources.insert(sources.end(), expert.begin(), expert.end());
  return sources;
}

Tensors randomTensors(const moec::EmitPlan &plan, uint32_t seed) {
  std::mt19937 random(seed);
  Tensors tensors;
  for (const moec::WeightSource &source : allSources(plan)) {
    std::vector<float> &values = tensors[source.tensor];
    values.resize(size_t(source.rows) * source.cols);
    for (float &value : values)
      value = float(random() % 2001) / 1000 - 1;
  }
  return tensors;
}

void writeCheckpoint(const std::string &directory, const moec::EmitPlan &plan,
                     const Tensors &tensors) {
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/config.json") << "{}";
  std::string header = "{", data;
  for (const moec::WeightSource &source : allSources(plan)) {
    const std::vector<float> &values = tensors.at(source.tensor);
    size_t begin = data.size();
    data.append(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float));
    header += strCat(header.size() > 1 ? "," : "", "\"", source.tensor,
                     "\":{\"dtype\":\"F32\",\"shape\":[", source.rows, ",", source.cols,
                     "],\"data_offsets\":[", begin, ",", data.size(), "]}");
  }
  header += "}";
  uint64_t length = header.size();
  std::ofstream file(directory + "/model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char *>(&length), sizeof(length));
  file << header << data;
}

std::string contentOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}
