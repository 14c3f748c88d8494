// Label placement in one dimension.

/**
 * Push labels apart: they keep their order, stand at least `gap(i)` after their predecessor, inside [low, high], and as
 * near to where they wish to be as that allows. Nothing is dropped; the caller sees to it that there is room.
 */
export function spread(wishes, gap, low, high) {
  const n = wishes.length;
  const at = wishes.slice();
  for (let round = 0; round < 60; round++) {
    let moved = false;
    for (let i = 1; i < n; i++) {
      const lack = gap(i) - (at[i] - at[i - 1]);
      if (lack > 0.01) {
        at[i] += lack / 2;
        at[i - 1] -= lack / 2;
        moved = true;
      }
    }
    if (n && at[0] < low) (at[0] = low), (moved = true);
    if (n && at[n - 1] > high) (at[n - 1] = high), (moved = true);
    if (!moved) break;
  }
  for (let i = 1; i < n; i++) at[i] = Math.max(at[i], at[i - 1] + gap(i));
  if (n && at[n - 1] > high) {
    at[n - 1] = high;
    for (let i = n - 2; i >= 0; i--) at[i] = Math.min(at[i], at[i + 1] - gap(i + 1));
  }
  return at;
}

const METER = document.createElement('canvas').getContext('2d');
const CACHE = new Map();

/** Width of a text in CSS pixels; the font as in CSS. */
export function textWidth(text, font = '11px sans-serif') {
  const key = `${font}|${text}`;
  let w = CACHE.get(key);
  if (w === undefined) {
    METER.font = font;
    w = METER.measureText(text).width;
    if (CACHE.size > 5000) CACHE.clear();
    CACHE.set(key, w);
  }
  return w;
}

/** Cut a text so that it fits, with an ellipsis. */
export function fit(text, width, font) {
  if (textWidth(text, font) <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    if (textWidth(text.slice(0, mid) + '…', font) <= width) low = mid;
    else high = mid - 1;
  }
  return low ? text.slice(0, low) + '…' : '';
}
