"use strict";
// Runs inside a worker: films on one, sweeps over floors on another, so that the page never waits.
const Jobs = (() => {
  const column = (rows, name) => Float64Array.from(rows, (row) => row[name]);

  function filmReply(task) {
    const start = performance.now();
    const { frames, status, stages } = Film.film(task);
    const solved = performance.now();
    const rivals = Film.ridge(task, frames.map((frame) => frame.r2));
    return {
      job: task.job, kind: "film", status, stages: stages.length, frames: frames.length,
      milliseconds: solved - start,
      time: column(frames, "time"), bandwidth: column(frames, "bandwidth"), r2: column(frames, "r2"),
      speed: column(frames, "speed"), testR2: column(frames, "testR2"),
      ridgeTestR2: column(rivals, "testR2"), ridgePenalty: column(rivals, "penalty"),
      curves: frames.map((frame) => frame.curve), residuals: frames.map((frame) => frame.residual),
      ridgeCurves: rivals.map((rival) => rival.curve),
    };
  }

  let newest = 0;

  /** One floor a turn: a newer job, or an order to stop, gets in between. */
  function sweepReplies(task, send) {
    newest = task.job;
    const floors = Film.sweep(task);
    const turn = () => {
      if (task.job !== newest) return;
      const { value, done } = floors.next();
      if (done) return send({ job: task.job, kind: "sweep", done: true });
      const { floor, r2, testR2, ridgeR2, ridgeTestR2 } = value;
      send({ job: task.job, kind: "sweep", floor, r2, testR2, ridgeR2, ridgeTestR2 });
      setTimeout(turn, 0);
    };
    turn();
  }

  function handle(task, send) {
    if (task.kind === "film") send(filmReply(task));
    else if (task.kind === "stop") newest = task.job;
    else sweepReplies(task, send);
  }

  return { handle };
})();

if (typeof WorkerGlobalScope !== "undefined") {
  onmessage = (event) => Jobs.handle(event.data, postMessage);
}
