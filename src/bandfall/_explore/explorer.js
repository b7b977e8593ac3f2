"use strict";
// What-ifs: a row, a control for each of its features, and the prediction they give. Names and
// values come from data and are only ever written as text.
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("what-if-data").textContent);
  const changes = new Map(); // feature → point
  let asked = 0;
  const format = (value) => Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4, useGrouping: "min2" })
    .replace("-", "−");
  const row = () => Number($("what-if-row").value);

  // Controls: what each kind of feature is changed with ---------------------------------------

  const made = (tag, properties) => Object.assign(document.createElement(tag), properties);

  const slider = {
    make: (feature) => made("input", { type: "range", min: 0, max: feature.labels.length - 1 }),
    show: (control, point) => { control.value = point; },
  };

  const list = {
    make(feature) {
      const control = made("select");
      control.append(made("option", { value: -1, hidden: true }));
      feature.labels.forEach((label, i) => control.append(made("option", { value: i, textContent: label })));
      return control;
    },
    show(control, point, text) {
      control.options[0].textContent = text; // a level that is not in the list
      control.value = point;
    },
  };

  const controlOf = (feature) => (feature.kind === "level" ? list : slider);

  function build() {
    data.rows.forEach((one, i) => $("what-if-row").append(new Option(one.name, i)));
    data.features.forEach((feature, f) => {
      const kind = controlOf(feature);
      const label = made("label");
      const control = kind.make(feature);
      control.addEventListener("input", () => change(f, Number(control.value)));
      label.append(`${feature.name} `, made("output"), control);
      $("what-if-controls").append(label);
    });
    data.classes.forEach((name) => {
      $("what-if-classes").append(made("li"));
      $("what-if-classes").lastChild.append(made("span", { textContent: name }), made("b"), made("i"));
    });
  }

  // Changes and answers -----------------------------------------------------------------------

  function change(feature, point) {
    if (!data.live) changes.clear(); // without a server, one change at a time
    changes.set(feature, point);
    show();
  }

  function show() {
    const labels = $("what-if-controls").children;
    data.features.forEach((feature, f) => {
      const changed = changes.has(f);
      const point = changed ? changes.get(f) : feature.starts[row()];
      const text = changed ? feature.labels[point] : feature.given[row()];
      const control = labels[f].querySelector("input, select");
      labels[f].classList.toggle("changed", changed);
      labels[f].querySelector("output").textContent = text;
      controlOf(feature).show(control, point, text);
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
    if (changes.size === 1) {
      outputs = data.features[first[0]].outputs[row()][first[1]];
    } else if (changes.size > 1) {
      const wanted = [...changes].map((pair) => pair.join(":"));
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
    tell(outputs, base);
  }

  const likeliest = (outputs) => outputs.indexOf(Math.max(...outputs));
  const answerOf = (outputs) => (data.classes.length ? data.classes[likeliest(outputs)] : format(outputs[0]));

  function tell(outputs, base) {
    $("what-if-answer").textContent = answerOf(outputs);
    [...$("what-if-classes").children].forEach((line, i) => {
      line.querySelector("b").textContent = outputs[i].toFixed(3);
      line.querySelector("i").style.width = `${100 * outputs[i]}%`;
    });
    const before = changes.size ? `unchanged row: ${answerOf(base.outputs)}` : "unchanged row";
    $("what-if-difference").textContent = `${before}; true ${data.target}: ${base.actual}`;
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
