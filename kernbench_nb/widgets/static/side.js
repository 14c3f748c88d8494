// One of two runs that are compared: its scratch over the tiles, its lanes, its score map, and what there is to say.

import { h, say } from './dom.js';
import { bytes, group, many, percent, shape, time } from './numbers.js';
import { Engines } from './engines.js';
import { isWide, ScoreMap } from './score.js';
import { Messages } from './messages.js';
import { Panel } from './frame.js';
import { Scratch } from './scratch.js';
import { TileAxis } from './axis.js';

export class Side {
  constructor(pair, run, number, name) {
    this.pair = pair;
    this.run = run;
    this.number = number;
    this.id = `${pair.id}-${number}`;
    this.messages = new Messages(run);
    this.selected = null;
    this.p = 0;
    this.i = 0;
    this.title = name || (run.head.scoped ? 'With scratch scopes' : 'Without scratch scopes');
    this.name = h('h3', { class: 'big' }, this.title);
    this.sub = h('p', { class: 'sub' });
    this.stats = ['tiles folded', 'scratch in use', 'high-water', 'time'].map(label => {
      const value = h('b');
      return [value, h('div', {}, h('span', {}, label), value)];
    });
    this.said = h('div', { class: 'said' });
    this.scratch = new Scratch(this, {
      height: 270,
      labels: false,
      axis: (...a) => new TileAxis(...a, pair.most),
      never: ['never reached'],
    });
    this.engines = new Engines(this, { small: true });
    this.score = run.head.score ? new ScoreMap(this, { small: true }) : null;
    this.panels = [
      new Panel('arena', 'Scratch', this.scratch),
      new Panel('engines', 'Engines', this.engines),
      ...(this.score ? [new Panel('score', 'Score map', this.score)] : []),
    ];
    const [arena, lanes, map] = this.panels.map(p => p.el);
    const wide = run.head.score && isWide(run.head.score);
    this.el = h(
      'section',
      { class: 'side', 'aria-label': this.title },
      this.name,
      this.sub,
      h(
        'div',
        { class: 'stat' },
        this.stats.map(s => s[1]),
      ),
      arena,
      lanes,
      h('div', { class: wide || !map ? 'below' : 'below split' }, map, this.said),
    );
    this.use(0);
  }

  get palette() {
    return this.pair.palette;
  }

  get tip() {
    return this.pair.tip;
  }

  use(p) {
    this.p = p;
    this.tiles = this.run.tilesOf[p].filter(t => this.run.counted(t));
  }

  // what panels ask of a player
  dirty() {
    this.pair.dirty();
  }

  go(row) {
    const n = this.tiles.findIndex(t => row <= this.run.tiles.op1[t]);
    this.pair.goStep(n < 0 ? this.tiles.length : row < this.run.tiles.op0[this.tiles[0]] ? 0 : n + 1);
  }

  goTile(t) {
    const n = this.tiles.indexOf(t);
    if (n >= 0) this.pair.goStep(n + 1);
  }

  goTime() {}

  /** The row when n tiles are done: just before the n-th gives back; the error's row in the tile that failed. */
  rowOf(n) {
    const { run, tiles } = this;
    const [first, stop] = run.span(this.p);
    if (!tiles.length) return n ? stop - 1 : first;
    if (n <= 0) return Math.max(first, run.tiles.op0[tiles[0]] - 1);
    if (n > tiles.length) return stop - 1;
    const t = tiles[n - 1];
    const error = run.head.error;
    if (error && error.op >= 0 && error.tile === t) return error.op;
    return n === this.pair.most ? stop - 1 : run.tiles.stop[t];
  }

  /** Whether the run does more after its last tile. */
  goesOn() {
    const { run, tiles } = this;
    const last = run.tile(run.span(this.p)[1] - 1);
    return !run.head.error && tiles.length > 0 && !run.counted(last);
  }

  get dead() {
    const error = this.run.head.error;
    return Boolean(
      error && error.pe === this.p && this.i >= (error.op >= 0 ? error.op : this.run.span(this.p)[1] - 1),
    );
  }

  /** " in tile 47" */
  stoppedIn() {
    const { error } = this.run.head;
    return error && error.tile >= 0 ? ` in ${this.run.tileLabel(error.tile)}` : '';
  }

  layout() {
    const { run, pair } = this;
    this.scratch.options.limit = pair.overflows;
    this.scratch.options.most = pair.highest * 1.05;
    const planned = run.head.error && run.head.error.planned;
    this.scratch.options.never = [
      'never reached',
      ...(planned && planned.need ? [`the whole sweep needs ${bytes(planned.need)}`] : []),
    ];
    for (const panel of this.panels) if (panel.open) panel.attempt(() => panel.view.layout(panel.width));
  }

