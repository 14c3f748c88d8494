// Two runs side by side, stepped together by tile: with and without scopes, with and without prefetch. A tile stands at
// the same x on both sides, and addresses have one scale.

import { h, say } from './dom.js';
import { bytes, time } from './numbers.js';
import { Shell } from './shell.js';
import { Link } from './link.js';
import { Clock, Glide, still } from './clock.js';
import { Choice, Controls, keys, Pick } from './controls.js';
import { legend } from './frame.js';
import { Live } from './live.js';
import { Side } from './side.js';

const NARROW = 900;

export class Pair {
  constructor({ model, el }, [a, b], names) {
    this.link = new Link(model);
    this.shell = new Shell(el, 'Two runs side by side', () => this.layout());
    this.id = this.shell.id;
    this.root = this.shell.root;
    this.root.classList.add('kb-pair');
    this.tip = this.shell.tip;
    this.clock = new Clock(
      () => this.move(1, true),
      () => this.dirty(),
    );
    this.glide = new Glide(n => this.between(n / 1000));
    this.most = Math.max(
      ...[a, b].flatMap(run => run.tilesOf.map(list => list.filter(t => run.counted(t)).length)),
      a.head.error?.planned?.tiles || 0,
      b.head.error?.planned?.tiles || 0,
      1,
    );
    this.sides = [a, b].map((run, n) => new Side(this, run, n, names[n]));
    this.overflows = [a, b].some(run => run.head.error && run.head.error.wanted);
    this.build();
    keys(this.root, this);
    this.usePe(this.peOf(this.link.get('pe')));
    this.step = this.clamp(this.link.get('step', this.most));
    this.rows = this.sides.map(s => s.rowOf(this.step));
    this.link.on('step', () => {
      const n = this.clamp(this.link.get('step', 0));
      if (n !== this.step) this.goStep(n);
      else this.publish();
    });
    this.link.on('pe', () => {
      const p = this.peOf(this.link.get('pe'));
      if (p !== this.p) {
        this.usePe(p);
        this.goStep(this.step, true);
        this.layout();
      } else this.publish();
    });
    this.shell.layout();
  }

  get palette() {
    return this.shell.palette;
  }

  get highest() {
    return Math.max(...this.sides.map(s => s.run.pes[s.p].peak), 64);
  }

  peOf(pe) {
    const p = this.sides[0].run.number.get(pe);
    return p === undefined ? 0 : p;
  }

  usePe(p) {
    this.p = p;
    for (const side of this.sides) side.use(Math.min(p, side.run.pes.length - 1));
  }

  clamp(n) {
    return Math.max(0, Math.min(this.most, Math.round(n)));
  }

  publish() {
    this.link.put('step', this.step);
    this.link.put('pe', this.sides[0].run.pes[this.p].pe);
  }

  build() {
    this.controls = new Controls(this);
    const count = Math.min(...this.sides.map(s => s.run.pes.length));
    const items = this.sides[0].run.pes.slice(0, count).map((pe, n) => [n, pe.label]);
    const choose = p => {
      this.usePe(p);
      this.goStep(this.step, true);
      this.layout();
    };
    this.picker = count > 1 ? new (count <= 8 ? Choice : Pick)('PE', items, choose) : null;
    const [a, b] = this.sides.map(s => s.run.head);
    this.where = h('b');
    this.said = h('span');
    this.live = new Live(this.root);
    const title = h(
      'div',
      { class: 'ttl' },
      h('h2', {}, `${this.sides[0].title} and ${lower(this.sides[1].title)}`),
      h('p', { class: 'about' }, a.about === b.about ? a.about : `${a.about}; ${b.about}`),
    );
    const marks = legend([
      ['b-dma', 'loaded'],
      ['b-gemm', 'gemm result'],
      ['b-math', 'math result'],
      ['s-keep', 'persistent'],
      ['s-back', 'given back'],
      ['s-cur', 'cursor'],
      ['s-hw', 'high-water'],
      ...(this.overflows ? [['s-lim', 'limit']] : []),
    ]);
    marks.classList.add('wide');
    this.root.append(
      h('div', { class: 'top' }, title, h('div', { class: 'pick' }, this.picker && this.picker.el)),
      this.controls.el,
      h('p', { class: 'caption' }, this.where, ' ', this.said),
      marks,
      h(
        'div',
        { class: 'two' },
        this.sides.map(s => s.el),
      ),
      h('p', { class: 'hintline' }, '← → tile    Home End    space plays    a click on a tile goes there'),
    );
  }

  // -- moving --------------------------------------------------------------------------------------------------

