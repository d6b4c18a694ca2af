// One plan as a picture for a person: what each MoE layer's experts are wanted for and which of
// them the cache keeps, and how one token spends its time. Here are the numbers that it shows and
// the drawing; where the numbers come from is not known here (compiler/planning/PicturePlan.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moec {

struct PicturedExpert {
  double wantedShare = 0; // Of decoded tokens, 0 to 1.
  double foundShare = 0;  // Of decoded tokens that wanted it: those that found it in memory.
  bool isPinned = false;
};

/// The turn of a MoE layer in one token, in ms from the token's beginning.
struct PicturedTurn {
  double beginMs = 0;  // The layer before ends.
  double routedMs = 0; // The router has spoken.
  double endMs = 0;
  double waitMs = 0; // For reads, between the last two.
  // The token's experts:
  uint32_t held = 0;    // in memory already,
  uint32_t arrived = 0; // guessed, and read in time,
  uint32_t late = 0;    // guessed, and still being read,
  uint32_t asked = 0;   // read when the router asked for them.
  uint32_t unused = 0;  // Guesses that were let go in this turn; of this layer or another.
};

struct PicturedLayer {
  uint32_t number = 0; // The model's layer.
  std::vector<PicturedExpert> experts;
  std::string room;       // "16 of 32": what it keeps between its turns, in experts.
  double keptExperts = 0; // The same as a number; 0: not known for a layer by itself.
  double hitRate = 0;     // 0 to 1.
  std::string guesses;    // "gate 1 ahead, 2 of 8"
  PicturedTurn turn;
};

struct PicturedFigure {
  std::string value, caption;
};

struct PlanPicture {
  std::string title;
  std::vector<std::string> lines; // Under the title.
  std::vector<PicturedFigure> figures;
  std::vector<PicturedLayer> layers;
  std::string roomOfAll;
  double hitRateOfAll = 0;
  double tokenMs = 0;    // Of the token that is shown.
  std::string tokenText; // Where its time goes, in words.
};

/// A whole SVG file, 900 wide; the same bytes for the same numbers.
std::string drawPlan(const PlanPicture &picture);

} // namespace moec
