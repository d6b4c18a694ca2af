// One plan as a picture: how often each MoE layer's experts are used, which of them the cache
// keeps, and how one token spends its time. This file has the numbers and the drawing function;
// compiler/planning/PicturePlan.h computes the numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moec {

struct PicturedExpert {
  double wantedFraction = 0; // Fraction of the decoded tokens that use it, 0 to 1.
  double foundFraction = 0;  // Fraction of those that find it resident, 0 to 1.
  bool isPinned = false;
};

/// The layer pass of a MoE layer for one token, in ms from the token's beginning.
struct PicturedTurn {
  double beginMs = 0;  // End of the previous layer pass.
  double routedMs = 0; // End of the router.
  double endMs = 0;
  double waitMs = 0; // Waiting for reads, between routedMs and endMs.
  // The token's experts:
  uint32_t held = 0;    // in memory already,
  uint32_t arrived = 0; // prefetched, and read in time,
  uint32_t late = 0;    // prefetched, and still being read,
  uint32_t asked = 0;   // read on demand.
  uint32_t unused = 0;  // Prefetches dropped in this layer pass, of this or another layer.
};

struct PicturedLayer {
  uint32_t number = 0; // The model's layer number.
  std::vector<PicturedExpert> experts;
  std::string room;       // "16 of 32": the experts that it keeps between its layer passes.
  double keptExperts = 0; // The same as a number; 0: unknown for a single layer.
  double hitRate = 0;     // 0 to 1.
  std::string prefetches; // "gate 1 ahead, 2 of 8"
  PicturedTurn turn;
};

struct PicturedFigure {
  std::string value, caption;
};

struct PlanPicture {
  std::string title;
  std::vector<std::string> lines; // Below the title.
  std::vector<PicturedFigure> figures;
  std::vector<PicturedLayer> layers;
  std::string roomOfAll;
  double hitRateOfAll = 0;
  double tokenMs = 0;    // Duration of the token that is drawn.
  std::string tokenText; // A summary of how its time is spent.
};

/// A complete SVG file, 900 units wide; the same numbers give the same bytes.
std::string drawPlan(const PlanPicture &picture);

} // namespace moec
