// The documents of a text file. All readers of texts (calibration, the search, acceptance tests and
// `moert eval`) use this, so all have the same documents.
//
//   NAME.jsonl      one document a line: {"text": "..."}, or {"text": "...", "ids": [...]} with its
//                   tokens, which are then used instead of tokenizing it; tokens that the tokenizer
//                   adds are not among them. Other keys are ignored, blank lines are left out
//   any other file  one document, or several between lines that equal the separator. A separator
//                   line, the line break before it and its own belong to no document. In a file
//                   with a separator, the line break at its end belongs to no document either
//
// Documents of nothing but white space are skipped, unless they have ids.
#pragma once

#include "runtime/base/Status.h"

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// The default of --document-separator.
constexpr std::string_view kDocumentSeparator = "<|endoftext|>";

struct TextDocument {
  std::string text;
  std::vector<int32_t> ids; // Empty: those that tokenizing the text gives.
  uint32_t line = 0;        // Where it is in a .jsonl file, from 1.
};

/// Hashes of a document's beginning and of its end: the same document in another file, at another
/// place, with other line breaks or with more text after it shares one of them. Documents of at
/// most kDocumentIdBytes have one hash of all their text. White space counts as one space, at the
/// ends as nothing. A document of nothing but ids is known by these.
struct DocumentId {
  uint64_t begin = 0, end = 0; // XXH3-64.
  auto operator<=>(const DocumentId &) const = default;
};

/// More than what documents of one kind have in common at their beginning, such as a license.
constexpr size_t kDocumentIdBytes = 4096;

DocumentId documentIdOf(const TextDocument &document);

/// The text with one space for each run of white space, and without any at its ends.
std::string withSingleSpaces(std::string_view text);

/// A text file that was read.
struct TextFile {
  std::string name;   // As messages name it.
  uint64_t hash = 0;  // XXH3-64 of the file's bytes.
  uint64_t bytes = 0; // Size of the file.
  std::vector<TextDocument> documents;
};

/// The documents of a file, in its order. With an empty separator, a file that is not .jsonl is one
/// document. Refuses files that cannot be read or are not UTF-8, and lines of a .jsonl file that
/// are not such an object, naming file and line. Whether ids are those of the text is for who has a
/// tokenizer (WindowCutter).
Result<TextFile> readTextFile(const std::string &path, std::string_view separator);

/// Refuses a --document-separator that no line of a UTF-8 text can equal.
Status checkDocumentSeparator(std::string_view separator);

/// The documents of a .jsonl file's content. `name` is the file's, as messages have it.
Result<std::vector<TextDocument>> parseDocumentLines(std::string_view content,
                                                     std::string_view name);

/// The documents of any other file's content.
std::vector<TextDocument> splitDocuments(std::string content, std::string_view separator);

} // namespace moert
