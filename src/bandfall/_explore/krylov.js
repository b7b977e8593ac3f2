"use strict";
// Kernels on a line, and functions of their matrices inside a Krylov space.
const Krylov = (() => {
  const EPSILON = 2 ** -52;
  const UNRESOLVED = 10; // rounding units of the largest eigenvalue: what is smaller may be zero
  const TOLERANCE = 1e-9; // of the residual per stage, relative to the targets
  const [ROOT3, ROOT5] = [Math.sqrt(3), Math.sqrt(5)];

  // Profiles k(u) as functions of q = u^power.
  const KERNELS = {
    gaussian: { power: 2, profile: (q) => Math.exp(-0.5 * q) },
    matern12: { power: 1, profile: (q) => Math.exp(-q) },
    matern32: { power: 1, profile: (q) => (1 + ROOT3 * q) * Math.exp(-ROOT3 * q) },
    matern52: { power: 1, profile: (q) => (1 + ROOT5 * q + (5 / 3) * q * q) * Math.exp(-ROOT5 * q) },
    cauchy: { power: 2, profile: (q) => 1 / (1 + q) },
  };

  /** k(|a − b| / bandwidth) for every a (rows) and b (columns), row by row. */
  function kernelMatrix(kernel, rows, columns, bandwidth) {
    const { power, profile } = KERNELS[kernel];
    const limit = !(bandwidth > 1e-150);
    const scale = limit ? 0 : bandwidth ** -power;
    const K = new Float64Array(rows.length * columns.length);
    for (let i = 0, place = 0; i < rows.length; i++) {
      for (let j = 0; j < columns.length; j++) {
        const distance = Math.abs(rows[i] - columns[j]);
        const raised = power === 1 ? distance : distance * distance;
        K[place++] = limit ? Number(distance === 0) : profile(Math.min(raised * scale, 1e70));
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

  /** When a falling function first reaches `level`; ∞ if not before `limit`. */
  function firstBelow(f, level, limit) {
    if (f(0) <= level) return 0;
    if (level <= 0 || f(limit) > level) return Infinity;
    let [low, high] = [0, limit];
    while (high - low > 2e-13 * high) {
      const middle = 0.5 * (low + high);
      if (f(middle) <= level) high = middle;
      else low = middle;
    }
    return high;
  }

  /** Eigenvalues of the symmetric tridiagonal matrix with this diagonal and off-diagonal, and rows
   * of the matrix of eigenvectors, by implicit QR steps with Wilkinson's shift. */
  function tridiagonalEigen(diagonal, offDiagonal, places) {
    const d = Float64Array.from(diagonal);
    const e = Float64Array.from(offDiagonal);
    const rows = places.map((i) => Float64Array.from(d, (_, j) => Number(i === j)));
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
        const a = d[k];
        const b = e[k];
        const g = d[k + 1];
        if (k > low) e[k - 1] = length;
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
    return [d.map((value) => Math.max(value, 0)), rows];
  }

  /** span{r, Kr, …} by Lanczos with full reorthogonalisation; times are those of e^{−tK} r. */
  class KrylovSpace {
    constructor(K, residual) {
      this.K = K;
      this.norm = Math.sqrt(dot(residual, residual));
      this.basis = [residual.map((value) => (this.norm > 0 ? value / this.norm : 0))];
      this.alpha = [];
      this.beta = [];
      this.expand();
    }

    get dimension() {
      return this.alpha.length;
    }

    get exhausted() {
      return this.beta.at(-1) === 0 || this.dimension === this.basis[0].length;
    }

    expand() {
      const vector = product(this.K, this.basis.at(-1));
      const alpha = dot(this.basis.at(-1), vector);
      for (let pass = 0; pass < 2; pass++) { // twice is enough
        for (const direction of this.basis) addScaled(vector, -dot(direction, vector), direction);
      }
      const beta = Math.sqrt(dot(vector, vector));
      const exact = !(beta > 10 * EPSILON * (Math.abs(alpha) + (this.beta.at(-1) ?? 0)));
      this.alpha.push(alpha);
      this.beta.push(exact ? 0 : beta);
      this.basis.push(vector.map((value) => (exact ? 0 : value / beta)));
    }

    diagonalise() {
      const ends = [0, this.dimension - 1];
      const [values, [first, last]] = tridiagonalEigen(this.alpha, this.beta.slice(0, -1), ends);
      const defect = this.norm * this.beta.at(-1);
      this.eigenvalues = values;
      this.largest = Math.max(...values);
      this.weights = first.map((value) => (this.norm * value) ** 2);
      this.defects = first.map((value, i) => defect * value * last[i]);
      this.vectors = null;
      return this;
    }

    /** Σ weights · e^{−2t·eigenvalue}, as a function of t. */
    decay(weights) {
      return (time) =>
        weights.reduce((sum, weight, i) => sum + weight * Math.exp(-2 * time * this.eigenvalues[i]), 0);
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
      if (time === 0 || this.beta.at(-1) === 0) return 0;
      const defect = (t) => this.defects.reduce((sum, value, j) => sum + value * Math.exp(-t * this.eigenvalues[j]), 0);
      const times = Array.from({ length: 16 }, (_, i) => ((i + 1) * time) / 16);
      return (time / 16) * times.reduce((sum, t) => sum + Math.abs(defect(t)), 0);
    }

    /** f(K) r, and its last coordinate. */
    apply(f) {
      this.vectors ??= tridiagonalEigen(this.alpha, this.beta.slice(0, -1), [...this.alpha.keys()])[1];
      const filtered = this.eigenvalues.map((value, j) => this.norm * this.vectors[0][j] * f(value));
      const result = new Float64Array(this.basis[0].length);
      let coordinate = 0;
      for (let i = 0; i < this.dimension; i++) {
        coordinate = dot(this.vectors[i], filtered);
        addScaled(result, coordinate, this.basis[i]);
      }
      return [result, coordinate];
    }

    /** c = ∫₀ᵗ r ds and the residual r − K c that it leaves. */
    advance(time) {
      const rounding = this.dimension * EPSILON * this.largest;
      const [coefficients, last] = this.apply((value) => flowFilter(value, time, rounding));
      const [residual] = this.apply((value) => Math.exp(-time * value));
      // The known defect: it keeps residual and coefficients consistent to rounding.
      addScaled(residual, -this.beta.at(-1) * last, this.basis.at(-1));
      return { coefficients, residual };
    }
  }

  /** (1 − e^{−tλ})/λ with its limit t at λ = 0; zero where λ and 1/t are both rounding. */
  function flowFilter(eigenvalue, time, rounding) {
    if (time * rounding >= 1 && eigenvalue <= rounding) return 0;
    const x = time * eigenvalue;
    return x > 1e-300 ? -Math.expm1(-x) / eigenvalue : time;
  }

  return { EPSILON, TOLERANCE, KrylovSpace, kernelMatrix, product, dot, addScaled, mean, firstBelow };
})();
