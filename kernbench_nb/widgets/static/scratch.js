// Scratch: the arena over time and, at its right edge, the scratch as it is now. Both share one address axis, so the
// map is the slice of the picture at the playhead. At the far left the whole budget, from which the used part is pulled
// out.

import { h, plot, size, where } from './dom.js';
import { Marks } from './marks.js';
import { patterns, textures } from './texture.js';
import { css } from './colour.js';
import { bytes, group, many, percent, shape } from './numbers.js';
import { BOLD, MONO, fit, textWidth } from './place.js';
import { blockName, drawLabels } from './scratch_labels.js';
import { RowAxis } from './axis.js';
import { paintProfile, paintTimeline } from './timeline.js';

export class Scratch {
  /**
   * `options`: height; limit (the address axis reaches the limit, as when two runs are compared); most (the highest
   * address shown); axis(run, p, x0, x1); labels (false for the small form).
   */
  constructor(player, options = {}) {
    this.player = player;
    this.options = { height: 360, labels: true, ...options };
    this.plot = plot('Scratch');
    this.el = this.plot.box;
    this.now = h('canvas', { class: 'abs', 'aria-hidden': 'true' });
    this.plot.svg.before(this.now);
    this.id = `${player.id}-${options.name || 'scratch'}-`;
    patterns(this.plot.svg, this.id);
    this.marks = new Marks(this.plot.svg);
    this.hot = -1;
    this.listen();
  }

  // -- geometry ------------------------------------------------------------------------------------------------

  layout(width) {
    const { run, p, palette } = this.player;
    const { labels } = this.options;
    this.width = width;
    this.narrow = width < 640;
    this.small = !labels || width < 470;
    this.labelWidth = this.small ? 0 : this.narrow ? 200 : 222;
    this.mapWidth = labels ? (this.narrow ? 62 : 76) : 44;
    this.x0 = this.options.limit ? 50 : this.small ? 54 : 88;
    this.mapX = width - this.mapWidth - (this.labelWidth ? this.labelWidth + 18 : 2);
    this.x1 = this.mapX - 20;
    this.top = 36;
    this.axis = (this.options.axis || ((...a) => new RowAxis(...a)))(run, p, this.x0, this.x1);
    this.strip = this.axis.windowed ? 40 : 0;
    this.height = this.options.height + this.strip;
    this.bottom = this.options.height - 22;
    this.most = this.options.limit
      ? run.limit * 1.09
      : this.options.most || Math.max(run.pes[p].peak * 1.04, 64);
    if (!this.options.limit && run.head.error && run.head.error.wanted) this.most = run.limit * 1.09;
    this.toLimit = this.most >= run.limit;
    this.g = size(this.plot, width, this.height);
    this.textures = textures(this.g, palette);
    this.patternFill = name => `url(#${this.id}${name})`;
    const ratio = window.devicePixelRatio || 1;
    this.now.width = this.mapWidth * ratio;
    this.now.height = this.height * ratio;
    Object.assign(this.now.style, {
      left: `${this.mapX}px`,
      width: `${this.mapWidth}px`,
      height: `${this.height}px`,
    });
    this.map = this.now.getContext('2d');
    this.map.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.mapTextures = textures(this.map, palette);
    this.axis.hold(this.player.i);
    this.paint();
  }

  y = address => this.bottom - (address / this.most) * (this.bottom - this.top);

  paint() {
    const { run, p, palette } = this.player;
    const g = this.g;
    g.clearRect(0, 0, this.width, this.height);
    g.save();
    g.beginPath();
    g.rect(this.x0, 0, this.x1 - this.x0 + 1, this.bottom + 1);
    g.clip();
    paintTimeline(g, {
      run,
      p,
      axis: this.axis,
      y: this.y,
      palette,
      patterns: this.textures,
      exact: this.toLimit,
    });
    g.restore();
    if (!this.strip) return;
    const [top, bottom] = [this.height - this.strip + 12, this.height - 4];
    const most = Math.max(run.pes[p].peak, 1);
    paintProfile(g, {
      run,
      p,
      x0: this.x0,
      x1: this.x1,
      top,
      bottom,
      most,
      fill: css(palette.rule2),
      line: css(palette.ink2),
    });
  }

  // -- pointer -------------------------------------------------------------------------------------------------

