"use strict";
// Kernel gradient descent with a falling bandwidth for points on a line: the same rule, the same
// stages and the same ends of stages as the Python package, small enough for a page.
const Solver = (() => {
  const { EPSILON, TOLERANCE, KrylovSpace, kernelMatrix, product, dot, addScaled, mean, firstBelow } = Krylov;
  const STALL_SPEED = 1e-12; // at the floor, R² rising slower than this is no progress
  const HORIZON = 1e12; // later than anything that still moves
  const SPEED_ROUNDING = 1e-5; // a stage ends where its speed *is* the threshold
  const MAX_DRIFT = 1e-4; // by which rounding may part residual and coefficients
  const MAX_STEPS = 20000;

  /** The moving front of training: residual of targets scaled to norm one, time, bandwidth. */
  class Front {
    constructor(kernel, x, residual, bandwidth, time = 0) {
      this.kernel = kernel;
      this.x = x;
      this.bandwidth = bandwidth;
      this.matrices = new Map();
      this.moveTo(residual, time);
    }

    get r2() {
      return 1 - this.squaredNorm;
    }

    matrix(bandwidth) {
      if (!this.matrices.has(bandwidth)) {
        // K(0), asked for again and again, and the newest are kept.
        for (const old of this.matrices.keys()) {
          if (old !== 0 && old !== this.bandwidth) this.matrices.delete(old);
        }
        this.matrices.set(bandwidth, kernelMatrix(this.kernel, this.x, this.x, bandwidth));
      }
      return this.matrices.get(bandwidth);
    }

    moveTo(residual, time) {
      this.residual = residual;
      this.time = time;
      this.squaredNorm = dot(residual, residual);
      this.speeds = new Map();
    }

    /** 2 rᵀK(bandwidth)r / yᵀy. */
    speed(bandwidth) {
      if (!this.speeds.has(bandwidth)) {
        this.speeds.set(bandwidth, 2 * dot(this.residual, product(this.matrix(bandwidth), this.residual)));
      }
      return this.speeds.get(bandwidth);
    }

    /** A bound on the speed at this and every smaller bandwidth. */
    speedCeiling(bandwidth) {
      const size = this.residual.map(Math.abs);
      const excess = product(this.matrix(bandwidth), size);
      addScaled(excess, -1, product(this.matrix(0), size));
      return this.speed(0) + 2 * dot(size, excess);
    }
  }

  /** The first bandwidth on the grid that is fast enough (Algorithm 1, lines 4–10). */
  function nextBandwidth(front, rule) {
    let bandwidth = front.bandwidth;
    if (front.speed(bandwidth) >= rule.minSpeed) return bandwidth;
    const enough = rule.minSpeed * (1 + SPEED_ROUNDING);
    const endsAtFloor = front.speed(0) < enough;
    while (bandwidth > rule.floor) {
      if (endsAtFloor && front.speedCeiling(bandwidth) < enough) return rule.floor;
      bandwidth = Math.max(bandwidth / (1 + rule.resolution), rule.floor);
      if (front.speed(bandwidth) >= rule.minSpeed) break;
    }
    return bandwidth;
  }

  /** How long the stage lasts, and which limit that reaches. A smaller bandwidth above the floor is
   * kept for twice the time after which it is too slow. */
  function horizon(front, space, rule, limits, fell) {
    const threshold = Math.max(front.bandwidth > rule.floor ? rule.minSpeed : 0, 0.5 * STALL_SPEED);
    let duration = (fell && front.bandwidth > rule.floor ? 2 : 1) * firstBelow(space.speed, threshold, HORIZON);
    let reached = null;
    if (front.bandwidth <= rule.floor) {
      if (space.squaredNorm(0) - space.gain(0) > 1 - limits.r2Goal) {
        const standstill = firstBelow(space.gain, EPSILON, HORIZON);
        if (standstill < duration) [duration, reached] = [standstill, "stalled"];
      }
    }
    if (front.time + duration >= limits.maxTime) {
      [duration, reached] = [limits.maxTime - front.time, "time_reached"];
    }
    const enough = firstBelow(space.squaredNorm, 1 - limits.r2Goal, duration);
    if (enough < Infinity) [duration, reached] = [enough, "r2_reached"];
    return { duration, reached };
  }

  /** Grow a space until it covers the stage. */
  function spaceFor(front, rule, limits, fell, firstCheck) {
    const space = new KrylovSpace(front.matrix(front.bandwidth), front.residual);
    for (;;) {
      if (space.exhausted || space.dimension >= firstCheck) {
        space.diagonalise();
        const { duration, reached } = horizon(front, space, rule, limits, fell);
        if (space.exhausted || space.error(duration) <= TOLERANCE) return { space, duration, reached };
      }
      for (let more = space.dimension / 8; more >= 0 && !space.exhausted; more--) space.expand();
    }
  }

  /** Train from `front` until a limit; `watch.step` sees every step, `watch.turn` every choice of
   * a bandwidth before it is taken (true ends the run). */
  function run(front, rule, limits, watch = {}) {
    let dimension = 2;
    for (let iteration = 0; iteration < MAX_STEPS; iteration++) {
      if (front.r2 >= limits.r2Goal) return "r2_reached";
      if (front.time >= limits.maxTime) return "time_reached";
      const bandwidth = nextBandwidth(front, rule);
      if (watch.turn?.(bandwidth, front)) return "interrupted";
      const fell = bandwidth !== front.bandwidth;
      front.bandwidth = bandwidth;
      const speed = front.speed(front.bandwidth);
      if (front.bandwidth <= rule.floor && speed < STALL_SPEED) return "stalled";
      const { space, duration, reached } = spaceFor(front, rule, limits, fell, dimension - 2);
      dimension = space.dimension;
      const { coefficients, residual } = space.advance(duration);
      let left = residual;
      if (EPSILON * duration * space.norm * space.largest > MAX_DRIFT) {
        left = Float64Array.from(front.residual);
        addScaled(left, -1, product(front.matrix(front.bandwidth), coefficients));
      }
      if (duration > 0) {
        watch.step?.({ time: front.time, bandwidth: front.bandwidth, r2: front.r2, speed, duration, coefficients, space });
      }
      front.moveTo(left, reached === "time_reached" ? limits.maxTime : front.time + duration);
      front.speeds.set(front.bandwidth, space.speed(duration));
      if (reached !== null && !(reached === "r2_reached" && front.r2 < limits.r2Goal - TOLERANCE)) {
        return reached;
      }
    }
    return "iteration_limit";
  }

  /** Centred targets of norm one and what undoes that; the start bandwidth is the widest gap. */
  function scaled(x, y, floor) {
    const offset = mean(y);
    const centred = Float64Array.from(y, (value) => value - offset);
    const scale = Math.sqrt(dot(centred, centred));
    const size = y.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const constant = !(scale > 4 * EPSILON * size * Math.sqrt(y.length));
    const residual = centred.map((value) => (constant ? 0 : value / scale));
    const spread = x.reduce((a, b) => Math.max(a, b), -Infinity) - x.reduce((a, b) => Math.min(a, b), Infinity);
    return { offset, scale: constant ? 0 : scale, residual, bandwidth: Math.max(spread, floor) };
  }

  const limitsOf = (task) => ({
    r2Goal: Math.min(task.maxR2 ?? 0.999, 1 - 1e-12),
    maxTime: task.maxTime ?? Infinity,
  });

  const ruleOf = (task) => ({
    minSpeed: task.minSpeed ?? 0.1,
    floor: task.floor ?? 0,
    resolution: task.resolution ?? 0.1,
  });

  return { Front, run, scaled, limitsOf, ruleOf };
})();
