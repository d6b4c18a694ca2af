// A sequence's keys, values and recurrent states, and the session that owns them.
#pragma once

#include "runtime/engine/Engine.h"
#include "runtime/format/Artifact.h"
#include "runtime/memory/Ledger.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace moert {

/// Memory of a device, which the host cannot access. Its destructor gives it back.
class DeviceMemory {
public:
  virtual ~DeviceMemory() = default;
  std::byte *data() const { return memory; }

protected:
  explicit DeviceMemory(std::byte *allocated = nullptr) : memory(allocated) {}
  std::byte *memory;
};

/// The keys and values of a sequence, per slot a table of blocks of kKvBlockTokens tokens, and its
/// state slots, all in one region that was allocated at once. A state slot's bytes count as zeros
/// while no token has been computed.
struct SequenceMemory {
  struct Slot {
    std::vector<const std::byte *> keyBlocks, valueBlocks;
  };

  ReservedRegion memory;
  std::unique_ptr<DeviceMemory> onDevice; // Where a device computes, what `memory` would have.
  uint32_t length = 0;
  /// Tokens of the encoder's input, or of the prefix whose tokens attend to each other.
  uint32_t inputTokens = 0;
  uint32_t capacity = 0;   // Tokens that there is memory for.
  uint32_t mostTokens = 0; // At most the capacity; the rotation limits it too.
  std::vector<Slot> slots;
  std::vector<float *> states;
  /// A step failed after it may have updated some of the states, which nothing can undo.
  bool areStatesLost = false;

  /// Slots follow each other in `region`, or those of all layers use the same bytes where only one
  /// layer is in use at a time.
  static SequenceMemory create(const Artifact &artifact, ReservedRegion region,
                               uint32_t contextTokens, bool slotsShareMemory);

  /// Copies the keys and values of the first tokens and all states; both are of this artifact.
  void copyPrefix(const Artifact &artifact, const SequenceMemory &from, uint32_t tokens);
};

class SequenceSession final : public Session {
public:
  /// list: of the sessions of an engine, which this one joins and leaves at its end; null: none.
  SequenceSession(SequenceMemory sequenceMemory, std::vector<SequenceSession *> *list);
  ~SequenceSession() override;

  uint32_t length() const override { return memory.length; }
  uint32_t capacity() const override { return memory.mostTokens; }
  void reset() override;
  [[nodiscard]] bool rewind(uint32_t tokens) override;
  /// The engine that lists the session has ended.
  void forgetEngine();

  SequenceMemory memory;

private:
  std::vector<SequenceSession *> *listed;
};

} // namespace moert
