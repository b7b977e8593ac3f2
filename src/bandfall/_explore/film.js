"use strict";
// What the playground shows of a run: the model at many moments, ridge regression beside it, and
// the errors of every floor. All of it is computed in workers, so that the page never waits.
const Film = (() => {
  const { EPSILON, KrylovSpace, kernelMatrix, product, dot, addScaled, mean, firstBelow } = Krylov;
  const { Front, run, scaled, limitsOf, ruleOf } = Solver;
  const R2_STEP = 0.01;
  const TIMES_PER_DECADE = 12;
  const PENALTY = 1e-3; // of ridge regression at every floor, as in the paper

  /** R² of predictions against the truth; NaN without one. */
  function r2Of(truth, predictions) {
    if (!truth) return NaN;
    const middle = mean(truth);
    const squares = (difference) => truth.reduce((sum, value, i) => sum + difference(value, i) ** 2, 0);
    const total = squares((value) => value - middle);
    return total > 0 ? 1 - squares((value, i) => value - predictions[i]) / total : NaN;
  }

  /** Moments of a step worth a frame: round values of R² and of log time, and its end. */
  function moments(step) {
    const times = [step.duration];
    const norm = step.space.squaredNorm;
    const last = 1 - norm(step.duration);
    for (let i = Math.floor(Math.max(step.r2, 0) / R2_STEP) + 1; i * R2_STEP < last; i++) {
      times.push(firstBelow(norm, 1 - i * R2_STEP, step.duration));
    }
    const place = (time) => Math.log10(time) * TIMES_PER_DECADE;
    const end = step.time + step.duration;
    const start = Math.max(step.time, R2_STEP / Math.max(step.speed, R2_STEP)); // before, R² says it all
    for (let i = Math.floor(place(start)) + 1; i < place(end); i++) {
      times.push(10 ** (i / TIMES_PER_DECADE) - step.time);
    }
    const inside = times.filter((time) => time > 0 && time <= step.duration).sort((a, b) => a - b);
    return inside.filter((time, i) => i === 0 || time > inside[i - 1] * (1 + 1e-9));
  }

  /** Train and keep frames: times, bandwidths, R², speeds, curves on the grid, residuals. */
  function film(task) {
    const { x, y, kernel, grid, truth } = task;
    const rule = ruleOf(task);
    const { offset, scale, residual, bandwidth } = scaled(x, y, rule.floor);
    const base = new Float64Array(grid.length).fill(offset);
    const frames = [];
    const stages = [];
    const keep = (time, sigma, r2, speed, curve, left) =>
      frames.push({ time, bandwidth: sigma, r2, speed, curve, residual: left, testR2: r2Of(truth, curve) });
    const front = new Front(kernel, x, residual, bandwidth);
    const step = (now) => {
      const K = kernelMatrix(kernel, grid, x, now.bandwidth);
      const speed = now.space.speed;
      if (frames.length === 0) {
        keep(0, now.bandwidth, 0, now.speed, Float64Array.from(base), residual.map((value) => value * scale));
      }
      let after = null;
      for (const time of moments(now)) {
        const { coefficients, residual: left } = now.space.advance(time);
        after = product(K, coefficients);
        const curve = after.map((value, i) => base[i] + scale * value);
        keep(now.time + time, now.bandwidth, 1 - dot(left, left), speed(time), curve, left.map((v) => v * scale));
      }
      addScaled(base, scale, after);
      stages.push({
        bandwidth: now.bandwidth, time: now.time, duration: now.duration,
        coefficients: now.coefficients.map((value) => value * scale),
      });
    };
    const status = scale > 0 ? run(front, rule, limitsOf(task), { step }) : "constant_target";
    if (frames.length === 0) keep(0, bandwidth, 1, 0, base, new Float64Array(x.length));
    return { status, offset, time: front.time, r2: front.r2, stages, frames };
  }

  /** A space as large as the targets reach, which serves every penalty. */
  function spectrum(kernel, x, bandwidth, residual) {
    const space = new KrylovSpace(kernelMatrix(kernel, x, x, bandwidth), residual);
    while (!space.exhausted && space.beta.at(-1) > 10 * EPSILON * x.length) space.expand();
    return space.diagonalise();
  }

  /** Ridge regression at one bandwidth, its penalty such that training R² is as asked. */
  function ridge(task, levels) {
    const { x, y, kernel, grid, truth, constant } = task;
    const { offset, scale, residual } = scaled(x, y, 0);
    if (!(scale > 0)) return levels.map(() => ({ curve: new Float64Array(grid.length).fill(offset), testR2: NaN }));
    const space = spectrum(kernel, x, constant, residual);
    const K = kernelMatrix(kernel, grid, x, constant);
    const lowest = x.length * EPSILON * space.largest;
    return levels.map((level) => {
      const penalty = penaltyFor(space, 1 - level, lowest);
      const [coefficients] = space.apply((value) => 1 / (value + penalty));
      const curve = product(K, coefficients).map((value) => offset + scale * value);
      return { penalty, r2: 1 - unexplained(space, penalty), curve, testR2: r2Of(truth, curve) };
    });
  }

  const unexplained = ({ weights, eigenvalues }, penalty) =>
    weights.reduce((sum, weight, j) => sum + weight * (penalty / (eigenvalues[j] + penalty)) ** 2, 0);

  /** The penalty that leaves this share of the targets unexplained; it rises with the penalty. */
  function penaltyFor(space, share, lowest) {
    const highest = Math.log(1e9 * (1 + space.largest));
    const range = highest - Math.log(lowest);
    const fall = firstBelow((t) => unexplained(space, Math.exp(highest - t)), share, range);
    return Math.exp(highest - Math.min(fall, range));
  }

  /** Errors of every floor: one shared run, then each branch at its floor; yields one by one. */
  function* sweep(task) {
    const { x, y, kernel, grid, truth, floors } = task;
    const limits = limitsOf(task);
    const rule = { ...ruleOf(task), floor: Math.min(...floors) };
    const ahead = [...floors].sort((a, b) => a - b);
    const { offset, scale, residual, bandwidth } = scaled(x, y, rule.floor);
    if (!(scale > 0)) return;
    const curve = new Float64Array(grid.length).fill(offset);
    const add = (target, sigma, coefficients) =>
      addScaled(target, scale, product(kernelMatrix(kernel, grid, x, sigma), coefficients));
    const seen = [];
    const front = new Front(kernel, x, residual, bandwidth);
    run(front, rule, limits, {
      step: (now) => add(curve, now.bandwidth, now.coefficients),
      turn: (next, { residual: left, time }) => {
        while (ahead.length && next <= ahead[ahead.length - 1]) {
          seen.push({ floor: ahead.pop(), left, time, curve: Float64Array.from(curve) });
        }
        return ahead.length === 0;
      },
    });
    const errors = (floor, until, r2) => ({
      floor, curve: until, r2, testR2: r2Of(truth, until), ridgeTestR2: ridgeAt(task, floor, residual, scale, offset),
    });
    for (const { floor, left, time, curve: until } of seen) {
      const branch = new Front(kernel, x, left, floor, time);
      run(branch, { ...rule, floor }, limits, { step: (now) => add(until, now.bandwidth, now.coefficients) });
      yield errors(floor, until, branch.r2);
    }
    // The run ended before it came down to these.
    for (const floor of ahead.reverse()) yield errors(floor, curve, front.r2);
  }

  /** The test R² of ridge regression at a floor. */
  function ridgeAt({ x, kernel, grid, truth }, floor, residual, scale, offset) {
    const [coefficients] = spectrum(kernel, x, floor, residual).apply((value) => 1 / (value + PENALTY));
    const curve = product(kernelMatrix(kernel, grid, x, floor), coefficients).map((v) => offset + scale * v);
    return r2Of(truth, curve);
  }

  return { film, ridge, sweep, r2Of };
})();

