// Words under the score map: the tokens of the current tile, shaded by their heaviest weight; or one query's keys.

import { entry } from './colour.js';
import { BOLD, fit, textWidth } from './place.js';
import { heatIndex } from './heat.js';

/** A token's word, tidied for a label; quoted with a blank before it where it follows a number. */
export function word(score, at, quoted = false) {
  const token = score.tokens && score.tokens[at];
  if (token === undefined || token === null) return '';
  const text = token.replaceAll('\n', '¶').trim() || '␣';
  return quoted ? ` “${text}”` : text;
}

/** Wide maps: a lens pulls the current tile's tokens apart; at a merge, the heaviest keys of all. */
export function drawLens(map, { run, p, i, now, bands, states, m }) {
  const { score } = run.head;
  const { tiles } = run;
  const { x0, w, lensY: y } = map;
  const table = map.player.palette.heat;
  const inTile = run.counted(now) && tiles.k0[now] >= 0;
  if (!inTile && !states.some(s => s.done)) return drawHint(map, run, m);
  const most = Math.floor(w / 46);
  const weights = new Map();
  bands.forEach((band, n) => {
    const { done, norm } = states[n];
    const range = inTile ? [tiles.k0[now], tiles.k1[now]] : [0, score.S_kv];
    if (band.k1 <= range[0] || band.k0 >= range[1]) return;
    for (const [k, weight] of map.heat.weights(band, done, norm, -1, ...range)) weights.set(k, weight);
  });
  let keys = inTile ? range(tiles.k0[now], tiles.k1[now]) : [...weights.keys()];
  const all = inTile && keys.length <= most;
  if (!all) {
    keys.sort((a, b) => (weights.get(b) || 0) - (weights.get(a) || 0));
    keys = keys.slice(0, most).sort((a, b) => a - b);
  }
  const below = map.y0 + map.h + 1;
  const cell = Math.min(w / keys.length, 150);
  const wide = cell * keys.length;
  if (all)
    m.path(
      `M${map.x(tiles.k0[now])} ${below}L${x0} ${y}H${x0 + wide}L${map.x(tiles.k1[now])} ${below}Z`,
      'lens',
    );
  else keys.forEach((k, n) => m.path(`M${map.x(k + 0.5)} ${below}L${x0 + (n + 0.5) * cell} ${y}`, 'lens-l'));
  m.text(0, y + 16, all ? 'tokens' : 'heaviest', 't lab2');
  keys.forEach((k, n) => {
    const weight = weights.get(k) || 0;
    const at = weight > 0 ? heatIndex(Math.log(weight)) : 0;
    const x = x0 + n * cell;
    m.rect(x + 0.5, y, cell - 1, 24, 'lens-c', { style: `fill:${entry(table, at)}` });
    const light = 0.3 * (table[at] & 255) + 0.6 * ((table[at] >> 8) & 255) + 0.1 * ((table[at] >> 16) & 255);
    m.text(
      x + cell / 2,
      y + 16,
      fit(word(score, k), cell - 5),
      `t mid ${light > 130 ? 'on-light' : 'on-dark'}`,
    );
    if (weight > 0) m.text(x + cell / 2, y + 37, weight >= 0.01 ? hundredths(weight) : '·', 't lab2 mid num');
  });
  // of the rows of a state, the one that gives it most
  m.text(0, y + 37, map.rows > 1 ? `max of ${map.rows}` : 'weight', 't lab2');
}

function drawHint(map, run, m) {
  const { score } = run.head;
  const query =
    score.tokens.length === score.S_kv && score.S_q === 1
      ? `The query is the last token,${word(score, score.S_kv - 1, true)}, of a text of ${score.S_kv} tokens. `
      : '';
  const split =
    run.pes.length > 1
      ? 'Each PE holds a share of the keys and sweeps it tile by tile, all at the same time.'
      : 'The keys are swept tile by tile.';
  const said = [query + split, query + split.replace(', all at the same time', ''), split];
  m.text(
    map.x0,
    map.lensY + 10,
    fit(said.find(text => textWidth(text) <= map.w) || split, map.w),
    't lab1',
  );
  m.text(map.x0, map.lensY + 26, fit('A filled tile shows the attention weights so far.', map.w), 't lab1');
}

/** Square maps: what one query attends to so far, in words. */
export function drawReading(map, { run, now, bands, states, m }) {
  const { score } = run.head;
  const { tiles } = run;
  const token = map.row >= 0 ? map.row : tiles.q1[now] > 0 ? tiles.q1[now] - 1 : score.S_q - 1;
  const n = bands.findIndex(b => token >= b.q0 && token < b.q1);
  const { done, norm } = n >= 0 ? states[n] : { done: 0, norm: -1 };
  const list =
    n >= 0 && done ? map.heat.weights(bands[n], done, norm, token - bands[n].q0, 0, score.S_kv) : [];
  const heavy = list.filter(([, p]) => p > 0.004).sort((a, b) => b[1] - a[1]);
  m.line(map.x0, map.y(token + 0.5), map.x(score.S_kv), map.y(token + 0.5), 'rowline');
  m.circle(map.x(score.S_kv), map.y(token + 0.5), 2.5, 'rowdot');
  if (map.beside) return drawBeside(map, m, score, token, heavy);
  const y = map.y0 + map.h;
  m.text(map.x0, y + 33, fit(`query ${token}${word(score, token, true)} so far:`, map.w), 't lab1 b');
  let text = '';
  for (const [k, p] of heavy) {
    const next = `${text ? `${text}  ·  ` : ''}“${word(score, k)}” ${hundredths(p)}`;
    if (textWidth(next) > map.w) break;
    text = next;
  }
  m.text(map.x0, y + 49, text || 'nothing yet', 't lab1');
}

function drawBeside(map, m, score, token, heavy) {
  const x = map.x0 + map.w + 28;
  const right = map.width - 1;
  const bar = right - x - 134;
  m.text(
    x,
    map.y0 + 10,
    fit(`Query ${token}${word(score, token, true)} attends, so far, to`, right - x, BOLD),
    't lab0 b',
  );
  const rows = Math.max(0, Math.min(14, Math.floor((map.h - 50) / 19)));
  heavy.slice(0, rows).forEach(([k, p], n) => {
    const y = map.y0 + 34 + n * 19;
    m.text(x, y, fit(word(score, k), 74), 't lab1');
    m.text(x + 100, y, String(k), 't lab2 end num');
    m.rect(x + 106, y - 9, Math.max(1, p * bar), 11, 'wbar');
    m.text(x + 110 + p * bar, y, hundredths(p), 't lab1 num');
  });
  m.text(
    x,
    map.y0 + map.h - 2,
    fit(heavy.length ? 'its heaviest keys; hover over a row to read it' : 'nothing yet', right - x),
    't lab2',
  );
}

const hundredths = p => (p >= 0.995 ? '1.00' : p.toFixed(p >= 0.0095 ? 2 : 3).slice(1));
const range = (a, b) => Array.from({ length: b - a }, (_, n) => a + n);
