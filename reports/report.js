// The filter: what is typed and which verdicts are wanted. Without this script all is shown.
for (const form of document.querySelectorAll("form.filter")) {
  form.hidden = false;
  const input = form.querySelector("input"), chips = [...form.querySelectorAll("button")], shown = form.querySelector(".shown");
  const table = form.nextElementSibling.querySelector("table"), rows = [...table.querySelectorAll("tr.row")];
  const apply = () => {
    const words = input.value.toLowerCase().split(/\s+/), wanted = chips.filter(c => c.ariaPressed === "true").map(c => c.dataset.verdict);
    let count = 0;
    for (const row of rows) {
      const text = (row.parentElement.rows[0].textContent + row.textContent).toLowerCase(); // with the area's name
      row.hidden = !wanted.includes(row.dataset.verdict) || !words.every(word => text.includes(word));
      count += row.hidden ? 0 : 1;
    }
    for (const body of table.tBodies) body.hidden = rows.length > 0 && ![...body.querySelectorAll("tr.row")].some(row => !row.hidden);
    shown.textContent = count === rows.length ? "" : count + " of " + rows.length;
  };
  form.addEventListener("submit", event => event.preventDefault());
  input.addEventListener("input", apply);
  for (const chip of chips) chip.addEventListener("click", () => { chip.ariaPressed = String(chip.ariaPressed !== "true"); apply(); });
  document.addEventListener("keydown", event => {
    if (event.key === "/" && document.activeElement !== input) { event.preventDefault(); input.focus(); }
    if (event.key === "Escape" && document.activeElement === input) { input.value = ""; apply(); input.blur(); }
  });
}

// What bars look like: fill, text, edge. Names are those of colours in the style sheet.
const paints = {
  "phase": ["rail", "soft"], "phase odd": ["line", "soft"], "node other": ["soft", "#fff"], "fault": ["fault", "#fff"], "fault unproven": ["hatch", "ink", "fault"],
  "gone": ["hatch", "fail"], "partial": ["dots", "ink"], "bad": ["lines", "#fff"], "violated": ["fail-bg"], "down": ["lines"], "up": ["up"],
  "span": ["up", "ink", "heal"], "span open": ["dots", "ink", "inc"], "span culprit": ["hatch", "fail", "fail"], "span open culprit": ["hatch", "fail", "fail"],
};
// Lines through all lanes: colour and dashes.
const dashes = {"injected": ["mark", [6, 3]], "healed": ["heal", [1.5, 3]]};
for (let i = 0; i < 7; i++) paints["node n" + i] = ["n" + i, "#fff"];
const style = getComputedStyle(document.documentElement), known = {}; // paints by name
const colour = name => known[name] ??= name[0] === "#" ? name : style.getPropertyValue("--" + name);
// Patterns stand for what is missing, wrong or open, so that they can be distinguished without colours.
const tiles = {
  lines: ["down", "#fff", (c, s) => { c.globalAlpha = .5; c.lineWidth = s / 6; for (const x of [-s, 0, s]) { c.moveTo(x, 0); c.lineTo(x + s, s); } c.stroke(); }],
  hatch: ["fail-bg", "gone", (c, s) => { c.globalAlpha = .5; c.lineWidth = s / 4; for (const x of [-s, 0, s]) { c.moveTo(x, s); c.lineTo(x + s, 0); } c.stroke(); }],
  dots: ["inc-bg", "inc", (c, s) => { c.arc(s / 2, s / 2, s / 5, 0, 7); c.fill(); }],
};
const paint = (ctx, name) => {
  if (!tiles[name]) return colour(name);
  if (known[name]) return known[name];
  const [ground, ink, draw] = tiles[name], tile = document.createElement("canvas"), c = tile.getContext("2d"), size = 6 * uPlot.pxRatio;
  tile.width = tile.height = size;
  c.fillStyle = colour(ground); c.fillRect(0, 0, size, size);
  c.fillStyle = c.strokeStyle = colour(ink); c.beginPath(); draw(c, size);
  return known[name] = ctx.createPattern(tile, "repeat");
};
const legend = () => {
  for (const swatch of document.querySelectorAll("canvas.swatch")) {
    const {width, height} = swatch, ctx = swatch.getContext("2d"), mark = dashes[swatch.dataset.class];
    ctx.clearRect(0, 0, width, height);
    if (mark) {
      ctx.strokeStyle = colour(mark[0]); ctx.lineWidth = 2; ctx.setLineDash(mark[1]);
      ctx.beginPath(); ctx.moveTo(width / 2, 0); ctx.lineTo(width / 2, height); ctx.stroke();
    } else {
      ctx.fillStyle = paint(ctx, paints[swatch.dataset.class][0]); ctx.fillRect(0, 0, width, height);
    }
  }
};
legend();

