// Elements and small drawing helpers. Text goes in as text (append of strings, textContent), never as markup.

const SVG = 'http://www.w3.org/2000/svg';

/** An HTML element: attributes, `on<event>` handlers, children (nodes or strings). */
export function h(tag, attrs = {}, ...kids) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) {
    if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
    else if (v === true) e.setAttribute(k, '');
    else if (v !== false && v != null) e.setAttribute(k, v);
  }
  e.append(...kids.flat().filter(c => c != null && c !== false));
  return e;
}

export function svg(tag, attrs = {}) {
  const e = document.createElementNS(SVG, tag);
  for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
  return e;
}

/** Set text only when it differs, so that nothing is laid out again for nothing. */
export function say(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

/** A drawing area: a canvas for what is many, an SVG above it for what is read and clicked. */
export function plot(label) {
  const canvas = h('canvas', { class: 'abs', 'aria-hidden': 'true' });
  const root = svg('svg', { class: 'abs', role: 'img', 'aria-label': label });
  return { canvas, svg: root, box: h('div', { class: 'plot' }, canvas, root) };
}

/** Give a plot its size in CSS pixels; returns the canvas' 2-D context, scaled to them. */
export function size(p, width, height) {
  const ratio = window.devicePixelRatio || 1;
  p.canvas.width = Math.round(width * ratio);
  p.canvas.height = Math.round(height * ratio);
  p.canvas.style.width = `${width}px`;
  p.canvas.style.height = `${height}px`;
  p.svg.setAttribute('width', width);
  p.svg.setAttribute('height', height);
  p.box.style.height = `${height}px`;
  const g = p.canvas.getContext('2d');
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  return g;
}

/** Where in an element an event happened, in CSS pixels. */
export function where(event, element) {
  const box = element.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

/** One tooltip for a whole view. */
export class Tip {
  constructor(root) {
    this.root = root;
    this.el = h('div', { class: 'kb-tip', role: 'tooltip', hidden: true });
    root.append(this.el);
  }

  show(event, lines) {
    this.el.replaceChildren(
      ...lines.filter(Boolean).map((text, i) => h('div', { class: i ? '' : 'b' }, text)),
    );
    this.el.hidden = false;
    const [x, y] = where(event, this.root);
    const wide = this.root.clientWidth - this.el.offsetWidth - 6;
    this.el.style.left = `${Math.max(4, Math.min(x + 14, wide))}px`;
    this.el.style.top = `${y + 16}px`;
  }

  hide() {
    this.el.hidden = true;
  }
}
