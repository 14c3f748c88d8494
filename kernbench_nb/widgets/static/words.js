// One plain sentence for an operation, for a tile at its end, and for the place where the reader stands.

import { bytes, group, many, shape, short, time } from './numbers.js';

/** What a row did. */
export function operation(run, i) {
  const { ops, kinds, allocs } = run;
  const kind = ops.kind[i];
  const op = run.op(i);
  const moved = kinds.nbytes[kind];
  const name = run.subject(i) || unnamed(run, kind);
  const took = time(ops.end[i] - ops.start[i]);
  const block = ops.out[i];
  switch (op) {
    case 'overflow':
      return overflow(run);
    case 'scope_open':
      return scopeOpened(run, i);
    case 'scope_close':
      return scopeClosed(run, i);
    case 'empty': {
      const where = run.persistent(block) ? 'the persistent arena: it outlives every scope' : 'the scope';
      return `Reserve ${name}, ${group(allocs.nbytes[block])} B, in ${where}.`;
    }
    case 'dma_read': {
      const busy = run.busy(i);
      const late = ops.end[i] - ops.start[i] - busy;
      const goes = ops.end[i] > ops.clock[i] ? ' The kernel goes on meanwhile.' : '';
      return `Load ${name} from HBM, ${group(moved)} B: ${time(busy)} on the channel, ${time(late)} more until it is there.${goes}`;
    }
    case 'dma_write':
      return `Store ${name} to HBM, ${group(moved)} B in ${took}.`;
    case 'ipc_send':
      return `Send ${name} to ${peer(run, i)}: ${group(moved)} B over the link.`;
    case 'ipc_recv': {
      const wait = waited(run, i);
      return `Receive ${name} from ${peer(run, i)}, ${group(moved)} B${wait > 0 ? `, after waiting ${time(wait)}` : ''}.`;
    }
    case 'gemm':
      return `Matrix engine: ${name} (${shape(run.text(kinds.text[kind])).replace('->', '→')}), ${short(kinds.flops[kind])} FLOPs in ${took}.`;
    case 'copy':
      return copied(run, i);
    default:
      return computed(run, i, name, took);
  }
}

/** "a tile of 3×64 f32" */
function unnamed(run, kind) {
  const size = shape(run.text(run.kinds.shape[kind]));
  const type = run.text(run.kinds.dtype[kind]);
  return size && size !== 'scalar' ? `a tile of ${size} ${type}` : `a scalar ${type}`;
}

function scopeOpened(run, i) {
  const s = run.ops.scope[i];
  const label = quoted(run.text(run.scopes.label[s]));
  if (!run.scopes.rewind[s]) return `Begin ${label}. It is no scope: nothing made in it will be given back.`;
  return `Open the scope ${label}: ${group(run.scopes.save[s])} B is the save-point. What is made from here on is temporary.`;
}

function scopeClosed(run, i) {
  const s = run.ops.scope[i];
  const label = quoted(run.text(run.scopes.label[s]));
  const cursor = run.ops.cursor[i];
  if (!run.scopes.rewind[s]) return `End of ${label}. Nothing is given back: ${group(cursor)} B stay in use.`;
  const back = (i > 0 ? run.ops.cursor[i - 1] : cursor) - cursor;
  return `Close ${label}: the cursor drops back to ${group(cursor)} B, and ${group(back)} B are given back.`;
}

function copied(run, i) {
  const { ops, allocs } = run;
  const to = ops.out[i],
    from = ops.a[i];
  const target = (to >= 0 && run.text(allocs.name[to])) || run.name(i) || 'its place';
  const source = (from >= 0 && run.text(allocs.name[from])) || 'a tile';
  if (to >= 0 && from >= 0 && depth(run, to) < depth(run, from)) {
    return `Copy ${source} over ${target}: it leaves the scope before the scope's bytes are given back.`;
  }
  return `Copy ${source} to ${target}, ${group(run.kinds.nbytes[ops.kind[i]])} B.`;
}

/** How deep the arena is nested that a block belongs to. */
const depth = (run, k) => run.scopes.depth[run.scopes.owner[run.allocs.scope[k]]];

/** Operations of the shipped kernels that are worth a formula, by the kind of tile that they stand in. */
const FORMULAS = {
  tile: {
    'exp c': 'The correction c = exp(m_old − m_new): how much the old l and O shrink',
  },
  merge: {
    'maximum m_new': 'The larger maximum of the two states, m_new = max(m, m_in)',
    'exp a': 'The correction a = exp(m − m_new): how much the l and O that were here shrink',
    'exp b': 'The correction b = exp(m_in − m_new): how much the l and O of PE shrink',
    'add l_new': 'l_new = l·a + l_in·b',
    'add O_new': 'O_new = O·a + O_in·b',
  },
};

