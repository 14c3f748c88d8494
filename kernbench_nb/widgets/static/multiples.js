// The scratch of all PEs over simulated time, small and side by side, on one address scale.

import { plot, size, where } from './dom.js';
import { Marks } from './marks.js';
import { textures } from './texture.js';
import { css } from './colour.js';
import { bytes, many, time } from './numbers.js';
import { BOLD, fit, textWidth } from './place.js';
import { paintTimeline } from './timeline.js';

export class Multiples {
  constructor(player) {
    this.player = player;
    this.plot = plot('Scratch of all PEs');
    this.el = this.plot.box;
    this.marks = new Marks(this.plot.svg);
    const { svg } = this.plot;
    svg.addEventListener('click', event => {
      const hit = this.find(event);
      if (hit) player.goTime(hit.q, hit.ps);
    });
    svg.addEventListener('mousemove', event => this.hover(event));
    svg.addEventListener('mouseleave', () => player.tip.hide());
  }

  layout(width) {
    const { run, palette } = this.player;
    const n = run.pes.length;
    this.width = width;
    // cells as large as 480 px of height allow, never wider than they are readable
    const least = n <= 16 ? 200 : n <= 64 ? 130 : 66;
    this.columns = Math.max(1, Math.min(n, Math.floor(width / least)));
    const rows = Math.ceil(n / this.columns);
    this.columns = Math.ceil(n / rows);
    this.gap = n <= 64 ? 14 : 8;
    this.head = n <= 64 ? 16 : 13;
    this.cellWidth = (width - (this.columns - 1) * this.gap) / this.columns;
    this.cellHeight = Math.max(n <= 64 ? 34 : 18, Math.min(110, 460 / rows - this.head - 8));
    this.pitch = this.head + this.cellHeight + (n <= 64 ? 10 : 6);
    this.height = Math.ceil(rows * this.pitch + 4);
    this.end = Math.max(1, ...run.pes.map(pe => pe.end));
    const peak = Math.max(64, ...run.pes.map(pe => pe.peak));
    this.most = run.head.error && run.head.error.wanted ? run.limit * 1.06 : peak * 1.08;
    this.g = size(this.plot, width, this.height);
    const patterns = textures(this.g, palette);
    this.g.clearRect(0, 0, width, this.height);
    run.pes.forEach((_, q) => this.paint(q, run, palette, patterns));
  }

  cell(q) {
    const x = (q % this.columns) * (this.cellWidth + this.gap);
    const y = Math.floor(q / this.columns) * this.pitch + this.head;
    return [x, y, this.cellWidth, this.cellHeight];
  }

  paint(q, run, palette, patterns) {
    const [first, stop] = run.span(q);
    const [x, y, w, h] = this.cell(q);
    const { g } = this;
    g.fillStyle = css(palette.bg2);
    g.fillRect(x, y, w, h);
    if (stop <= first) return;
    const at = row => x + ((row > first ? run.ops.clock[row - 1] : 0) / this.end) * w;
    const axis = { from: first, to: stop, x0: x, x1: x + w, x: at };
    const address = a => y + h - (a / this.most) * h;
    g.save();
    g.beginPath();
    g.rect(x, y, w, h);
    g.clip();
    paintTimeline(g, { run, p: q, axis, y: address, palette, patterns: h > 60 ? patterns : {} });
    g.restore();
  }

  find(event) {
    const { run } = this.player;
    const [px, py] = where(event, this.plot.svg);
    for (let q = 0; q < run.pes.length; q++) {
      const [x, y, w, h] = this.cell(q);
      if (px >= x && px <= x + w && py >= y - this.head && py <= y + h)
        return { q, ps: ((px - x) / w) * this.end };
    }
    return null;
  }

  hover(event) {
    const { run, tip } = this.player;
    const hit = this.find(event);
    if (!hit) return tip.hide();
    const pe = run.pes[hit.q];
    const row = run.rowAt(hit.q, hit.ps);
    tip.show(event, [
      pe.label,
      row >= pe.op0 && row < pe.op1
        ? `${bytes(run.ops.cursor[row])} at ${time(hit.ps)}`
        : `idle at ${time(hit.ps)}`,
      `peak ${bytes(pe.peak)}, persistent ${bytes(pe.persistent)}, ends at ${time(pe.end)}`,
    ]);
  }

  draw({ run, p, i }) {
    const m = this.marks.begin();
    const now = run.ops.clock[i];
    const small = run.pes.length > 64;
    run.pes.forEach((pe, q) => {
      const [x, y, w, h] = this.cell(q);
      const on = q === p;
      const label = small ? `${pe.sip}·${pe.cube}·${pe.pe % run.head.machine.pes_per_cube}` : pe.label;
      m.text(x, y - 4, fit(label, w), `t ${on ? 'lab0 b' : 'lab1'}${small ? ' sm' : ''}`);
      const peak = bytes(pe.peak);
      if (!small && textWidth(label, BOLD) + textWidth(peak) + 10 < w)
        m.text(x + w, y - 4, peak, 't lab2 end num');
      const px = x + (now / this.end) * w;
      if (on) m.rect(x - 0.5, y - 0.5, w + 1, h + 1, 'cell-on');
      m.line(px, y - 1, px, y + h + 1, on ? 'play' : 'play thin');
      if (this.most > run.limit)
        m.line(x, y + h - (run.limit / this.most) * h, x + w, y + h - (run.limit / this.most) * h, 'limit');
    });
    m.end();
    this.plot.svg.setAttribute(
      'aria-label',
      `Scratch of ${many(run.pes.length, 'PE')} over ${time(this.end)}; the highest peak is ${bytes(Math.max(...run.pes.map(pe => pe.peak)))} of ${bytes(run.limit)}.`,
    );
  }

  summary({ run }) {
    const peaks = run.pes.map(pe => pe.peak);
    return `${many(peaks.length, 'PE')}, peaks ${bytes(Math.min(...peaks))} to ${bytes(Math.max(...peaks))}`;
  }
}
