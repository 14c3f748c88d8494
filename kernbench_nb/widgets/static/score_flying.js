// Messages under way, on a score map: K and V blocks from band to band of a ring, states along the brackets of a split
// sweep.

/** Messages under way: K and V blocks from band to band of a ring, states along the brackets of a split sweep. */
export function drawFlying(map, { run, flying, m, i }) {
  const seen = new Set();
  for (const msg of flying) {
    const key = `${msg.from}>${msg.to}`;
    if (seen.has(key)) continue;
    seen.add(key);
    const t = map.player.messages.tileOf(msg);
    const part = Math.max(0, Math.min(1, (run.ops.clock[i] - msg.start) / (msg.end - msg.start)));
    if (t >= 0 && !map.wide) drawBlock(map, m, run, msg, t, part);
    else if (map.wide) drawState(map, m, msg, part);
  }
}

function drawBlock(map, m, run, msg, t, part) {
  const { tiles } = run;
  const from = map.sweep.bands.find(b => b.pe === msg.from);
  const to = map.sweep.bands.find(b => b.pe === msg.to);
  if (!from || !to || tiles.k0[t] < 0) return;
  const [k0, k1] = [map.x(tiles.k0[t]), map.x(tiles.k1[t])];
  const middle = b => (map.y(b.q0) + map.y(b.q1)) / 2;
  const [a, b] = [middle(from), middle(to)];
  const x = (k0 + k1) / 2;
  const y = a + (b - a) * part;
  m.line(x, a, x, b, 'fly-path');
  m.rect(x - 9, y - 6, 18, 12, 'fly', { fill: `url(#${map.id}ipc)` });
  m.text(x, y + 4, 'KV', 't mid fly-t');
}

function drawState(map, m, msg, part) {
  const [from, to] = [map.keysOf(msg.from), map.keysOf(msg.to)];
  if (!from || !to) return;
  const [a, b] = [map.x((from[0] + from[1]) / 2), map.x((to[0] + to[1]) / 2)];
  const x = a + (b - a) * part;
  m.line(a, map.y0 - 6, b, map.y0 - 6, 'fly-path');
  m.circle(x, map.y0 - 6, 3.5, 'fly-dot');
}
