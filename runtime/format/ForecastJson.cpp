#include "runtime/format/ForecastJson.h"

namespace moert {

void writeForecast(JsonWriter &json, const Forecast &forecast) {
  json.key("forecast").beginObject();
  json.key("device").string(forecast.device);
  json.key("threads").number(forecast.threads);
  json.key("tokens").number(forecast.tokens);
  json.key("trace_tokens").number(forecast.traceTokens);
  json.key("token_ns").number(forecast.tokenNs);
  json.key("median_ns").number(forecast.medianNs);
  json.key("slow_ns").number(forecast.slowNs);
  json.key("hit_rate").number(forecast.hitRate);
  json.key("present_rate").number(forecast.presentRate);
  json.key("bytes_read_per_token").number(forecast.bytesPerToken);
  json.key("guess_recall").number(forecast.guessRecall);
  json.key("guess_precision").number(forecast.guessPrecision);
  json.key("least_bytes_per_token").number(forecast.leastBytesPerToken);
  json.key("bound_ns").number(forecast.boundNs);
  json.key("bound_of").string(kBoundText);
  json.key("origin").string(originName(forecast.origin));
  json.endObject();
}

} // namespace moert
