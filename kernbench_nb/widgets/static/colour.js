// Colours come from the style sheet; here they are read, mixed and looked up.

/** A CSS colour as [r, g, b]: #rgb, #rrggbb, rgb(...), color(srgb ...), and the two names that themes use. */
export function parse(text) {
  if (text === 'white') return [255, 255, 255];
  if (text === 'black') return [0, 0, 0];
  const hex = text.match(/^#(?:(.)(.)(.)|(..)(..)(..))$/);
  if (hex)
    return hex[1] ? hex.slice(1, 4).map(c => parseInt(c + c, 16)) : hex.slice(4).map(c => parseInt(c, 16));
  const numbers = text.match(/[\d.]+/g);
  if (!numbers || numbers.length < 3) return [128, 128, 128];
  return numbers.slice(0, 3).map(v => v * (text.startsWith('color(') ? 255 : 1));
}

/** Reads CSS variables of an element as [r, g, b]; the browser resolves what they refer to and mix. */
function reader(element) {
  const probe = document.createElement('i');
  probe.hidden = true;
  element.append(probe);
  const read = name => {
    probe.style.color = `var(${name})`;
    return parse(getComputedStyle(probe).color);
  };
  return [read, () => probe.remove()];
}

export const css = ([r, g, b], alpha = 1) =>
  `rgba(${Math.round(r)},${Math.round(g)},${Math.round(b)},${alpha})`;
export const mix = (a, b, t) => a.map((x, i) => x + (b[i] - x) * t);

/** How light a colour looks, 0 to 1 (relative luminance of WCAG 2). */
export function luminance(colour) {
  const [r, g, b] = colour.map(v =>
    v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** 256 colours through the given stops, packed as the pixels of ImageData are (Uint32, little endian). */
export function ramp(stops) {
  const pixels = new Uint8ClampedArray(1024);
  const n = stops.length - 1;
  for (let i = 0; i < 256; i++) {
    const t = (i / 255) * n;
    const k = Math.min(n - 1, Math.floor(t));
    pixels.set([...mix(stops[k], stops[k + 1], t - k), 255], i * 4);
  }
  return new Uint32Array(pixels.buffer);
}

/** The colour of an entry of a ramp, for CSS. */
export const entry = (table, i) =>
  `rgb(${table[i] & 255},${(table[i] >> 8) & 255},${(table[i] >> 16) & 255})`;

/** What a view draws with, read once per theme. */
export class Palette {
  constructor(root) {
    const [read, done] = reader(root);
    this.bg = read('--kb-bg');
    this.bg2 = read('--kb-bg2');
    this.ink = read('--kb-ink');
    this.ink1 = read('--kb-ink1');
    this.ink2 = read('--kb-ink2');
    this.rule = read('--kb-rule');
    this.rule2 = read('--kb-rule2');
    this.keep = read('--kb-keep');
    this.error = read('--kb-err');
    this.brand = read('--kb-brand');
    this.line = {};
    this.fill = {};
    for (const e of ENGINES) {
      this.line[e] = read(`--kb-c-${e}`);
      this.fill[e] = read(`--kb-f-${e}`);
    }
    this.heat = ramp([0, 1, 2, 3].map(i => read(`--kb-heat${i}`)));
    this.diverging = ramp([read('--kb-div0'), read('--kb-heat0'), read('--kb-div1')]);
    done();
  }
}

export const ENGINES = ['dma', 'gemm', 'math', 'ipc'];
