"use strict";
// The page is complete without this: it adds tips and the film of training.
(() => {
  const tip = document.getElementById("tip");
  document.addEventListener("pointerover", (event) => {
    const mark = event.target.closest("[data-tip]");
    tip.hidden = !mark;
    if (mark) tip.textContent = mark.dataset.tip;
  });
  document.addEventListener("pointermove", (event) => {
    if (tip.hidden) return;
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const top = Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8);
    tip.style.left = `${left}px`;
    tip.style.top = `${top}px`;
  });

  const store = document.getElementById("film-data");
  if (store) {
    const film = JSON.parse(store.textContent);
    const slider = document.getElementById("film-slider");
    const button = document.getElementById("film-play");
    const output = document.getElementById("film-text");
    const show = (frame) => {
      output.textContent = film.texts[frame];
      for (const line of document.querySelectorAll("[data-film]")) {
        line.setAttribute("d", film.lines[line.dataset.film][frame]);
      }
    };
    let timer = null;
    const stop = () => {
      clearInterval(timer);
      timer = null;
      button.textContent = "Play";
    };
    slider.addEventListener("input", () => {
      stop();
      show(+slider.value);
    });
    button.addEventListener("click", () => {
      if (timer) return stop();
      if (+slider.value >= +slider.max) slider.value = 0;
      button.textContent = "Pause";
      show(+slider.value);
      timer = setInterval(() => {
        slider.value = +slider.value + 1;
        show(+slider.value);
        if (+slider.value >= +slider.max) stop();
      }, 220);
    });
    show(+slider.value);
  }
  document.documentElement.dataset.ready = "yes";
})();
