// What a program does first about standard streams that its caller has closed.
#pragma once

namespace moert {

/// Puts /dev/null in the place of closed standard streams, so that no file which the program opens
/// gets the number 0, 1 or 2 and with it what is meant for the stream. It is opened against the
/// stream's direction: reading input and writing output still fail. Before any thread and file.
void occupyStandardStreams();

} // namespace moert
