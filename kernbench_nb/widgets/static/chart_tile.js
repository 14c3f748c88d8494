// What a tile costs, for every tile size: load beside compute, per key, so that small and large tiles compare.

import { plot, size } from './dom.js';
import { Marks } from './marks.js';
import { patterns } from './texture.js';
import { group, niceStep, time } from './numbers.js';

export class TileChart {
  constructor(owner) {
    this.owner = owner;
    this.plot = plot('Load and compute of a tile');
    this.el = this.plot.box;
    this.id = `${owner.id}-tile-`;
    patterns(this.plot.svg, this.id);
    this.marks = new Marks(this.plot.svg);
  }

  has(state) {
    return Boolean(state.tiles_axis && state.tiles_axis.tile && state.tiles_axis.tile.length);
  }

  layout(width) {
    this.width = width;
    this.x0 = 58;
    this.x1 = width - 6;
    [this.top, this.bottom] = [18, 170];
    this.height = 206;
    size(this.plot, width, this.height);
  }

  draw(state) {
    const { tiles_axis: axis, params, limit } = state;
    const m = this.marks.begin();
    const n = axis.tile.length;
    const at = k => ({
      tile: axis.tile[k],
      load: axis.load[k] / axis.tile[k] / 1000,
      gemm: axis.gemm[k] / axis.tile[k] / 1000,
      math: axis.math[k] / axis.tile[k] / 1000,
      over: axis.peak[k] === null || axis.peak[k] > limit,
    });
    const all = axis.tile.map((_, k) => at(k));
    const most = Math.max(...all.map(t => Math.max(t.load, t.gemm + t.math))) || 1;
    const step = niceStep(most, 5);
    const y = v => this.bottom - (v / (most * 1.08)) * (this.bottom - this.top);
    for (let v = 0; v < most * 1.05; v += step) {
      m.line(this.x0, y(v), this.x1, y(v), 'grid');
      m.text(this.x0 - 8, y(v) + 4, step < 1 ? v.toFixed(1) : group(v), 't lab2 end num');
    }
    m.text(0, 10, 'ns per key', 't lab2');
    m.line(this.x0, this.bottom, this.x1, this.bottom, 'axis');
    const wide = (this.x1 - this.x0) / n;
    all.forEach((t, k) => this.bars(m, t, this.x0 + k * wide, wide, y, t.tile === params.tile));
    m.text(this.x0 - 8, this.bottom + 16, 'tile', 't lab2 end');
    m.end();
    const now = all.find(t => t.tile === params.tile);
    this.plot.svg.setAttribute(
      'aria-label',
      now
        ? `Tile of ${now.tile} keys: load ${time(now.load * now.tile * 1000)}, compute ${time((now.gemm + now.math) * now.tile * 1000)}.`
        : 'Load and compute by tile size.',
    );
  }

  bars(m, t, x, wide, y, on) {
    const middle = x + wide / 2;
    const w = Math.min(20, wide * 0.34);
    const fade = t.over ? ' todo' : '';
    const fill = name => ({ fill: `url(#${this.id}${name})` });
    if (on) m.rect(x + 1, this.top - 8, wide - 2, this.bottom - this.top + 32, 'sel');
    m.rect(middle - w - 1, y(t.load), w, this.bottom - y(t.load), `op b-dma${fade}`, fill('dma'));
    m.rect(middle + 1, y(t.gemm), w, this.bottom - y(t.gemm), `op b-gemm${fade}`, fill('gemm'));
    m.rect(
      middle + 1,
      y(t.gemm + t.math),
      w,
      y(t.gemm) - y(t.gemm + t.math),
      `op b-math${fade}`,
      fill('math'),
    );
    m.text(middle, this.bottom + 16, String(t.tile), `t num mid ${on ? 'lab0 b' : 'lab2'}`);
    if (t.over) m.text(middle, this.bottom + 30, wide > 48 ? 'too big' : '✕', 't lim mid');
  }
}
