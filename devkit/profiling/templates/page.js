// What people touch: the event, the search, threads, libraries, the frame under the pointer, the table.
"use strict";

const KERNEL = /^\[kernel|\.ko$/;
const TABLE_ROWS = 100;

const element = (id) => document.getElementById(id);
const baseName = (path) => path.slice(path.lastIndexOf("/") + 1) || path;
const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 2 : 1)} %`;
const points = (change) => `${change > 0 ? "+" : ""}${(100 * change).toFixed(2)} points`;

function make(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

async function readData() {
  const packed = Uint8Array.from(atob(element("data").textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return unpack(JSON.parse(await new Response(stream).text()));
}

// One hue for each library, the heaviest first; neighbours in this order are far apart on the circle.
function moduleColours(data) {
  const weights = new Float64Array(data.modules.length);
  data.totals.forEach((total, event) => {
    if (total) moduleTable(data, event).forEach((weight, module) => { weights[module] += weight / total; });
  });
  const order = [...weights.keys()].sort((x, y) => weights[y] - weights[x] || x - y);
  const colours = new Array(data.modules.length);
  let place = 0;
  for (const module of order) {
    const kernel = KERNEL.test(baseName(data.modules[module]));
    const hue = kernel ? 0 : (28 + 137.508 * place++) % 360;
    colours[module] = kernel ? "hsl(0 0% 72%)" : `hsl(${hue.toFixed(1)} 68% 68%)`;
  }
  return { colours, order, weights };
}

// More than before is red, less is blue, what may be chance is nearly white.
function changeColour(a, b, counts) {
  const change = b - a;
  if (isNoise(a, b, counts[0], counts[1])) return "rgb(238 238 238)";
  const strength = Math.min(1, 0.25 + Math.sqrt(Math.abs(change) / 0.1));
  const faded = Math.round(225 * (1 - strength) + 40);
  return change > 0 ? `rgb(240 ${faded} ${faded})` : `rgb(${faded} ${Math.min(255, faded + 40)} 250)`;
}

async function start() {
  const data = await readData();
  const { colours, order } = moduleColours(data);
  const compare = data.mode === "compare";
  const filter = { event: 0, withoutThreads: new Set(), hidden: new Set(), only: -1 };
  const colourOf = (node, view) => {
    if (compare) return changeColour(view.a[node], view.b[node], data.counts);
    const module = data.functions[view.fn[node]][1];
    return module < 0 ? "hsl(0 0% 84%)" : colours[module];
  };
  const flames = new Flames(element("flames"), data, colourOf);

  const amount = (value) => {
    if (compare) return "";
    const unit = data.events[filter.event].unit;
    if (unit !== "ns") return `${Math.round(value).toLocaleString("en")} ${unit}`;
    return value >= 1e9 ? `${(value / 1e9).toFixed(2)} s` : `${(value / 1e6).toFixed(2)} ms`;
  };

  function refresh() {
    flames.show(buildView(data, filter));
    search();
    table();
  }

  function search() {
    const text = element("search").value;
    element("search").classList.remove("bad");
    let test = null;
    if (text) {
      let pattern = null;
      try { pattern = new RegExp(text, "i"); } catch { element("search").classList.add("bad"); }
      const plain = text.toLowerCase();
      test = (name, module) => (pattern ? pattern.test(name) || pattern.test(baseName(module)) : false)
        || name.toLowerCase().includes(plain);
    }
    const found = flames.search(test);
    element("found").textContent = found ? `${percent(found.share)} in ${found.frames} frames` : "";
  }

  function table() {
    const rows = functionTable(data, flames.view, flames.root).slice(0, TABLE_ROWS);
    const total = flames.view.total || 1;
    element("deeper").textContent = flames.hiddenRows ? `${flames.hiddenRows} deeper rows are not drawn: zoom in.` : "";
    element("below").textContent = flames.root ? ` below ${flames.name(flames.root)}` : "";
    const columns = compare ? ["before", "after", "change"] : ["self", "total"];
    element("columns").replaceChildren(...[...columns, "function", "library"].map((name) => make("th", { textContent: name })));
    element("rows").replaceChildren(...rows.map(({ fn, own, total: all, before, after }) => {
      const [name, module] = data.functions[fn];
      const link = make("button", { className: "link", textContent: name, title: "search for it" });
      link.addEventListener("click", () => {
        element("search").value = name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
        search();
      });
      const numbers = compare
        ? [percent(before), percent(after), points(after - before) + (isNoise(before, after, ...data.counts) ? " ?" : "")]
        : [percent(own / total), percent(all / total)];
      return make("tr", {}, ...numbers.map((text) => make("td", { className: "n", textContent: text })),
        make("td", {}, link), make("td", { textContent: module < 0 ? "" : baseName(data.modules[module]) }));
    }));
  }

  function tooltip(node, x, y) {
    const box = element("tip");
    box.hidden = node < 0;
    if (node < 0) return;
    const { view } = flames;
    const fn = view.fn[node];
    const lines = [make("b", { textContent: flames.name(node) })];
    if (fn >= 0 && data.functions[fn][1] >= 0) lines.push(data.modules[data.functions[fn][1]]);
    if (view.place[node] >= 0) {
      const [file, line, inlined] = data.places[view.place[node]];
      lines.push(`${data.files[file]}${line ? `:${line}` : ""}${inlined ? " (inlined)" : ""}`);
    }
    if (view.merged[node]) lines.push("each of them below what this page shows singly");
    if (compare) {
      const noise = isNoise(view.a[node], view.b[node], data.counts[0], data.counts[1]);
      lines.push(`before ${percent(view.a[node])}, after ${percent(view.b[node])}: `
        + points(view.b[node] - view.a[node]) + (noise ? " (may be chance)" : ""));
      lines.push(`own: before ${percent(view.ownA[node])}, after ${percent(view.ownB[node])}`);
    } else {
      lines.push(`${percent(view.value[node] / (view.total || 1))} with what it calls (${amount(view.value[node])})`);
      lines.push(`${percent(view.own[node] / (view.total || 1))} itself (${amount(view.own[node])})`);
    }
    box.replaceChildren(...lines.map((line) => make("div", {}, line)));
    box.style.left = `${Math.max(4, Math.min(x + 14, window.innerWidth - box.offsetWidth - 8))}px`;
    box.style.top = `${Math.max(4, Math.min(y + 16, window.innerHeight - box.offsetHeight - 8))}px`;
  }

  function zoom(node) {
    flames.zoom(node);
    table();
  }

  function libraries() {
    element("modules").replaceChildren(...order.map((module) => {
      const box = make("input", { type: "checkbox", checked: !filter.hidden.has(module) });
      box.addEventListener("change", () => {
        if (box.checked) filter.hidden.delete(module); else filter.hidden.add(module);
        refresh();
      });
      const only = make("button", {
        className: "link", textContent: filter.only === module ? "all" : "only",
        title: "only stacks that touch this library",
      });
      only.addEventListener("click", () => {
        filter.only = filter.only === module ? -1 : module;
        libraries();
        refresh();
      });
      const colour = make("span", { className: "swatch" });
      if (!compare) colour.style.background = colours[module];
      const share = data.totals[filter.event] ? moduleTable(data, filter.event)[module] / data.totals[filter.event] : 0;
      return make("li", { title: data.modules[module] }, make("label", {}, box, colour,
        `${baseName(data.modules[module])} ${percent(share)} `), only);
    }));
  }

  function threads() {
    const weights = new Float64Array(data.threads.length);
    const { thread, weight } = data.entries[filter.event];
    thread.forEach((index, i) => { weights[index] += weight[i]; });
    const byWeight = [...weights.keys()].filter((i) => weights[i] > 0 || filter.withoutThreads.has(i))
      .sort((x, y) => weights[y] - weights[x] || x - y);
    const boxes = byWeight.map((index) => {
      const [pid, tid, name] = data.threads[index];
      const box = make("input", { type: "checkbox", checked: !filter.withoutThreads.has(index) });
      box.addEventListener("change", () => {
        if (box.checked) filter.withoutThreads.delete(index); else filter.withoutThreads.add(index);
        refresh();
      });
      const share = data.totals[filter.event] ? weights[index] / data.totals[filter.event] : 0;
      return make("li", { title: `process ${pid}` }, make("label", {}, box, `${name || "?"} (${tid}) ${percent(share)}`));
    });
    element("threads").replaceChildren(...boxes);
    return byWeight;
  }

  element("event").replaceChildren(...data.events.map((event, index) => make("option", { value: index, textContent: event.name })));
  element("event").parentElement.hidden = compare || data.events.length < 2;
  element("event").addEventListener("change", () => {
    filter.event = Number(element("event").value);
    threads();
    libraries();
    refresh();
  });
  element("search").addEventListener("input", search);
  element("reset").addEventListener("click", () => zoom(0));
  const allThreads = (shown) => {
    filter.withoutThreads = new Set(shown ? [] : data.threads.keys());
    threads();
    refresh();
  };
  element("all-threads").addEventListener("click", () => allThreads(true));
  element("no-threads").addEventListener("click", () => allThreads(false));
  const canvas = element("flames");
  canvas.addEventListener("click", (event) => {
    const node = flames.nodeAt(event.offsetX, event.offsetY);
    if (node >= 0) zoom(node);
  });
  canvas.addEventListener("mousemove", (event) =>
    tooltip(flames.nodeAt(event.offsetX, event.offsetY), event.clientX, event.clientY));
  canvas.addEventListener("mouseleave", () => tooltip(-1));
  window.addEventListener("resize", () => flames.draw());
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") zoom(0);
    if (event.key === "/" && document.activeElement !== element("search")) {
      event.preventDefault();
      element("search").focus();
    }
  });
  threads();
  libraries();
  refresh();
  document.body.dataset.ready = "yes";
}

start().catch((error) => {
  element("failed").hidden = false;
  element("failed").textContent = `This page cannot be shown: ${error}. It needs a browser of 2023 or later.`;
});
