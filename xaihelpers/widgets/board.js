// A board's face: native controls, a picture that follows them, and a line that says in words what it shows. All that is computed is computed in the kernel.
const PATIENCE = 5000; // milliseconds without a word from the kernel, after which the person is told
const SILENCE = "No answer from the kernel yet. If it is not busy, run this cell again.";

function make(tag, name = "", attributes = {}, text = "") {
  const node = document.createElement(tag);
  if (name) node.className = `board-${name}`;
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text) node.textContent = text;
  return node;
}

function render({ model, el }) {
  const own = Math.random().toString(36).slice(2), id = (name) => `board-${own}-${name}`; // no two boards on a page share one
  // data-lm-suppress-shortcuts: keys pressed in here are the board's, not JupyterLab's
  const root = make("section", "root", { tabindex: "0", "aria-label": model.get("title"), "data-lm-suppress-shortcuts": "true" });
  const title = make("p", "title"), controls = make("div", "controls"), frame = make("div", "frame"), image = make("img", "picture");
  const cross = make("span", "cross", { "aria-hidden": "true" }), status = make("p", "status", { role: "status", "aria-live": "polite" });
  frame.append(image, cross);
  root.append(title, ...(model.get("asks") ? [status, controls, frame] : [controls, frame, status]));
  el.append(root);
  let address = "", waiting = null, updates = [];

  const point = () => model.get("controls").find((one) => one.kind === "point");
  const value = (name) => model.get("values")[name];
  function set(name, chosen) {
    model.set("values", { ...model.get("values"), [name]: chosen });
    model.save_changes();
    wait();
  }
  function press(name) {
    model.send({ press: name });
    wait();
  }
  function wait() {
    clearTimeout(waiting);
    root.setAttribute("aria-busy", "true");
    waiting = setTimeout(() => (status.textContent = SILENCE), PATIENCE);
  }

  function choice(one) {
    const select = make("select", "", { id: id(one.name) });
    select.append(...one.options.map((option, i) => make("option", "", { value: i }, option)));
    select.addEventListener("change", () => set(one.name, one.options[select.selectedIndex]));
    updates.push(() => (select.selectedIndex = one.options.indexOf(value(one.name))));
    return [select];
  }
  function range(one) {
    const input = make("input", "", { id: id(one.name), type: "range", min: one.low, max: one.high, step: one.step });
    const shown = make("output", "", { for: input.id });
    input.addEventListener("input", () => ((shown.textContent = input.value), set(one.name, Number(input.value))));
    updates.push(() => {
      if (document.activeElement !== input || model.get("closed")) input.value = value(one.name);
      shown.textContent = input.value;
      input.disabled = model.get("closed");
    });
    return [input, shown];
  }
  function button(one) {
    const node = make("button", "press", { type: "button", "data-name": one.name });
    if (one.key) node.append(make("kbd", "", {}, one.key.toUpperCase()), " ");
    if (one.key) node.setAttribute("aria-keyshortcuts", one.key);
    node.append(one.label);
    node.addEventListener("click", () => press(one.name));
    updates.push(() => (node.disabled = model.get("closed")));
    return node;
  }
  function weights(one) {
    const rows = make("ol", "weights"), adding = make("select", "", { "aria-label": "concept to add" });
    const add = make("button", "", { type: "button", "data-focus": "add" }, "add");
    const step = (i, change) => {
      const list = value(one.name).map((row) => [...row]);
      change(list, i);
      set(one.name, list);
    };
    add.addEventListener("click", () => step(0, (list) => adding.value && list.push([adding.value, 1])));
    const small = (text, label, focus, change, i) => {
      const node = make("button", "small", { type: "button", "aria-label": label, title: label, "data-focus": focus }, text);
      node.addEventListener("click", () => step(i, change));
      return node;
    };
    updates.push(() => {
      const list = value(one.name), held = root.contains(document.activeElement) && document.activeElement.dataset.focus;
      rows.replaceChildren(...list.map(([name, weight], i) => {
        const row = make("li"), label = make("label", "", { for: id(`weight-${i}`) }, name);
        const input = make("input", "", { id: id(`weight-${i}`), type: "number", step: one.step, value: weight, "data-focus": `weight ${name}` });
        input.addEventListener("change", () => step(i, (all) => (all[i][1] = Number(input.value))));
        row.append(label, input);
        row.append(small("↑", `${name}: earlier`, `up ${name}`, (all) => i && all.splice(i - 1, 0, ...all.splice(i, 1)), i));
        row.append(small("↓", `${name}: later`, `down ${name}`, (all) => all.splice(i + 1, 0, ...all.splice(i, 1)), i));
        row.append(small("✕", `remove ${name}`, `remove ${name}`, (all) => all.splice(i, 1), i));
        return row;
      }));
      const named = list.map(([name]) => name), chosen = adding.value;
      adding.replaceChildren(...one.options.filter((name) => !named.includes(name)).map((name) => make("option", "", {}, name)));
      if (chosen && !named.includes(chosen)) adding.value = chosen;
      if (held) (rows.querySelector(`[data-focus="${CSS.escape(held)}"]`) || adding).focus({ preventScroll: true });
    });
    const line = make("div", "adding");
    line.append(adding, add);
    return [rows, line];
  }

  function build() {
    updates = [];
    title.textContent = model.get("title");
    const held = root.contains(document.activeElement);
    const kinds = { choice, range, weights }, presses = make("div", "presses", { role: "group", "aria-label": "choices" });
    controls.replaceChildren();
    for (const one of model.get("controls")) {
      if (one.kind === "press") presses.append(button(one));
      if (!kinds[one.kind]) continue;
      const row = make("div", `row board-${one.kind}`);
      const label = one.kind === "weights" ? make("span", "label", {}, one.label) : make("label", "label", { for: id(one.name) }, one.label);
      row.append(label, ...kinds[one.kind](one));
      controls.append(row);
    }
    if (presses.children.length) controls.append(presses);
    frame.classList.toggle("board-pointed", Boolean(point()));
    if (point()) frame.setAttribute("tabindex", "0");
    else frame.removeAttribute("tabindex");
    frame.setAttribute("aria-label", point() ? point().label : "");
    if (held && !root.contains(document.activeElement)) root.focus({ preventScroll: true });
    update();
  }
  function update() {
    updates.forEach((one) => one());
    const at = point() && value(point().name), [left, top, width, height] = model.get("area");
    cross.hidden = !at;
    if (!at) return;
    cross.style.left = `${100 * (left + at[0] * width)}%`;
    cross.style.top = `${100 * (top + at[1] * height)}%`;
  }
  function draw() {
    URL.revokeObjectURL(address);
    const bytes = model.get("picture");
    frame.hidden = !bytes || !bytes.byteLength;
    if (frame.hidden) return image.removeAttribute("src");
    address = URL.createObjectURL(new Blob([bytes], { type: "image/png" }));
    image.src = address;
    image.alt = model.get("text");
  }
  function say() {
    clearTimeout(waiting);
    root.removeAttribute("aria-busy");
    status.textContent = model.get("text");
    image.alt = model.get("text");
  }

  function pointTo(x, y) {
    const inside = (part) => Math.min(Math.max(part, 0), 1);
    set(point().name, [inside(x), inside(y)]);
    update();
  }
  frame.addEventListener("click", (event) => {
    if (!point()) return;
    const box = image.getBoundingClientRect(), [left, top, width, height] = model.get("area");
    const x = ((event.clientX - box.left) / box.width - left) / width, y = ((event.clientY - box.top) / box.height - top) / height;
    if (x >= 0 && x <= 1 && y >= 0 && y <= 1) pointTo(x, y);
  });
  const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  frame.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (!point() || !step) return;
    event.preventDefault();
    const [x, y] = value(point().name) || [0.5, 0.5], size = event.shiftKey ? 0.1 : 0.02;
    pointTo(x + size * step[0], y + size * step[1]);
  });
  root.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.repeat) return;
    if (["INPUT", "SELECT"].includes(event.target.tagName)) return;
    const one = model.get("controls").find((control) => control.key && control.key === event.key.toLowerCase());
    if (!one || model.get("closed")) return;
    event.preventDefault();
    event.stopPropagation();
    press(one.name);
  });
  const listeners = { "change:controls": build, "change:values": update, "change:closed": update, "change:area": update, "change:picture": draw, "change:text": say, "msg:custom": say };
  for (const [name, listener] of Object.entries(listeners)) model.on(name, listener);
  build();
  draw();
  say();
  return () => {
    clearTimeout(waiting);
    URL.revokeObjectURL(address);
    for (const [name, listener] of Object.entries(listeners)) model.off(name, listener);
  };
}

export default { render };
