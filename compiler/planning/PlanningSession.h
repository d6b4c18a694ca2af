// How a command that plans reports to the user: its progress, and the new plans in words.
#pragma once

#include "compiler/plan/MakePlans.h"
#include "compiler/session/Session.h"

#include <span>
#include <string>

namespace moec {

/// Borrows the session's progress and flag.
PlanWatch watchOf(const Session &session);

/// The text after a new artifact's name: ":" and a line per plan with a budget, or nothing.
std::string plannedText(std::span<const moert::Plan> plans);

} // namespace moec
