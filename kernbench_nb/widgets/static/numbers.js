// How numbers are written: thousands apart by a narrow no-break space, a real minus sign, binary prefixes for bytes.

const THIN = '\u202f';

/** 12345 -> "12 345" (rounded to a whole number). */
export function group(n) {
  const text = Math.round(Math.abs(n))
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, THIN);
  return n < 0 && text !== '0' ? '−' + text : text;
}

/** Bytes for a label: whole below 1 KiB, else one decimal while it says something. */
export function bytes(n) {
  if (n < 1024) return `${group(n)} B`;
  if (n < 1 << 20) {
    const k = n / 1024;
    return `${k < 100 && n % 1024 ? k.toFixed(1) : group(k)} KiB`;
  }
  if (n < 2 ** 30) return `${trim((n / 2 ** 20).toFixed(2))} MiB`;
  return `${trim((n / 2 ** 30).toFixed(2))} GiB`;
}

/** Picoseconds as ns, from 10 000 ns on as µs or ms. */
export function time(ps) {
  const ns = ps / 1000;
  if (ns < 10000) return `${Number.isInteger(ns) || ns >= 100 ? group(ns) : trim(ns.toFixed(1))} ns`;
  if (ns < 1e7) return `${(ns / 1e3).toFixed(2)} µs`;
  return `${(ns / 1e6).toFixed(2)} ms`;
}

/** Counts for a counter: 950, 96.6 k, 12.97 M, 1.20 G. */
export function short(n) {
  if (n < 1e3) return group(n);
  if (n < 1e6) return `${(n / 1e3).toFixed(n < 1e5 ? 1 : 0)} k`;
  if (n < 1e9) return `${(n / 1e6).toFixed(2)} M`;
  return `${(n / 1e9).toFixed(2)} G`;
}

/** A share of 1 as percent, with the digits that it needs. */
export function percent(x) {
  if (!Number.isFinite(x)) return 'not finite';
  const p = x * 100;
  return `${p === 0 ? '0' : p < 0.01 ? p.toFixed(3) : p < 1 ? p.toFixed(p < 0.1 ? 2 : 1) : p < 10 ? trim(p.toFixed(1)) : Math.round(p)} %`;
}

/** A weight between 0 and 1, in words: "0.39", "0.003", "below 0.0001". */
export function weightText(w) {
  if (w < 1e-4) return w > 0 ? 'below 0.0001' : '0';
  return w >= 0.0095 ? w.toFixed(2) : String(Number(w.toPrecision(1)));
}

/** Any number in a few letters: two decimals, or a power of ten where those would be many digits. */
export function decimal(x, digits = 2) {
  if (Number.isNaN(x)) return 'NaN';
  if (!Number.isFinite(x)) return x < 0 ? '−∞' : '∞';
  return (Math.abs(x) < 1e5 ? x.toFixed(digits) : x.toExponential(1).replace('+', '')).replace('-', '−');
}

/** "1 tile", "2 tiles". */
export const many = (n, what) => `${group(n)} ${what}${n === 1 ? '' : 's'}`;

/** Shapes stand as 3x3x64 in the trace. */
export const shape = s => s.replaceAll('x', '×');

/** The largest step of 1, 2, 5, 10, ... that cuts `span` in at most `parts`. */
export function niceStep(span, parts) {
  const rough = span / Math.max(1, parts);
  const base = 10 ** Math.floor(Math.log10(rough || 1));
  return [1, 2, 5, 10].map(k => k * base).find(s => s >= rough) || 10 * base;
}

const trim = s => s.replace(/\.?0+$/, '');