const seconds = value => value === 0 ? "0s" : value < 1 ? +(value * 1000).toPrecision(3) + "ms" : +value.toFixed(2) + "s";
const element = (parent, className, text = "") => {
  const e = document.createElement("div");
  e.className = className; e.textContent = text;
  parent.append(e);
  return e;
};
const tip = element(document.body, "tip"), live = element(document.body, "live");
tip.hidden = true;
live.role = "status"; // is read aloud
const axisHeight = 20, chartHeight = 36, titleHeight = 24, margin = 16, font = "11px " + getComputedStyle(document.body).fontFamily;

// rowsOf places the lanes of a timeline, from the top.
const rowsOf = ({phases, groups}) => {
  const rows = [];
  let y = 0;
  const add = row => { rows.push({y, ...row}); y += row.height; };
  if (phases) { add({title: "Phase", height: 20, bars: phases}); y += 4; }
  for (const [title, lanes] of groups ?? []) {
    add({title, height: titleHeight, bars: []});
    let of;
    lanes.forEach(([name, note, thin, bars], i) => {
      y += i > 0 && thin && name ? 4 : 0; // between one entrance and the next
      of = name || of;
      add({name, note, of: [of, note].filter(Boolean).join(", "), height: thin ? 9 : 18, lane: true, bars});
      y += 4;
    });
  }
  return {rows, height: y};
};

