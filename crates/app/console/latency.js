// Latencies from cumulative histograms: what lies between two of them is one interval's.

/** Counts of an interval by bound, from buckets before and now: Map of nanoseconds to count. */
export function between(before, now) {
  const counts = new Map();
  for (const [bound, count] of now ?? []) counts.set(bound, count);
  for (const [bound, count] of before ?? []) {
    const left = (counts.get(bound) ?? 0) - count;
    // Fewer than before: the server was started again, and all it has is new.
    if (left < 0) return new Map(now ?? []);
    if (left === 0) counts.delete(bound); else counts.set(bound, left);
  }
  return counts;
}

/** Several histograms as one. */
export function together(histograms) {
  const all = new Map();
  for (const histogram of histograms) {
    for (const [bound, count] of histogram) all.set(bound, (all.get(bound) ?? 0) + count);
  }
  return all;
}

export function total(histogram) {
  let sum = 0;
  for (const count of histogram.values()) sum += count;
  return sum;
}

/** The least bound that so much of it lies below, nanoseconds; null of nothing. */
export function quantile(histogram, part) {
  const wanted = Math.max(1, Math.ceil(part * total(histogram)));
  const bounds = [...histogram.keys()].sort((one, other) => one - other);
  let seen = 0;
  for (const bound of bounds) {
    seen += histogram.get(bound);
    if (seen >= wanted) return bound;
  }
  return null;
}

/** For people: three digits. */
export function span(nanos) {
  if (nanos === null || nanos === undefined || nanos === 0) return "–";
  const units = [["ns", 1], ["µs", 1e3], ["ms", 1e6], ["s", 1e9]];
  const [name, size] = units.findLast(([, size]) => nanos >= size) ?? units[0];
  return `${(nanos / size).toPrecision(3)} ${name}`;
}

export function bytes(count) {
  const names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  while (count >= 1024 && at + 1 < names.length) { count /= 1024; at += 1; }
  return `${at === 0 ? count : count.toPrecision(3)} ${names[at]}`;
}
