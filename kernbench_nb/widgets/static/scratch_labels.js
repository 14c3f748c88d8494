// The list beside the scratch map: arenas with their bytes, blocks with name, shape, dtype and bytes, lines to the map.

import { bytes, group, shape } from './numbers.js';
import { BOLD, MONO, fit, spread, textWidth } from './place.js';

/** The list at the right: arenas with their bytes, blocks with name, shape, dtype and bytes, lines to the map. */
export function drawLabels(view, { run, i, m, cursor, peak, live, open }) {
  view.labels = [];
  if (!view.labelWidth) return;
  const items = listed(view, run, i, cursor, peak, live, open);
  const x = view.mapX + view.mapWidth + 26;
  const right = view.width - 1;
  const [top, bottom] = [view.top + 4, view.bottom - 3];
  const shown = shortened(items, Math.floor((bottom - top - 8) / 11.6));
  const pitch = Math.max(11.6, Math.min(14.4, (bottom - top - 14) / Math.max(1, shown.length)));
  const gap = n => (shown[n].head && n ? pitch + 5 : shown[n - 1].head ? pitch + 3 : pitch);
  const total = shown.reduce((sum, _, n) => sum + (n ? gap(n) : 0), 0);
  const tight = total > bottom - top ? (bottom - top) / total : 1;
  const ys = spread(
    shown.map(it => it.y),
    n => gap(n) * tight,
    top,
    bottom,
  );
  const names = nameWidth(view, run, shown, right - x);
  shown.forEach((it, n) => drawLabel(view, m, run, i, it, { x, right, names }, ys[n]));
}

const kindOf = (run, k) => `${shape(run.text(run.allocs.shape[k]))} ${run.text(run.allocs.dtype[k])}`;

/** Room for names: what the longest needs, as far as shapes and sizes leave it. */
function nameWidth(view, run, shown, room) {
  const blocks = shown.filter(it => it.k !== undefined);
  const widest = of => Math.max(0, ...blocks.map(it => textWidth(of(it.k), MONO)));
  const rest = widest(k => kindOf(run, k)) + widest(k => group(run.allocs.nbytes[k])) + 12;
  const least = view.narrow ? 62 : 72;
  return Math.max(least, Math.min(widest(k => blockName(run, k)) + 2, room - rest));
}

function drawLabel(view, m, run, i, item, { x, right, names }, y) {
  const { allocs } = run;
  if (item.head) {
    const left = x - 8;
    const size_ = bytes(item.n);
    m.text(left, y + 4, item.head, item.mute ? 't lab2 b' : 't lab1 b');
    const used = textWidth(item.head, BOLD) + 8;
    const room = right - left - used - textWidth(size_, BOLD) - 8;
    const sub = Array.isArray(item.sub) ? item.sub.find(text => textWidth(text) < room) : fit(item.sub, room);
    if (sub) m.text(left + used, y + 4, sub, 't lab2');
    m.text(right, y + 4, size_, `${item.mute ? 't lab2' : 't lab1 b'} end num`);
    if (!item.mute) m.line(left, y + 7.5, right, y + 7.5, item.keep ? 'rulek' : 'rule2');
    return;
  }
  if (item.more) {
    m.text(x, y + 4, `… and ${group(item.more)} more`, 't lab2');
    return;
  }
  const k = item.k;
  const strong = k === view.hot || k === run.made(i) ? ' b' : '';
  const from = view.mapX + view.mapWidth + 1;
  m.path(`M${from} ${item.at.toFixed(1)}h5L${x - 10} ${y.toFixed(1)}h5`, 'lead');
  const size_ = group(allocs.nbytes[k]);
  m.text(x, y + 4, fit(blockName(run, k), names, MONO), `t mono lab0${strong}`);
  const room = right - x - names - 4 - textWidth(size_, MONO) - 6;
  m.text(x + names + 4, y + 4, fit(kindOf(run, k), room, MONO), 't mono lab2');
  m.text(right, y + 4, size_, 't mono lab1 end');
  view.labels.push({ y, k });
}

/** What the list says, from high to low addresses: heads of arenas, and blocks. */
function listed(view, run, i, cursor, peak, live, open) {
  const { allocs, scopes } = run;
  const scoped = run.head.scoped;
  const items = [];
  const byOwner = new Map();
  for (const k of live) {
    if (!allocs.size[k]) continue;
    const owner = scopes.owner[allocs.scope[k]];
    if (!byOwner.has(owner)) byOwner.set(owner, []);
    byOwner.get(owner).push(k);
  }
  if (scoped && peak - cursor > 64) {
    items.push({
      head: 'Given back',
      sub: ['free until overwritten', 'until overwritten'],
      n: peak - cursor,
      y: (view.y(peak) + view.y(cursor)) / 2,
      mute: true,
    });
  }
  for (const s of open) {
    if (scopes.owner[s] !== s) continue;
    const blocks = (byOwner.get(s) || []).reverse();
    const keep = scopes.depth[s] === 0;
    if (keep && !blocks.length) continue;
    const middle = k => view.y(allocs.addr[k] + allocs.size[k] / 2);
    const head = !scoped ? 'No scopes' : keep ? 'Persistent arena' : 'Scoped arena';
    const sub = !scoped ? 'nothing is given back' : keep ? '' : run.text(scopes.label[s]);
    const n = blocks.reduce((sum, k) => sum + allocs.size[k], 0);
    items.push({
      head,
      sub,
      n,
      y: (blocks.length ? middle(blocks[0]) : view.y(cursor)) - 12,
      keep: keep && scoped,
    });
    for (const k of blocks) items.push({ k, at: middle(k), y: middle(k) });
  }
  return items;
}

/** Leave out blocks from the middle of the longest list, so that every arena keeps its head; say how many. */
function shortened(items, most) {
  const surplus = items.length - most;
  if (surplus <= 0) return items;
  let from = 0,
    length = 0;
  for (let n = 0; n < items.length; n++) {
    let end = n;
    while (end < items.length && !items[end].head) end++;
    if (end - n > length) [from, length] = [n, end - n];
    n = end;
  }
  const drop = Math.min(length, surplus + 1);
  const at = from + Math.ceil((length - drop) * 0.75);
  const gone = items.slice(at, at + drop);
  const y = gone.reduce((sum, it) => sum + it.y, 0) / Math.max(1, gone.length);
  return [...items.slice(0, at), { more: drop, y }, ...items.slice(at + drop)];
}

/** A block's name, else the operation that made it. */
export function blockName(run, k) {
  const name = run.text(run.allocs.name[k]);
  if (name) return name;
  const born = run.allocs.born[k];
  return Number.isInteger(born) ? run.op(born) : 'block';
}