function computed(run, i, name, took) {
  const { ops, allocs } = run;
  const op = run.op(i);
  const formula = FORMULAS[run.kind(run.tile(i))]?.[`${op} ${name}`];
  if (formula) return `${formula.replace('PE', who(run, run.tiles.peer[run.tile(i)]))}, in ${took}.`;
  const block = ops.out[i];
  if (run.made(i) >= 0)
    return `Math engine: ${op} makes ${name}, ${group(allocs.nbytes[block])} B of scratch, in ${took}.`;
  const into = block >= 0 ? run.text(allocs.name[block]) || name : name;
  const where = block >= 0 && run.persistent(block) ? ' of the persistent arena' : '';
  return `Math engine: ${op}, written straight into ${into}${where} (out=), in ${took}.`;
}

/** What stopped the run. */
export function overflow(run) {
  const e = run.head.error;
  if (!e) return 'The run stopped here.';
  if (!e.wanted) return `${e.type}: ${e.message}`;
  return `Overflow. ${e.name || 'A tile'} wants ${group(e.wanted)} B, ${group(e.free)} B are free of ${group(e.limit)}. The cursor stays where it is.`;
}

/** What a tile did, said at its end, just before its scope closes. */
export function tile(run, t) {
  const { tiles, ops } = run;
  const kind = run.kind(t);
  const head = `${many(tiles.ops[t], 'operation')} in ${time(tiles.end[t] - tiles.start[t])}`;
  const loaded = tiles.hbm[t] ? `, ${group(tiles.hbm[t])} B over HBM` : '';
  const back = tiles.back[t] ? `${temporaries(run, t)} are given back next` : '';
  const copies = copiesIn(run, t);
  if (kind === 'tile') {
    const state = outlives(run, t, copies);
    const rest = back || `nothing is given back: ${bytes(ops.cursor[tiles.op1[t]])} stay in use`;
    return `${head}${loaded}. ${state ? `${state}; ${rest}` : capital(rest)}.`;
  }
  if (kind === 'merge') {
    const state = outlives(run, t, copies);
    return `The state of ${who(run, tiles.peer[t])} came in: m_new = max(m, m_in), l_new = l·a + l_in·b, O likewise${state ? `. ${state}` : ''}. ${onwards(run, t)}${head}.`;
  }
  if (kind === 'setup') return `${setup(run, t)}${head}${loaded}.`;
  if (kind === 'send') return `${messages(run, t, 'ipc_send')} on the way to ${who(run, tiles.peer[t])}.`;
  if (kind === 'recv')
    return `${messages(run, t, 'ipc_recv')} came from ${who(run, tiles.peer[t])}. ${head}.`;
  if (kind === 'finish')
    return `${run.pes.length > 1 ? `${who(run, tiles.pe[t])} divides` : 'Divides'} O by l, which is softmax times V, rounds it and stores it in HBM: ${head}${loaded}.`;
  return `${head}${loaded}.${back ? ` ${capital(back)}.` : ''}`;
}

/** "2 messages (K block, V block) with 20 480 B" */
function messages(run, t, op) {
  const { tiles, ops, kinds } = run;
  let size = 0;
  const names = [];
  for (let i = tiles.op0[t]; i <= tiles.op1[t]; i++) {
    if (run.op(i) !== op) continue;
    size += kinds.nbytes[ops.kind[i]];
    names.push(run.subject(i));
  }
  const what = names.every(Boolean) && names.length <= 6 ? ` (${names.join(', ')})` : '';
  return `${many(names.length, 'message')}${what} with ${group(size)} B`;
}

/** Where a merged state goes from here: to the PE that it is sent to next, or into the output. */
function onwards(run, t) {
  const { tiles } = run;
  const next = run.tilesOf[tiles.pe[t]].find(u => tiles.op0[u] > tiles.op1[t]);
  if (next === undefined) return '';
  if (run.kind(next) === 'send') return `It goes on to ${who(run, tiles.peer[next])}. `;
  if (run.kind(next) === 'finish') return 'It holds all keys now; what is left is to divide by l. ';
  return '';
}

const MOST_SETUP = 64; // rows

/** What is made before the first tile, and where it lies. */
function setup(run, t) {
  const { tiles, ops } = run;
  const first = run.tileLabel(t) === 'set-up';
  const [loaded, reserved] = [[], []];
  let kept = run.head.scoped;
  for (let i = tiles.op0[t]; i <= Math.min(tiles.op1[t], tiles.op0[t] + MOST_SETUP); i++) {
    const block = run.made(i);
    if (block < 0) continue;
    const list = run.op(i) === 'dma_read' ? loaded : run.op(i) === 'empty' ? reserved : null;
    if (!list || !run.name(i)) continue;
    list.push(run.name(i));
    kept &&= run.persistent(block);
  }
  const begin = first ? 'Before the first tile: ' : '';
  const said = [
    loaded.length && `${some(loaded)} ${loaded.length > 1 ? 'are' : 'is'} loaded`,
    reserved.length && `${some(reserved)} ${reserved.length > 1 ? 'get their' : 'gets its'} place`,
  ].filter(Boolean);
  if (!said.length) return begin;
  const where = kept ? ', all in the persistent arena, which outlives every tile' : '';
  return `${begin}${said.join(', ')}${where}. `;
}

