"use strict";
// What-ifs: a row, a control for each of its features, and the prediction they give. Names and
// values come from data and are only ever written as text.
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("what-if-data").textContent);
  const changes = new Map(); // feature → point, or seconds of a date that is no point
  let asked = 0;
  const format = (value) => Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4, useGrouping: "min2" })
    .replace("-", "−");
  const row = () => Number($("what-if-row").value);

  // Controls: what each kind of feature is changed with ---------------------------------------

  const made = (tag, properties) => Object.assign(document.createElement(tag), properties);

  const slider = {
    make: (feature) => made("input", { type: "range", min: 0, max: feature.labels.length - 1 }),
    event: "input",
    read: (control) => ({ point: Number(control.value) }),
    show: (control, point) => { control.value = point; },
  };

  const list = {
    make(feature) {
      const control = made("select");
      control.append(made("option", { value: -1, hidden: true }));
      feature.labels.forEach((label, i) => control.append(made("option", { value: i, textContent: label })));
      return control;
    },
    event: "change",
    read: (control) => ({ point: Number(control.value) }),
    show(control, point, text) {
      control.options[0].textContent = text; // a level that is not in the list
      control.value = point;
    },
  };

  const iso = (seconds, days) => new Date(1000 * seconds).toISOString().slice(0, days ? 10 : 16);
  const picker = {
    make(feature) {
      const days = feature.wholeDays;
      const [first, last] = [feature.seconds[0], feature.seconds.at(-1)];
      return made("input", { type: days ? "date" : "datetime-local", min: iso(first, days), max: iso(last, days) });
    },
    event: "change",
    read(control, feature) {
      const known = feature.seconds.length;
      if (!control.value && !control.validity.badInput && feature.labels.length > known) return { point: known };
      const seconds = Date.parse(control.value + (feature.wholeDays ? "T00:00Z" : "Z")) / 1000;
      if (!Number.isFinite(seconds)) return null; // not yet a date
      const inside = Math.min(Math.max(seconds, feature.seconds[0]), feature.seconds.at(-1));
      const away = feature.seconds.map((one) => Math.abs(one - inside));
      const point = away.indexOf(Math.min(...away));
      return data.live && away[point] > 0 ? { seconds: inside } : { point };
    },
    show(control, point, text, feature, seconds) {
      control.value = seconds == null ? "" : iso(seconds, feature.wholeDays);
    },
  };

  const CONTROLS = { number: slider, duration: slider, level: list, time: picker };

  function build() {
    data.rows.forEach((one, i) => $("what-if-row").append(new Option(one.name, i)));
    data.features.forEach((feature, f) => {
      const kind = CONTROLS[feature.kind];
      const label = made("label");
      const control = kind.make(feature);
      control.addEventListener(kind.event, () => {
        const value = kind.read(control, feature);
        if (value) change(f, value);
      });
      label.append(`${feature.name} `, made("output"), control);
      $("what-if-controls").append(label);
    });
    data.classes.forEach((name) => {
      $("what-if-classes").append(made("li"));
      $("what-if-classes").lastChild.append(made("span", { textContent: name }), made("b"), made("i"));
    });
  }

  // Changes and answers -----------------------------------------------------------------------

  function change(feature, value) {
    if (!data.live) changes.clear(); // without a server, one change at a time
    changes.set(feature, value);
    show();
  }

  function show() {
    const labels = $("what-if-controls").children;
    data.features.forEach((feature, f) => {
      const value = changes.get(f);
      const point = value ? value.point : feature.starts[row()];
      const text = !value ? feature.given[row()]
        : value.seconds === undefined ? feature.labels[point] : iso(value.seconds, feature.wholeDays).replace("T", " ");
      const control = labels[f].querySelector("input, select");
      labels[f].classList.toggle("changed", changes.has(f));
      labels[f].querySelector("output").textContent = text;
      const seconds = value ? value.seconds ?? feature.seconds[point] : feature.own[row()];
      CONTROLS[feature.kind].show(control, point, text, feature, seconds);
      if (control.type === "range") control.setAttribute("aria-valuetext", text);
    });
    answer();
  }

  async function answer() {
    asked += 1;
    const mine = asked;
    const base = data.rows[row()];
    const [first] = changes;
    let outputs = base.outputs;
    if (changes.size === 1 && first[1].seconds === undefined) {
      outputs = data.features[first[0]].outputs[row()][first[1].point];
    } else if (changes.size > 0) {
      const wanted = [...changes].map(([feature, { point, seconds }]) => `${feature}:${seconds === undefined ? point : `@${seconds}`}`);
      try {
        const reply = await fetch(`predict?row=${row()}&changes=${wanted.join(",")}`);
        ({ outputs } = await reply.json());
      } catch {
        $("what-if-difference").textContent = "The server has stopped; one feature at a time still works.";
        data.live = false;
        return;
      }
      if (mine !== asked) return; // a newer question is under way
    }
    if (data.classes.length) tellClasses(outputs, base);
    else tellNumber(outputs[0], base);
  }

  function tellNumber(prediction, base) {
    const difference = prediction - base.outputs[0];
    const sign = difference > 0 ? "+" : "";
    $("what-if-answer").textContent = format(prediction);
    $("what-if-difference").textContent = changes.size
      ? `${sign}${format(difference)} against the unchanged row (${format(base.outputs[0])}), whose ${data.target} was ${base.actual}`
      : `unchanged row; true ${data.target}: ${base.actual}`;
  }

  const likeliest = (outputs) => outputs.indexOf(Math.max(...outputs));

  function tellClasses(outputs, base) {
    const before = likeliest(base.outputs);
    $("what-if-answer").textContent = data.classes[likeliest(outputs)];
    [...$("what-if-classes").children].forEach((line, i) => {
      line.querySelector("b").textContent = outputs[i].toFixed(3);
      line.querySelector("i").style.width = `${100 * outputs[i]}%`;
    });
    $("what-if-difference").textContent = changes.size
      ? `unchanged row: ${data.classes[before]} (${base.outputs[before].toFixed(3)}); true ${data.target}: ${base.actual}`
      : `unchanged row; true ${data.target}: ${base.actual}`;
  }

  build();
  for (const [id, event] of [["what-if-row", "change"], ["what-if-reset", "click"]]) {
    $(id).addEventListener(event, () => {
      changes.clear();
      show();
    });
  }
  show();
})();
