// The small fields of a tokenizer table, converted to and from the structs of TokenizerModel.h. For
// TokenizerTable.cpp only; the one place that uses the generated FlatBuffers types.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/tokenizer/TokenizerModel.h"

#include "Tokenizer_generated.h"

namespace moert {

/// The large fields, already in the builder.
struct TableVocabulary {
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> bytes;
  flatbuffers::Offset<flatbuffers::Vector<uint32_t>> offsets;
  flatbuffers::Offset<flatbuffers::Vector<uint32_t>> slots;
  flatbuffers::Offset<flatbuffers::Vector<const tokenizer::Merge *>> merges;
  flatbuffers::Offset<flatbuffers::Vector<uint32_t>> mergeSlots;
  flatbuffers::Offset<flatbuffers::Vector<double>> scores; // Unigram only, as the next one.
  flatbuffers::Offset<flatbuffers::Vector<int32_t>> sortedIds;
};

flatbuffers::Offset<tokenizer::Content> storeTable(flatbuffers::FlatBufferBuilder &builder,
                                                   const TableVocabulary &vocabulary,
                                                   const TokenizerModel &model);

/// Refuses unknown flags.
Result<AddedToken> addedTokenOf(const tokenizer::Added &stored);

/// Refuses unknown enumeration values, broken UTF-8 and missing texts; ids are not checked.
Result<TokenizerPipeline> pipelineOf(const tokenizer::Content &table);

} // namespace moert
