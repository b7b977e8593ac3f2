"use strict";
// Everything one can click, slide or type: controls, points, and the story.
const Controls = (() => {
  const { number } = Plots;
  const $ = (id) => document.getElementById(id);
  const RIDGE_PLACES = 40;

  const constantAt = (place) => State.width(Playground.state) * 10 ** (-3 + (3 * place) / RIDGE_PLACES);
  const constantPlace = (state) =>
    Math.round((RIDGE_PLACES * (3 + Math.log10(state.constant / State.width(state)))) / 3);

  // What a control reads and how it says it; its name is that of its element and of the state's.
  const SLIDERS = {
    n: { read: Number, place: (s) => s.n, text: (s) => State.points(s).length, changes: { points: null } },
    noise: { read: Number, place: (s) => s.noise, text: (s) => number(s.noise), changes: { points: null } },
    speed: { read: (v) => 10 ** Number(v), place: (s) => Math.log10(s.speed), text: (s) => number(s.speed) },
    floor: {
      read: Number, place: (s) => s.floor, text: (s) => number(State.floorAt(s, s.floor)),
      changes: { time: Infinity },
    },
    constant: { read: (v) => constantAt(Number(v)), place: constantPlace, text: (s) => number(s.constant) },
  };

  function show(state) {
    $("data").value = state.data;
    $("kernel").value = state.kernel;
    for (const [name, slider] of Object.entries(SLIDERS)) {
      $(name).value = slider.place(state);
      $(`${name}-text`).textContent = slider.text(state);
      $(name).setAttribute("aria-valuetext", slider.text(state));
    }
    $("n").disabled = $("noise").disabled = $("redraw").disabled = state.data === "own";
    for (const name of ["ridge", "truth"]) $(`show-${name}`).checked = state[name];
  }

  function connect() {
    for (const [key, set] of Object.entries(Data.SETS)) $("data").append(new Option(set.name, key));
    $("data").addEventListener("change", () => Playground.change(State.other($("data").value, Playground.state)));
    $("kernel").addEventListener("change", () => Playground.change({ kernel: $("kernel").value }));
    for (const [name, slider] of Object.entries(SLIDERS)) {
      $(name).addEventListener("input", () =>
        Playground.change({ ...slider.changes, [name]: slider.read($(name).value) }));
    }
    for (const name of ["ridge", "truth"]) {
      $(`show-${name}`).addEventListener("change", () => {
        Playground.state[name] = $(`show-${name}`).checked;
        Playground.drawAll();
        Playground.remember();
      });
    }
    $("redraw").addEventListener("click", () =>
      Playground.change({ points: null, seed: Playground.state.seed + 1 }));
    $("clear").addEventListener("click", Points.clear);
    $("reset").addEventListener("click", () => Playground.change(State.fresh()));
    $("scrub").addEventListener("input", () => {
      Playground.stop();
      Playground.goTo(Number($("scrub").value));
    });
    $("play").addEventListener("click", () => (Playground.playing ? Playground.stop() : Playground.play()));
    for (const button of document.querySelectorAll("[data-step]")) {
      button.addEventListener("click", () => Story.tell(Number(button.dataset.step)));
    }
  }

  /** Clicks and drags on a plot, as places in its units. */
  function follow(plot, act) {
    plot.svg.classList.add("clickable");
    const go = (event) => {
      Playground.stop();
      act(plot.at(event));
    };
    plot.svg.addEventListener("pointerdown", (event) => {
      plot.svg.setPointerCapture(event.pointerId);
      go(event);
    });
    plot.svg.addEventListener("pointermove", (event) => {
      if (plot.svg.hasPointerCapture(event.pointerId)) go(event);
    });
  }

  return { show, connect, follow };
})();

