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

  const width = (state) => Data.SETS[state.data].high - Data.SETS[state.data].low;

  /** The bandwidth at a place of the floor slider: three decades below the width, then zero. */
  const floorAt = (state, place) =>
    (place >= FLOORS ? 0 : width(state) * 10 ** ((-3 * place) / (FLOORS - 1)));

  const points = (state) => state.points ?? Data.draw(state.data, state.n, state.noise, state.seed);

  const short = (value) => String(+value.toPrecision(4));

  function toHash(state) {
    const fields = new URLSearchParams();
    const normal = fresh(state.data);
    fields.set("d", state.data);
    for (const name of ["n", "seed", "noise", "kernel", "speed", "floor", "constant", "time"]) {
      if (state[name] !== normal[name]) {
        fields.set(name, typeof state[name] === "number" ? short(state[name]) : state[name]);
      }
    }
    for (const name of ["ridge", "truth", "residuals"]) {
      if (state[name] !== normal[name]) fields.set(name, state[name] ? "1" : "0");
    }
    if (state.points) fields.set("p", state.points.map((point) => point.map(short).join("_")).join("~"));
    return `#${fields}`;
  }

  /** The state an address describes; whatever cannot be understood keeps its usual value. */
  function fromHash(hash) {
    const fields = new URLSearchParams(hash.replace(/^#/, ""));
    const data = fields.get("d");
    const state = fresh(Object.hasOwn(Data.SETS, data ?? "") ? data : "sine");
    const number = (name, low, high) => {
      const text = fields.get(name);
      const value = text ? Number(text) : NaN; // Number("") would be 0
      if (value >= low && value <= high) state[name] = value;
    };
    number("n", 5, MAX_POINTS);
    number("seed", 0, 2 ** 31);
    number("noise", 0, 1);
    number("speed", 1e-3, 2);
    number("floor", 0, FLOORS);
    number("constant", 1e-4, 1e2);
    number("time", 0, Infinity);
    for (const name of ["n", "seed", "floor"]) state[name] = Math.round(state[name]);
    if (KERNEL_NAMES.includes(fields.get("kernel"))) state.kernel = fields.get("kernel");
    for (const name of ["ridge", "truth", "residuals"]) {
      if (fields.has(name)) state[name] = fields.get(name) === "1";
    }
    if (fields.has("p")) state.points = readPoints(fields.get("p"));
    return state;
  }

  const readPoints = (text) =>
    text.split("~").slice(0, MAX_POINTS)
      .map((pair) => pair.split("_").map(Number))
      .filter((pair) => pair.length === 2 && pair.every((value) => Math.abs(value) < 1e3));

  return { FLOORS, MAX_POINTS, fresh, width, floorAt, points, toHash, fromHash };
})();