// A timeline is a plot of lanes, whose bars are painted into it, and a plot for each chart.
// They share a range and a cursor: a drag across one of them zooms all, a double click shows
// all again, and keys and fingers do the same for users without a mouse.
class Timeline {
  static count = 0;
  constructor(box, data) {
    this.box = box;
    this.key = "timeline" + Timeline.count++;
    this.data = data;
    this.end = this.data.end / 1e9;
    Object.assign(this, rowsOf(this.data));
    this.lanes = this.rows.filter(row => row.bars.length > 0);
    this.charts = []; // functions that return what a chart shows at the cursor
    const charts = this.data.charts ?? [];
    box.replaceChildren();
    box.style.minHeight = this.height + charts.length * (titleHeight + chartHeight) + 2 * axisHeight + "px";
    this.plots = [];
    box.timeline = this;
  }
  draw() {
    if (this.plots.length) return;
    const charts = this.data.charts ?? [], sync = {key: this.key, setSeries: false};
    const lanes = this.plot({
      top: true, bottom: charts.length === 0, height: this.height, y: "lanes", sync, data: [[0, this.end], [null, null]], series: {},
      under: u => this.bands(u), over: u => this.bars(u), moved: u => this.point(u),
    });
    for (const row of this.rows) row.label = this.label(lanes, axisHeight + row.y, row.height, row);
    this.now = element(lanes.over, "now");
    charts.forEach(([title, name, top, hint, full, step, times, values, timed], i) => {
      const x = times.map(t => t / 1e9), width = step / 1e9, shown = {name, note: top};
      const chart = this.plot({
        bottom: i === charts.length - 1, height: titleHeight + chartHeight, y: "chart", full: (full || 1) * (titleHeight + chartHeight) / chartHeight, sync,
        data: [[0, ...x, this.end], [undefined, ...values, undefined]],
        series: {
          width: 0, fill: () => colour("late"), points: {show: false},
          paths: uPlot.paths.bars({size: [1, Infinity, 1.6], align: 1, disp: {x0: {unit: 1, values: u => u.data[0]}, size: {unit: 1, values: () => [width]}}}),
        },
        under: u => { this.bands(u); this.rail(u, titleHeight, chartHeight); }, over: () => {},
        moved: u => {
          const {left, idx} = u.cursor, near = left >= 0 && Math.abs(u.valToPos(u.data[0][idx], "x") - left) <= 3, value = near ? u.data[1][idx] : undefined;
          shown.value.textContent = value === undefined ? "" : timed ? seconds(value) : value;
        },
      });
      this.label(chart, 0, titleHeight, {title});
      const label = this.label(chart, titleHeight, chartHeight, shown);
      label.title = hint;
      shown.value = element(label, "value");
      this.charts.push(() => shown.value.textContent && title + ": " + shown.value.textContent);
    });
    this.observer = new ResizeObserver(() => this.resize(this.box.clientWidth));
    this.observer.observe(this.box);
    this.box.addEventListener("keydown", event => this.steer(event));
    this.box.addEventListener("blur", () => this.leave());
    // A finger elsewhere hides the cursor, before what it touches may show its own.
    document.addEventListener("pointerdown", event => {
      if (event.pointerType === "touch" && !this.box.contains(event.target) && lanes.cursor.left >= 0) this.hide();
    }, true);
    // A move of nothing comes from scrolling.
    this.box.addEventListener("mousemove", event => { if (event.movementX || event.movementY) this.lead(); });
  }
  gutter() { return this.box.clientWidth < 640 ? 104 : 214; }
  plot({top, bottom, height, y, full, sync, data, series, under, over, moved}) {
    const axis = side => ({
      scale: "x", side, size: axisHeight, gap: 3, space: 64, font, stroke: () => colour("soft"), ticks: {show: false}, grid: {stroke: () => colour("line"), width: 1},
      ...(this.data.ticks ? {splits: u => this.splits(u), values: (u, at) => at.map(v => this.data.ticks.find(([t]) => t / 1e9 === v)[1])} : {values: (u, at) => at.map(v => +v.toFixed(6) + "s")}),
    });
    const edges = [...(top ? [axis(0)] : []), ...(bottom ? [axis(2)] : [])];
    const u = new uPlot({
      width: this.box.clientWidth, height: height + edges.length * axisHeight, padding: [0, margin, 0, () => this.gutter()], legend: {show: false},
      scales: {x: {time: false}, [y]: {range: [0, full ?? 1]}},
      axes: [...(edges.length ? edges : [{...axis(2), size: 0, values: () => []}]), {scale: y, show: false}],
      series: [{}, {scale: y, ...series}],
      cursor: {y: false, points: {show: false}, drag: {x: true, y: false, dist: 4}, sync: {...sync, scales: ["x", y]}},
      hooks: {drawClear: [under], draw: [u => { over(u); this.marks(u); }], setCursor: [moved], setScale: [(u, key) => { if (key === "x") this.box.dataset.range = [u.scales.x.min, u.scales.x.max]; }]},
    }, data, this.box);
    this.plots.push(u);
    this.touch(u);
    return u;
  }
  // touch lets one finger move the cursor and two zoom: uPlot follows a mouse only. A page can still
  // be scrolled with a finger that moves up or down.
  touch(u) {
    const fingers = new Map(); // where each is from the left, by its pointer
    let held = []; // the times under two fingers, which stay under them
    const begin = event => {
      if (event.pointerType !== "touch") return;
      fingers.set(event.pointerId, 0);
      move(event);
      held = fingers.size === 2 ? [...fingers.values()].map(x => u.posToVal(x, "x")) : [];
    };
    const move = event => {
      if (!fingers.has(event.pointerId)) return;
      const {left, top, width} = u.over.getBoundingClientRect();
      fingers.set(event.pointerId, event.clientX - left);
      if (fingers.size === 1) {
        this.lead();
        u.setCursor({left: event.clientX - left, top: event.clientY - top}, true, true);
      }
      const [one, other] = fingers.values(), perPixel = (held[1] - held[0]) / (other - one);
      if (perPixel > 0 && isFinite(perPixel)) this.zoom(held[0] - one * perPixel, held[0] + (width - one) * perPixel);
    };
    const end = event => { fingers.delete(event.pointerId); held = []; };
    u.over.addEventListener("pointerdown", begin);
    u.over.addEventListener("pointermove", move);
    u.over.addEventListener("pointerup", end);
    u.over.addEventListener("pointercancel", event => { if (fingers.has(event.pointerId)) this.hide(); end(event); }); // the page scrolls
  }
  label(u, top, height, {title, name, note}) {
    const label = element(u.root.querySelector(".u-wrap"), "label");
    label.style.cssText = `top:${top}px;height:${height}px`;
    if (title) element(label, "heading", title);
    if (name) element(label, "name", name).title = name;
    if (note) element(label, "note", note);
    return label;
  }
  // splits are the times that are named, as many as there is room for.
  splits(u) {
    let last = -Infinity;
    return this.data.ticks.map(([t]) => t / 1e9).filter(v => {
      const x = u.valToPos(v, "x");
      if (x < -1 || x > u.over.clientWidth - 10 || x - last < 58) return false;
      last = x;
      return true;
    });
  }
  clipped(u, draw) {
    const {ctx, bbox} = u;
    ctx.save();
    ctx.beginPath(); ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height); ctx.clip();
    draw(ctx, bbox, t => u.valToPos(t / 1e9, "x", true), uPlot.pxRatio);
    ctx.restore();
  }
  // bands shades every other phase, and when a guarantee was violated.
  bands(u) {
    this.clipped(u, (ctx, bbox, x, ratio) => {
      ctx.fillStyle = colour("band");
      (this.data.phases ?? []).forEach(([from, to], i) => { if (i % 2) ctx.fillRect(x(from), bbox.top, x(to) - x(from), bbox.height); });
      ctx.strokeStyle = colour("fail"); ctx.lineWidth = ratio;
      for (const {from, to} of this.data.violated ?? []) {
        const width = Math.max(3 * ratio, x(to) - x(from));
        ctx.fillStyle = paint(ctx, "fail-bg"); ctx.fillRect(x(from), bbox.top, width, bbox.height);
        ctx.beginPath(); for (const at of [x(from), x(from) + width]) { ctx.moveTo(at, bbox.top); ctx.lineTo(at, bbox.top + bbox.height); } ctx.stroke();
      }
    });
  }
  rail(u, top, height) {
    this.clipped(u, (ctx, bbox, x, ratio) => { ctx.fillStyle = colour("rail"); ctx.fillRect(bbox.left, bbox.top + top * ratio, bbox.width, height * ratio); });
  }
  // marks are lines through all lanes.
  marks(u) {
    this.clipped(u, (ctx, bbox, x, ratio) => {
      ctx.lineWidth = 1.5 * ratio;
      for (const [at, kind] of this.data.marks ?? []) {
        const [ink, dash] = dashes[kind];
        ctx.strokeStyle = colour(ink); ctx.setLineDash(dash.map(length => length * ratio));
        ctx.beginPath(); ctx.moveTo(x(at), bbox.top); ctx.lineTo(x(at), bbox.top + bbox.height); ctx.stroke();
      }
    });
  }
  bars(u) {
    for (const row of this.rows) if (row.lane) this.rail(u, row.y, row.height);
    this.clipped(u, (ctx, bbox, x, ratio) => {
      const right = bbox.left + bbox.width;
      for (const row of this.rows) {
        const top = bbox.top + row.y * ratio, height = row.height * ratio;
        for (const [from, to, kind, text, beside] of row.bars) {
          if (x(to) < bbox.left || x(from) > right) continue;
          const width = Math.max(2 * ratio, Math.min(right, x(to)) - Math.max(bbox.left, x(from)));
          const left = Math.min(Math.max(bbox.left, x(from)), right - width), [fill, ink, edge] = paints[kind];
          ctx.fillStyle = paint(ctx, fill); ctx.fillRect(left, top, width, height);
          if (edge) { ctx.strokeStyle = colour(edge); ctx.lineWidth = ratio; ctx.strokeRect(left, top, width, height); }
          if (text && row.height >= 18) this.write(ctx, text, {left, width, start: bbox.left, right, ratio, beside, ink, ground: tiles[fill]?.[0], middle: top + height / 2});
        }
      }
    });
  }
  // write puts a text into its bar, or beside one that is too short for it.
  write(ctx, text, {left, width, start, right, ratio, beside, ink, ground, middle}) {
    ctx.font = font.replace("11", 11 * ratio); ctx.textBaseline = "middle"; ctx.textAlign = "left"; ctx.lineJoin = "round"; ctx.lineWidth = 4 * ratio;
    const space = 5 * ratio, need = ctx.measureText(text).width + 2 * space;
    let at = left + space;
    if (need > width) {
      if (!beside) return;
      [ink, ground] = ["ink", "card"];
      at = left + width + need <= right ? left + width + space : left - need + space;
      if (at < start) return;
    }
    if (ground) { ctx.strokeStyle = colour(ground); ctx.strokeText(text, at, middle); }
    ctx.fillStyle = colour(ink); ctx.fillText(text, at, middle);
  }
  // point shows what is under the pointer, and the time at the cursor.
  point(u) {
    const {left, top} = u.cursor, x = t => u.valToPos(t / 1e9, "x");
    this.now.textContent = left < 0 || this.data.ticks ? "" : u.posToVal(left, "x").toFixed(2) + "s";
    this.now.style.left = left + "px";
    const row = left < 0 ? undefined : this.rows.find(r => top >= r.y && top < r.y + r.height);
    const bar = row?.bars.findLast(([from, to]) => left >= x(from) - 2 && left <= Math.max(x(to), x(from) + 2) + 2);
    tip.hidden = !bar;
    if (!bar) return;
    tip.textContent = bar[5];
    const {left: boxLeft, top: boxTop} = u.over.getBoundingClientRect();
    tip.style.left = Math.max(8, Math.min(boxLeft + left + 14, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.min(boxTop + top + 18, innerHeight - tip.offsetHeight - 8) + "px";
  }
  resize(width) {
    this.box.classList.toggle("narrow", this.gutter() < 200);
    this.box.style.setProperty("--gutter", this.gutter() + "px");
    if (width === 0) return; // it is hidden
    for (const u of this.plots) u.setSize({width, height: u.height});
    queueMicrotask(() => this.place()); // after uPlot, which draws in one
  }
  zoom(from, to) {
    const length = Math.min(to - from, this.end), min = Math.max(0, Math.min(from, this.end - length));
    for (const u of this.plots) u.setScale("x", {min, max: min + length});
    queueMicrotask(() => this.place());
  }
  steer(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const {min, max} = this.plots[0].scales.x, length = max - min, middle = this.at ?? (min + max) / 2;
    const step = !event.shiftKey && {"ArrowLeft": [-length / 100, 0], "ArrowRight": [length / 100, 0], "ArrowUp": [0, -1], "ArrowDown": [0, 1]}[event.key];
    const range = {"+": [middle - length / 4, middle + length / 4], "-": [middle - length, middle + length], "Escape": [0, this.end],
      "ArrowLeft": [min - length / 4, max - length / 4], "ArrowRight": [min + length / 4, max + length / 4]}[event.key];
    if (!step && !range) return;
    event.preventDefault();
    if (step) { this.walk(...step); return; }
    if (event.key === "Escape") this.leave();
    this.zoom(...range);
  }
  // walk moves the cursor by a time or by a lane, and reports what is there to screen readers. It
  // starts where the mouse is, or in the middle.
  walk(time, lanes) {
    const u = this.plots[0], {min, max} = u.scales.x, {left, top} = u.cursor, limit = (value, from, to) => Math.max(from, Math.min(value, to));
    if (this.at === undefined && left < 0) this.lead((min + max) / 2, 0);
    else {
      const lane = this.lane ?? this.lanes.findIndex(row => top >= row.y && top < row.y + row.height);
      this.lead(limit((this.at ?? u.posToVal(left, "x")) + time, min, max), limit(Math.max(lane, 0) + lanes, 0, this.lanes.length - 1));
    }
    if (this.lanes.length === 0) return;
    const row = this.lanes[this.lane];
    row.label.scrollIntoView({block: "nearest"});
    this.place();
    const values = this.charts.map(value => value()).filter(Boolean);
    live.textContent = [this.now.textContent, (row.title ?? row.of) + ": " + (tip.hidden ? "nothing" : tip.textContent), ...values].filter(Boolean).join("\n");
  }
  // lead gives the cursor to the keyboard, at a time and in a lane, or back to the mouse.
  lead(at, lane) {
    this.lanes[this.lane]?.label.classList.remove("current");
    this.at = at; this.lane = lane;
    this.lanes[lane]?.label.classList.add("current");
  }
  // place shows the cursor of the keyboard.
  place() {
    if (this.at === undefined || this.lanes.length === 0) return;
    const u = this.plots[0], row = this.lanes[this.lane];
    u.setCursor({left: u.valToPos(this.at, "x"), top: row.y + row.height / 2}, true, true);
  }
  leave() {
    if (this.at === undefined) return;
    this.lead();
    this.hide();
    live.textContent = "";
  }
  hide() { this.plots[0].setCursor({left: -10, top: -10}, true, true); }
}

const timelines = [...document.querySelectorAll(".timeline")].map(box => new Timeline(box, JSON.parse(box.textContent)));
// Those that are far from the screen wait until they come near it, or until all is printed.
const near = new IntersectionObserver(entries => {
  for (const {isIntersecting, target} of entries) if (isIntersecting) { near.unobserve(target); target.timeline.draw(); }
}, {rootMargin: "800px"});
for (const t of timelines) near.observe(t.box);
addEventListener("scroll", () => document.activeElement.timeline?.place(), {passive: true}); // its tip moves along
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { for (const name in known) delete known[name]; legend(); for (const t of timelines) for (const u of t.plots) u.redraw(false); });
// A requirement's row opens to the timeline of the scenario that decided, and to the exhibits that
// the scenario has of the requirement, across the width of the table.
let printing = false; // opens rows as well, for their evidence: each timeline is printed once
for (const details of document.querySelectorAll("details.opens")) {
  const row = details.closest("tr"), scenario = document.getElementById(details.dataset.of);
  let more;
  details.addEventListener("toggle", () => {
    if (more) { more.hidden = !details.open; return; }
    const sources = [...scenario?.querySelectorAll(".timeline") ?? []].filter(box => {
      const exhibit = box.closest(".exhibit");
      return !exhibit || exhibit.dataset.names.split(", ").includes(row.id);
    });
    if (!details.open || printing || sources.length === 0) return;
    more = document.createElement("tr");
    more.className = row.className.replace("row", "more");
    row.after(more);
    const cell = more.insertCell();
    cell.colSpan = row.cells.length;
    for (const source of sources) {
      element(cell, "small of", source.ariaLabel);
      const box = element(cell, "timeline");
      box.tabIndex = 0; box.role = "application"; box.ariaLabel = source.ariaLabel;
      box.setAttribute("aria-describedby", "keys");
      const drawn = new Timeline(box, source.timeline.data);
      timelines.push(drawn);
      drawn.draw();
    }
  });
}
const paper = 660; // the width of a timeline on a printed page
let unfolded = []; // for the paper
addEventListener("beforeprint", () => {
  printing = true;
  unfolded = [...document.querySelectorAll("tr.fail details.opens, tr.inconclusive details.opens")].filter(d => !d.open);
  for (const d of unfolded) d.open = true;
  for (const t of timelines) { t.draw(); t.observer.disconnect(); t.resize(paper); }
});
addEventListener("afterprint", () => {
  printing = false;
  for (const d of unfolded) d.open = false;
  for (const t of timelines) t.observer.observe(t.box);
});
