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
    if (n && at[0] < low) ((at[0] = low), (moved = true));
    if (n && at[n - 1] > high) ((at[n - 1] = high), (moved = true));
    if (!moved) break;
  }
  for (let i = 1; i < n; i++) at[i] = Math.max(at[i], at[i - 1] + gap(i));
  if (n && at[n - 1] > high) {
    at[n - 1] = high;
    for (let i = n - 2; i >= 0; i--) at[i] = Math.min(at[i], at[i + 1] - gap(i + 1));
  }
  return at;
}

/** Fonts of labels: what textWidth measures is what the style sheet draws with. */
export const PLAIN = 'plain';
export const BOLD = 'bold';
export const MONO = 'mono';
export const MONO_BOLD = 'mono bold';

const METER = document.createElement('canvas').getContext('2d');
const WIDTHS = new Map();
let fonts = {};

/** Measure in the fonts of a view: a host such as JupyterLab brings its own. */
export function useFonts(root) {
  const style = getComputedStyle(root);
  const sans = style.fontFamily;
  const probe = document.createElement('i');
  probe.style.fontFamily = 'var(--kb-mono)';
  root.append(probe);
  const mono = getComputedStyle(probe).fontFamily;
  probe.remove();
  const next = {
    [PLAIN]: `11px ${sans}`,
    [BOLD]: `600 11px ${sans}`,
    [MONO]: `10.5px ${mono}`,
    [MONO_BOLD]: `600 10.5px ${mono}`,
  };
  if (JSON.stringify(next) !== JSON.stringify(fonts)) WIDTHS.clear();
  fonts = next;
}

/** Width of a text in CSS pixels, in one of the fonts above. */
export function textWidth(text, font = PLAIN) {
  const key = `${font}|${text}`;
  let w = WIDTHS.get(key);
  if (w === undefined) {
    METER.font = fonts[font] || '11px sans-serif';
    w = METER.measureText(text).width;
    if (WIDTHS.size > 5000) WIDTHS.clear();
    WIDTHS.set(key, w);
  }
  return w;
}

/** Cut a text so that it fits, with an ellipsis. */
export function fit(text, width, font) {
  if (textWidth(text, font) <= width) return text;
  let low = 0,
    high = text.length;
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    if (textWidth(text.slice(0, mid) + '…', font) <= width) low = mid;
    else high = mid - 1;
  }
  return low ? text.slice(0, low) + '…' : '';
}
