// Around a score map: rows, PEs and cubes of a wide one, axes of a square one.

import { many } from './numbers.js';
import { BOLD, textWidth } from './place.js';
import { who } from './words.js';

export function drawWideFrame(map, { run, p, m, states, bands }) {
  const { score } = run.head;
  if (map.byRow) {
    for (let a = 0; a < map.rows && map.gap; a += map.group) {
      m.text(0, map.y(a) + (map.group * map.rowHeight) / 2 + 4, `KV ${a / map.group}`, 't lab2');
      m.line(30, map.y(a) + 1, 30, map.y(a) + map.group * map.rowHeight - 1, 'rule2');
    }
    const every = Math.max(1, Math.ceil(10 / map.rowHeight));
    for (let r = 0; r < map.rows; r += every) {
      const label = ((score.row_labels && score.row_labels[r]) || `row ${r}`).replace(
        /^head (?=\d+$)/,
        map.gap ? 'h' : 'head ',
      );
      if (textWidth(label) < (map.gap ? 26 : 54))
        m.text(map.x0 - 6, map.y(r) + map.rowHeight / 2 + 3.5, label, 't lab2 end');
    }
  } else m.text(0, map.y0 + map.h / 2 + 4, many(score.heads, 'head'), 't lab2');
  if (run.pes.length > 1) drawBrackets(map, run, p, m, states, bands);
  else {
    m.text(map.x0, map.y0 - 5, '0', 't lab2');
    m.text(map.x0 + map.w, map.y0 - 5, `keys → ${score.S_kv}`, 't lab2 end');
  }
}

function drawBrackets(map, run, p, m, states, bands) {
  const spans_ = new Map();
  bands.forEach((band, n) => {
    const s = spans_.get(band.pe) || { k0: Infinity, k1: 0, owner: states[n].owner };
    spans_.set(band.pe, { ...s, k0: Math.min(s.k0, band.k0), k1: Math.max(s.k1, band.k1) });
  });
  const many_ = spans_.size > 48;
  if (many_ || map.w / spans_.size < 34) nameCubes(map, m, run, p, spans_);
  let last = -99;
  for (const [q, { k0, k1, owner }] of spans_) {
    const a = map.x(k0) + (k0 ? 2 : 0);
    const b = map.x(k1) - 2;
    const on = owner === p;
    const cls = on ? 'bar-on' : 'bar-off';
    m.line(a, map.y0 - 6, Math.max(a + 1, b), map.y0 - 6, cls);
    if (!many_) {
      m.line(a, map.y0 - 8, a, map.y0 - 3, cls);
      m.line(b, map.y0 - 8, b, map.y0 - 3, cls);
    }
    const label = who(run, q);
    const more = owner === q ? `keys ${k0}–${k1 - 1}` : `merged into ${who(run, owner)}`;
    const w = textWidth(label, BOLD);
    const short = label.replace(/^\D+/, '');
    const crowded = many_ || map.w / spans_.size < 34;
    const text = crowded
      ? q === p
        ? label
        : ''
      : b - a > w + 4 || q === p
        ? label
        : b - a > textWidth(short) + 2
          ? short
          : '';
    if (!text || a < last) continue;
    m.text(Math.min(a, map.x0 + map.w - textWidth(text)), 12, text, q === p ? 't lab0 b' : 't lab1');
    last = a + textWidth(text, BOLD) + 4;
    if (b - a > w + 18 + textWidth(more)) m.text(a + w + 8, 12, more, 't lab2');
  }
}

/** Of many PEs only the current one and the cubes have names. */
function nameCubes(map, m, run, p, spans) {
  const cubes = new Map();
  for (const [q, { k0, k1 }] of spans) {
    const { sip, cube } = run.pes[q];
    const key = `${sip}.${cube}`;
    const c = cubes.get(key) || {
      k0: Infinity,
      k1: 0,
      text: run.head.machine.sips > 1 && sip ? `SIP ${sip} cube ${cube}` : `cube ${cube}`,
    };
    cubes.set(key, { ...c, k0: Math.min(c.k0, k0), k1: Math.max(c.k1, k1) });
  }
  if (cubes.size < 2) return;
  const width = textWidth(who(run, p), BOLD);
  const own = Math.min(map.x(spans.get(p) ? spans.get(p).k0 : 0), map.x0 + map.w - width);
  for (const { k0, k1, text } of cubes.values()) {
    const a = map.x(k0);
    const w = textWidth(text);
    m.line(a + 0.5, map.y0 - 10, a + 0.5, map.y0 - 4, 'bar-off');
    if (map.x(k1) - a < w + 6 || (a + w + 10 > own && a < own + width + 6)) continue;
    m.text(a + 4, 12, text, 't lab2');
  }
}

export function drawSquareFrame(map, { run, p, m, bands }) {
  const { score } = run.head;
  const step = tickStep(score.S_kv, map.w / 52);
  const free = map.x0 + map.w - textWidth('keys →') - 8;
  for (let k = 0; k < score.S_kv * 0.86 && map.x(k) + textWidth(String(k)) / 2 < free; k += step)
    m.text(map.x(k), map.y0 - 6, String(k), `t lab2 ${k ? 'mid' : ''}`);
  m.text(map.x0 + map.w, map.y0 - 6, 'keys →', 't lab2 end');
  const owners = new Set(bands.map(b => b.pe));
  if (owners.size > 1 && map.x0 > 50) {
    let last = -99;
    for (const q of owners) {
      const mine = bands.filter(b => b.pe === q);
      const [a, b] = [Math.min(...mine.map(x => x.q0)), Math.max(...mine.map(x => x.q1))];
      const [y1, y2] = [map.y(a) + 1.5, map.y(b) - 1.5];
      m.line(map.x0 - 5, y1, map.x0 - 5, y2, q === p ? 'bar-on' : 'bar-off');
      if ((y1 + y2) / 2 - last < 11) continue;
      m.text(map.x0 - 10, (y1 + y2) / 2 + 4, who(run, q), `t end ${q === p ? 'lab0 b' : 'lab1'}`);
      last = (y1 + y2) / 2;
    }
  } else {
    const down = tickStep(score.S_q, map.h / 30);
    for (let q = 0; q < score.S_q; q += down)
      m.text(map.x0 - 6, map.y(q) + (q ? 4 : 8), String(q), 't lab2 end');
  }
  m.text(0, map.y0 + map.h + 14, 'queries ↓', 't lab2');
}

function tickStep(span, parts) {
  const steps = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];
  return steps.find(s => span / s <= parts) || span;
}
