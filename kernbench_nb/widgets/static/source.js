// The kernel's own text with the current line marked; below it the shared function, if that is where `tl` was called.

import { h } from './dom.js';
import { shape } from './numbers.js';

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
    this.shapes = shapesByLine(run);
    this.lists = run.head.sources.map((source, n) => new Listing(this.player, source, n, this.shapes));
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

  draw({ run, i }) {
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
    if (this.lists.length === 1) return;
    // the function last called stays in view, so that nothing jumps between two calls
    const shown = source > 0 ? source : this.inner > 0 ? this.inner : 1;
    if (shown !== this.inner) {
      this.inner = shown;
      this.shared.replaceChildren(this.lists[shown].el);
    }
    this.lists[shown].mark(source > 0 ? line : -1, engine, false);
    this.shared.classList.toggle('idle', source <= 0);
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
  constructor(player, source, number, shapes) {
    this.rows = new Map();
    this.scroll = h('div', {
      class: 'lines',
      role: 'list',
      tabindex: -1,
      'aria-label': `source of ${source.name}`,
    });
    this.el = h(
      'div',
      { class: 'listing' },
      h('p', { class: 'file' }, h('b', {}, source.name), ` ${source.file}`),
      this.scroll,
    );
    const margin = Math.min(...source.lines.filter(l => l.trim()).map(l => l.length - l.trimStart().length));
    for (const { line, text, folds } of folded(source)) {
      const made = shapes.get(`${number}:${line}`);
      const row = h(
        'div',
        { class: made ? 'line has' : 'line', role: 'listitem' },
        h('span', { class: 'no' }, String(line)),
        code(text, margin),
        made ? h('span', { class: 'shape' }, made.shape) : null,
      );
      if (made) {
        row.title = made.title;
        row.addEventListener('click', () => player.goLine(number, line));
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

/** For each source line the shape of what it makes; of several operations, the last one's. */
function shapesByLine(run) {
  const { sites, ops } = run;
  const tile = new Int32Array(sites.n).fill(-1);
  const row = new Int32Array(sites.n).fill(-1);
  for (let i = 0; i < ops.n; i++) {
    const s = ops.site[i];
    if (s < 0) continue;
    if (tile[s] < 0) tile[s] = ops.tile[i];
    if (tile[s] === ops.tile[i]) row[s] = i;
  }
  const made = new Map();
  for (let s = 0; s < sites.n; s++) {
    if (row[s] < 0 || sites.source[s] < 0) continue;
    const key = `${sites.source[s]}:${sites.line[s]}`;
    const known = made.get(key);
    if (known && known.row > row[s]) continue;
    const op = run.op(row[s]);
    const silent = op.startsWith('scope') || ['dma_write', 'overflow', 'ipc_send'].includes(op);
    const text = shape(run.shape(row[s]));
    made.set(key, {
      row: row[s],
      shape: silent ? '' : text,
      title: [run.name(row[s]), text].filter(Boolean).join(': '),
    });
  }
  for (let s = 0; s < sites.n; s++) {
    // the kernel's line that calls a shared function can be clicked, too
    const key = `${sites.ksource[s]}:${sites.kline[s]}`;
    if (!made.has(key)) made.set(key, { shape: '', title: `calls ${run.text(sites.function[s])}` });
  }
  return made;
}
