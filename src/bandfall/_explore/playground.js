"use strict";
// The playground: state in, pictures out. Solving happens in workers; this file only draws.
const Playground = (() => {
  const { Plot, number } = Plots;
  const GRID = 400;
  const FIRST_LOOK = 9; // when the first data set's wave is learned and its noise not yet
  const LONG = 60; // training times beyond are drawn on a log axis
  const SWEEP_AFTER = 250; // milliseconds of quiet before the floors are computed
  const PLAY_TIME = 5000; // milliseconds
  const $ = (id) => document.getElementById(id);

  const state = State.fromHash(location.hash);
  let film = null; // the newest reply of the solver
  let frame = 0;
  let sweep = [];
  let job = 0;
  let waiting = false;
  let sweepTimer = null;
  let timer = null;

  const plot = (id, title, height, xLabel, yLabel) => new Plot($(id), { title, height, xLabel, yLabel });
  const time = "training time";
  const plots = {
    model: plot("model", "training points, the model's curve and ridge regression's curve", 360, "x", "y"),
    bandwidth: plot("bandwidth-plot", `bandwidth along ${time}`, 200, time, "bandwidth"),
    r2: plot("r2-plot", `training and test R² along ${time}`, 200, time, "R²"),
    speed: plot("speed-plot", `speed along ${time}`, 200, time, "speed"),
    floors: plot("floor-plot", "training and test error against the smallest bandwidth allowed", 220,
      "smallest bandwidth (complexity →)", "1 − R²"),
  };

  // Solving ------------------------------------------------------------------------------------

  const engine = URL.createObjectURL(new Blob([$("engine").textContent], { type: "text/javascript" }));
  const solver = new Worker(engine);
  const sweeper = new Worker(engine);

  /** Places of the curves, over the whole picture. */
  function gridOf({ low, high }) {
    return Float64Array.from({ length: GRID }, (_, i) => low + ((high - low) * i) / (GRID - 1));
  }

  function task(kind) {
    const set = Data.SETS[state.data];
    const points = State.points(state);
    const held = kind === "sweep" || state.floor < State.FLOORS;
    const grid = gridOf(set);
    return {
      kind, job, grid, truth: set.truth ? grid.map(set.truth) : null,
      x: Float64Array.from(points, (point) => point[0]), y: Float64Array.from(points, (point) => point[1]),
      kernel: state.kernel, minSpeed: state.speed, floor: State.floorAt(state, state.floor), constant: state.constant,
      // A bandwidth held at a floor may never interpolate: the paper stops it at time 1,000.
      maxTime: held ? 1000 : Infinity, maxR2: held ? 1 : 0.999,
    };
  }

  /** Compute a new film; while one is being computed, only the newest state waits. */
  function solve() {
    job += 1;
    document.documentElement.dataset.solved = "";
    clearTimeout(sweepTimer);
    sweeper.postMessage({ kind: "stop", job });
    if (State.points(state).length < 2) {
      film = null;
      sweep = [];
      document.documentElement.dataset.solved = String(job);
      drawAll();
    } else if (!waiting) send();
  }

  function send() {
    waiting = true;
    solver.postMessage(task("film"));
  }

  solver.onmessage = ({ data: reply }) => {
    waiting = false;
    const n = State.points(state).length;
    if (n < 2) return;
    if (reply.residual[0].length === n) {
      film = reply;
      frame = nearestFrame(state.time);
      drawAll();
    }
    if (reply.job !== job) return send();
    document.documentElement.dataset.solved = String(job);
    sweepTimer = setTimeout(startSweep, SWEEP_AFTER);
  };

  function startSweep() {
    sweep = [];
    drawFloors(); // the errors of other points go
    const floors = Array.from({ length: State.FLOORS + 1 }, (_, i) => State.floorAt(state, i));
    sweeper.postMessage({ ...task("sweep"), floors });
  }

  sweeper.onmessage = ({ data: reply }) => {
    if (reply.job !== job) return;
    if (reply.done) {
      document.documentElement.dataset.swept = String(job);
      drawFloors();
      return;
    }
    sweep.push(reply);
    if (sweep.length % 6 === 0) drawFloors();
  };

  function nearestFrame(time) {
    if (!(time < film.time[film.frames - 1])) return film.frames - 1;
    let best = 0;
    while (film.time[best + 1] <= time) best++;
    return best;
  }

  // Drawing ------------------------------------------------------------------------------------

  /** Linear time shows the story unless its beginning would vanish. */
  const timeAxis = () => {
    const first = film.time[1] ?? 0.1;
    const last = Math.max(film.time[film.frames - 1], 2 * first);
    return last > LONG ? { low: first, high: last * 1.05, log: true } : { low: 0, high: last * 1.01, log: false };
  };

  function drawAll() {
    drawPoints();
    if (film) {
      drawBandwidth();
      drawR2();
      drawSpeed();
      drawFloors();
    } else {
      for (const name of ["bandwidth", "r2", "speed", "floors"]) plots[name].clear();
    }
    $("scrub").max = film ? film.frames - 1 : 0;
    drawFrame();
  }

  function drawPoints() {
    const set = Data.SETS[state.data];
    const points = State.points(state);
    const ys = points.map((point) => point[1]);
    const low = Math.min(-1.3, ...ys);
    const high = Math.max(1.3, ...ys);
    const plot = plots.model;
    plot.height = innerWidth < 600 ? 300 : 480;
    const room = 0.02 * (set.high - set.low);
    plot.axes({ low: set.low - room, high: set.high + room }, { low: low - 0.06 * (high - low), high: high + 0.06 * (high - low) });
    const places = gridOf(set);
    plot.line("truth", "truth dashed", places, set.truth && state.truth ? places.map(set.truth) : []);
    plot.path("spikes", "line a spike", "");
    plot.line("ridge", "b", [], []);
    plot.line("curve", "a", [], []);
    Points.draw(plot, points);
  }

  function drawBandwidth() {
    const positive = film.bandwidth.filter((value) => value > 0);
    const lowest = Math.min(...positive, Math.max(...positive) / 10);
    const hasZero = positive.length < film.frames;
    const zero = lowest / 3;
    const axis = { low: hasZero ? zero : lowest / 1.2, high: Math.max(...positive) * 1.2, log: true, names: hasZero ? [[zero, "0"]] : [] };
    plots.bandwidth.axes(timeAxis(), axis);
    plots.bandwidth.line("line", "a", film.time, film.bandwidth.map((value) => value || zero));
  }

  function drawR2() {
    plots.r2.axes(timeAxis(), { low: 0, high: 1.02 });
    plots.r2.line("train", "truth", film.time, film.r2);
    plots.r2.line("ridge", "b", film.time, state.ridge ? film.ridgeTestR2 : []);
    plots.r2.line("test", "a", film.time, film.testR2);
  }

  function drawSpeed() {
    const high = film.speed.reduce((a, b) => Math.max(a, b), state.speed) * 1.3;
    plots.speed.axes(timeAxis(), { low: Math.min(state.speed / 5, high / 10), high, log: true });
    plots.speed.line("line", "a", film.time, film.speed);
    plots.speed.rule("least", "rule", { y: state.speed });
  }

  function drawFloors() {
    const widest = State.width(state);
    const zero = widest * 10 ** -3.25;
    plots.floors.axes(
      { low: widest * 1.1, high: zero * 0.8, log: true, names: [[zero, "0"]] },
      { low: 0.003, high: 30, log: true });
    const rows = [...sweep].sort((a, b) => b.floor - a.floor);
    const xs = rows.map((row) => row.floor || zero);
    const error = (name) => rows.map((row) => (Number.isFinite(row[name]) ? Math.max(1 - row[name], 1e-9) : NaN));
    plots.floors.line("train", "truth", xs, error("r2"));
    plots.floors.line("ridge", "b", xs, state.ridge ? error("ridgeTestR2") : []);
    plots.floors.line("test", "a", xs, error("testR2"));
    plots.floors.rule("cursor", "cursor", { x: State.floorAt(state, state.floor) || zero });
  }

  /** What changes while time is scrubbed: three paths, three cursors, one line of text. */
  function drawFrame() {
    $("scrub").value = frame;
    if (!film) {
      $("now").textContent = "Add at least two points.";
      return;
    }
    const places = gridOf(Data.SETS[state.data]);
    plots.model.line("ridge", "b", state.ridge ? places : [], film.ridgeCurve[frame]);
    plots.model.line("curve", "a", places, film.curve[frame]);
    drawSpikes();
    const time = Math.max(film.time[frame], plots.r2.x.low);
    for (const name of ["bandwidth", "r2", "speed"]) plots[name].rule("cursor", "cursor", { x: time });
    $("now").textContent = nowText();
    $("scrub").setAttribute("aria-valuetext", $("now").textContent);
  }

  /** The spikes near bandwidth zero: there f moves at the training points alone, which is too narrow
   * for the curve. */
  function drawSpikes() {
    const plot = plots.model;
    const set = Data.SETS[state.data];
    const spikes = State.points(state).map(([x, y], i) => {
      const place = ((x - set.low) / (set.high - set.low)) * (GRID - 1);
      const left = Math.min(Math.max(Math.floor(place), 0), GRID - 2);
      const [a, b] = film.curve[frame].slice(left, left + 2);
      const beside = plot.py(a + (place - left) * (b - a));
      const there = plot.py(y - film.residual[frame][i]);
      return Math.abs(beside - there) > 2 ? `M${plot.px(x)} ${beside}V${there}` : "";
    });
    plot.path("spikes", "line a spike", spikes.join(""));
  }

  function nowText() {
    const parts = [
      `time ${number(film.time[frame])}`, `bandwidth ${number(film.bandwidth[frame])}`,
      `training R² ${film.r2[frame].toFixed(3)}`,
    ];
    if (Number.isFinite(film.testR2[frame])) {
      parts.push(`test R² ${film.testR2[frame].toFixed(3)}`);
      const ridge = film.ridgeTestR2[frame];
      if (state.ridge) parts.push(`ridge ${ridge < -9 ? "below −9" : ridge.toFixed(3)}`);
    }
    return parts.join(" · ").replaceAll("-", "−");
  }

  // Moving through time ------------------------------------------------------------------------

  function goTo(next) {
    frame = Math.min(Math.max(Math.round(next), 0), film ? film.frames - 1 : 0);
    state.time = !film || frame === film.frames - 1 ? Infinity : film.time[frame];
    drawFrame();
    remember();
  }

  function stop() {
    cancelAnimationFrame(timer);
    timer = null;
    $("play").textContent = "Play";
  }

  function play() {
    if (!film) return;
    if (frame >= film.frames - 1) frame = 0;
    const from = frame;
    let start = null;
    $("play").textContent = "Pause";
    const tick = (now) => {
      start ??= now;
      goTo(from + (film.frames * (now - start)) / PLAY_TIME);
      if (frame >= film.frames - 1) stop();
      else timer = requestAnimationFrame(tick);
    };
    timer = requestAnimationFrame(tick);
  }

  let rememberTimer = null;

  /** Write the state into the address, at most a few times a second. */
  function remember() {
    rememberTimer ??= setTimeout(() => {
      rememberTimer = null;
      history.replaceState(null, "", State.toHash(state));
    }, 200);
  }

  /** Take a changed state: show its settings, solve, remember. */
  function change(changes) {
    stop();
    Object.assign(state, changes);
    Controls.show(state);
    solve();
    drawPoints();
    remember();
  }

  function start() {
    Controls.connect();
    Points.connect(plots.model);
    for (const name of ["bandwidth", "r2", "speed"]) Controls.follow(plots[name], (place) => film && goTo(nearestFrame(place.x)));
    Controls.follow(plots.floors, (place) => {
      const nearest = Math.round(((State.FLOORS - 1) * Math.log10(State.width(state) / place.x)) / 3);
      const next = Math.min(Math.max(nearest, 0), State.FLOORS);
      if (next !== state.floor) change({ floor: next, time: Infinity });
    });
    addEventListener("hashchange", () => change(State.fromHash(location.hash)));
    new ResizeObserver(() => drawAll()).observe(document.body);
    change(location.hash ? {} : { time: FIRST_LOOK });
    document.documentElement.dataset.ready = "yes";
  }

  return {
    start, change, goTo, play, stop, drawAll, remember, state,
    get film() { return film; },
    get frame() { return frame; },
    get sweep() { return sweep; },
    get playing() { return timer !== null; },
  };
})();
