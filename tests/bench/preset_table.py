"""The table of tests/bench/presets, from the output of `moert bench --json` in each round: medians, and for ratios between runs of one
round also the smallest and the largest."""
from statistics import median


def head(presets):
    cells = ["budget", "preset", "tokens/s", f"{presets[-1]} / this", "ms per token: p50 / p95 / p99", "hits", "hits at full / low precision",
             "chosen experts: full / lowered / left out", "hits forecast", "ready", "stalled", "MB/token",
             "least MB/token", "KL, nats", "loss, bound", "prefetches: recall / precision", "forecast / measured", "the same at the bytes read", "bound / measured"]
    return f"| {' | '.join(cells)} |\n" + "|---" * len(cells) + "|"


def percent(fraction):
    return f"{100 * fraction:.1f}%"


def speed_of(said):
    return said["decode_tokens_per_s"]["median"]


def spread(values, form):
    """Median, smallest, largest; of one value itself."""
    told = form(median(values))
    return told if len(values) == 1 else f"{told} ({form(min(values))}..{form(max(values))})"


def forecast_ratios(said, key):
    """Ratios of forecast to measured time, run by run; empty without forecasts."""
    return [one["forecast"][key] * speed_of(one) / 1e9 for one in said if key in (one.get("forecast") or {})]


def ratio_at_bytes(one):
    """The same with the bytes that the run read."""
    forecast = one["forecast"]
    reads = one["bytes_read_per_token"] / max(1, forecast["bytes_read_per_token"])
    return (one["computing_ns"] + (forecast["token_ns"] - one["computing_ns"]) * reads) * speed_of(one) / 1e9


def losses(said):
    """KL, and the loss with its bound: of one planning, as each round's are nearly the same."""
    loss = said[-1]["loss"]
    return [f"{loss['kl_nats']:.4f}", f"{100 * loss['loss']:.2f}%, {100 * loss['upper_bound']:.2f}%"] if loss else ["-", "-"]


def precision(said, key):
    """The hits of the runs in which experts were demanded at that precision."""
    known = [one[key] for one in said if one[key] is not None]
    return percent(median(known)) if known else "-"


def precisions(said):
    """At which precision the experts that routers chose were computed, where a miss rule changed any."""
    if not any(one["lowered_per_token"] + one["skipped_per_token"] for one in said):
        return "-"
    chosen = lambda one: one["demanded_per_token"] + one["skipped_per_token"]
    of = lambda count: percent(median(count(one) / chosen(one) for one in said))
    return " / ".join([of(lambda one: one["demanded_per_token"] - one["lowered_per_token"]), of(lambda one: one["lowered_per_token"]),
                       of(lambda one: one["skipped_per_token"])])


def rows(budget, runs):
    """A line per preset from its runs."""
    last = list(runs)[-1]
    number = "{:.2f}".format
    for preset, said in runs.items():
        middle = lambda key: median(map(key, said))
        forecast = lambda key, form: form(middle(lambda one: one["forecast"][key])) if told else "-"
        told = forecast_ratios(said, "token_ns")
        prefetching = [one for one in said if one["useful_per_token"] + one["cancelled_per_token"]]  # Not each round's plan may.
        prefetches = lambda key: percent(median(one[key] for one in prefetching))
        cells = [
            budget, preset, number(middle(speed_of)),
            spread([speed_of(one) / speed_of(other) for one, other in zip(runs[last], said)], number) if preset != last else "",
            " / ".join(number(middle(lambda one: one["token_ns"][key]) / 1e6) for key in ("p50", "p95", "p99")),
            percent(middle(lambda one: one["hit_rate"])),
            " / ".join(precision(said, key) for key in ("full_hit_rate", "low_hit_rate")), precisions(said), forecast("hit_rate", percent),
            percent(middle(lambda one: one["ready_rate"])), percent(middle(lambda one: one["stall_rate"])),
            number(middle(lambda one: one["bytes_read_per_token"]) / 1e6),
            forecast("least_bytes_per_token", lambda value: number(value / 1e6)),
            *losses(said),
            f"{prefetches('prefetch_recall')} / {prefetches('prefetch_precision')}" if prefetching else "-",
            spread(told, number) if told else "-",
            spread([ratio_at_bytes(one) for one in said], number) if told else "-",
            number(median(forecast_ratios(said, "bound_ns"))) if told else "-"]
        yield f"| {' | '.join(cells)} |"


def closeness(runs):
    """How exact forecasts are, and how well the machine repeats two runs of the same work."""
    near = lambda ratios: f"{sum(abs(ratio - 1) <= 0.1 for ratio in ratios)} of {len(ratios)}"
    every = [said for presets in runs.values() for said in presets.values()]
    told = [forecast_ratios(said, "token_ns") for said in every]
    again = [speed_of(before) / speed_of(after) for said in every for before, after in zip(said, said[1:])]
    return (f"Within 10%: of forecasts' medians {near([median(ratios) for ratios in told if ratios])}, of forecasts run by run "
            f"{near([ratio for ratios in told for ratio in ratios])}; of runs and the same one a round before {near(again)}")
