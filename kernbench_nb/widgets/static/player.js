// The stepper of one run. Its state is four values: the row, the PE, what to move by, what is selected; every panel is
// a function of them. All stepping happens here, and nothing is asked of a kernel.

import { h, say } from './dom.js';
import { Shell } from './shell.js';
import { Link, same } from './link.js';
import { Clock, Glide, still } from './clock.js';
import { Choice, Controls, keys, Pick } from './controls.js';
import { Counters } from './counters.js';
import { Live } from './live.js';
import { Messages } from './messages.js';
import { Panel } from './frame.js';
import { group } from './numbers.js';
import { lastAtMost } from './run.js';
import { ScoreMap, isWide } from './score.js';
import { Scratch } from './scratch.js';
import { Engines } from './engines.js';
import { Source } from './source.js';
import { Values } from './values.js';
import { Pes } from './pes.js';
import { operation, place, position, tile as tileSentence } from './words.js';

const FEW_PES = 8; // up to here each PE has a button
const SCRATCH = 372; // height of the scratch panel, and of the source beside it
const NARROW = 1060; // CSS pixels of its own width below which the panels stand in one column

export class Player {
  /** `options.panels`: names of the panels that are there; `options.open`: those that are not folded at first. */
  constructor({ model, el }, run, options = {}) {
    this.options = options;
    this.link = new Link(model);
    this.shell = new Shell(el, options.label || 'Stepper', () => this.layout());
    this.id = this.shell.id;
    this.root = this.shell.root;
    this.tip = this.shell.tip;
    this.clock = new Clock(
      () => this.move(1, true),
      () => this.dirty(),
    );
    this.glide = new Glide(row => this.show(row));
    this.use(run);
    this.build();
    keys(this.root, this);
    this.hear();
    this.shell.layout();
  }

  get palette() {
    return this.shell.palette;
  }

  /** Where the reader stands, or where the view is on its way to. */
  get at() {
    return this.glide.on ? this.glide.target : this.i;
  }

  // -- state and traits ----------------------------------------------------------------------------------------

  use(run) {
    this.run = run;
    this.messages = new Messages(run);
    const asked = run.number.get(this.link.get('pe', run.pes[0].pe));
    this.p = asked === undefined ? 0 : asked;
    if (run.span(this.p)[1] <= run.span(this.p)[0])
      this.p = Math.max(
        0,
        run.pes.findIndex(pe => pe.op1 > pe.op0),
      );
    this.i = this.clamp(run.span(this.p)[0] + this.link.get('step', 0));
    this.granularity = this.link.get('granularity', 'tile');
    this.select(this.link.get('selection', []), false);
  }

  clamp(row) {
    const [first, stop] = this.run.span(this.p);
    return Math.max(first, Math.min(stop - 1, Math.round(row)));
  }

  hear() {
    this.link.on('pe', () => this.heardPe());
    this.link.on('step', () => this.heardStep());
    this.link.on('granularity', () => {
      const value = this.link.get('granularity');
      if (value === this.granularity || !['tile', 'op'].includes(value)) return;
      this.granularity = value;
      this.dirty();
    });
    this.link.on('selection', () => {
      const value = this.link.get('selection', []);
      if (!same(value, this.selection)) this.select(value, true);
    });
  }

  heardStep() {
    const step = this.link.get('step', 0);
    const row = this.clamp(this.run.span(this.p)[0] + step);
    if (row !== this.at) {
      this.glide.stop();
      this.show(row);
    }
    this.publish();
  }

  heardPe() {
    const p = this.run.number.get(this.link.get('pe'));
    if (p === undefined) return this.publish();
    if (p === this.p) return;
    // if the step came with it, it is meant for the new PE; else the simulated time is kept
    const step = this.link.get('step', 0);
    const moved = step !== this.at - this.run.span(this.p)[0];
    this.toPe(p, moved ? this.run.span(p)[0] + step : null);
  }

  publish() {
    this.link.put('pe', this.run.pes[this.p].pe);
    this.link.put('step', this.at - this.run.span(this.p)[0]);
  }

