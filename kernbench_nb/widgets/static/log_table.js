// The table of a log: only the rows in view are elements, so a hundred thousand scroll as ten do.

import { h, say } from './dom.js';
import { group, shape, short } from './numbers.js';

const ROW = 20; // px
const VIEW = 340;
const COLUMNS = [
  ['start', 'start, ns', 'num'],
  ['duration', 'ns', 'num'],
  ['pe', 'PE', ''],
  ['engine', 'engine', ''],
  ['op', 'op', ''],
  ['name', 'name', ''],
  ['shape', 'shape', ''],
  ['bytes', 'bytes', 'num'],
  ['flops', 'FLOPs', 'num'],
  ['tile', 'tile', ''],
  ['line', 'line', 'num'],
];

export class Table {
  constructor(log) {
    this.log = log;
    this.heads = COLUMNS.map(([column, label, cls]) =>
      h(
        'th',
        { class: cls, scope: 'col' },
        h('button', { type: 'button', onclick: () => log.sortBy(column) }, label),
      ),
    );
    this.body = h('tbody');
    this.before = h('tr', { 'aria-hidden': 'true' }, h('td', { colspan: COLUMNS.length }));
    this.after = h('tr', { 'aria-hidden': 'true' }, h('td', { colspan: COLUMNS.length }));
    const head = h('thead', {}, h('tr', {}, this.heads));
    this.table = h('table', {}, head, this.body);
    this.el = h(
      'div',
      {
        class: 'logtable',
        tabindex: 0,
        role: 'region',
        'aria-label': 'Operations',
        style: `max-height:${VIEW}px`,
      },
      this.table,
    );
    this.pool = [];
    this.el.addEventListener('scroll', () => this.later());
    this.listen();
  }

  listen() {
    let from = null;
    const at = event => {
      const tr = event.target.closest && event.target.closest('tr[data-at]');
      return tr ? +tr.dataset.at : null;
    };
    this.body.addEventListener('pointerdown', event => {
      from = at(event);
      if (from !== null && !event.shiftKey) this.anchor = from;
    });
    this.body.addEventListener('pointerup', event => {
      const to = at(event);
      if (from === null || to === null) return;
      const { sorted } = this.log;
      if (event.shiftKey || to !== from) {
        const begin = event.shiftKey ? (this.anchor ?? to) : from;
        const rows = Array.from(sorted.subarray(Math.min(begin, to), Math.max(begin, to) + 1));
        this.log.brush(rows.sort((a, b) => a - b));
      } else this.log.go(sorted[to]);
      from = null;
    });
  }

  toTop() {
    this.el.scrollTop = 0;
  }

  later() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.asked);
    this.asked = 0;
    const { log } = this;
    if (!log.sorted) return;
    const n = log.sorted.length;
    const first = Math.max(0, Math.min(n - 1, Math.floor(this.el.scrollTop / ROW) - 4));
    const count = Math.min(n - Math.max(0, first), Math.ceil(VIEW / ROW) + 10);
    this.before.firstChild.style.height = `${Math.max(0, first) * ROW}px`;
    this.after.firstChild.style.height = `${Math.max(0, n - first - count) * ROW}px`;
    while (this.pool.length < count) this.pool.push(this.row());
    const rows = this.pool.slice(0, Math.max(0, count));
    rows.forEach((row, k) => this.fill(row, first + k));
    const wanted = [this.before, ...rows.map(r => r.tr), this.after];
    if (this.body.childNodes.length !== wanted.length || this.body.firstChild !== this.before)
      this.body.replaceChildren(...wanted);
    COLUMNS.forEach(([column], k) => {
      const sorted = log.sort.column === column ? (log.sort.down ? 'descending' : 'ascending') : 'none';
      this.heads[k].setAttribute('aria-sort', sorted);
    });
  }

  row() {
    const cells = COLUMNS.map(([column, , cls]) => h('td', { class: `${cls} c-${column}` }));
    return { cells, tr: h('tr', {}, cells) };
  }

  fill({ tr, cells }, at) {
    const { log } = this;
    const { run, rows } = log;
    const i = log.sorted[at];
    const ns = ps => (ps % 1000 ? (ps / 1000).toFixed(1) : group(ps / 1000));
    const value = column => rows.value(i, column);
    const texts = {
      start: ns(value('start')),
      duration: ns(value('duration')),
      pe: run.pes[value('pe')].label,
      engine: run.engines[value('engine')],
      op: value('op'),
      name: value('name'),
      shape: shape(value('shape')),
      bytes: value('bytes') > 0 ? group(value('bytes')) : '',
      flops: value('flops') > 0 ? short(value('flops')) : '',
      tile: value('tile'),
      line: value('line') > 0 ? String(value('line')) : '',
    };
    COLUMNS.forEach(([column], k) => say(cells[k], texts[column]));
    tr.dataset.at = at;
    const cls = `e-${texts.engine}${log.isSelected(i) ? ' picked-row' : ''}${i === log.current ? ' now-row' : ''}`;
    if (tr.className !== cls) tr.className = cls;
  }

  close() {
    cancelAnimationFrame(this.asked);
  }
}