const some = names => names.slice(0, 6).join(', ') + (names.length > 6 ? ', …' : '');

const SHOWN = ['K', 'V', 'S', 'qk', 's', 's masked', 'exp', 'P', 'p']; // what a reader looks for, if it is there

/** What the end of a tile gives back: "K, V, qk, s, exp, p and 11 more, 21.6 KiB,". */
function temporaries(run, t) {
  const { tiles, scopes, allocs } = run;
  const size = bytes(tiles.back[t]);
  const own = run
    .live(tiles.stop[t])
    .filter(k => scopes.depth[scopes.owner[allocs.scope[k]]] > 0 && allocs.born[k] >= tiles.op0[t]);
  const names = new Set(own.map(k => run.text(allocs.name[k])));
  const shown = SHOWN.filter(name => names.has(name));
  if (!shown.length) return `${size} of temporaries`;
  const more = own.length - shown.length;
  return `${shown.join(', ')}${more > 0 ? ` and ${group(more)} more` : ''}, ${size} in all,`;
}

const capital = text => text[0].toUpperCase() + text.slice(1);
const NUMBERS = ['No', 'One', 'Two', 'Three', 'Four', 'Five'];

/** What of a tile outlives it: copied out, or written in place to blocks that were there before. */
function outlives(run, t, copies) {
  const { tiles, ops, allocs } = run;
  const names = new Set();
  for (let i = tiles.op0[t]; i <= tiles.op1[t]; i++) {
    const k = ops.out[i];
    const op = run.op(i);
    if (k < 0 || allocs.born[k] >= tiles.op0[t] || op === 'dma_read' || op === 'ipc_recv') continue;
    if (copies && op !== 'copy') continue;
    names.add(run.text(allocs.name[k]));
  }
  if (!names.size || names.size > 5 || names.has(''))
    return copies ? `${NUMBERS[copies] || group(copies)} ${copies === 1 ? 'copy' : 'copies'}` : '';
  const list = [...names].join(', ');
  if (!copies) return `${list} ${names.size > 1 ? 'were' : 'was'} written in place, with no copy`;
  return `${NUMBERS[copies] || group(copies)} ${copies === 1 ? 'copy' : 'copies'} carried ${list} out of the scope`;
}

function copiesIn(run, t) {
  const { op0, op1 } = run.tiles;
  const before = op0[t] > run.span(run.tiles.pe[t])[0] ? run.ops.copies[op0[t] - 1] : 0;
  return run.ops.copies[op1[t]] - before;
}

/** Where the reader stands: "PE 3 · tile 2 · keys 272–287". */
export function place(run, p, t) {
  const { tiles } = run;
  const parts = run.pes.length > 1 ? [run.pes[p].label] : [];
  if (t >= 0) {
    parts.push(run.tileLabel(t) || run.kind(t));
    const ranges = [];
    if (tiles.q0[t] >= 0 && run.head.score && run.head.score.S_q > 1 && run.counted(t))
      ranges.push(`queries ${tiles.q0[t]}–${tiles.q1[t] - 1}`);
    if (tiles.k0[t] >= 0 && run.counted(t)) ranges.push(`keys ${tiles.k0[t]}–${tiles.k1[t] - 1}`);
    if (ranges.length) parts.push(ranges.join(' × '));
  }
  return parts.join(' · ');
}

/** "tile 2 · 3 of 20": a tile's name, and its position among those of its PE; the words of what lies between. */
export function position(run, p, t) {
  if (t < 0) return '';
  if (!run.counted(t)) return run.tileLabel(t) || run.kind(t);
  const label = run.tileLabel(t) || 'scope';
  return `${label} · ${run.tiles.place[t]} of ${run.places[p]}`;
}

/** What a tile is called in a sentence: "this tile", "this merge". */
export function thing(run, t) {
  const words = { setup: 'set-up', recv: 'receive', other: 'part', scope: 'scope' };
  const kind = t >= 0 ? run.kind(t) : 'other';
  return words[kind] || kind;
}

export const who = (run, p) => (p >= 0 && run.pes[p] ? run.pes[p].label : 'another PE');

const peer = (run, i) => who(run, run.kinds.peer[run.ops.kind[i]]);
const quoted = label => (label ? `“${label}”` : 'without a name');

/** ps that a receive stood and waited until its message left the other PE. */
export function waited(run, i) {
  const { start, end } = run.ops;
  const sent = run.senders.get(i);
  return Math.max(0, Math.min(sent === undefined || sent < 0 ? end[i] : start[sent], end[i]) - start[i]);
}