  listen() {
    const { svg } = this.plot;
    const { player } = this;
    let dragging = null;
    const scrub = event => {
      const [x] = where(event, svg);
      const clamped = Math.max(this.x0, Math.min(this.x1, x));
      if (dragging === 'strip') {
        const [first, stop] = player.run.span(player.p);
        const row = Math.floor(first + ((clamped - this.x0) / (this.x1 - this.x0)) * (stop - first));
        player.go(Math.min(stop - 1, row));
      } else player.go(this.axis.row(clamped));
    };
    svg.addEventListener('pointerdown', event => {
      const [x, y] = where(event, svg);
      if (x >= this.x0 && x <= this.x1) {
        dragging = this.strip && y > this.bottom + 24 ? 'strip' : 'plot';
        svg.setPointerCapture(event.pointerId);
        scrub(event);
        return;
      }
      const block = this.blockAt(x, y);
      if (block >= 0) player.go(Math.max(player.run.allocs.born[block], player.run.span(player.p)[0]));
    });
    svg.addEventListener('pointermove', event => (dragging ? scrub(event) : this.hover(event)));
    svg.addEventListener('pointerup', () => (dragging = null));
    svg.addEventListener('pointercancel', () => (dragging = null));
    svg.addEventListener('pointerleave', () => {
      player.tip.hide();
      this.light(-1);
    });
  }

  blockAt(x, y) {
    const { run, i } = this.player;
    const { allocs } = run;
    if (x > this.mapX + this.mapWidth + 8) {
      const label = (this.labels || []).find(l => Math.abs(l.y - y) < 7);
      return label ? label.k : -1;
    }
    if (y < this.top || y > this.bottom || x < this.x0) return -1;
    const row = x > this.x1 ? i : this.axis.row(x);
    const address = ((this.bottom - y) / (this.bottom - this.top)) * this.most;
    const found = run
      .live(row)
      .find(k => address >= allocs.addr[k] && address < allocs.addr[k] + allocs.size[k]);
    return found === undefined ? -1 : found;
  }

  hover(event) {
    const { run, p, tip } = this.player;
    const k = this.blockAt(...where(event, this.plot.svg));
    this.light(k);
    if (k < 0) return tip.hide();
    const { allocs, scopes } = run;
    const lives = Math.min(allocs.dead[k], run.span(p)[1]) - allocs.born[k];
    const idle = allocs.dead[k] - 1 - allocs.last[k];
    tip.show(event, [
      `${blockName(run, k)}  ${shape(run.text(allocs.shape[k]))} ${run.text(allocs.dtype[k])}`,
      `${group(allocs.nbytes[k])} B at ${group(allocs.addr[k])}`,
      run.persistent(k)
        ? 'persistent arena'
        : `scoped arena, ${run.text(scopes.label[scopes.owner[allocs.scope[k]]]) || 'no name'}`,
      `lives ${many(lives, 'operation')}${allocs.last[k] >= 0 && idle > 0 ? `, the last ${group(idle)} unused` : ''}`,
    ]);
  }

  light(k) {
    if (this.hot === k) return;
    this.hot = k;
    this.player.dirty();
  }

  // -- a step --------------------------------------------------------------------------------------------------

  draw({ run, p, i }) {
    if (this.axis.hold(i)) this.paint();
    const { ops } = run;
    const m = this.marks.begin();
    const error = run.head.error && run.head.error.op >= 0 && i >= run.head.error.op ? run.head.error : null;
    const at = {
      run,
      p,
      i,
      m,
      error,
      cursor: ops.cursor[i],
      peak: ops.peak[i],
      live: run.live(i),
      open: run.open(i),
    };
    this.drawBudget(at);
    this.drawAddresses(at);
    this.drawTiles(at);
    this.drawFuture(at);
    if (this.strip) this.drawStrip(at);
    this.drawMap(at);
    this.drawPointers(at);
    drawLabels(this, at);
    m.end();
    this.plot.svg.setAttribute(
      'aria-label',
      `Scratch of ${run.pes[p].label}: cursor ${group(at.cursor)} bytes, high-water ${group(at.peak)}, ` +
        `limit ${group(run.limit)}; ${many(at.live.length, 'live block')}.`,
    );
  }