  select(ranges, jump) {
    this.selection = ranges;
    const starts = Float64Array.from(ranges, r => r[0]);
    const first = this.run.first;
    this.selected = ranges.length
      ? row => {
          const n = lastAtMost(starts, 0, starts.length, row + first);
          return n >= 0 && row + first < ranges[n][1];
        }
      : null;
    if (!this.root) return;
    if (jump && ranges.length && !this.selected(this.i)) {
      const next = ranges.find(r => r[0] >= this.i + first) || ranges[0];
      const row = Math.max(0, Math.min(this.run.ops.n - 1, next[0] - first));
      return this.toPe(this.run.peOf(row), row);
    }
    this.dirty();
  }

  // -- moving --------------------------------------------------------------------------------------------------

  /** Draw a row; the traits hear of it in `go`. */
  show(row) {
    if (row === this.i) return;
    this.i = row;
    this.dirty();
  }

  go(row) {
    this.halt();
    this.show(this.clamp(row));
    this.publish();
  }

  toPe(p, row = null) {
    if (this.run.span(p)[1] <= this.run.span(p)[0]) return this.publish();
    const now = this.run.ops.clock[this.at];
    this.halt();
    const changed = p !== this.p;
    this.p = p;
    this.i = this.clamp(row === null ? this.run.rowAt(p, now) : row);
    this.publish();
    if (changed) this.layout();
    else this.dirty();
  }

  goTime(p, ps) {
    this.toPe(p, this.run.rowAt(p, ps));
  }

  goTile(t) {
    this.toPe(this.run.tiles.pe[t], this.run.tiles.stop[t]);
  }

  /** The next row of this PE, round and round, that a source line makes. */
  goLine(source, line) {
    const { sites, ops } = this.run;
    const [first, stop] = this.run.span(this.p);
    for (let n = 1; n <= stop - first; n++) {
      const row = first + ((this.i - first + n) % (stop - first));
      const s = ops.site[row];
      if (s < 0) continue;
      const here = sites.source[s] === source && sites.line[s] === line;
      if (here || (sites.ksource[s] === source && sites.kline[s] === line && sites.source[s] !== source))
        return this.go(row);
    }
  }

  move(by, playing = false) {
    if (this.granularity === 'tile') return this.moveTile(by, playing);
    const row = this.at + by;
    const [first, stop] = this.run.span(this.p);
    if (!playing) this.halt();
    if (row < first || row >= stop) return false;
    this.show(row);
    this.publish();
    return true;
  }

  moveTile(by, playing = false) {
    const stops = this.run.stopsOf[this.p];
    const from = this.at;
    const n =
      by > 0 ? lastAtMost(stops, 0, stops.length, from) + 1 : lastAtMost(stops, 0, stops.length, from - 1);
    if (!playing) this.clock.stop();
    if (n < 0 || n >= stops.length) return false;
    const to = stops[n];
    // a single step runs through its operations, so that the rewind and the refill are seen
    const runs =
      by > 0 && !still() && to - from > 1 && to - from < 400 && (!playing || this.clock.speed <= 2);
    if (this.glide.on) this.i = this.glide.target;
    if (runs) this.glide.to(this.i, to, Math.min(620, 120 + 16 * (to - from)));
    else {
      this.glide.stop();
      this.show(to);
    }
    this.publish();
    this.dirty();
    return true;
  }

  seek(offset) {
    const [first] = this.run.span(this.p);
    if (this.granularity === 'op') return this.go(first + offset);
    const stops = this.run.stopsOf[this.p];
    const n = lastAtMost(stops, 0, stops.length, first + offset);
    const near = [stops[Math.max(0, n)], stops[Math.min(stops.length - 1, n + 1)]];
    this.go(Math.abs(near[0] - first - offset) <= Math.abs(near[1] - first - offset) ? near[0] : near[1]);
  }

  first() {
    this.go(this.run.span(this.p)[0]);
  }

  last() {
    this.go(this.run.span(this.p)[1] - 1);
  }

  toggle() {
    if (this.clock.on) return this.clock.stop();
    if (this.at === this.run.span(this.p)[1] - 1) this.first();
    this.clock.start();
  }

  halt() {
    this.glide.stop();
    this.clock.stop();
  }

  setSpeed(speed) {
    this.clock.speed = speed;
  }

  setGranularity(value) {
    this.granularity = value;
    this.link.put('granularity', value);
    this.dirty();
  }

  // -- the page ------------------------------------------------------------------------------------------------

