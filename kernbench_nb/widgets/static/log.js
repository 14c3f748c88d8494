// kb.show_log(run): the operation log in the page. Bars by op, engine, PE or tile; a filter; a table that sorts. What is
// brushed, in the bars or in the table, is the selection that a linked stepper shows.

import { h, say } from './dom.js';
import { group, many, percent, time } from './numbers.js';
import { view } from './mount.js';
import { Shell } from './shell.js';
import { Link, same } from './link.js';
import { Choice, Pick } from './controls.js';
import { Rows } from './log_rows.js';
import { Table } from './log_table.js';

const NARROW = 860;
const BARS = 14;
const GROUPS = [
  ['op', 'operation'],
  ['engine', 'engine'],
  ['pe', 'PE'],
  ['tile', 'tile'],
];

class Log {
  constructor({ model, el }, run) {
    this.run = run;
    this.link = new Link(model);
    this.shell = new Shell(el, `Log: ${run.head.title}`, () => this.layout());
    this.root = this.shell.root;
    this.root.classList.add('kb-log');
    this.rows = new Rows(run);
    this.by = GROUPS.some(([g]) => g === this.link.get('group')) ? this.link.get('group') : 'op';
    this.query = String(this.link.get('query', ''));
    this.pe = -1;
    this.engine = -1;
    this.selection = this.link.get('selection', []);
    this.sort = { column: 'start', down: false };
    this.build();
    this.hear();
    this.filter();
    this.shell.layout();
  }

  build() {
    const { head, pes } = this.run;
    this.search = h('input', {
      type: 'search',
      class: 'search',
      placeholder: 'filter: exp, dma, tile 2, 3×3×64 …',
      'aria-label': 'Filter',
      value: this.query,
    });
    this.search.addEventListener('input', () => this.setQuery(this.search.value));
    const choose = by => {
      this.by = by;
      this.link.put('group', by);
      this.drawBars();
    };
    this.grouping = new Choice('Bars by', GROUPS, choose);
    this.engines = new Choice(
      'Engine',
      [[-1, 'all engines'], ...head.engines.slice(0, 4).map((e, n) => [n, e])],
      n => {
        this.engine = n;
        this.filter();
      },
    );
    const items = [[-1, 'all PEs'], ...pes.map((pe, n) => [n, pe.label])];
    this.picker =
      pes.length > 1
        ? new Pick('PE', items, n => {
            this.pe = n;
            this.filter();
          })
        : null;
    this.status = h('p', { class: 'caption', 'aria-live': 'polite' });
    this.clear = h(
      'button',
      { type: 'button', class: 'clear', onclick: () => this.brush([]) },
      'clear selection',
    );
    this.bars = h('div', { class: 'bars', role: 'list', 'aria-label': 'Time by group' });
    this.table = new Table(this);
    this.root.append(
      h(
        'div',
        { class: 'top' },
        h('div', { class: 'ttl' }, h('h2', {}, `Log: ${head.title}`), h('p', { class: 'about' }, head.about)),
      ),
      h(
        'div',
        { class: 'controls', role: 'toolbar', 'aria-label': 'Log' },
        this.search,
        this.engines.el,
        this.picker && this.picker.el,
      ),
      h('div', { class: 'status' }, this.status, this.clear),
      h(
        'div',
        { class: 'loggrid' },
        h(
          'section',
          { class: 'panel', 'aria-label': 'Bars' },
          h('header', {}, h('h3', {}, 'Engine time'), this.grouping.el),
          this.bars,
        ),
        h(
          'section',
          { class: 'panel', 'aria-label': 'Operations' },
          h(
            'header',
            {},
            h('h3', {}, 'Operations'),
            h('span', { class: 'note' }, 'click goes there, shift-click or drag selects'),
          ),
          this.table.el,
        ),
      ),
    );
  }

  hear() {
    this.link.on('selection', () => {
      const value = this.link.get('selection', []);
      if (same(value, this.selection)) return;
      this.selection = value;
      this.drawAll();
    });
    this.link.on('group', () => {
      const by = this.link.get('group');
      if (by === this.by || !GROUPS.some(([g]) => g === by)) return;
      this.by = by;
      this.drawBars();
    });
    this.link.on('query', () => {
      const query = String(this.link.get('query', ''));
      if (query === this.query) return;
      this.search.value = this.query = query;
      this.filter();
    });
    this.link.on(['step', 'pe'], () => this.table.draw());
  }

  setQuery(text) {
    if (text === this.query) return;
    this.query = text;
    this.link.put('query', text);
    this.filter();
  }

  filter() {
    this.shown = this.rows.filter(this.query, this.engine, this.pe);
    this.sortRows();
    this.drawAll();
  }

  sortBy(column) {
    const down =
      this.sort.column === column ? !this.sort.down : ['duration', 'bytes', 'flops'].includes(column);
    this.sort = { column, down };
    this.sortRows();
    this.table.toTop();
    this.table.draw();
  }

