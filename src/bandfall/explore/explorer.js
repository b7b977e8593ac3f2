"use strict";
// What-ifs: a row, sliders for its features, and the prediction they give. Names and values come
// from data and are only ever written as text.
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("what-if-data").textContent);
  const changes = new Map(); // feature → point
  let asked = 0;
  const format = (value) => Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 })
    .replace("-", "−");
  const row = () => Number($("what-if-row").value);

  function build() {
    data.rows.forEach((one, i) => $("what-if-row").append(new Option(one.name, i)));
    data.features.forEach((feature, f) => {
      const label = document.createElement("label");
      const output = document.createElement("output");
      const slider = document.createElement("input");
      slider.type = "range";
      slider.min = 0;
      slider.max = feature.labels.length - 1;
      slider.addEventListener("input", () => change(f, Number(slider.value)));
      label.append(`${feature.name} `, output, slider);
      $("what-if-sliders").append(label);
    });
  }

  function change(feature, point) {
    if (!data.live) changes.clear(); // alone, the page knows one change at a time
    changes.set(feature, point);
    show();
  }

  function show() {
    const labels = $("what-if-sliders").children;
    data.features.forEach((feature, f) => {
      const changed = changes.has(f);
      const text = changed ? feature.labels[changes.get(f)] : feature.given[row()];
      labels[f].classList.toggle("changed", changed);
      labels[f].querySelector("output").textContent = text;
      const slider = labels[f].querySelector("input");
      slider.value = changed ? changes.get(f) : feature.starts[row()];
      slider.setAttribute("aria-valuetext", text);
    });
    answer();
  }

  async function answer() {
    asked += 1;
    const mine = asked;
    const base = data.rows[row()];
    let prediction = base.prediction;
    if (changes.size === 1) {
      const [[feature, point]] = changes;
      prediction = data.features[feature].predictions[row()][point];
    } else if (changes.size > 1) {
      const wanted = [...changes].map(([feature, point]) => `${feature}:${point}`).join(",");
      try {
        const reply = await fetch(`predict?row=${row()}&changes=${wanted}`);
        prediction = (await reply.json()).prediction;
      } catch {
        $("what-if-difference").textContent = "The server has stopped; one feature at a time still works.";
        data.live = false;
        return;
      }
      if (mine !== asked) return; // a newer question is under way
    }
    const difference = prediction - base.prediction;
    const sign = difference > 0 ? "+" : "";
    $("what-if-answer").textContent = format(prediction);
    $("what-if-difference").textContent = changes.size
      ? `${sign}${format(difference)} against the row as it was (${format(base.prediction)}); its ${data.target} was ${base.actual}`
      : `the row as it was; its ${data.target} was ${base.actual}`;
  }

  build();
  $("what-if-row").addEventListener("change", () => {
    changes.clear();
    show();
  });
  $("what-if-reset").addEventListener("click", () => {
    changes.clear();
    show();
  });
  show();
})();
