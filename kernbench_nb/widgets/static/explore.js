// kb.explore(): what Python worked out for the present settings, drawn; below it the run itself. The sliders are
// ipywidgets; here nothing is computed that Python knows.

import { h, say } from './dom.js';
import { bytes, group, percent, time } from './numbers.js';
import { Shell, message } from './shell.js';
import { Link } from './link.js';
import { Panel } from './frame.js';
import { Live } from './live.js';
import { Player } from './player.js';
import { runOf } from './run.js';
import { PeakChart } from './chart_peak.js';
import { TileChart } from './chart_tile.js';

const NARROW = 860;

class Explore {
  constructor({ model, el }) {
    this.model = model;
    this.link = new Link(model);
    this.shell = new Shell(el, 'Design explorer', () => this.layout());
    this.id = this.shell.id;
    this.root = this.shell.root;
    this.root.classList.add('kb-explore');
    this.tip = this.shell.tip;
    this.state = this.link.get('state', {});
    this.verdict = h('b');
    this.detail = h('span');
    this.live = new Live(this.root);
    this.working = h('span', { class: 'working', role: 'status' });
    this.formula = h('p', { class: 'formula' });
    this.numbers = h('dl', { class: 'nums' });
    this.lesson = h('div', { class: 'lesson', hidden: true });
    this.peak = new PeakChart(this);
    this.tile = new TileChart(this);
    this.panels = [
      new Panel('peak', 'Peak scratch against context length', this.peak, {
        note: 'per PE',
        legend: [
          ['s-solid', 'this setting'],
          ['s-other', 'scopes the other way'],
          ['s-lim', 'limit'],
        ],
      }),
      new Panel('tile', 'One tile, by its size', this.tile, {
        note: 'load beside compute, for each key',
        legend: [
          ['b-dma', 'load'],
          ['b-gemm', 'gemm'],
          ['b-math', 'math'],
        ],
      }),
    ];
    this.runBox = h('div', { class: 'explored' });
    this.root.append(
      h('p', { class: 'caption' }, this.verdict, ' ', this.detail, this.working),
      this.lesson,
      h(
        'div',
        { class: 'xgrid' },
        h('div', {}, this.numbers),
        h(
          'div',
          { class: 'charts' },
          this.panels.map(p => p.el),
        ),
      ),
      this.formula,
      this.runBox,
    );
    this.link.on('state', () => {
      this.state = this.link.get('state', {});
      this.draw();
    });
    this.link.on('busy', () => this.tell());
    this.link.on(['trace', 'heads'], () => this.later());
    this.shell.layout();
    this.showRun();
  }

  get palette() {
    return this.shell.palette;
  }

  /** The sliders stand beside the view, in a box of ipywidgets: what is typed there is no command of the notebook. */
  keepKeys() {
    const box = this.root.closest('.kernbench-explorer');
    if (!box || box === this.box) return;
    this.box = box;
    this.shell.listen(box, 'focusin', event =>
      event.target.setAttribute('data-lm-suppress-shortcuts', 'true'),
    );
  }

  layout() {
    this.keepKeys();
    this.root.classList.toggle('narrow', this.shell.width < NARROW);
    this.root.classList.toggle('small', this.shell.width < 760);
    if (!this.panels) return;
    for (const panel of this.panels) if (panel.open) panel.attempt(() => panel.view.layout(panel.width));
    this.draw();
  }

  draw() {
    if (!this.panels || !this.shell.width) return;
    this.tell();
    for (const panel of this.panels) {
      panel.el.hidden = !panel.view.has(this.state);
      if (panel.open && !panel.el.hidden) panel.attempt(() => panel.view.draw(this.state));
    }
    this.tellFormula();
    this.shell.drawn();
  }

  tell() {
    const { state } = this;
    this.root.classList.toggle('bad', Boolean(state.error));
    const busy = this.link.get('busy', false);
    say(this.verdict, state.verdict || (busy ? 'Running …' : 'No run yet'));
    say(this.detail, state.detail || '');
    say(this.working, busy && state.verdict ? ' running …' : '');
    this.live.say(`${this.verdict.textContent}. ${this.detail.textContent}`, busy);
    this.lesson.hidden = !state.error;
    if (state.error)
      this.lesson.replaceChildren(
        h('b', {}, state.error.type || 'Error'),
        h('pre', {}, state.error.text || state.error.message || ''),
      );
    const terms = state.terms || {};
    const rows = [
      ['tiles per PE', terms.N ?? state.tiles, group],
      ['peak scratch', state.peak, bytes],
      ['persistent arena', state.persistent, bytes],
      ['share of the limit', state.peak && state.limit ? state.peak / state.limit : null, percent],
      ['HBM bytes', state.hbm, bytes],
      ['load L of a tile', terms.L, time],
      ['compute C of a tile', terms.C, time],
      ['makespan', state.makespan, time],
      ['bound by', state.bound, String],
    ].filter(([, v]) => v !== undefined && v !== null);
    this.numbers.replaceChildren(
      ...rows.flatMap(([name, v, text]) => [h('dt', {}, name), h('dd', {}, text(v))]),
    );
  }

  /** The sweep's closed form with this run's terms in it. */
  tellFormula() {
    const { terms, makespan, params } = this.state;
    this.formula.hidden = !terms || !terms.N;
    if (this.formula.hidden) return;
    const { N, L, C_first: first, C, I } = terms;
    const [form, value] =
      params && params.prefetch
        ? [
            'L + max(L, I + C₁) + (N − 2)·max(L, I + C) + C',
            N > 1 ? L + Math.max(L, I + first) + (N - 2) * Math.max(L, I + C) + C : L + first,
          ]
        : ['N·L + C₁ + (N − 1)·C', N * L + first + (N - 1) * C];
    const longer = L > C ? 'load' : 'compute';
    this.formula.replaceChildren(
      h('code', {}, form),
      ` with N = ${group(N)}, L = ${time(L)}, C₁ = ${time(first)}, C = ${time(C)} gives ${time(value)} for the sweep of a PE; the ${longer} of a tile is the longer half.` +
        (makespan ? ` The run as a whole took ${time(makespan)}.` : ''),
    );
  }

  later() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.showRun();
    });
  }

  /** The run of the present settings, to step through; another run replaces it. */
  showRun() {
    const heads = this.link.get('heads', []);
    const trace = this.model.get('trace');
    if (this.player) this.player.close();
    if (this.note) this.note();
    this.player = this.note = null;
    if (this.shell.closed || !heads.length || !trace || !trace.byteLength) return;
    try {
      const run = runOf(heads[0], trace);
      if (!run.ops.n) return;
      this.player = new Player({ model: this.model, el: this.runBox }, run, {
        label: `The run: ${heads[0].title}`,
        panels: ['engines', 'score'],
        compact: true,
      });
    } catch (problem) {
      this.note = message(this.runBox, 'This run cannot be shown', problem.message);
    }
  }

  close() {
    cancelAnimationFrame(this.asked);
    if (this.player) this.player.close();
    this.live.close();
    this.link.close();
    this.shell.close();
    this.panels = this.player = null;
  }
}

function render(context) {
  const made = new Explore(context);
  return () => made.close();
}

export default { render };
