// From a planned module in a file to the artifact: the bytes that the compilation which saved the
// module writes.
#pragma once

#include "compiler/session/Session.h"
#include "runtime/base/Status.h"

#include <string>

namespace moec {

struct EmitRequest {
  std::string modulePath; // Text or bytecode, planned by all passes.
  std::string outputPath;
  unsigned threads = 1;
  bool resume = false;
  bool restart = false; // Removes what an interrupted command left; not with resume.
};

/// Quantizes the experts as the module says. A method that fits to a calibration profile needs the
/// file that the module names.
moert::Status emitFromFile(const EmitRequest &request, const Session &session);

} // namespace moec
