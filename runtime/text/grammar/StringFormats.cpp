#include "runtime/base/Status.h"
#include "runtime/text/grammar/StringRules.h"

#include <map>
#include <string>

namespace moert {

static std::map<std::string, std::string, std::less<>> makePatterns() {
  // RFC 3339, from year 1 on: seconds have up to six digits after the point, and 60 is none.
  const std::string leapYear =
      "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
  const std::string date = "(?!0000)(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])"
                           "|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|" +
                           leapYear + "-02-29)";
  const std::string time = "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?"
                           "(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)";
  const std::string ofDay = "T(?:\\d{1,4}H(?:\\d{1,4}M(?:\\d{1,4}S)?)?|\\d{1,4}M(?:\\d{1,4}S)?"
                            "|\\d{1,4}S)";
  const std::string duration = "P(?:\\d{1,4}W|" + ofDay +
                               "|(?:\\d{1,3}Y(?:\\d{1,4}M(?:\\d{1,4}D)?)?"
                               "|\\d{1,4}M(?:\\d{1,4}D)?|\\d{1,4}D)(?:" +
                               ofDay + ")?)";
  const std::string label = "(?:[A-Za-z0-9]{1,12}-){0,2}[A-Za-z0-9]{1,12}";
  const std::string host = "(?:" + label + "\\.){0,4}[A-Za-z]{2,18}";
  // At most 66 characters, so that no part is longer than the standard allows.
  const std::string word = "[A-Za-z0-9_+-]+", part = "[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*";
  const std::string email =
      "(?=.{6,66}$)" + word + "(?:\\." + word + ")*@(?:" + part + "\\.)+[A-Za-z]{2,18}";
  const std::string octet = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
  const std::string ipv4 = "(?:" + octet + "\\.){3}" + octet;
  const std::string group = "[0-9a-fA-F]{1,4}";
  const std::string ipv6 = "(?:(?:" + group + ":){7}" + group + "|::(?:" + group + "(?::" + group +
                           "){0,5})?|(?:" + group + ":){1,3}(?::" + group + "){1,4})";
  const std::string inUri = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F]{2})";
  const std::string uri = "[A-Za-z][A-Za-z0-9+.-]{1,9}://(?:" + host + "|" + ipv4 +
                          ")(?::[1-9]\\d{0,3})?(?:/" + inUri + "{0,40}){0,5}(?:\\?" + inUri +
                          "{0,80})?(?:#" + inUri + "{0,20})?";
  const std::string base64 = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?";
  const std::string hex = "[0-9a-fA-F]";
  std::map<std::string, std::string, std::less<>> patterns = {
      {"date", date},
      {"time", time},
      {"date-time", date + "T" + time},
      {"duration", duration},
      {"uuid", hex + "{8}(?:-" + hex + "{4}){3}-" + hex + "{12}"},
      {"email", email},
      {"idn-email", email},
      {"hostname", host},
      {"idn-hostname", host},
      {"ipv4", ipv4},
      {"ipv6", ipv6},
      {"ipvanyaddress", "(?:" + ipv4 + "|" + ipv6 + ")"},
      {"uri", uri},
      {"uri-reference", uri},
      {"iri", uri},
      {"iri-reference", uri},
      {"base64", base64},
      {"byte", base64},
      {"json-pointer", "(?:/(?:[^/~]|~[01])*)*"},
      // Formats that tell how the text is used.
      {"binary", ""},
      {"password", ""},
      {"path", ""},
      {"file-path", ""},
      {"directory-path", ""}};
  for (const char version : std::string("1345678"))
    patterns[strCat("uuid", version)] =
        hex + "{8}-" + hex + "{4}-" + version + hex + "{3}-[89abAB]" + hex + "{3}-" + hex + "{12}";
  return patterns;
}

std::optional<std::string> patternOfFormat(std::string_view format) {
  static const auto kPatterns = makePatterns();
  const auto found = kPatterns.find(format);
  if (found == kPatterns.end())
    return {};
  return found->second.empty() ? std::string() : "^(?:" + found->second + ")$";
}

} // namespace moert
