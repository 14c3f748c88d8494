// The kernel's own text with the current line marked; below it the shared function, if that is where `tl` was called.

import { h, say } from './dom.js';
import { lastAtMost } from './run.js';
import { Made } from './source_made.js';

const LINE = 16; // px
const FILE = 17;

export class Source {
  constructor(player) {
    this.player = player;
    this.el = h('div', { class: 'src' });
    this.lists = [];
  }

  layout() {
    const { run } = this.player;
    if (this.built !== run) this.build(run);
    // whole lines only: what does not fit is scrolled to, not cut
    const height = parseFloat(getComputedStyle(this.el).getPropertyValue('--kb-h')) || 372;
    const rows = px => `${Math.max(4, Math.floor(px / LINE)) * LINE}px`;
    const room = height - (this.lists.length > 1 ? 2 * FILE + 8 : FILE);
    this.lists.forEach((list, n) => {
      list.scroll.style.maxHeight = rows(this.lists.length === 1 ? room : n ? room * 0.58 : room * 0.42);
      list.places = null;
    });
    // of the same height whichever function is in it
    if (this.lists.length > 1)
      this.shared.style.height = `${Math.floor((room * 0.58) / LINE) * LINE + FILE}px`;
  }

  build(run) {
    this.built = run;
    const made = new Made(run);
    this.lists = run.head.sources.map((source, n) => new Listing(this.player, source, n, made));
    this.inner = -1;
    this.el.replaceChildren();
    if (!this.lists.length) {
      this.el.append(
        h(
          'p',
          { class: 'nothing' },
          'The text of this kernel is not known (it was not read from a file or a cell).',
        ),
      );
      return;
    }
    this.el.append(this.lists[0].el);
    this.shared = h('div', { class: 'shared' });
    if (this.lists.length > 1) this.el.append(this.shared);
  }

  draw({ run, p, i }) {
    if (!this.lists.length) return;
    const { sites, ops, engines } = run;
    const site = ops.site[i];
    const engine = engines[run.engine(i)];
    const [source, line] = site >= 0 ? [sites.source[site], sites.line[site]] : [-1, -1];
    const [outer, outerLine] = site >= 0 ? [sites.ksource[site], sites.kline[site]] : [-1, -1];
    const inKernel = source === 0;
    this.lists[0].mark(
      inKernel ? line : outer === 0 ? outerLine : -1,
      inKernel ? engine : 'scope',
      !inKernel && outer === 0,
    );
    this.lists[0].tell(run, i);
    if (this.lists.length === 1) return;
    const called = source > 0;
    const shown = called ? source : this.nearestCall(run, p, i);
    if (shown !== this.inner) {
      this.inner = shown;
      this.shared.replaceChildren(this.lists[shown].el);
    }
    this.lists[shown].mark(called ? line : -1, engine, false);
    this.lists[shown].tell(run, called ? i : -1);
    this.lists[shown].runs(called);
    this.shared.classList.toggle('idle', !called);
  }

  /** Between two calls: the function that was called last, before the first call the one that comes; whatever the way here. */
  nearestCall(run, p, i) {
    if (!this.calls || this.calls.p !== p) {
      const { sites, ops } = run;
      const [first, stop] = run.span(p);
      const rows = [];
      for (let row = first; row < stop; row++)
        if (ops.site[row] >= 0 && sites.source[ops.site[row]] > 0) rows.push(row);
      this.calls = { p, rows: Int32Array.from(rows) };
    }
    const { rows } = this.calls;
    if (!rows.length) return 1;
    const row = rows[Math.max(0, lastAtMost(rows, 0, rows.length, i))];
    return run.sites.source[run.ops.site[row]];
  }

  summary({ run, i }) {
    const { sites, ops } = run;
    const site = ops.site[i];
    if (site < 0 || sites.line[site] <= 0) return '';
    return `${run.text(sites.function[site])}, line ${sites.line[site]}`;
  }
}

/** One function's text. Its docstring is folded, and so is a signature of many lines. */
class Listing {
  constructor(player, source, number, made) {
    this.rows = new Map();
    this.cells = []; // [line, row, its shape]
    this.number = number;
    this.made = made;
    this.scroll = h('div', {
      class: 'lines',
      role: 'list',
      tabindex: -1,
      'aria-label': `source of ${source.name}`,
    });
    this.state = h('span', { class: 'idle-note' });
    this.el = h(
      'div',
      { class: 'listing' },
      h('p', { class: 'file' }, h('b', {}, source.name), this.state, ` ${source.file}`),
      this.scroll,
    );
    const margin = Math.min(...source.lines.filter(l => l.trim()).map(l => l.length - l.trimStart().length));
    for (const { line, text, folds } of folded(source)) {
      const known = made.line(number, line);
      // room for its longest shape, so that no line breaks otherwise when it comes
      const shape =
        known && h('span', { class: 'shape', style: `min-width:calc(${known.longest}ch + 16px)` });
      const row = h(
        'div',
        { class: known ? 'line has' : 'line', role: 'listitem' },
        h('span', { class: 'no' }, String(line)),
        code(text, margin),
        shape,
      );
      if (known) {
        row.addEventListener('click', () => player.goLine(number, line));
        this.cells.push([line, row, shape]);
      }
      this.scroll.append(row);
      for (const l of folds) this.rows.set(l, row);
    }
    this.on = null;
    this.places = null;
    this.top = 0;
    this.scroll.addEventListener('scroll', () => (this.top = this.scroll.scrollTop), { passive: true });
  }

