// The flame graph on a canvas: only frames that are wide enough to see are drawn.
"use strict";

const ROW = 18;
const LEAST_PX = 0.4;
const CHARACTER_PX = 6.7;
const HIGHLIGHT = "#e600e6";
const REST = "#d9d9d9";
const MOST_ABOVE = 40;
// Beyond this height browsers draw nothing at all.
const MOST_PX = 32000;

class Flames {
  constructor(canvas, data, colourOf) {
    this.canvas = canvas;
    this.data = data;
    this.colourOf = colourOf;
    this.root = 0;
    this.rows = [];
    this.matches = null;
  }

  show(view) {
    // The zoomed frame stays zoomed where the new tree has it, too.
    const path = this.view ? this.path(this.root) : [];
    this.view = view;
    this.root = this.find(path);
    this.draw();
  }

  path(node) {
    const fns = [];
    for (; node > 0; node = this.view.parent[node]) fns.push(this.view.fn[node]);
    return fns.reverse();
  }

  find(path) {
    let node = 0;
    for (const fn of path) {
      let next = -1;
      for (let i = this.view.first[node]; i < this.view.first[node + 1]; i++) {
        if (this.view.fn[this.view.order[i]] === fn) next = this.view.order[i];
      }
      if (next < 0 || !this.view.value[next]) return 0;
      node = next;
    }
    return node;
  }

  name(node) {
    if (node === 0) return "all";
    const fn = this.view.fn[node];
    return fn < 0 ? `(${this.view.merged[node]} smaller)` : this.data.functions[fn][0];
  }

  // Marks the functions for which test(name, module, file) is true; returns the share of the whole they are in.
  search(test) {
    const { view, data } = this;
    this.matches = null;
    if (test) {
      this.matches = new Uint8Array(data.functions.length);
      data.functions.forEach(([name, module], fn) => {
        this.matches[fn] = test(name, module < 0 ? "" : data.modules[module]) ? 1 : 0;
      });
    }
    this.draw();
    if (!this.matches) return null;
    const inside = new Uint8Array(view.parent.length);
    let sum = 0;
    let frames = 0;
    for (let node = 1; node < view.parent.length; node++) {
      const hit = view.fn[node] >= 0 && this.matches[view.fn[node]];
      if (hit && view.value[node] > 0) frames++;
      if (hit && !inside[view.parent[node]]) sum += view.value[node];
      inside[node] = inside[view.parent[node]] || hit;
    }
    return { frames, share: view.total ? sum / view.total : 0 };
  }

  draw() {
    const { canvas, view } = this;
    const width = canvas.parentElement.clientWidth;
    const ratio = window.devicePixelRatio || 1;
    const all = this.layout(width);
    const rows = all.slice(0, Math.floor(MOST_PX / ratio / ROW));
    this.rows = rows;
    this.hiddenRows = all.length - rows.length;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${rows.length * ROW}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(rows.length * ROW * ratio);
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = "11px Menlo, Consolas, 'DejaVu Sans Mono', monospace";
    context.textBaseline = "middle";
    rows.forEach((row, depth) => {
      for (const [x, w, node] of row) {
        const fn = view.fn[node];
        const hit = this.matches && fn >= 0 && this.matches[fn];
        context.globalAlpha = depth < this.above ? 0.55 : 1;
        context.fillStyle = hit ? HIGHLIGHT : fn < 0 ? REST : this.colourOf(node, view);
        // A light line right and below keeps neighbours apart; frames of a pixel have no room for it.
        context.fillRect(x, depth * ROW, w > 2 ? w - 0.6 : w, ROW - 1);
        if (w > 4 * CHARACTER_PX) {
          const room = Math.floor((w - 6) / CHARACTER_PX);
          const name = this.name(node);
          context.fillStyle = hit ? "#ffffff" : "#1a1a1a";
          context.fillText(
            name.length > room ? `${name.slice(0, room - 1)}…` : name, x + 3, depth * ROW + ROW / 2);
        }
      }
    });
    context.globalAlpha = 1;
  }

  // Rows of [x, width, node]: the ancestors of the zoomed frame over the whole width, then what it calls.
  layout(width) {
    const { view, root } = this;
    const rows = [];
    const above = [];
    for (let node = view.parent[root]; node >= 0; node = view.parent[node]) above.push(node);
    // The whole and the nearest callers: in a deep recursion there are thousands.
    if (above.length > MOST_ABOVE) above.splice(MOST_ABOVE - 1, above.length - MOST_ABOVE);
    this.above = above.length;
    above.reverse().forEach((node) => rows.push([[0, width, node]]));
    const scale = view.value[root] ? width / view.value[root] : 0;
    let level = [[0, width, root]];
    while (level.length) {
      rows.push(level);
      const next = [];
      for (const [x, , node] of level) {
        let at = x;
        for (let i = view.first[node]; i < view.first[node + 1]; i++) {
          const child = view.order[i];
          const wide = view.value[child] * scale;
          // The heaviest come first: what follows is no wider.
          if (wide < LEAST_PX) break;
          next.push([at, wide, child]);
          at += wide;
        }
      }
      level = next;
    }
    return rows;
  }

  nodeAt(x, y) {
    const row = this.rows[Math.floor(y / ROW)] || [];
    const found = row.find(([left, wide]) => x >= left && x < left + wide);
    return found ? found[2] : -1;
  }

  zoom(node) {
    this.root = node;
    this.draw();
  }
}
