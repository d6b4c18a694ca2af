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
  json.key("ready_rate").number(forecast.readyRate);
  json.key("bytes_read_per_token").number(forecast.bytesPerToken);
  json.key("prefetch_recall").number(forecast.prefetchRecall);
  json.key("prefetch_precision").number(forecast.prefetchPrecision);
  json.key("least_bytes_per_token").number(forecast.leastBytesPerToken);
  json.key("bound_ns").number(forecast.boundNs);
  json.key("bound_of").string(kBoundText);
  json.key("origin").string(originName(forecast.origin));
  json.endObject();
}

} // namespace moert
