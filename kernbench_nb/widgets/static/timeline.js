// The arena over time: a rectangle for each block, from the row that made it to the row that gave it back, over its
// addresses. Painted once; a step only moves what lies above it.

import { css, mix } from './colour.js';
import { lastAtMost } from './run.js';

/**
 * Paint the blocks of a PE within the axis' rows. `y(address)` gives pixels, `patterns` are canvas textures.
 *
 * `exact` draws slivers as thin as they are: they blend where thousands share a pixel. Otherwise a block is always seen.
 *
 * Where many rows share a pixel column, the column shows its fullest moment: a block narrower than a pixel is drawn
 * only if it lived then.
 */
export function paintTimeline(g, { run, p, axis, y, palette, patterns, exact = false }) {
  const thin = exact ? 0 : 0.7;
  const { allocs, scopes, engines } = run;
  const scoped = run.head.scoped;
  const [first, stop] = run.span(p);
  const fullest = fullestRows(run, axis);
  const edge = engines.map(e => css(palette.line[e] || palette.line.math));
  const flat = engines.map(e => css(palette.fill[e] || palette.fill.math));
  const dense = engines.map(e =>
    css(mix(palette.fill[e] || palette.fill.math, palette.line[e] || palette.line.math, 0.55)),
  );
  const keep = css(palette.keep);

  const draw = k => {
    const born = Math.max(allocs.born[k], axis.from);
    const dead = Math.min(allocs.dead[k], axis.to);
    if (dead <= axis.from || born >= axis.to || !allocs.size[k]) return;
    const x = axis.x(born);
    const w = axis.x(dead) - x;
    if (w < 1 && fullest) {
      const row = fullest[Math.floor(x - axis.x0)];
      if (row < allocs.born[k] || row >= allocs.dead[k]) return;
    }
    const top = y(allocs.addr[k] + allocs.size[k]);
    const height = y(allocs.addr[k]) - top;
    if (scoped && run.persistent(k)) {
      g.fillStyle = keep;
      g.fillRect(x, top, Math.max(w, 1), Math.max(thin, height - 0.6));
      return;
    }
    const e = allocs.engine[k];
    const textured = height > 5 && w > 4 && patterns[engines[e]];
    g.fillStyle = textured || (height > 2.5 ? flat[e] : dense[e]);
    g.fillRect(x, top, Math.max(w, w < 1 ? 1 : 0.8), Math.max(thin, height));
    if (height > 2.5 && w > 2) {
      g.fillStyle = edge[e];
      g.fillRect(x, top, w, 1);
      g.fillRect(x, top, 1, height);
    }
  };

  const begin = lastAtMost(allocs.born, 0, allocs.n, axis.from - 1) + 1;
  if (axis.from > first) for (const k of run.live(axis.from - 1)) draw(k);
  for (let k = begin; k < allocs.n && allocs.born[k] < Math.min(axis.to, stop); k++) draw(k);

  // a thin gap where a scope gave back, so that two tiles do not run into each other
  g.fillStyle = css(palette.bg);
  for (const row of closings(run, p, axis)) {
    const x = axis.x(row);
    const save = y(scopes.save[run.ops.scope[row]]);
    g.fillRect(x - 0.5, y(run.ops.peak[row]) - 2, 1, Math.max(0, save - y(run.ops.peak[row]) + 2));
  }
}

/** For each pixel column the row with the highest cursor, where columns hold more than a row each; else null. */
function fullestRows(run, axis) {
  const width = Math.ceil(axis.x1 - axis.x0);
  if (axis.to - axis.from < width) return null;
  const rows = new Int32Array(width + 1).fill(-1);
  for (let i = axis.from; i < axis.to; i++) {
    const column = Math.floor(axis.x(i) - axis.x0);
    if (rows[column] < 0 || run.ops.cursor[i] > run.ops.cursor[rows[column]]) rows[column] = i;
  }
  return rows;
}

function* closings(run, p, axis) {
  const tiles = run.tilesOf[p];
  const per = (axis.x1 - axis.x0) / Math.max(1, axis.to - axis.from);
  let last = -9;
  for (const t of tiles) {
    const row = run.tiles.op1[t];
    const scope = run.ops.scope[row];
    if (row < axis.from || row >= axis.to || run.op(row) !== 'scope_close' || !run.scopes.rewind[scope])
      continue;
    if ((row - last) * per > 3) yield row;
    last = row;
  }
}

/** The cursor of a whole run as an area: for each pixel column its highest. */
export function paintProfile(g, { run, p, x0, x1, top, bottom, most, fill, line }) {
  const [first, stop] = run.span(p);
  const width = Math.floor(x1 - x0);
  const heights = new Float64Array(width);
  for (let i = first; i < stop; i++) {
    const column = Math.min(width - 1, Math.floor(((i - first) / (stop - first)) * width));
    heights[column] = Math.max(heights[column], run.ops.cursor[i]);
  }
  for (let c = 0; c < width; c++) {
    const height = (heights[c] / most) * (bottom - top);
    g.fillStyle = fill;
    g.fillRect(x0 + c, bottom - height, 1, height);
    g.fillStyle = line;
    g.fillRect(x0 + c, bottom - height, 1, 1);
  }
}
