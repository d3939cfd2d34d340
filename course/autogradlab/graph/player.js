(() => {
  // JupyterLab and nbconvert run the script where it stands; VS Code runs it elsewhere in the page.
  const own = document.currentScript && document.currentScript.closest(".autogradlab-steps");
  for (const root of own ? [own] : document.querySelectorAll(".autogradlab-steps")) {
    if (!root.querySelector("[data-player]")) makePlayer(root);
  }

  function makePlayer(root) {
    const strip = root.querySelector("ol");
    const frames = [...strip.children];
    const bar = document.createElement("div");
    bar.dataset.player = "";
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", "Steps of the backward");
    bar.style.cssText = "display:flex;flex-wrap:wrap;gap:8px;margin:8px 0";
    const status = document.createElement("p");
    status.setAttribute("role", "status");
    status.style.cssText = "margin:4px 0;min-height:3em";
    let place = 0;
    let timer = null;

    function button(text, action) {
      const made = document.createElement("button");
      made.type = "button";
      made.textContent = text;
      made.style.cssText =
        "font:inherit;color:inherit;background:transparent;border:1px solid currentColor;border-radius:4px;padding:4px 12px;cursor:pointer";
      made.addEventListener("click", action);
      bar.append(made);
      return made;
    }

    function show(next) {
      place = Math.max(0, Math.min(frames.length - 1, next));
      frames.forEach((frame, index) => {
        frame.hidden = index !== place;
        frame.querySelector("figcaption").hidden = true;
      });
      status.hidden = false;
      status.textContent = frames[place].querySelector("figcaption").textContent;
      all.setAttribute("aria-pressed", "false");
    }

    function showAll() {
      stop();
      frames.forEach((frame) => {
        frame.hidden = false;
        frame.querySelector("figcaption").hidden = false;
      });
      status.hidden = true;
      all.setAttribute("aria-pressed", "true");
    }

    function stop() {
      clearInterval(timer);
      timer = null;
      if (play) play.textContent = "Play";
    }

    function go(next) {
      stop();
      show(next);
    }

    function toggle() {
      if (timer !== null) return stop();
      show(place === frames.length - 1 ? 0 : place);
      play.textContent = "Pause";
      timer = setInterval(() => {
        if (!root.isConnected || place === frames.length - 1) return stop();
        show(place + 1);
        if (place === frames.length - 1) stop();
      }, 1500);
    }

    button("Previous", () => go(place - 1));
    button("Next", () => go(place + 1));
    // Pictures that change by themselves are not for everybody.
    const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    const play = still ? null : button("Play", toggle);
    const all = button("All steps", () => (all.getAttribute("aria-pressed") === "true" ? show(place) : showAll()));
    bar.addEventListener("keydown", (event) => {
      const targets = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: frames.length - 1 };
      if (!(event.key in targets) || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      go(targets[event.key]);
    });
    root.insertBefore(bar, strip);
    root.insertBefore(status, strip);
    show(0);
  }
})();