  draw(i) {
    this.i = i;
    const { run, p } = this;
    const { ops } = run;
    const done = this.done();
    const limit = run.limit;
    const rewinds = run.head.scoped;
    say(
      this.sub,
      rewinds ? 'each tile begins where the last one began' : 'each tile begins where the last one ended',
    );
    const texts = [
      `${done} of ${this.planned()}`,
      bytes(ops.cursor[i]),
      `${bytes(ops.peak[i])} · ${percent(ops.peak[i] / limit)}`,
      time(ops.clock[i]),
    ];
    texts.forEach((text, n) => say(this.stats[n][0], text));
    for (const panel of this.panels) {
      if (panel.open) panel.attempt(() => panel.view.draw({ run, p, i }));
    }
    this.el.classList.toggle('dead', this.dead);
    this.tell(done);
  }

  done() {
    const error = this.run.head.error;
    return this.tiles.filter(t => this.run.tiles.stop[t] <= this.i && !(error && error.tile === t)).length;
  }

  planned() {
    const planned = this.run.head.error && this.run.head.error.planned;
    return (planned && planned.tiles) || this.tiles.length;
  }

  // -- what there is to say ------------------------------------------------------------------------------------

  tell(done) {
    const key = `${this.i}|${this.dead}`;
    if (this.told === key) return;
    this.told = key;
    if (this.dead) this.said.replaceChildren(...this.tellError(done));
    else this.said.replaceChildren(...this.tellArenas(done));
  }

  tellError(done) {
    const e = this.run.head.error;
    if (!e.wanted) return [h('b', { class: 'err-t' }, e.type), h('p', {}, e.message)];
    const what = `${e.name || 'A tile'} (${shape(e.shape || '')} ${e.dtype || ''})`;
    const out = [
      h('b', { class: 'err-t' }, e.type),
      h(
        'p',
        {},
        `${what} at line ${e.line} wants ${group(e.wanted)} B; ${group(e.free)} B are free of ${group(e.limit)}.`,
      ),
    ];
    const again = e.read_again;
    if (again !== null && again !== undefined) {
      out.push(
        h(
          'p',
          { class: 'strong' },
          `Of the ${many(e.live_count, 'live block')}, ${again === 0 ? 'none is' : again === 1 ? 'one is' : `${group(again)} are`} ever read again${readAgain(e)}.`,
        ),
      );
    }
    out.push(
      h(
        'p',
        { class: 'hint' },
        `${many(done, 'tile')} of ${this.planned()} were folded. Open a scratch_scope around the tile.`,
      ),
    );
    const rows = (e.live || [])
      .slice(0, 6)
      .map(b => [
        `${b.name || 'block'}`,
        `${group(b.count || 1)} × ${bytes(b.nbytes)}`,
        b.again ? `${group(b.again)} read again` : 'dead weight',
      ]);
    return [...out, ...list('Largest live blocks', rows)];
  }

  tellArenas(done) {
    const { run, i } = this;
    const { allocs, scopes } = run;
    const by = new Map();
    for (const k of run.live(i)) {
      const owner = scopes.owner[allocs.scope[k]];
      const name = !run.head.scoped
        ? 'in no scope'
        : run.persistent(k)
          ? 'persistent arena'
          : `scoped, ${run.text(scopes.label[owner]) || 'no name'}`;
      const row = by.get(name) || [0, 0];
      row[0]++;
      row[1] += allocs.size[k];
      by.set(name, row);
    }
    const out = list(
      'In scratch now',
      [...by].map(([name, [n, size]]) => [name, many(n, 'block'), bytes(size)]),
    );
    if (!run.head.scoped && done) {
      const t = this.tiles[Math.max(0, done - 1)];
      const live = run.live(i);
      const old = live.filter(
        k => allocs.born[k] < run.tiles.op0[t] && scopes.depth[allocs.scope[k]] > 0,
      ).length;
      if (old)
        out.push(
          h('p', { class: 'hint' }, `${group(old)} of them were made in earlier tiles.`),
        );
    } else if (this.i >= run.span(this.p)[1] - 1 && !run.head.error) {
      out.push(
        h('p', { class: 'ok' }, `Done: all ${many(this.tiles.length, 'tile')} in ${bytes(run.ops.peak[i])}.`),
      );
    }
    return out;
  }

  close() {}
}

/** ": K, O, Q, m, l, 9.5 KiB of 1 018 KiB", if each of them is known. */
function readAgain(e) {
  const blocks = (e.live || []).filter(b => b.again);
  const count = blocks.reduce((n, b) => n + b.again, 0);
  if (!count || count !== e.read_again) return '';
  const size = blocks.reduce((n, b) => n + b.again * b.nbytes, 0);
  const names = blocks.map(b => b.name);
  const said = blocks.length <= 8 && names.every(Boolean) ? `${names.join(', ')}, ` : '';
  return `: ${said}${bytes(size)} of ${bytes(e.limit - e.free)}`;
}

function list(title, rows) {
  return [
    h('p', { class: 'list-h' }, title),
    h(
      'div',
      { class: 'list' },
      rows.flatMap(cells => cells.map(text => h('span', {}, text))),
    ),
  ];
}
