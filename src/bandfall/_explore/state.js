"use strict";
// What the playground shows, as a small object that fits into the address of the page.
const State = (() => {
  const FLOORS = 41; // floors of the double-descent curve; one more stands for zero
  const MAX_POINTS = 300;
  const KERNEL_NAMES = ["gaussian", "matern52", "matern32", "matern12", "cauchy"];

  const fresh = (data = "sine") => {
    const { n, seed, constant } = Data.SETS[data];
    return {
      data, n, seed, noise: 0.2, kernel: "gaussian", speed: 0.1, floor: FLOORS, constant, time: Infinity,
      points: null, ridge: true, truth: true, residuals: false,
    };
  };

  /** Another data set, shown with the same settings. */
  const other = (data, { kernel, speed, ridge, truth, residuals }) =>
    ({ ...fresh(data), kernel, speed, ridge, truth, residuals });

  const width = (state) => Data.SETS[state.data].high - Data.SETS[state.data].low;

  /** The bandwidth at a place of the floor slider: three decades below the width, then zero. */
  const floorAt = (state, place) =>
    (place >= FLOORS ? 0 : width(state) * 10 ** ((-3 * place) / (FLOORS - 1)));

  const points = (state) => state.points ?? Data.draw(state.data, state.n, state.noise, state.seed);

  const short = (value) => String(+value.toPrecision(4));

  const RANGES = {
    n: [5, MAX_POINTS], seed: [0, 2 ** 31], noise: [0, 1], speed: [1e-3, 2], floor: [0, FLOORS], constant: [1e-4, 1e2],
    time: [0, Infinity],
  };
  const WHOLE = ["n", "seed", "floor"];
  const SHOWN = ["ridge", "truth", "residuals"];

  function toHash(state) {
    const fields = new URLSearchParams({ d: state.data });
    const normal = fresh(state.data);
    const set = (name, text) => { if (state[name] !== normal[name]) fields.set(name, text); };
    for (const name of Object.keys(RANGES)) set(name, short(state[name]));
    set("kernel", state.kernel);
    for (const name of SHOWN) set(name, Number(state[name]));
    if (state.points) fields.set("p", state.points.map((point) => point.map(short).join("_")).join("~"));
    return `#${fields}`;
  }

  /** The state an address describes; whatever cannot be understood keeps its usual value. */
  function fromHash(hash) {
    const fields = new URLSearchParams(hash.replace(/^#/, ""));
    const data = fields.get("d");
    const state = fresh(Object.hasOwn(Data.SETS, data ?? "") ? data : "sine");
    for (const [name, [low, high]] of Object.entries(RANGES)) {
      const value = fields.get(name) ? Number(fields.get(name)) : NaN; // Number("") would be 0
      if (value >= low && value <= high) state[name] = WHOLE.includes(name) ? Math.round(value) : value;
    }
    if (KERNEL_NAMES.includes(fields.get("kernel"))) state.kernel = fields.get("kernel");
    for (const name of SHOWN) if (fields.has(name)) state[name] = fields.get(name) === "1";
    if (fields.has("p")) state.points = readPoints(fields.get("p"));
    return state;
  }

  const readPoints = (text) =>
    text.split("~").slice(0, MAX_POINTS)
      .map((pair) => pair.split("_").map(Number))
      .filter((pair) => pair.length === 2 && pair.every((value) => Math.abs(value) < 1e3));

  return { FLOORS, MAX_POINTS, fresh, other, width, floorAt, points, toHash, fromHash };
})();