  /** The whole of the scratch, with the part shown pulled out of it. */
  drawBudget({ run, m, cursor, peak }) {
    if (this.toLimit || this.x0 < 60) return;
    const full = this.bottom - this.top;
    const part = v => Math.max(1.5, (v / run.limit) * full);
    m.rect(1, this.top, 12, full, 'budget');
    m.path(`M13 ${this.bottom - part(this.most)}L38 ${this.top}V${this.bottom}H13Z`, 'lens');
    m.rect(1, this.bottom - part(peak), 12, part(peak), 'budget-hw');
    m.rect(1, this.bottom - part(cursor), 12, part(cursor), 'budget-on');
    m.text(0, this.top - 20, bytes(run.limit), 't lab1 b');
    m.text(0, this.top - 7, 'budget', 't lab2');
    m.text(18, this.bottom - 6, percent(peak / run.limit), 't lab2 halo');
  }

  drawAddresses({ m, run }) {
    const step = addressStep(this.most);
    for (let a = 0; a < this.most; a += step) {
      const y = this.y(a);
      const last = a + step >= this.most;
      m.line(this.x0, y, this.x1, y, 'grid');
      m.text(this.x0 - 6, y + 3.5, a === 0 ? '0' : addressText(a, step, last), 't lab2 end num');
    }
    if (this.toLimit) {
      const y = this.y(run.limit);
      m.line(this.x0, y, this.mapX + this.mapWidth, y, 'limit');
      m.text(this.x0 + 4, y - 6, `limit ${bytes(run.limit)}`, 't lim b');
    }
  }

  /** The tiles above the timeline. */
  drawTiles({ run, p, i, m }) {
    const { tiles } = run;
    const now = run.tile(i);
    const inside = run.tilesOf[p].filter(t => tiles.op1[t] >= this.axis.from && tiles.op0[t] < this.axis.to);
    const ends = t => [
      this.axis.x(Math.max(tiles.op0[t], this.axis.from)),
      this.axis.x(Math.min(tiles.op1[t] + 1, this.axis.to)),
    ];
    const label = t => {
      const [a, b] = ends(t);
      const font = t === now ? BOLD : undefined;
      const text = fit(shortLabel(run, t), this.x1 - this.x0 - 4, font);
      const w = textWidth(text, font) + 4;
      const middle = Math.max(this.x0 + w / 2, Math.min(this.x1 - w / 2, (a + b) / 2));
      return { text, middle, from: middle - w / 2, to: middle + w / 2, fits: b - a > w };
    };
    // where not every tile has room for its label, every second, fifth, tenth, ... of the sweep's has one
    const counted = inside.filter(t => run.counted(t));
    const room =
      counted.length > 1
        ? (ends(counted[counted.length - 1])[1] - ends(counted[0])[0]) / counted.length
        : Infinity;
    const widest = Math.max(0, ...counted.map(t => textWidth(shortLabel(run, t)) + 5));
    const every = [1, 2, 5, 10, 20, 50, 100, 200, 500].find(n => n * room >= widest) || 1000;
    const named = t => (run.counted(t) ? (tiles.place[t] - 1) % every === 0 : label(t).fits);
    // the current tile's label first: the others make room for it
    const own = inside.includes(now) ? label(now) : null;
    if (own) m.text(own.middle, this.top - 13, own.text, 't lab0 b mid');
    let lastText = -99,
      lastTick = -99;
    for (const t of inside) {
      const [a, b] = ends(t);
      if (a - lastTick < 1.2 && t !== now) continue;
      lastTick = a;
      m.rect(
        a + 0.5,
        this.top - 8,
        Math.max(1, b - a - 1),
        4,
        t === now ? 'tick-now' : tiles.op1[t] <= i ? 'tick-done' : 'tick-todo',
      );
      if (t === now) continue;
      const l = label(t);
      if (!named(t) || l.from < lastText || (own && l.to > own.from && l.from < own.to)) continue;
      m.text(l.middle, this.top - 13, l.text, 't lab2 mid');
      lastText = l.to;
    }
    if (inside.some(t => run.counted(t)) && !this.small)
      m.text(this.x0 - 6, this.top - 13, 'tile', 't lab2 end');
  }