  sortRows() {
    this.sorted = this.rows.sort(this.shown, this.sort.column, this.sort.down);
  }

  /** Row of the run at which the linked stepper stands, or -1. */
  get current() {
    const p = this.run.number.get(this.link.get('pe'));
    return p === undefined ? -1 : this.run.pes[p].op0 + this.link.get('step', 0);
  }

  go(row) {
    const p = this.run.peOf(row);
    this.link.put('pe', this.run.pes[p].pe);
    this.link.put('step', row - this.run.pes[p].op0);
    this.table.draw();
  }

  /** Select rows (of the trace, rising); the trait holds ranges of the run's rows. */
  brush(rows) {
    const ranges = [];
    for (const row of rows) {
      const at = row + this.run.first;
      const last = ranges[ranges.length - 1];
      if (last && last[1] === at) last[1] = at + 1;
      else ranges.push([at, at + 1]);
    }
    this.selection = ranges;
    this.link.put('selection', ranges);
    this.drawAll();
  }

  isSelected(row) {
    const at = row + this.run.first;
    let low = 0,
      high = this.selection.length - 1;
    while (low <= high) {
      const mid = (low + high) >> 1;
      if (at < this.selection[mid][0]) high = mid - 1;
      else if (at >= this.selection[mid][1]) low = mid + 1;
      else return true;
    }
    return false;
  }

  layout() {
    this.root.classList.toggle('narrow', this.shell.width < NARROW);
    this.drawAll();
  }

  drawAll() {
    if (!this.shown) return;
    this.drawBars();
    this.table.draw();
    this.engines.show(this.engine);
    if (this.picker) this.picker.show(this.pe);
    const busy = this.rows.sum(this.shown, 'busy');
    const chosen = this.selection.reduce((sum, [a, b]) => sum + b - a, 0);
    const all = this.rows.all.length;
    say(
      this.status,
      `${this.shown.length === all ? many(all, 'operation') : `${group(this.shown.length)} of ${many(all, 'operation')}`}, ${time(busy)} of engine time.${chosen ? ` ${group(chosen)} selected.` : ''}`,
    );
    if (!chosen && document.activeElement === this.clear) this.root.focus({ preventScroll: true });
    this.clear.hidden = !chosen;
    this.shell.drawn();
  }

  drawBars() {
    this.grouping.show(this.by);
    const groups = this.rows.group(this.shown, this.by);
    const total = groups.reduce((sum, g) => sum + g.busy, 0) || 1;
    const most = Math.max(1, ...groups.map(g => g.busy));
    const shown =
      this.by === 'pe' || (this.by === 'tile' && groups.length <= BARS)
        ? groups
            .slice()
            .sort((a, b) => a.first - b.first)
            .slice(0, BARS)
        : groups.slice(0, BARS);
    // the keyboard stays on the bar of the same name
    const held = [...this.bars.querySelectorAll('.bar')].find(b => b === document.activeElement)?.title;
    this.bars.replaceChildren(...shown.map(g => this.bar(g, most, total)));
    if (held !== undefined)
      ([...this.bars.querySelectorAll('.bar')].find(b => b.title === held) || this.root).focus({
        preventScroll: true,
      });
    const rest = groups.length - shown.length;
    if (rest > 0)
      this.bars.append(
        h('p', { class: 'note' }, `and ${many(rest, 'more group').replace('more groups', 'more')}`),
      );
    if (!groups.length) this.bars.append(h('p', { class: 'note' }, 'No operation matches the filter.'));
  }

  bar(g, most, total) {
    const picked =
      g.rows.length > 0 &&
      this.selection.length > 0 &&
      this.isSelected(g.rows[0]) &&
      this.isSelected(g.rows[g.rows.length - 1]);
    const fill = h('i', {
      class: `fill b-${g.engine}`,
      style: `width:${((g.busy / most) * 100).toFixed(2)}%`,
    });
    const label = `${g.name}: ${many(g.rows.length, 'operation')}, ${time(g.busy)}`;
    const b = h(
      'button',
      {
        type: 'button',
        class: 'bar',
        'aria-pressed': String(picked),
        title: label,
        'aria-label': label,
        onclick: () => this.brush(picked ? [] : g.rows),
      },
      h('span', { class: 'bar-name' }, g.name),
      h('span', { class: 'bar-track' }, fill),
      h('span', { class: 'bar-n' }, `${group(g.rows.length)} ×`),
      h('span', { class: 'bar-v' }, time(g.busy)),
      h('span', { class: 'bar-s' }, percent(g.busy / total)),
    );
    return h('div', { role: 'listitem' }, b);
  }

  close() {
    this.link.close();
    this.table.close();
    this.shell.close();
    this.run = this.rows = null;
  }
}

export default { render: view('Log', (context, run) => new Log(context, run)) };