  build() {
    const { head, pes } = this.run;
    this.controls = new Controls(this);
    this.step = new Choice(
      'Step by',
      [
        ['tile', 'by tile', 'PgUp, PgDn'],
        ['op', 'by operation', ''],
      ],
      v => this.setGranularity(v),
    );
    this.controls.extra.append(this.step.el);
    const items = pes.map((pe, n) => [n, pe.label]).filter(([n]) => pes[n].op1 > pes[n].op0);
    this.picker =
      items.length > 1 ? new (items.length <= FEW_PES ? Choice : Pick)('PE', items, p => this.toPe(p)) : null;
    this.where = h('b');
    this.said = h('span');
    this.caption = h('p', { class: 'caption' }, this.where, ' ', this.said);
    this.live = new Live(this.root);
    this.counters = new Counters();
    this.notes = [head.window && head.window.note, ...(head.warnings || []).slice(0, 3)].filter(Boolean);
    this.panels = this.makePanels();
    this.grid = h(
      'div',
      { class: 'grid', style: `--kb-h:${SCRATCH}px` },
      this.panels.map(p => p.el),
    );
    const title = h('div', { class: 'ttl' }, h('h2', {}, head.title), h('p', { class: 'about' }, head.about));
    if (this.options.compact) {
      // inside another view, which has said already what this is
      this.root.append(
        this.picker ? h('div', { class: 'pick' }, this.picker.el) : '',
        this.controls.el,
        this.caption,
        this.grid,
      );
      return;
    }
    this.root.append(
      h('div', { class: 'top' }, title, h('div', { class: 'pick' }, this.picker && this.picker.el)),
      this.controls.el,
      this.caption,
      ...this.notes.map(text => h('p', { class: 'remark' }, text)),
      this.counters.el,
      this.grid,
      h(
        'p',
        { class: 'hintline' },
        '← → step    PgUp PgDn tile    Home End    space plays    a click on a tile, a block, a bar or a line goes there',
      ),
    );
  }

  makePanels() {
    const { head } = this.run;
    const has = name => !this.options.panels || this.options.panels.includes(name);
    const page = this.options.everything;
    const make = (area, title, view, more) =>
      new Panel(area, title, view, { ...more, toggled: () => this.layout() });
    const wide = head.score && isWide(head.score);
    this.shape = !head.score ? 'bare' : wide ? 'wide' : 'square';
    const out = [];
    if (has('score') && head.score) {
      const weights = this.run.valuesOf.size > 0 && [['s-ramp', 'weight 10⁻⁴ … 1']];
      const folds = [...this.run.valuesOf.values()].some(v => v.m);
      const skips = Array.from({ length: this.run.tiles.n }, (_, t) => t).some(
        t => this.run.kind(t) === 'skip',
      ) && [['s-skip', 'skipped']];
      out.push(
        make('score', 'Score map', new ScoreMap(this), {
          note: folds
            ? 'weights so far; they fade as m and l grow'
            : wide
              ? ''
              : 'queries by keys, tile by tile',
          legend: [
            ['s-todo', 'to come'],
            ['s-now', 'current'],
            ...(wide && this.run.pes.length > 1 ? [['s-other', 'on other PEs']] : []),
            ...(weights || [['s-done', 'done']]),
            ...(skips || []),
          ],
        }),
      );
    }
    out.push(
      make('arena', 'Scratch', new Scratch(this, { height: SCRATCH }), {
        note: 'addresses ↑  operations →',
        legend: [
          ...(head.scoped
            ? [
                ['s-keep', 'persistent'],
                ['s-back', 'given back'],
                ['s-save', 'save-point'],
              ]
            : []),
          ['s-cur', 'cursor'],
          ['s-hw', 'high-water'],
        ],
      }),
    );
    if (has('source'))
      out.push(
        make('source', 'Kernel', new Source(this), {
          note: head.sources.length > 1 ? 'and the function it calls' : '',
        }),
      );
    if (has('engines')) {
      out.push(
        make('engines', 'Engines', new Engines(this), {
          open: this.shape === 'bare' || page,
          legend: [
            ['b-dma', 'dma'],
            ['b-gemm', 'gemm'],
            ['b-math', 'math'],
            ['b-ipc', 'ipc'],
          ],
        }),
      );
    }
    if (has('pes') && this.run.pes.length > 1) {
      out.push(
        make('pes', 'PEs', new Pes(this), {
          open: page || this.shape === 'square',
          note: 'simulated time →',
          legend: [
            ['s-bar', 'tile'],
            ['b-ipc', 'merge or send'],
            ['s-fly', 'message'],
          ],
        }),
      );
    }
    if (has('values') && this.run.valuesOf.size)
      out.push(make('values', 'Values', new Values(this), { open: page }));
    return out;
  }