  /** What is still to come is veiled; the playhead; what a run that stopped never reached. */
  drawFuture({ run, p, i, m, error, peak }) {
    const { axis } = this;
    const x = axis.x(i + 1);
    const end = axis.x(Math.min(axis.to, axis.stop));
    if (this.options.never && run.head.error && this.x1 - end > 4) this.drawNever(m, end, error);
    m.rect(x, this.top - 2, Math.max(0, end - x), this.bottom - this.top + 3, 'veil');
    m.line(this.x0, this.bottom + 0.5, this.x1, this.bottom + 0.5, 'axis');
    m.line(this.x0, this.y(peak), this.mapX + this.mapWidth, this.y(peak), 'hw');
    m.line(x, this.top - 10, x, this.bottom + 5, 'play');
    m.path(`M${x - 5} ${this.bottom + 11}L${x} ${this.bottom + 4}L${x + 5} ${this.bottom + 11}Z`, 'play-h');
    const text = `operation ${group(run.ordinal(p, i))} of ${group(run.pes[p].rows)}`;
    const left = x > this.x1 - textWidth(text) - 14;
    m.text(left ? x - 9 : x + 9, this.bottom + 14, text, `t lab1${left ? ' end' : ''}`);
    if (this.hot >= 0 && run.peOfBlock(this.hot) === p) {
      const { allocs } = run;
      const a = axis.x(Math.max(axis.from, allocs.born[this.hot]));
      const b = axis.x(Math.min(axis.to, allocs.dead[this.hot]));
      const top = this.y(allocs.addr[this.hot] + allocs.size[this.hot]);
      if (b > a) m.rect(a, top - 1, b - a, Math.max(2, this.y(allocs.addr[this.hot]) - top) + 2, 'hot');
    }
  }

  drawNever(m, end, error) {
    const top = Math.max(this.top, this.y(this.player.run.limit));
    m.rect(end, top, this.x1 - end, this.bottom - top, 'tile-skip', { fill: this.patternFill('skip') });
    if (!error) return;
    const middle = (end + this.x1) / 2;
    const lines = this.options.never.filter(text => textWidth(text) < this.x1 - end - 8);
    lines.forEach((text, n) =>
      m.text(middle, (top + this.bottom) / 2 + n * 15, text, `t ${n ? 'lab1' : 'lim b'} mid halo`),
    );
  }

  /** Of a long run: all of it, and which part of it stands above. */
  drawStrip({ run, p, i, m }) {
    const [first, stop] = run.span(p);
    const x = row => this.x0 + ((row - first) / (stop - first)) * (this.x1 - this.x0);
    const [top, bottom] = [this.height - this.strip + 12, this.height - 4];
    m.rect(this.x0, top, this.x1 - this.x0, bottom - top, 'strip');
    m.rect(
      x(this.axis.from),
      top - 1,
      Math.max(3, x(this.axis.to) - x(this.axis.from)),
      bottom - top + 2,
      'strip-window',
    );
    m.line(x(i + 1), top - 3, x(i + 1), bottom + 2, 'play');
    const [above, below] = run.head.window ? ['this', 'part'] : ['whole', 'run'];
    m.text(this.x0 - 6, bottom - 10, above, 't lab2 end');
    m.text(this.x0 - 6, bottom + 1, below, 't lab2 end');
    const room = this.width - this.x1 - 8;
    m.text(
      this.x1 + 8,
      bottom - 10,
      fit(`above: ${group(run.ordinal(p, this.axis.from))}–${group(run.ordinal(p, this.axis.to - 1))}`, room),
      't lab2',
    );
    m.text(this.x1 + 8, bottom + 2, fit(`of ${group(run.pes[p].rows)} operations`, room), 't lab2');
  }

