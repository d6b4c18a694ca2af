// Protects a program from standard streams that its caller has closed.
#pragma once

namespace moert {

/// Replaces closed standard streams by /dev/null, so that no file that the program opens gets the
/// number 0, 1 or 2 and receives the stream's data. /dev/null is opened in the opposite direction:
/// reading input and writing output still fail. Call before starting a thread or opening a file.
void occupyStandardStreams();

} // namespace moert