const Jobs = (() => {
  let newest = 0; // the sweep that is wanted

  /** A film, and how the curve and test R² of ridge regression look in each of its frames. */
  function film(task) {
    const start = performance.now();
    const { frames } = Film.film(task);
    const milliseconds = performance.now() - start;
    const rivals = Film.ridge(task, frames.map((frame) => frame.r2));
    const rows = frames.map((frame, i) => ({ ...frame, ridgeCurve: rivals[i].curve, ridgeTestR2: rivals[i].testR2 }));
    const columns = Object.keys(rows[0]).map((name) => [name, rows.map((row) => row[name])]);
    return { job: task.job, frames: rows.length, milliseconds, ...Object.fromEntries(columns) };
  }

  /** One floor a turn: a newer job, or an order to stop, gets in between. */
  function sweep(job, floors) {
    if (job !== newest) return;
    const { value, done } = floors.next();
    postMessage({ job, done, ...value });
    if (!done) setTimeout(sweep, 0, job, floors);
  }

  return {
    handle({ data: task }) {
      if (task.kind === "film") return postMessage(film(task));
      newest = task.job;
      if (task.kind === "sweep") sweep(task.job, Film.sweep(task));
    },
  };
})();

if (typeof WorkerGlobalScope !== "undefined") onmessage = Jobs.handle;
