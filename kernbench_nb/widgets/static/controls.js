// The bar of a player: native buttons, a range, a select; and its keys.

import { h, say } from './dom.js';

const SPEEDS = [1, 2, 5, 15, 60];

/** `player` has first, last, move(±1), moveTile(±1), toggle, seek(n), setSpeed(n). */
export class Controls {
  constructor(player) {
    this.playButton = button('play', 'Play', 'space', () => player.toggle());
    this.range = h('input', { type: 'range', min: 0, max: 0, value: 0, step: 1, 'aria-label': 'Step' });
    this.range.addEventListener('input', () => player.seek(+this.range.value));
    this.position = h('output', { class: 'pos' });
    this.speed = h(
      'select',
      { 'aria-label': 'Speed', title: 'steps per second' },
      SPEEDS.map(s => h('option', { value: s, selected: s === 2 }, `${s} / s`)),
    );
    this.speed.addEventListener('change', () => player.setSpeed(+this.speed.value));
    const group = h(
      'span',
      { class: 'grp' },
      button('first', 'First', 'Home', () => player.first()),
      button('prev', 'Previous', '←', () => player.move(-1)),
      this.playButton,
      button('next', 'Next', '→', () => player.move(1)),
      button('last', 'Last', 'End', () => player.last()),
    );
    this.extra = h('span', { class: 'extra' });
    this.el = h(
      'div',
      { class: 'controls', role: 'toolbar', 'aria-label': 'Player' },
      group,
      this.range,
      this.position,
      this.speed,
      this.extra,
    );
  }

  /** The range in one go, so that its minimum never passes its maximum on the way. */
  show({ at, last, text, playing }) {
    if (+this.range.max !== last) this.range.max = last;
    this.range.value = at;
    this.range.style.setProperty('--f', last ? at / last : 0);
    if (this.range.getAttribute('aria-valuetext') !== text) this.range.setAttribute('aria-valuetext', text);
    say(this.position, text);
    const name = playing ? 'Pause' : 'Play';
    if (this.playButton.getAttribute('aria-label') !== name) {
      this.playButton.setAttribute('aria-label', name);
      this.playButton.title = `${name} (space)`;
      this.playButton.firstChild.className = playing ? 'i-pause' : 'i-play';
    }
  }
}

function button(icon, label, key, press) {
  const face = h('i', { class: `i-${icon}`, 'aria-hidden': 'true' });
  return h(
    'button',
    { type: 'button', class: 'ic', 'aria-label': label, title: `${label} (${key})`, onclick: press },
    face,
  );
}

/** A row of buttons of which one is pressed: [[value, text, title?]]. */
export class Choice {
  constructor(label, items, choose) {
    this.buttons = items.map(([value, text, title]) => {
      const b = h('button', { type: 'button', title, onclick: () => choose(value) }, text);
      return [value, b];
    });
    this.el = h(
      'span',
      { class: 'seg', role: 'group', 'aria-label': label },
      this.buttons.map(([, b]) => b),
    );
  }

  show(chosen) {
    for (const [value, b] of this.buttons) {
      const on = String(value === chosen);
      if (b.getAttribute('aria-pressed') !== on) b.setAttribute('aria-pressed', on);
    }
  }
}

/** The same for many values: a select. */
export class Pick {
  constructor(label, items, choose) {
    this.select = h(
      'select',
      { 'aria-label': label },
      items.map(([value, text]) => h('option', { value }, text)),
    );
    this.values = items.map(([value]) => value);
    this.select.addEventListener('change', () => choose(this.values[this.select.selectedIndex]));
    this.el = h('span', { class: 'pick-one' }, this.select);
  }

  show(chosen) {
    const at = this.values.indexOf(chosen);
    if (this.select.selectedIndex !== at) this.select.selectedIndex = at;
  }
}

/**
 * Arrows step, PgUp and PgDn step by tile, Home and End go to the ends, space plays. On a button that the keyboard went
 * to, space and Enter press it, as everywhere; after a click the keys are the player's again, so that space plays on.
 */
export function keys(root, player) {
  root.addEventListener('click', event => {
    const pressed = event.detail > 0 && event.target.closest('button');
    if (pressed && root.contains(pressed)) root.focus({ preventScroll: true });
  });
  root.addEventListener('keydown', event => {
    const tag = event.target.tagName;
    if (event.ctrlKey || event.metaKey || event.altKey || tag === 'SELECT') return;
    if (tag === 'INPUT' && event.target.type !== 'range') return;
    if (tag === 'BUTTON' && (event.key === ' ' || event.key === 'Enter')) return;
    const act = {
      ArrowRight: () => player.move(1),
      ArrowDown: () => player.move(1),
      ArrowLeft: () => player.move(-1),
      ArrowUp: () => player.move(-1),
      PageDown: () => player.moveTile(1),
      PageUp: () => player.moveTile(-1),
      Home: () => player.first(),
      End: () => player.last(),
      ' ': () => player.toggle(),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  });
}
