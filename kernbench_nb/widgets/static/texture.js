// One texture an engine, so that colour is never the only cue; as SVG patterns and as canvas patterns.

import { svg } from './dom.js';
import { css, ENGINES } from './colour.js';

// Each texture is a square that repeats; `stroke` and `dot` are drawn in the engine's line colour over its fill.
const TEXTURES = {
  dma: { size: 6, stroke: 'M-1 7L7 -1M-1 1L1 -1M5 7L7 5' },
  gemm: { size: 6, stroke: 'M0 3H6M3 0V6' },
  math: {
    size: 6,
    dots: [
      [1.5, 1.5],
      [4.5, 4.5],
    ],
  },
  ipc: { size: 5, stroke: 'M2.5 0V5' },
  back: { size: 7, stroke: 'M-1 -1L8 8M-1 6L1 8M6 -1L8 1' },
  skip: { size: 8, stroke: 'M-1 9L9 -1M-1 1L1 -1M7 9L9 7' },
  never: { size: 8, stroke: 'M-1 9L9 -1M-1 1L1 -1M7 9L9 7' },
  todo: { size: 6, dots: [[3, 3]] },
};

const NEUTRAL = {
  back: p => [p.ink2, 0.5],
  skip: p => [p.ink2, 0.5],
  never: p => [p.error, 0.6],
  todo: p => [p.rule],
};

/** Put the patterns into an SVG; they are then `url(#<id><name>)`. */
export function patterns(root, id) {
  const defs = svg('defs');
  for (const [name, t] of Object.entries(TEXTURES)) {
    const box = { width: t.size, height: t.size };
    const p = svg('pattern', { id: id + name, ...box, patternUnits: 'userSpaceOnUse' });
    p.append(svg('rect', { ...box, class: `pt-bg pt-${name}` }));
    if (t.stroke) p.append(svg('path', { d: t.stroke, class: `pt-l pt-${name}` }));
    for (const [cx, cy] of t.dots || [])
      p.append(svg('circle', { cx, cy, r: name === 'todo' ? 0.7 : 0.9, class: `pt-d pt-${name}` }));
    defs.append(p);
  }
  root.append(defs);
}

/** The same textures for a canvas: {dma, gemm, math, ipc, back, skip, never, todo}. */
export function textures(g, palette) {
  const ratio = window.devicePixelRatio || 1;
  const out = {};
  for (const [name, t] of Object.entries(TEXTURES)) {
    const engine = ENGINES.includes(name);
    const cell = document.createElement('canvas');
    cell.width = cell.height = Math.max(1, Math.round(t.size * ratio));
    const c = cell.getContext('2d');
    c.scale(cell.width / t.size, cell.height / t.size);
    if (engine) {
      c.fillStyle = css(palette.fill[name]);
      c.fillRect(0, 0, t.size, t.size);
    }
    const colour = engine ? css(palette.line[name], 0.6) : css(...NEUTRAL[name](palette));
    c.strokeStyle = c.fillStyle = colour;
    c.lineWidth = 0.8;
    if (t.stroke) c.stroke(new Path2D(t.stroke));
    for (const [x, y] of t.dots || []) {
      c.beginPath();
      c.arc(x, y, name === 'todo' ? 0.7 : 0.9, 0, 7);
      c.fill();
    }
    out[name] = g.createPattern(cell, 'repeat');
    out[name].setTransform(new DOMMatrix().scale(1 / ratio));
  }
  return out;
}
