"use strict";
// Plots as SVG that follow the width of their place; colours are classes of the style sheet.
const Plots = (() => {
  const LETTER = 8; // widest letters of a tick, as a phone shows them
  const parsed = document.createElement("template");
  parsed.innerHTML = "<svg></svg>";
  const SVG = parsed.content.firstChild.namespaceURI;

  function element(name, attributes = {}, parent = null) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent?.append(made);
    return made;
  }

  /** A number for people: few digits, no exponent where it can be avoided; 5000 is 5,000 if `apart`. */
  function number(value, digits = 3, apart = false) {
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "–";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e-4 && size < 1e7) {
      const places = Math.min(Math.max(0, digits - 1 - Math.floor(Math.log10(size))), 8);
      const grouped = { maximumFractionDigits: places, useGrouping: apart ? true : "min2" };
      return value.toLocaleString("en", grouped).replace("-", "−");
    }
    const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
    const raised = String(+exponent).replace(/[-0-9]/g, (sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]);
    return `${+mantissa} × 10${raised}`.replace("-", "−");
  }

  function linearTicks(low, high, wanted) {
    const raw = (high - low) / wanted;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((size) => size >= raw * 0.999);
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) ticks.push(i * step);
    return ticks;
  }

  function logTicks(first, last, wanted) {
    const [low, high] = first < last ? [first, last] : [last, first];
    const decades = Math.log10(high / low);
    const ticks = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
      for (const m of decades < 2 ? [1, 2, 5] : [1]) {
        const tick = m * 10 ** e;
        if (tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) ticks.push(tick);
      }
    }
    const every = Math.ceil(ticks.length / wanted) || 1;
    return ticks.filter((_, i) => i % every === 0);
  }

  class Plot {
    /** `host` is an empty element; `title` is for readers who cannot see the plot. */
    constructor(host, { title, height, xLabel, yLabel }) {
      this.host = host;
      this.height = height;
      this.labels = [xLabel, yLabel];
      this.svg = element("svg", { role: "img", "aria-label": title });
      host.append(this.svg);
      this.frame = element("g", {}, this.svg);
      const clip = `clip-${host.id}`;
      this.window = element("rect", {}, element("clipPath", { id: clip }, this.svg));
      this.marks = element("g", { "clip-path": `url(#${clip})` }, this.svg);
      this.paths = new Map();
      this.x = { low: 0, high: 1, log: false };
      this.y = { low: 0, high: 1, log: false };
    }

    /** Axes as {low, high, log, names}; names are further ticks [value, text]. */
    axes(x, y) {
      this.x = x;
      this.y = y;
      this.width = Math.max(this.host.clientWidth, 200);
      this.right = this.width - 10;
      this.top = 10;
      this.bottom = this.height - 38;
      const across = this.ticks(x, this.width < 480 ? 4 : 6);
      const up = this.ticks(y, Math.max(2, Math.round((this.bottom - this.top) / 36)));
      this.left = 32 + LETTER * Math.max(2, ...up.map(([, name]) => name.length));
      this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
      this.svg.style.height = `${this.height}px`;
      const inner = { x: this.left, y: this.top - 4, width: this.right - this.left + 6, height: this.bottom - this.top + 8 };
      for (const [key, value] of Object.entries(inner)) this.window.setAttribute(key, value);
      this.drawFrame(across, up);
    }

    /** Values and names of about as many ticks as wanted; named ones push neighbours away. */
    ticks(axis, wanted) {
      const names = axis.names ?? [];
      const place = (value) => this.place(axis, value, 0, 1);
      const clear = (v) => names.every(([name]) => Math.abs(place(v) - place(name)) > 0.5 / wanted);
      const round = (axis.log ? logTicks : linearTicks)(axis.low, axis.high, wanted).filter(clear);
      const apart = !axis.log && round.some((v) => Math.abs(v) >= 10000); // one notation for all ticks
      return [...round.map((v) => [v, number(v, 3, apart)]), ...names];
    }

    drawFrame(across, up) {
      this.frame.replaceChildren();
      const text = (name, attributes, content) => {
        element("text", { class: name, ...attributes }, this.frame).textContent = content;
      };
      for (const [value, name] of up) {
        const y = this.py(value);
        element("path", { class: "grid", d: `M${this.left} ${y}H${this.right}` }, this.frame);
        text("tick", { x: this.left - 6, y: y + 4, "text-anchor": "end" }, name);
      }
      let free = 0; // up to where names stand already
      for (const [value, name] of across.sort((a, b) => this.px(a[0]) - this.px(b[0]))) {
        const x = this.px(value);
        const half = (LETTER * name.length) / 2;
        element("path", { class: "grid", d: `M${x} ${this.top}V${this.bottom}` }, this.frame);
        const at = Math.min(x, this.width - half);
        if (at - half < free) continue;
        text("tick", { x: at, y: this.bottom + 15, "text-anchor": "middle" }, name);
        free = at + half + LETTER;
      }
      const middle = (this.top + this.bottom) / 2;
      text("label", { x: (this.left + this.right) / 2, y: this.height - 6, "text-anchor": "middle" }, this.labels[0]);
      text("label", { transform: `translate(12 ${middle}) rotate(-90)`, "text-anchor": "middle" }, this.labels[1]);
      element("path", { class: "axis", d: `M${this.left} ${this.top}V${this.bottom}H${this.right}` }, this.frame);
    }

    place(axis, value, start, end) {
      const fraction = axis.log
        ? Math.log(Math.max(value, 1e-300) / axis.low) / Math.log(axis.high / axis.low)
        : (value - axis.low) / (axis.high - axis.low);
      return start + (end - start) * Math.min(Math.max(fraction, -9), 10);
    }

    px(value) {
      return Math.round(10 * this.place(this.x, value, this.left, this.right)) / 10;
    }

    py(value) {
      return Math.round(10 * this.place(this.y, value, this.bottom, this.top)) / 10;
    }

    /** The values at a pointer's place. */
    at(event) {
      const box = this.svg.getBoundingClientRect();
      const across = (event.clientX - box.left - this.left) / (this.right - this.left);
      const up = (this.bottom - (event.clientY - box.top)) / (this.bottom - this.top);
      const value = (axis, fraction) => (axis.log
        ? axis.low * (axis.high / axis.low) ** fraction
        : axis.low + (axis.high - axis.low) * fraction);
      return { x: value(this.x, across), y: value(this.y, up) };
    }

    /** Take all marks away; the axes stay. */
    clear() {
      for (const mark of this.paths.values()) mark.remove();
      this.paths.clear();
    }

    path(name, style, d) {
      if (!this.paths.has(name)) this.paths.set(name, element("path", { class: style }, this.marks));
      this.paths.get(name).setAttribute("d", d);
    }

    /** A line; values that are not numbers leave a gap. */
    line(name, style, xs, ys) {
      let d = "";
      let pen = "M";
      for (let i = 0; i < xs.length; i++) {
        if (Number.isFinite(ys[i])) {
          d += `${pen}${this.px(xs[i])} ${this.py(ys[i])}`;
          pen = "L";
        } else pen = "M";
      }
      this.path(name, `line ${style}`, d);
    }

    /** A line that crosses the plot. */
    rule(name, style, { x, y }) {
      const d = x === undefined
        ? `M${this.left} ${this.py(y)}H${this.right}`
        : `M${this.px(x)} ${this.top}V${this.bottom}`;
      this.path(name, style, d);
    }
  }

  return { Plot, element, number };
})();
