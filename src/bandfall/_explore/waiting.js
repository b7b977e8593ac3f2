"use strict";
const ask = async () => {
  try {
    const state = await (await fetch("state")).json();
    if (state.ready) return location.reload();
    document.getElementById("share").value = state.share;
    setTimeout(ask, 400);
  } catch {
    document.getElementById("said").textContent = "The server has stopped.";
  }
};
ask();
