#include "runtime/evaluation/TextDocuments.h"

#include "runtime/base/Checksum.h"
#include "runtime/base/InputText.h"
#include "runtime/evaluation/JsonLine.h"

#include <algorithm>
#include <span>
#include <utility>

namespace moert {

static constexpr std::string_view kWhiteSpace = " \t\r\n";

static bool isBlank(std::string_view text) {
  return text.find_first_not_of(kWhiteSpace) == std::string_view::npos;
}

static void dropLineBreak(std::string_view &text) {
  if (text.ends_with('\n'))
    text.remove_suffix(1);
  if (text.ends_with('\r'))
    text.remove_suffix(1);
}

std::string withSingleSpaces(std::string_view text) {
  std::string spaced;
  spaced.reserve(text.size());
  while (!isBlank(text)) {
    text.remove_prefix(text.find_first_not_of(kWhiteSpace));
    const std::string_view word = text.substr(0, text.find_first_of(kWhiteSpace));
    if (!spaced.empty())
      spaced += ' ';
    spaced += word;
    text.remove_prefix(word.size());
  }
  return spaced;
}

DocumentId documentIdOf(const TextDocument &document) {
  if (isBlank(document.text)) {
    const uint64_t hash = checksum64(std::as_bytes(std::span(document.ids)));
    return {hash, hash};
  }
  const std::string text = withSingleSpaces(document.text);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  const size_t part = std::min(bytes.size(), kDocumentIdBytes);
  return {checksum64(bytes.first(part)), checksum64(bytes.last(part))};
}

Result<std::vector<TextDocument>> parseDocumentLines(std::string_view content,
                                                     std::string_view name) {
  std::vector<TextDocument> documents;
  MOERT_RETURN_IF_ERROR(
      forEachJsonLine(content, name, [&](JsonLine &line, uint32_t number) -> Status {
        TextDocument document = {.text = {}, .ids = {}, .line = number};
        MOERT_ASSIGN_OR_RETURN(document.text,
                               line.text("text", "one document a line as {\"text\": \"...\"}"));
        if (line.has("ids")) {
          MOERT_ASSIGN_OR_RETURN(document.ids,
                                 line.ids("ids", "one or more token ids of the text"));
        }
        if (!document.ids.empty() || !isBlank(document.text))
          documents.push_back(std::move(document));
        return {};
      }));
  return documents;
}

std::vector<TextDocument> splitDocuments(std::string content, std::string_view separator) {
  std::vector<TextDocument> documents;
  const std::string_view all = content;
  size_t begin = 0; // Start of the document.
  auto add = [&](size_t end) {
    std::string_view document = all.substr(begin, end - begin);
    dropLineBreak(document);
    if (!isBlank(document))
      documents.push_back({.text = std::string(document), .ids = {}});
  };
  for (size_t line = 0; !separator.empty() && line < all.size();) {
    const size_t end = std::min(all.find('\n', line), all.size());
    std::string_view text = all.substr(line, end - line);
    dropLineBreak(text);
    const size_t next = std::min(end + 1, all.size());
    if (text == separator) {
      add(line);
      begin = next;
    }
    line = next;
  }
  if (begin > 0)
    add(all.size());
  else if (!isBlank(all))
    documents.push_back(
        {.text = std::move(content), .ids = {}}); // One document, as it is in the file.
  return documents;
}

Result<TextFile> readTextFile(const std::string &path, std::string_view separator) {
  TextFile file;
  file.name = inputName(path);
  MOERT_ASSIGN_OR_RETURN(std::string content, readInput(path));
  MOERT_RETURN_IF_ERROR(checkUtf8(content, file.name));
  file.hash = checksum64(std::as_bytes(std::span(content)));
  file.bytes = content.size();
  if (path.ends_with(".jsonl")) {
    MOERT_ASSIGN_OR_RETURN(file.documents, parseDocumentLines(content, file.name));
  } else {
    file.documents = splitDocuments(std::move(content), separator);
  }
  return file;
}

Status checkDocumentSeparator(std::string_view separator) {
  MOERT_RETURN_IF_ERROR(checkUtf8(separator, "--document-separator"));
  if (separator.find_first_of("\r\n") != std::string_view::npos)
    return invalidInput("--document-separator has a line break, expected one line, such as ",
                        kDocumentSeparator);
  return {};
}

} // namespace moert
