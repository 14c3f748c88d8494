// Peak scratch of a PE against the context length, on log axes: one flat line and one that rises into the limit.

import { plot, size } from './dom.js';
import { Marks } from './marks.js';
import { bytes, group } from './numbers.js';
import { BOLD, textWidth } from './place.js';

export class PeakChart {
  constructor(owner) {
    this.owner = owner;
    this.plot = plot('Peak scratch against context length');
    this.el = this.plot.box;
    this.marks = new Marks(this.plot.svg);
  }

  has(state) {
    return Boolean(state.curve && state.curve.keys && state.curve.keys.length > 1);
  }

  layout(width) {
    this.width = width;
    this.x0 = 58;
    this.x1 = width - 92;
    [this.top, this.bottom] = [16, 196];
    this.height = 224;
    size(this.plot, width, this.height);
  }

  draw(state) {
    const { curve, limit, peak, params, last_fit: lastFit } = state;
    const m = this.marks.begin();
    const { keys } = curve;
    const log = Math.log2;
    const [kLow, kHigh] = [log(keys[0]), log(keys[keys.length - 1])];
    const values = [...curve.scoped, ...curve.unscoped].filter(v => v !== null && v > 0);
    const low = Math.floor(log(Math.min(...values, limit)));
    const high = Math.min(log(limit) + 4.5, Math.ceil(log(Math.max(...values, limit * 1.6))));
    const x = k => this.x0 + ((log(k) - kLow) / (kHigh - kLow)) * (this.x1 - this.x0);
    const y = v =>
      this.bottom - ((Math.min(high, Math.max(low, log(v))) - low) / (high - low)) * (this.bottom - this.top);
    const every = Math.ceil((high - low) / 7);
    for (let e = Math.ceil(low); e <= high; e += every) {
      m.line(this.x0, y(2 ** e), this.x1, y(2 ** e), 'grid');
      m.text(this.x0 - 8, y(2 ** e) + 4, bytes(2 ** e), 't lab2 end num');
    }
    const step = Math.max(1, Math.ceil((kHigh - kLow) / ((this.x1 - this.x0) / 62)));
    for (let e = Math.ceil(kLow); e <= kHigh; e += step) {
      m.line(x(2 ** e), this.bottom, x(2 ** e), this.bottom + 4, 'axis');
      m.text(x(2 ** e), this.bottom + 17, short(2 ** e), 't lab2 mid num');
    }
    m.text(this.x1 + 20, this.bottom + 17, 'keys', 't lab2');
    m.line(this.x0, this.bottom, this.x1, this.bottom, 'axis');
    m.rect(this.x0, this.top - 4, this.x1 - this.x0, y(limit) - this.top + 4, 'over-zone');
    m.line(this.x0, y(limit), this.x1, y(limit), 'limit');
    m.text(this.x1 + 8, y(limit) + 4, `limit ${bytes(limit)}`, 't lim b');
    this.line(m, keys, curve.scoped, { x, y, high, name: 'with scopes', on: params.scoped, limit });
    this.line(m, keys, curve.unscoped, { x, y, high, name: 'without', on: !params.scoped, limit });
    if (lastFit > keys[0] && lastFit < keys[keys.length - 1]) {
      const [px, py] = [x(lastFit), y(limit)];
      m.line(px, py, px, this.bottom, 'drop');
      m.path(`M${px - 5} ${py - 5}l10 10m0 -10l-10 10`, 'never');
      const text = `without scopes it ends at ${group(lastFit)} keys`;
      const fits = px - this.x0 > textWidth(text) + 12;
      m.text(fits ? px - 9 : px + 9, py - 8, text, `t lim halo${fits ? ' end' : ''}`);
    }
    if (peak) this.here(m, x(params.S_kv), y(peak), peak, limit);
    m.end();
    this.plot.svg.setAttribute(
      'aria-label',
      `Peak scratch at ${group(params.S_kv)} keys: ${peak ? bytes(peak) : 'more than fits'}, limit ${bytes(limit)}.`,
    );
  }

  line(m, keys, values, { x, y, high, name, on, limit }) {
    let d = '';
    let end = null;
    keys.forEach((k, n) => {
      const v = values[n];
      if (v === null || v === undefined || Math.log2(v) > high) return;
      d += `${d ? 'L' : 'M'}${x(k).toFixed(1)} ${y(v).toFixed(1)}`;
      end = [x(k), y(v), v];
    });
    if (!end) return;
    m.path(d, on ? 'cv on' : 'cv other');
    const inside = end[0] < this.x1 - 4;
    const near = Math.abs(end[1] - y(limit)) < 14;
    m.text(
      inside ? end[0] + 8 : this.x1 + 8,
      end[1] + (near && !inside ? (end[1] > y(limit) ? 16 : -10) : 4),
      name,
      `t ${on ? 'lab0 b' : 'lab1'}`,
    );
  }

  here(m, x, y, peak, limit) {
    m.line(x, this.bottom, x, y, 'play');
    m.circle(x, y, 5.5, peak > limit ? 'dot bad' : 'dot');
    const text = bytes(peak);
    const left = x > this.x1 - textWidth(text, BOLD) - 14;
    m.text(left ? x - 10 : x + 10, y + 17, text, `t lab0 b halo${left ? ' end' : ''}`);
  }
}

const short = n =>
  n >= 2 ** 20 ? `${+(n / 2 ** 20).toFixed(1)} M` : n >= 1024 ? `${+(n / 1024).toFixed(1)} k` : String(n);
