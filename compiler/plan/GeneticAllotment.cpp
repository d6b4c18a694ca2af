#include "compiler/plan/GeneticAllotment.h"

#include "runtime/base/RandomStream.h"

#include <algorithm>
#include <cassert>

using namespace moert;

namespace moec {

uint64_t pagesOf(const CacheShape::Layer &layer, uint32_t experts) {
  return std::min(layer.recordPages * experts, layer.allPages);
}

namespace {

struct Individual {
  ExpertCounts counts;
  double loss = 0;
};

/// One search. Borrows the problem.
class Evolution {
public:
  Evolution(const GeneticProblem &asked, const GeneticOptions &with)
      : problem(asked), options(with), random(with.seed) {}

  ExpertCounts run();

private:
  uint64_t pagesOfAll(const ExpertCounts &counts) const;
  bool fits(const ExpertCounts &counts) const { return pagesOfAll(counts) <= problem.quotaPages; }
  uint32_t drawLayer() {
    return random.nextBelow(static_cast<uint32_t>(problem.shape.layers.size()));
  }
  ExpertCounts drawn();
  /// One layer gets another number. What it lacks is taken from other layers.
  ExpertCounts changed(ExpertCounts counts);
  ExpertCounts crossed(const ExpertCounts &a, const ExpertCounts &b);
  void fill(ExpertCounts &counts);
  void add(ExpertCounts counts);
  void removeWorst();

  const GeneticProblem &problem;
  const GeneticOptions &options;
  RandomStream random;
  std::vector<Individual> population; // No configuration twice.
};

uint64_t Evolution::pagesOfAll(const ExpertCounts &counts) const {
  uint64_t pages = 0;
  for (size_t l = 0; l < counts.size(); ++l)
    pages += pagesOf(problem.shape.layers[l], counts[l]);
  return pages;
}

/// Gives records to random layers until none has room for another.
void Evolution::fill(ExpertCounts &counts) {
  std::vector<uint32_t> open;
  for (uint32_t l = 0; l < counts.size(); ++l)
    open.push_back(l);
  uint64_t pages = pagesOfAll(counts);
  while (!open.empty()) {
    const uint32_t place = random.nextBelow(static_cast<uint32_t>(open.size()));
    const CacheShape::Layer &layer = problem.shape.layers[open[place]];
    uint32_t &count = counts[open[place]];
    const uint64_t more = count < layer.experts ? pagesOf(layer, count + 1) - pagesOf(layer, count)
                                                : problem.quotaPages + 1;
    if (pages + more > problem.quotaPages) {
      open.erase(open.begin() + place);
      continue;
    }
    pages += more;
    ++count;
  }
}

ExpertCounts Evolution::drawn() {
  ExpertCounts counts(problem.shape.layers.size(), 1);
  fill(counts);
  return counts;
}

ExpertCounts Evolution::changed(ExpertCounts counts) {
  const uint32_t layer = drawLayer();
  counts[layer] = 1 + random.nextBelow(problem.shape.layers[layer].experts);
  for (size_t tries = 0; !fits(counts) && tries < counts.size() * 64; ++tries) {
    const uint32_t other = drawLayer();
    if (other != layer && counts[other] > 1)
      --counts[other];
  }
  if (fits(counts))
    fill(counts);
  return counts;
}

ExpertCounts Evolution::crossed(const ExpertCounts &a, const ExpertCounts &b) {
  ExpertCounts counts = a;
  const bool isAverage = random.nextBelow(2) == 0;
  for (size_t l = 0; l < counts.size(); ++l)
    counts[l] = isAverage ? (a[l] + b[l]) / 2 : random.nextBelow(2) == 0 ? a[l] : b[l];
  return counts;
}

void Evolution::add(ExpertCounts counts) {
  if (!fits(counts) ||
      std::ranges::find(population, counts, &Individual::counts) != population.end())
    return;
  const double loss = problem.lossOf(counts);
  population.push_back({std::move(counts), loss});
}

void Evolution::removeWorst() {
  std::ranges::stable_sort(population, {}, &Individual::loss);
  if (population.size() > options.population)
    population.resize(options.population);
}

ExpertCounts Evolution::run() {
  for (uint32_t i = 0; i < options.population; ++i)
    add(drawn());
  removeWorst();
  for (uint32_t generation = 0; generation < options.generations; ++generation) {
    const size_t parents = population.size();
    for (size_t i = 0; i < parents; ++i) {
      if (random.nextUnit() < options.mutationRate)
        add(changed(population[i].counts));
      if (random.nextUnit() < options.crossoverRate) {
        const uint32_t other = random.nextBelow(static_cast<uint32_t>(parents));
        add(crossed(population[i].counts, population[other].counts));
      }
    }
    removeWorst();
  }
  return population.front().counts;
}

} // namespace

ExpertCounts evolveCounts(const GeneticProblem &problem, const GeneticOptions &options) {
  assert(!problem.shape.layers.empty() && options.population > 0);
  return Evolution(problem, options).run();
}

} // namespace moec