  goStep(n, again = false) {
    this.halt();
    n = this.clamp(n);
    if (n === this.step && !again && !this.moving) return this.publish();
    this.moving = false;
    this.step = n;
    this.rows = this.sides.map(s => s.rowOf(n));
    this.publish();
    this.dirty();
  }

  move(by, playing = false) {
    const n = this.step + by;
    if (!playing) this.clock.stop();
    if (n < 0 || n > this.most) return false;
    this.glide.stop();
    this.step = n;
    this.from = this.rows;
    this.to = this.sides.map(s => s.rowOf(n));
    const runs = by > 0 && !still() && (!playing || this.clock.speed <= 2);
    this.moving = runs;
    if (runs) this.glide.to(0, 1000, 420);
    else this.rows = this.to;
    this.publish();
    this.dirty();
    return true;
  }

  between(u) {
    this.rows = this.to.map((to, n) => Math.round(this.from[n] + (to - this.from[n]) * u));
    if (u >= 1) this.moving = false;
    this.dirty();
  }

  moveTile(by) {
    this.move(by);
  }

  first() {
    this.goStep(0);
  }

  last() {
    this.goStep(this.most);
  }

  seek(n) {
    this.goStep(n);
  }

  toggle() {
    if (this.clock.on) return this.clock.stop();
    if (this.step === this.most) this.goStep(0);
    this.clock.start();
  }

  halt() {
    this.glide.stop();
    this.clock.stop();
    if (this.moving) this.rows = this.to;
  }

  setSpeed(speed) {
    this.clock.speed = speed;
  }

  // -- drawing -------------------------------------------------------------------------------------------------

  layout() {
    if (!this.sides || !this.shell.width || !this.rows) return;
    this.root.classList.toggle('narrow', this.shell.width < NARROW);
    this.root.classList.toggle('small', this.shell.width < 760);
    for (const side of this.sides) {
      side.i = this.rows[side.number];
      side.layout();
    }
    this.draw();
  }

  dirty() {
    if (this.asked || this.shell.closed || !this.rows) return;
    this.asked = requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.asked);
    this.asked = 0;
    if (!this.shell.width || this.shell.closed) return;
    this.sides.forEach((side, n) => side.draw(this.rows[n]));
    const label = this.label();
    const text = `${label ? `${label} · ` : ''}${this.step} of ${this.most}`;
    this.controls.show({ at: this.step, last: this.most, text, playing: this.clock.on });
    if (this.picker) this.picker.show(this.p);
    say(this.where, !label ? 'Before the first tile' : this.finished() ? 'At the end' : `After ${label}`);
    say(this.said, this.sentence());
    this.live.say(`${this.where.textContent}: ${this.said.textContent}`, this.clock.on);
    this.shell.drawn();
  }

  /** Whether one stands at the end of a run that went on after its last tile, to merge or to divide. */
  finished() {
    return this.step === this.most && this.sides.some(s => s.goesOn());
  }

  /** The name of the last tile that is done; it is that of its scope, and no position. */
  label() {
    for (const { run, tiles } of this.step ? this.sides : []) {
      const t = tiles[Math.min(this.step, tiles.length) - 1];
      if (t !== undefined && this.step <= tiles.length) return run.tileLabel(t) || `scope ${this.step}`;
    }
    return this.step ? `tile ${this.step}` : '';
  }

  sentence() {
    const [a, b] = this.sides;
    const rows = this.moving ? this.to : this.rows;
    const used = this.sides.map((s, n) => s.run.ops.cursor[rows[n]]);
    const dead = this.sides.filter(s => s.dead);
    if (dead.length === 2) return 'both runs are full and have stopped.';
    if (dead.length) {
      const other = this.sides.find(s => !s.dead);
      return `${lower(other.title)} ${bytes(used[other.number])} are in use; ${lower(dead[0].title)} the scratch is full and the run has stopped${dead[0].stoppedIn()}.`;
    }
    if (a.run.head.scoped !== b.run.head.scoped && this.step && Math.min(...used) > 0) {
      const [more, less] = used[0] > used[1] ? [0, 1] : [1, 0];
      return `${lower(this.sides[less].title)} ${bytes(used[less])} are in use, ${lower(this.sides[more].title)} ${bytes(used[more])}: ${(used[more] / used[less]).toFixed(1)} times as much for the same answer.`;
    }
    return (
      this.sides
        .map((s, n) => `${lower(s.title)}: ${time(s.run.ops.clock[rows[n]])}, ${bytes(used[n])} in use`)
        .join('; ') + '.'
    );
  }

  close() {
    this.halt();
    cancelAnimationFrame(this.asked);
    this.live.close();
    this.link.close();
    this.shell.close();
    this.sides = null;
  }
}

const lower = text => (/^[A-Z][a-z]/.test(text) ? text[0].toLowerCase() + text.slice(1) : text);