  /** Where the rows stand, measured once a layout: asking the page at each step would make it lay out again. */
  measure() {
    this.places = new Map();
    for (const row of new Set(this.rows.values())) this.places.set(row, [row.offsetTop, row.offsetHeight]);
    this.view = this.scroll.clientHeight;
    this.top = this.scroll.scrollTop;
  }

  /** Beside each line what it has made in the tile of row `i`, up to it; with -1 nothing. */
  tell(run, i) {
    for (const [line, row, cell] of this.cells) {
      const { shape, title } = this.made.at(this.number, line, i);
      say(cell, shape);
      if (row.title !== title) row.title = title;
    }
  }

  /** Whether this function is running. */
  runs(yes) {
    say(this.state, yes ? '' : ' (not running)');
    // between two calls it stands at its first line, where the next call begins
    if (!yes && this.top) this.scroll.scrollTop = this.top = 0;
  }

  mark(line, engine, caller) {
    const row = this.rows.get(line) || null;
    const cls = row ? `on e-${engine}${caller ? ' caller' : ''}` : '';
    if (row === this.on && cls === this.cls) return;
    if (this.on) {
      this.on.className = this.on.className.replace(/ on .*/, '');
      this.on.removeAttribute('aria-current');
    }
    this.on = row;
    this.cls = cls;
    if (!row) return;
    row.className += ` ${cls}`;
    row.setAttribute('aria-current', 'step');
    if (!this.places || !this.view) this.measure();
    const [top, height] = this.places.get(row);
    if (top >= this.top + 4 && top + height <= this.top + this.view - 4) return;
    this.top = Math.max(0, top - Math.round((this.view * 0.4) / LINE) * LINE);
    this.scroll.scrollTop = this.top;
  }
}

/** Lines to show: [{line, text, folds: line numbers that this one stands for}]. */
function* folded(source) {
  const last = source.first + source.lines.length - 1;
  for (let line = source.first; line <= last; line++) {
    let text = source.lines[line - source.first];
    const fold = [source.signature, source.doc].find(range => range && range[0] === line && range[1] > line);
    const folds = [line];
    if (fold) {
      for (let l = line + 1; l <= fold[1]; l++) folds.push(l);
      text = fold === source.doc ? text.replace(/("""|''').*/, '$1…$1') : signature(source, fold);
      line = fold[1];
    }
    yield { line: folds[0], text, folds };
  }
}

/** `def f(` over many lines -> `def f(q, k, v, o, …):` */
function signature(source, [from, to]) {
  const text = source.lines
    .slice(from - source.first, to - source.first + 1)
    .map(l => l.trim())
    .join(' ');
  const names = text
    .slice(text.indexOf('(') + 1)
    .split(',')
    .map(p => p.split(/[:=)]/)[0].trim())
    .filter(n => n && n !== '*');
  const shown = names.slice(0, 5).join(', ');
  const indent = source.lines[from - source.first].match(/^\s*/)[0];
  return `${indent}${text.slice(0, text.indexOf('('))}(${shown}${names.length > 5 ? ', …' : ''}):`;
}

/** A line as code: its indent narrower than typed, four kinds of ink, no parser. */
function code(line, margin) {
  const text = line.trimStart();
  const depth = Math.max(0, line.length - text.length - margin);
  const e = h('code', { style: `padding-left:${(depth * 0.36 + 1.2).toFixed(2)}em` });
  const pattern =
    /(#.*$)|([fr]?"[^"]*"|[fr]?'[^']*')|\b(def|for|in|with|as|if|elif|else|continue|return|not|and|or|while|lambda|yield|None|True|False)\b|(\btl\.\w+)/g;
  const tidy = text.replace(/ {2,}#/, '  #');
  let at = 0;
  for (const match of tidy.matchAll(pattern)) {
    if (match.index > at) e.append(tidy.slice(at, match.index));
    const ink = match[1] ? 'k-c' : match[2] ? 'k-s' : match[3] ? 'k-k' : 'k-t';
    e.append(h('span', { class: ink }, match[0]));
    at = match.index + match[0].length;
  }
  e.append(tidy.slice(at) || (at ? '' : ' '));
  return e;
}