  layout() {
    if (!this.panels || !this.shell.width) return;
    this.root.classList.toggle('narrow', this.shell.width < NARROW);
    this.root.classList.toggle('small', this.shell.width < 760);
    this.root.classList.toggle('slim', this.shell.width < 520);
    this.grid.className = `grid ${this.shape}${this.panels.some(q => q.view instanceof Source) ? '' : ' nosource'}`;
    const source = this.panels.find(panel => panel.view instanceof Source);
    if (
      !this.seen &&
      source &&
      this.shell.width < NARROW &&
      !this.options.everything &&
      this.shape !== 'bare'
    )
      source.fold(false);
    this.seen = true;
    for (const panel of this.panels)
      if (panel.open && panel !== source) panel.attempt(() => panel.view.layout(panel.width));
    if (source && source.open) {
      this.grid.style.setProperty('--kb-h', `${this.sourceHeight()}px`);
      source.attempt(() => source.view.layout());
    }
    this.draw();
  }

  /** The source is as high as what stands beside it. */
  sourceHeight() {
    if (this.shape !== 'square' || this.shell.width < NARROW) return SCRATCH;
    const beside = this.panels.filter(panel =>
      [Engines, Pes, Values].some(kind => panel.view instanceof kind),
    );
    const height = beside.reduce((sum, panel) => sum + panel.el.offsetHeight + 10, 0) - 40;
    return Math.max(300, height);
  }

  dirty() {
    if (this.asked || this.shell.closed) return;
    this.asked = requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.asked);
    this.asked = 0;
    if (!this.shell.width || this.shell.closed) return;
    const state = { run: this.run, p: this.p, i: this.i };
    this.sync(state);
    for (const panel of this.panels) {
      if (panel.open) panel.attempt(() => panel.view.draw(state));
      say(
        panel.brief,
        panel.open && panel.view.heading
          ? panel.view.heading(state)
          : panel.open || !panel.view.summary
            ? ''
            : panel.view.summary(state),
      );
    }
    this.shell.drawn();
  }

  /** All that says where the reader stands goes to the target at once; only the panels run through what lies between. */
  sync({ run, p }) {
    const [first, stop] = run.span(p);
    const at = this.at;
    const t = run.tile(at);
    const text =
      this.granularity === 'tile'
        ? position(run, p, t)
        : `${group(run.ordinal(p, at))} of ${group(run.pes[p].rows)}`;
    this.controls.show({ at: at - first, last: stop - first - 1, text, playing: this.clock.on });
    this.step.show(this.granularity);
    if (this.picker) this.picker.show(p);
    this.counters.draw({ run, p, i: at });
    const sentence = this.sentence(run, p, at);
    say(this.where, place(run, p, t));
    say(this.said, sentence);
    this.live.say(`${place(run, p, t)}. ${sentence}`, this.clock.on);
  }

  /** By tile a stop says what the tile did; the two ends of the run say that they are its ends. */
  sentence(run, p, at) {
    if (this.granularity !== 'tile' || run.op(at) === 'overflow') return operation(run, at);
    const t = run.tile(at);
    if (at === run.tiles.stop[t]) return tileSentence(run, t);
    const [first, stop] = run.span(p);
    const begins = at === first && run.ordinal(p, at) === 1;
    const end = begins ? 'Here it begins. ' : at === stop - 1 && run.isLast(p, at) ? 'Here it ends. ' : '';
    const done = at - run.tiles.op0[t] + 1;
    const inside =
      end || done < 1
        ? ''
        : `Inside it, after step ${group(done)} of ${group(run.tiles.op1[t] - run.tiles.op0[t] + 1)}: `;
    return `${end}${inside}${operation(run, at)}`;
  }

  close() {
    this.halt();
    cancelAnimationFrame(this.asked);
    this.live.close();
    this.link.close();
    this.shell.close();
    this.run = null;
    this.panels = null;
  }
}