  /** The scratch as it is after the step, on its own canvas. */
  drawMap({ run, i, m, cursor, peak, live, error }) {
    const { allocs, engines } = run;
    const g = this.map;
    const { palette } = this.player;
    const w = this.mapWidth;
    g.clearRect(0, 0, w, this.height);
    g.fillStyle = css(palette.bg2);
    g.fillRect(0, this.top, w, this.bottom - this.top);
    if (peak > cursor) {
      g.fillStyle = this.mapTextures.back;
      g.fillRect(0, this.y(peak), w, this.y(cursor) - this.y(peak));
    }
    const fresh = run.made(i);
    const thin = this.toLimit ? 0 : 0.8; // at the scale of the whole budget thousands of slivers blend by themselves
    for (const k of live) {
      if (!allocs.size[k]) continue;
      const top = this.y(allocs.addr[k] + allocs.size[k]);
      const height = this.y(allocs.addr[k]) - top;
      const kept = run.head.scoped && run.persistent(k);
      if (kept) {
        g.fillStyle = css(palette.keep);
        g.fillRect(0, top, w, Math.max(thin, height - 0.6));
        continue;
      }
      const e = engines[allocs.engine[k]];
      g.fillStyle =
        height > 4 ? this.mapTextures[e] || this.mapTextures.todo : css(palette.line[e] || palette.ink2);
      g.fillRect(3, top, w - 3, Math.max(thin, height));
      if (height > 3) {
        g.strokeStyle = css(palette.line[e] || palette.ink2);
        g.lineWidth = 1;
        g.strokeRect(3.5, top + 0.5, w - 4, height - 1);
      }
    }
    if (peak > cursor) this.drawGhosts(m, run, i, cursor);
    m.text(this.mapX + w / 2, this.top - 13, this.small ? 'now' : 'scratch now', 't lab1 b mid');
    for (const [k, cls] of [
      [fresh, 'fresh'],
      [this.hot, 'hotb'],
    ]) {
      if (k < 0 || !(k === fresh || live.includes(k))) continue;
      const top = this.y(allocs.addr[k] + allocs.size[k]);
      m.rect(this.mapX + 2, top - 0.5, w - 2, Math.max(2, this.y(allocs.addr[k]) - top + 1), cls);
    }
    if (error && error.wanted) {
      // the request that did not fit, standing out over the limit
      const top = this.y(Math.min(this.most, cursor + error.wanted));
      m.rect(this.mapX, top, w, this.y(cursor) - top, 'over');
    }
  }

  /** Names of the dead owners of bytes that nobody has written since. */
  drawGhosts(m, run, i, cursor) {
    const { allocs } = run;
    for (const k of run.givenBack(i)) {
      const from = Math.max(allocs.addr[k], cursor);
      const top = this.y(allocs.addr[k] + allocs.size[k]);
      const height = this.y(from) - top;
      if (height > 1.5) m.rect(this.mapX + 0.5, top + 0.5, this.mapWidth - 1, height - 1, 'ghost');
      if (height > 14 && !this.small) {
        m.text(
          this.mapX + this.mapWidth / 2,
          top + height / 2 + 4,
          fit(blockName(run, k), this.mapWidth - 8, MONO),
          't mid ghost-t',
        );
      }
    }
  }

  /** Save-points as flags, the cursor as a triangle. */
  drawPointers({ run, m, cursor, open, error }) {
    const [x, w] = [this.mapX, this.mapWidth];
    for (const s of open) {
      if (!run.scopes.rewind[s] || run.scopes.depth[s] === 0) continue;
      const y = this.y(run.scopes.save[s]);
      m.line(x - 12, y, x + w, y, 'save');
      m.path(`M${x - 14} ${y - 4}H${x - 6}V${y}H${x - 14}Z`, 'save-f');
    }
    const y = this.y(cursor);
    m.path(`M${x - 1} ${y}l-9 -5v10Z`, 'cursor');
    m.line(x, y, x + w, y, 'cursor-l');
    if (error && this.toLimit) {
      const px = this.axis.x(error.op + 1);
      const py = this.y(run.limit);
      m.path(`M${px - 6} ${py - 6}l12 12m0 -12l-12 12`, 'never big');
    }
  }

  summary({ run, p, i }) {
    return `${bytes(run.ops.cursor[i])} in use, high-water ${bytes(run.ops.peak[i])}`;
  }
}

/** A tile's label above the timeline: "2" for "tile 2", its position if its label has no number, the words of the rest. */
export function shortLabel(run, t) {
  const text = run.tileLabel(t) || run.kind(t);
  if (!run.counted(t)) return text.replace(/ (to|from|with) .*/, '');
  return /\d/.test(text) ? text.replace(/^tile /, '') : String(run.tiles.place[t]);
}

const STEPS = [16, 64, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288];
function addressStep(most) {
  return STEPS.find(s => most / s <= 7) || 2 ** Math.ceil(Math.log2(most / 7));
}

function addressText(a, step, last) {
  if (step < 1024) return group(a) + (last ? ' B' : '');
  if (a % 2 ** 20 === 0) return `${a / 2 ** 20} MiB`;
  return group(a / 1024) + (last ? ' KiB' : '');
}
