#include "runtime/evaluation/TextDocuments.h"

#include "runtime/base/Checksum.h"
#include "runtime/base/InputText.h"
#include "runtime/evaluation/JsonLine.h"

#include <span>
#include <utility>

namespace moert {

static bool isBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

static void dropLineBreak(std::string_view &text) {
  if (text.ends_with('\n'))
    text.remove_suffix(1);
  if (text.ends_with('\r'))
    text.remove_suffix(1);
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
