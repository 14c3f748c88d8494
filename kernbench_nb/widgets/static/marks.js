// Immediate-mode marks over pooled SVG nodes: begin(), rect(...), text(...), end(). A step reuses the nodes of the last
// one in drawing order, so that what is drawn later lies above, and only attributes that changed are written.

import { svg } from './dom.js';

export class Marks {
  constructor(parent) {
    this.g = svg('g');
    parent.append(this.g);
    this.pool = [];
    this.n = 0;
  }

  begin() {
    this.n = 0;
    return this;
  }

  mark(tag, attrs, cls) {
    const at = this.n++;
    let node = this.pool[at];
    if (!node || node.tag !== tag) {
      const e = svg(tag);
      if (node) node.e.replaceWith(e);
      else this.g.append(e);
      node = this.pool[at] = { e, tag, attrs: {}, text: null, off: false };
    }
    if (node.off) {
      node.e.style.display = '';
      node.off = false;
    }
    attrs.class = cls || '';
    for (const k in attrs) {
      if (node.attrs[k] !== attrs[k]) {
        node.e.setAttribute(k, attrs[k]);
        node.attrs[k] = attrs[k];
      }
    }
    for (const k in node.attrs) {
      if (!(k in attrs)) {
        node.e.removeAttribute(k);
        delete node.attrs[k];
      }
    }
    return node;
  }

  rect(x, y, w, height, cls, more) {
    const box = {
      x: round(x),
      y: round(y),
      width: round(Math.max(0, w)),
      height: round(Math.max(0, height)),
    };
    this.mark('rect', { ...box, ...more }, cls);
  }

  line(x1, y1, x2, y2, cls, more) {
    this.mark('line', { x1: round(x1), y1: round(y1), x2: round(x2), y2: round(y2), ...more }, cls);
  }

  path(d, cls, more) {
    this.mark('path', { d, ...more }, cls);
  }

  circle(x, y, r, cls, more) {
    this.mark('circle', { cx: round(x), cy: round(y), r, ...more }, cls);
  }

  text(x, y, text, cls, more) {
    const node = this.mark('text', { x: round(x), y: round(y), ...more }, cls);
    if (node.text !== text) {
      node.e.textContent = text;
      node.text = text;
    }
  }

  /** Hide what the last drawing used and this one did not. */
  end() {
    for (let i = this.n; i < this.pool.length; i++) {
      const node = this.pool[i];
      if (!node.off) {
        node.e.style.display = 'none';
        node.off = true;
      }
    }
  }
}

const round = v => Math.round(v * 100) / 100;
