"use strict";
// What the playground shows: its data sets, and its state, which fits into the address of the page.

/** Numbers are drawn as NumPy's legacy generator draws them: a seed gives the points of the paper. */
const Data = (() => {
  class Mersenne {
    constructor(seed) {
      this.words = new Uint32Array(624);
      this.words[0] = seed;
      for (let i = 1; i < 624; i++) {
        const before = this.words[i - 1];
        this.words[i] = Math.imul(1812433253, before ^ (before >>> 30)) + i;
      }
      this.place = 624;
      this.spare = null;
    }

    refill() {
      const w = this.words;
      for (let i = 0; i < 624; i++) {
        const mixed = (w[i] & 0x80000000) | (w[(i + 1) % 624] & 0x7fffffff);
        w[i] = w[(i + 397) % 624] ^ (mixed >>> 1) ^ (mixed & 1 ? 0x9908b0df : 0);
      }
      this.place = 0;
    }

    word() {
      if (this.place === 624) this.refill();
      let value = this.words[this.place++];
      value ^= value >>> 11;
      value ^= (value << 7) & 0x9d2c5680;
      value ^= (value << 15) & 0xefc60000;
      return (value ^ (value >>> 18)) >>> 0;
    }

    /** In [0, 1), 53 bits. */
    uniform() {
      const high = this.word() >>> 5;
      return (high * 67108864 + (this.word() >>> 6)) / 9007199254740992;
    }

    /** Standard normal, by Marsaglia's polar method. */
    normal() {
      if (this.spare !== null) {
        const value = this.spare;
        this.spare = null;
        return value;
      }
      for (;;) {
        const a = 2 * this.uniform() - 1;
        const b = 2 * this.uniform() - 1;
        const square = a * a + b * b;
        if (square > 0 && square < 1) {
          const factor = Math.sqrt((-2 * Math.log(square)) / square);
          this.spare = factor * a;
          return factor * b;
        }
      }
    }
  }

  const uniformPlace = (random) => -1 + 2 * random.uniform();
  const sine = (x) => Math.sin(2 * Math.PI * x);
  const LEVELS = [[-0.6, -0.6], [-0.15, 0.7], [0.25, -0.9], [0.65, 0.3], [Infinity, 1]];

  // `constant` is the bandwidth ridge regression starts with, `n` and `seed` those of the paper.
  const SETS = {
    sine: {
      name: "Noisy sine (Figure 1)", low: -1, high: 1, n: 20, seed: 8, constant: 0.2,
      place: uniformPlace, truth: sine,
    },
    twoscale: {
      name: "Two scales (Figure 5)", low: -3, high: 3, n: 100, seed: 16, constant: 0.2,
      place: (random) => random.normal(),
      truth: (x) => (Math.abs(x) < 1 ? Math.sin(10 * Math.PI * x) : x - Math.sign(x)),
    },
    steps: {
      name: "Steps", low: -1, high: 1, n: 60, seed: 1, constant: 0.2,
      place: uniformPlace, truth: (x) => LEVELS.find(([end]) => x < end)[1],
    },
    own: {
      name: "Your own drawing", low: -1, high: 1, n: 0, seed: 0, constant: 0.2,
      place: uniformPlace, truth: null,
    },
  };

  /** n points of a set: places first, noise after, as the paper's experiments draw them. */
  function draw(name, n, noise, seed) {
    const set = SETS[name];
    if (!set.truth) return [];
    const random = new Mersenne(seed);
    const places = Array.from({ length: n }, () => set.place(random));
    return places.map((x) => [x, set.truth(x) + noise * random.normal()]);
  }

  return { SETS, draw };
})();

const State = (() => {
  const FLOORS = 41; // floors of the double-descent curve; one more stands for zero
  const MAX_POINTS = 300;
  const KERNEL_NAMES = ["gaussian", "matern52", "matern32", "matern12", "cauchy"];

  const fresh = (data = "sine") => {
    const { n, seed, constant } = Data.SETS[data];
    return {
      data, n, seed, noise: 0.2, kernel: "gaussian", speed: 0.1, floor: FLOORS, constant, time: Infinity,
      points: null, ridge: true, truth: true,
    };
  };

  /** Another data set, shown with the same settings. */
  const other = (data, { kernel, speed, ridge, truth }) => ({ ...fresh(data), kernel, speed, ridge, truth });

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
  const SHOWN = ["ridge", "truth"];

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