/** The training points: dragged, added and removed by pointer or keyboard. */
const Points = (() => {
  const { element, number } = Plots;
  let layer = null;
  let plot = null;
  let chosen = 0;
  let held = null;
  let tapped = null; // where an empty place was pressed
  let lastPress = { time: 0, index: -1 };

  const current = () => State.points(Playground.state).map((point) => [...point]);
  const set = (points) => Playground.change({ points });

  /** An empty sheet: no points, no truth, no curves. */
  const clear = () => Playground.change({ ...State.other("own", Playground.state), points: [] });

  function draw(target, points) {
    plot = target;
    layer ??= element("g", { class: "points" }, plot.svg);
    while (layer.childElementCount > points.length) layer.lastChild.remove();
    while (layer.childElementCount < points.length) element("circle", { r: 4.5 }, layer);
    points.forEach(([x, y], i) => {
      layer.children[i].setAttribute("cx", plot.px(x));
      layer.children[i].setAttribute("cy", plot.py(y));
    });
    markChosen();
  }

  function markChosen() {
    [...layer.children].forEach((circle, i) => circle.classList.toggle("chosen", i === chosen));
  }

  function inside({ x, y }) {
    const { low, high } = Data.SETS[Playground.state.data];
    return [Math.min(Math.max(x, low), high), Math.min(Math.max(y, plot.y.low), plot.y.high)];
  }

  function press(event) {
    const index = [...layer.children].indexOf(event.target);
    const twice = index >= 0 && index === lastPress.index && event.timeStamp - lastPress.time < 350;
    lastPress = { time: event.timeStamp, index };
    if (twice) return remove(index);
    if (index < 0) { // a point on release: until then it may become a scroll of the page
      tapped = { pointer: event.pointerId, x: event.clientX, y: event.clientY };
      return;
    }
    held = { index, pointer: event.pointerId };
    chosen = index;
    plot.svg.setPointerCapture(event.pointerId);
    markChosen();
  }

  function drag(event) {
    if (held?.pointer !== event.pointerId) return;
    const points = current();
    points[held.index] = inside(plot.at(event));
    set(points);
  }

  function release(event) {
    const tap = tapped?.pointer === event.pointerId ? tapped : null;
    held = tapped = null;
    if (!tap || event.type === "pointercancel") return;
    if (Math.hypot(event.clientX - tap.x, event.clientY - tap.y) < 8) add(inside(plot.at(event)));
  }

  function add(point) {
    const points = current();
    if (points.length >= State.MAX_POINTS) return;
    chosen = points.length;
    set([...points, point]);
  }

  function remove(index) {
    const points = current();
    points.splice(index, 1);
    chosen = Math.max(0, Math.min(chosen, points.length - 1));
    set(points);
  }

  function move(event) {
    const points = current();
    const step = (axis, sign) => (sign * (plot[axis].high - plot[axis].low)) / 50;
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    const [x, y] = points[chosen];
    points[chosen] = inside({ x: x + step("x", dx), y: y + step("y", dy) });
    set(points);
  }

  /** The next point to the left or right. */
  function choose(direction) {
    const order = current().map(([x], i) => [x, i]).sort((a, b) => a[0] - b[0]).map(([, i]) => i);
    const place = order.indexOf(chosen) + direction;
    chosen = order[Math.min(Math.max(place, 0), order.length - 1)] ?? 0;
    markChosen();
  }

  function key(event) {
    const arrow = event.key.startsWith("Arrow");
    const any = current().length > 0;
    if (event.key === "Enter") add(any ? inside({ x: current()[chosen][0] + (plot.x.high - plot.x.low) / 50, y: current()[chosen][1] }) : [0, 0]);
    else if ((event.key === "Delete" || event.key === "Backspace") && any) remove(chosen);
    else if (arrow && event.shiftKey && any) move(event);
    else if (arrow && any) choose(event.key === "ArrowLeft" || event.key === "ArrowDown" ? -1 : 1);
    else return;
    event.preventDefault();
    const points = current();
    document.getElementById("spoken").textContent = points.length
      ? `point ${chosen + 1} of ${points.length}, x ${number(points[chosen][0])}, y ${number(points[chosen][1])}`
      : "no points";
  }

  function connect(target) {
    plot = target;
    plot.svg.classList.add("editable");
    plot.svg.addEventListener("pointerdown", press);
    plot.svg.addEventListener("pointermove", drag);
    for (const end of ["pointerup", "pointercancel"]) plot.svg.addEventListener(end, release);
    plot.host.addEventListener("keydown", key);
  }

  return { connect, draw, clear };
})();

/** Four steps that tell why the bandwidth should fall. */
const Story = (() => {
  const text = document.getElementById("story-text");
  const STEPS = [
    {
      say: "Training starts with a bandwidth as wide as the data. Such a wide kernel can only draw broad, "
        + "gentle shapes: what it learns now is simple, and no noise.",
      state: () => ({ ...State.fresh("sine"), ridge: false }),
      time: (film) => firstFrame(film, 0.35),
    },
    {
      say: "A wide kernel soon has nothing more to learn, and training R² rises too slowly. Then the bandwidth "
        + "shrinks, again and again. Watch the curve gain detail only as the bandwidth falls.",
      state: () => ({ ...State.fresh("sine"), ridge: false }),
      time: () => 0,
      play: true,
    },
    {
      say: "Orange is ridge regression with one bandwidth for everything, fitted as closely to the points. "
        + "Move the ridge bandwidth: wide misses the fast wave, narrow wiggles where the data are a straight line. "
        + "The falling bandwidth needs no such choice.",
      state: () => ({ ...State.fresh("twoscale"), constant: 0.06 }),
      time: (film) => firstFrame(film, 0.97),
    },
    {
      say: "At bandwidth zero the model passes through every point, noise included, and is still good in between. "
        + "If the fall stops half-way, it is not. With ever smaller bandwidths the error falls, rises, and falls again: "
        + "double descent. The last plot shows it; click any floor there.",
      state: () => ({ ...State.fresh("sine"), ridge: false }),
      time: (film) => film.frames - 1,
    },
  ];

  const firstFrame = (film, level) => Math.max(film.r2.findIndex((value) => value >= level), 0);

  function tell(index) {
    const step = STEPS[index];
    for (const button of document.querySelectorAll("[data-step]")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.step) === index));
    }
    text.textContent = step.say;
    Playground.change(step.state());
    whenSolved(() => {
      Playground.goTo(step.time(Playground.film));
      if (step.play) Playground.play();
    });
  }

  function whenSolved(act) {
    if (document.documentElement.dataset.solved) act();
    else setTimeout(whenSolved, 20, act);
  }

  return { tell };
})();

Playground.start();
