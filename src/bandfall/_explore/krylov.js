"use strict";
// Kernels on a line, and the exact flow e^{−tK} r inside a Krylov space.
const Krylov = (() => {
  const EPSILON = 2 ** -52;
  const UNRESOLVED = 10; // rounding units of the largest eigenvalue: what is smaller may be zero
  const TOLERANCE = 1e-9; // of the residual per stage, relative to the targets
  const SQRT3 = Math.sqrt(3);
  const SQRT5 = Math.sqrt(5);

  // Profiles k(u) as functions of q = u^power.
  const KERNELS = {
    gaussian: { power: 2, profile: (q) => Math.exp(-0.5 * q) },
    matern12: { power: 1, profile: (q) => Math.exp(-q) },
    matern32: { power: 1, profile: (q) => (1 + SQRT3 * q) * Math.exp(-SQRT3 * q) },
    matern52: {
      power: 1,
      profile: (q) => (1 + SQRT5 * q + (5 / 3) * q * q) * Math.exp(-SQRT5 * q),
    },
    cauchy: { power: 2, profile: (q) => 1 / (1 + q) },
  };

  /** A kernel by its name, such as "laplace-1.5^0.7". On a line |a − b| is the distance in every
   * norm: only the exponent matters. */
  function kernelOf(name) {
    const form = /^([a-z0-9]+)(-[\d.]+)?(?:\^([\d.]+))?$/.exec(name);
    const known = KERNELS[form?.[1] === "laplace" ? "matern12" : form?.[1]];
    if (known === undefined) throw new Error(`kernel "${name}" is unknown`);
    return form[3] === undefined ? known : { ...known, power: Number(form[3]) };
  }

  /** k(|a − b| / bandwidth) for every a (rows) and b (columns), row by row; half the work where
   * both are the same points. */
  function kernelMatrix(kernel, rows, columns, bandwidth) {
    const { power, profile } = kernelOf(kernel);
    const width = columns.length;
    const symmetric = rows === columns;
    const K = new Float64Array(rows.length * width);
    const limit = !(bandwidth > 1e-150);
    const scale = limit ? 0 : bandwidth ** -power;
    for (let i = 0; i < rows.length; i++) {
      for (let j = symmetric ? i : 0; j < width; j++) {
        const distance = Math.abs(rows[i] - columns[j]);
        const raised = power === 1 ? distance : power === 2 ? distance * distance : distance ** power;
        const q = Math.min(raised * scale, 1e70);
        const value = limit ? Number(distance === 0) : profile(q);
        K[i * width + j] = value;
        if (symmetric) K[j * width + i] = value;
      }
    }
    return K;
  }

  function product(K, vector) {
    const n = vector.length;
    const result = new Float64Array(K.length / n);
    for (let i = 0, place = 0; i < result.length; i++) {
      let sum = 0;
      for (let j = 0; j < n; j++) sum += K[place++] * vector[j];
      result[i] = sum;
    }
    return result;
  }

  function dot(a, b) {
    let sum = 0;
    for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
    return sum;
  }

  function addScaled(target, factor, vector) {
    for (let i = 0; i < target.length; i++) target[i] += factor * vector[i];
  }

  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  /** f(t) = Σ weights · e^{−t·rates}, for weights and rates that are not negative. */
  class Decay {
    constructor(rates, weights) {
      this.rates = rates;
      this.weights = weights;
    }

    at(time) {
      let sum = 0;
      for (let i = 0; i < this.rates.length; i++) sum += this.weights[i] * Math.exp(-time * this.rates[i]);
      return sum;
    }

    /** When f first falls to `level`; ∞ if not before `limit`. log f is convex: Newton's steps
     * from the left do not pass the root. */
    firstBelow(level, limit) {
      let value = this.at(0);
      if (value <= level) return 0;
      if (level <= 0 || this.at(limit) > level) return Infinity;
      let time = 0;
      for (let i = 0; i < 200; i++) {
        let slope = 0;
        for (let j = 0; j < this.rates.length; j++) {
          slope += this.rates[j] * this.weights[j] * Math.exp(-time * this.rates[j]);
        }
        const step = (Math.log(value / level) * value) / slope;
        time += step;
        if (step <= 2e-13 * time) break;
        value = this.at(time);
        if (value <= level) break;
      }
      return Math.min(time * (1 + 2e-13), limit); // from the far side
    }
  }

  /** Eigenvalues of the symmetric tridiagonal matrix (diagonal, offDiagonal), by implicit QR
   * steps with Wilkinson's shift; `rows` are rows of the identity on entry, of the eigenvector
   * matrix on return. */
  function tridiagonalEigen(diagonal, offDiagonal, rows) {
    const d = Float64Array.from(diagonal);
    const e = Float64Array.from(offDiagonal);
    let size = 0;
    for (let i = 0; i < d.length; i++) size = Math.max(size, Math.abs(d[i]), Math.abs(e[i] ?? 0));
    const negligible = (i) =>
      Math.abs(e[i]) <= EPSILON * (Math.abs(d[i]) + Math.abs(d[i + 1])) || Math.abs(e[i]) <= 1e-19 * size;
    let high = d.length - 1;
    for (let sweeps = 0; high > 0 && sweeps < 60 * d.length; sweeps++) {
      if (negligible(high - 1)) {
        high--;
        continue;
      }
      let low = high - 1;
      while (low > 0 && !negligible(low - 1)) low--;
      const gap = (d[high - 1] - d[high]) / 2;
      const last = e[high - 1];
      const shift = d[high] - (last * last) / (gap + (gap < 0 ? -1 : 1) * Math.hypot(gap, last));
      let bulge = d[low] - shift;
      let spill = e[low];
      for (let k = low; k < high; k++) {
        const length = Math.hypot(bulge, spill) || 1;
        const c = bulge / length;
        const s = spill / length;
        if (k > low) e[k - 1] = length;
        const a = d[k];
        const b = e[k];
        const g = d[k + 1];
        d[k] = c * c * a + 2 * c * s * b + s * s * g;
        d[k + 1] = s * s * a - 2 * c * s * b + c * c * g;
        e[k] = c * s * (g - a) + (c * c - s * s) * b;
        bulge = e[k];
        if (k < high - 1) {
          spill = s * e[k + 1];
          e[k + 1] *= c;
        }
        for (const row of rows) {
          const left = row[k];
          row[k] = c * left + s * row[k + 1];
          row[k + 1] = c * row[k + 1] - s * left;
        }
      }
    }
    return d;
  }

  function unitRow(length, place) {
    const row = new Float64Array(length);
    row[place] = 1;
    return row;
  }

  /** span{r, Kr, …} by Lanczos with full reorthogonalisation: the flow e^{−tK} r inside it. */
  class KrylovSpace {
    constructor(K, residual, velocity, maxDimension) {
      this.K = K;
      this.maxDimension = Math.min(maxDimension, residual.length);
      this.norm = Math.sqrt(dot(residual, residual));
      const inverse = this.norm > 0 ? 1 / this.norm : 0;
      this.basis = [residual.map((value) => value * inverse)];
      this.alpha = [];
      this.beta = [];
      this.absorb(velocity.map((value) => value * inverse));
    }

    get dimension() {
      return this.alpha.length;
    }

    get exhausted() {
      return this.beta[this.beta.length - 1] === 0;
    }

    expand() {
      this.absorb(product(this.K, this.basis[this.basis.length - 1]));
    }

    absorb(vector) {
      let alpha = 0;
      for (let pass = 0; pass < 2; pass++) { // twice is enough
        this.basis.forEach((direction, i) => {
          const overlap = dot(direction, vector);
          addScaled(vector, -overlap, direction);
          if (pass === 0 && i === this.basis.length - 1) alpha = overlap;
        });
      }
      const scale = Math.abs(alpha) + (this.beta[this.beta.length - 1] ?? 0);
      let beta = Math.sqrt(dot(vector, vector));
      if (!(beta > 10 * EPSILON * scale)) beta = 0;
      this.alpha.push(alpha);
      this.beta.push(beta);
      this.basis.push(vector.map((value) => (beta > 0 ? value / beta : 0)));
    }

    /** Eigenvalues, and the first and last row of eigenvectors: enough to locate events. */
    diagonalise() {
      const m = this.dimension;
      const rows = [unitRow(m, 0), unitRow(m, m - 1)];
      this.eigenvalues = tridiagonalEigen(this.alpha, this.beta.slice(0, m - 1), rows).map((value) =>
        Math.max(value, 0));
      this.largest = this.eigenvalues.reduce((a, b) => Math.max(a, b), 0);
      const [first, last] = m > 1 ? rows : [rows[0], rows[0]];
      this.weights = first.map((value) => (this.norm * value) ** 2);
      const defect = this.norm * this.beta[m - 1];
      this.defects = first.map((value, i) => defect * value * last[i]);
      this.vectors = null;
    }

    /** All rows of the eigenvector matrix of T, in the order of `eigenvalues`. */
    eigenvectors() {
      if (this.vectors === null) {
        const m = this.dimension;
        this.vectors = Array.from({ length: m }, (_, i) => unitRow(m, i));
        tridiagonalEigen(this.alpha, this.beta.slice(0, m - 1), this.vectors);
      }
      return this.vectors;
    }

    decay(weights) {
      return new Decay(this.eigenvalues.map((value) => 2 * value), weights);
    }

    get squaredNorm() {
      return this.decay(this.weights);
    }

    get speed() {
      return this.decay(this.weights.map((weight, i) => 2 * weight * this.eigenvalues[i]));
    }

    get gain() {
      const smallest = UNRESOLVED * EPSILON * this.largest;
      return this.decay(this.weights.map((weight, i) => (this.eigenvalues[i] > smallest ? weight : 0)));
    }

    /** Bound on the error of r(time): the integral of the defect's size. */
    error(time) {
      if (time === 0 || this.exhausted) return 0;
      let total = 0;
      for (let i = 1; i <= 16; i++) {
        let sum = 0;
        for (let j = 0; j < this.defects.length; j++) {
          sum += this.defects[j] * Math.exp((-time * i * this.eigenvalues[j]) / 16);
        }
        total += Math.abs(sum);
      }
      return (total / 16) * time;
    }

    rounding(time) {
      return EPSILON * time * this.norm * this.largest;
    }

    longestAccurate(time) {
      let low = time;
      while (this.error(low) > TOLERANCE) low *= 0.25;
      let high = Math.min(4 * low, time);
      for (let i = 0; i < 8; i++) {
        const middle = 0.5 * (low + high);
        if (this.error(middle) <= TOLERANCE) low = middle;
        else high = middle;
      }
      return low;
    }

    /** c = ∫₀ᵗ r ds and the residual r − K c that it leaves. */
    advance(time) {
      const m = this.dimension;
      const vectors = this.eigenvectors();
      const start = vectors[0].map((value) => this.norm * value);
      const decay = this.eigenvalues.map((value, j) => start[j] * Math.exp(-time * value));
      const integral = this.eigenvalues.map((value, j) =>
        start[j] * flowFilter(value, time, m * EPSILON * this.largest));
      const coefficients = new Float64Array(this.basis[0].length);
      const residual = new Float64Array(this.basis[0].length);
      let lastIntegral = 0;
      for (let i = 0; i < m; i++) {
        lastIntegral = dot(vectors[i], integral);
        addScaled(coefficients, lastIntegral, this.basis[i]);
        addScaled(residual, dot(vectors[i], decay), this.basis[i]);
      }
      // The known defect: it keeps residual and coefficients consistent to rounding.
      addScaled(residual, -this.beta[m - 1] * lastIntegral, this.basis[m]);
      return { coefficients, residual };
    }
  }

  /** (1 − e^{−tλ})/λ with its limit t at λ = 0; zero where λ and 1/t are both rounding. */
  function flowFilter(eigenvalue, time, rounding) {
    if (time * rounding >= 1 && eigenvalue <= rounding) return 0;
    const x = time * eigenvalue;
    return x > 1e-300 ? -Math.expm1(-x) / eigenvalue : time;
  }

  /** A symmetric positive definite system, by Cholesky's factors in place of K. */
  function solvePositive(K, right) {
    const n = right.length;
    const L = Float64Array.from(K);
    const z = Float64Array.from(right);
    for (let i = 0; i < n; i++) {
      for (let j = 0; j <= i; j++) {
        let sum = L[i * n + j];
        for (let k = 0; k < j; k++) sum -= L[i * n + k] * L[j * n + k];
        L[i * n + j] = i === j ? Math.sqrt(Math.max(sum, 1e-300)) : sum / L[j * n + j];
      }
      for (let k = 0; k < i; k++) z[i] -= L[i * n + k] * z[k];
      z[i] /= L[i * n + i];
    }
    for (let i = n - 1; i >= 0; i--) {
      for (let k = i + 1; k < n; k++) z[i] -= L[k * n + i] * z[k];
      z[i] /= L[i * n + i];
    }
    return z;
  }

  return {
    EPSILON, KERNELS, TOLERANCE, KrylovSpace, kernelMatrix, product, dot, addScaled, mean, solvePositive,
  };
})();
