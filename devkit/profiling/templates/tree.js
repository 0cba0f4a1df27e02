// The call tree: what the page holds, and what is left of it under the chosen event, threads and libraries.
"use strict";

// Columns are written as differences where neighbours are alike; see flamegraph.py.
function unpack(data) {
  const parent = new Int32Array(data.parent.length);
  data.parent.forEach((up, node) => { parent[node] = node - up; });
  parent[0] = -1;
  const entries = data.entries.map(([nodes, threads, weights]) => {
    const node = new Int32Array(nodes.length);
    let at = 0;
    nodes.forEach((step, index) => { at += step; node[index] = at; });
    return { node, thread: threads, weight: weights };
  });
  return { ...data, parent, entries };
}

// The own weight of each node in one event, of the threads that are not left out.
function ownWeights(data, event, withoutThreads) {
  const own = new Float64Array(data.parent.length);
  const { node, thread, weight } = data.entries[event];
  for (let i = 0; i < node.length; i++) {
    if (!withoutThreads.has(thread[i])) own[node[i]] += weight[i];
  }
  return own;
}

function moduleOf(data, node) {
  const fn = data.function[node];
  return fn < 0 ? -1 : data.functions[fn][1];
}

// The tree to draw.
// filter: {event, withoutThreads: Set, hidden: Set of modules whose frames go into their callers,
//          only: module that a stack must touch, or -1}
// Nodes are: parent, fn, place, merged, value (with all below), own, and for comparisons a and b (shares).
function buildView(data, filter) {
  const compare = data.mode === "compare";
  const count = data.parent.length;
  const target = new Int32Array(count);
  const touches = new Uint8Array(count);
  const view = { parent: [-1], fn: [-1], place: [-1], merged: [0] };
  const known = new Map();
  const size = data.functions.length + 1;
  const events = compare ? [0, 1] : [filter.event];
  const weights = events.map((event) => ownWeights(data, event, filter.withoutThreads));
  const totals = events.map((event) => data.totals[event]);
  const one = (node) => compare
    ? ((totals[0] ? weights[0][node] / totals[0] : 0) + (totals[1] ? weights[1][node] / totals[1] : 0)) / 2
    : weights[0][node];
  touches[0] = filter.only < 0 ? 1 : 0;
  for (let node = 1; node < count; node++) {
    const up = data.parent[node];
    const module = moduleOf(data, node);
    touches[node] = touches[up] || (module === filter.only ? 1 : 0);
    if (module >= 0 && filter.hidden.has(module)) { target[node] = target[up]; continue; }
    const fn = data.function[node];
    const key = target[up] * size + fn + 1;
    let made = known.get(key);
    if (made === undefined) {
      made = view.parent.length;
      known.set(key, made);
      view.parent.push(target[up]);
      view.fn.push(fn);
      view.place.push(data.place[node]);
      view.merged.push(0);
    }
    view.merged[made] += data.merged[node];
    target[node] = made;
  }
  const length = view.parent.length;
  view.own = new Float64Array(length);
  view.a = new Float64Array(length);
  view.b = new Float64Array(length);
  for (let node = 0; node < count; node++) {
    if (!touches[node]) continue;
    view.own[target[node]] += one(node);
    if (compare) {
      view.a[target[node]] += totals[0] ? weights[0][node] / totals[0] : 0;
      view.b[target[node]] += totals[1] ? weights[1][node] / totals[1] : 0;
    }
  }
  view.ownA = view.a.slice();
  view.ownB = view.b.slice();
  view.value = view.own.slice();
  for (let node = length - 1; node > 0; node--) {
    const up = view.parent[node];
    view.value[up] += view.value[node];
    view.a[up] += view.a[node];
    view.b[up] += view.b[node];
  }
  view.total = compare ? 1 : totals[0];
  view.compare = compare;
  addChildren(view);
  return view;
}

// Children of each node, the heaviest first, in one array: those of n are at first[n] … first[n + 1].
function addChildren(view) {
  const length = view.parent.length;
  const first = new Int32Array(length + 1);
  for (let node = 1; node < length; node++) first[view.parent[node] + 1]++;
  for (let node = 0; node < length; node++) first[node + 1] += first[node];
  const next = first.slice();
  const order = new Int32Array(Math.max(0, length - 1));
  for (let node = 1; node < length; node++) order[next[view.parent[node]]++] = node;
  for (let node = 0; node < length; node++) {
    if (first[node + 1] - first[node] > 1) {
      order.subarray(first[node], first[node + 1]).sort((x, y) => view.value[y] - view.value[x] || x - y);
    }
  }
  view.first = first;
  view.order = order;
}

// Functions below a node: own weight, and total weight counted once where a function calls itself.
// Comparisons come with the biggest changes first.
function functionTable(data, view, root) {
  const own = new Float64Array(data.functions.length);
  const before = new Float64Array(data.functions.length);
  const after = new Float64Array(data.functions.length);
  const total = new Float64Array(data.functions.length);
  const onPath = new Int32Array(data.functions.length);
  const todo = [root];
  while (todo.length) {
    const node = todo.pop();
    if (node < 0) { onPath[view.fn[~node]]--; continue; }
    const fn = view.fn[node];
    if (fn >= 0) {
      own[fn] += view.own[node];
      before[fn] += view.ownA[node];
      after[fn] += view.ownB[node];
      if (!onPath[fn]) total[fn] += view.value[node];
      onPath[fn]++;
      todo.push(~node);
    }
    for (let i = view.first[node]; i < view.first[node + 1]; i++) {
      if (view.value[view.order[i]] > 0) todo.push(view.order[i]);
    }
  }
  const rows = [];
  total.forEach((value, fn) => {
    if (value > 0) rows.push({ fn, own: own[fn], total: value, before: before[fn], after: after[fn] });
  });
  const change = (row) => Math.abs(row.after - row.before);
  return rows.sort((x, y) => change(y) - change(x) || y.own - x.own || y.total - x.total);
}

// Own and total weight of each library in the whole page, whatever is filtered.
function moduleTable(data, event) {
  const own = ownWeights(data, event, new Set());
  const weights = new Float64Array(data.modules.length);
  own.forEach((weight, node) => {
    const module = moduleOf(data, node);
    if (module >= 0) weights[module] += weight;
  });
  return weights;
}

// Whether a change of a share may be chance, as compare.py says it: two proportions, p >= 0.001.
function isNoise(a, b, countA, countB) {
  if (!countA || !countB) return true;
  const both = (a * countA + b * countB) / (countA + countB);
  const deviation = Math.sqrt(both * (1 - both) * (1 / countA + 1 / countB));
  return Math.abs(b - a) <= 3.29 * deviation;
}
