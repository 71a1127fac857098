// The rating panel's face. It holds no answers: each goes to the kernel, and the next page comes only after the kernel has written it.
const PATIENCE = 5000; // milliseconds without a word from the kernel, after which the rater is told
const SILENCE = "NOT SAVED YET: no answer from the kernel. If it is not busy, run this cell again; you go on where you stopped.";

function make(tag, name, attributes = {}) {
  const node = document.createElement(tag);
  if (name) node.className = `rating-${name}`;
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

function conceptRows(concepts) {
  const largest = Math.max(...concepts.map(([, weight]) => Math.abs(weight)), 1e-9);
  return concepts.map(([name, weight]) => {
    const row = make("tr"), label = make("th", "", { scope: "row" }), number = make("td", "number"), cell = make("td", "track", { "aria-hidden": "true" });
    label.textContent = name;
    number.textContent = (weight < 0 ? "−" : weight > 0 ? "+" : "") + Math.abs(weight).toFixed(2);
    const bar = make("span", weight < 0 ? "bar rating-against" : "bar");
    bar.style.width = `${(100 * Math.abs(weight)) / largest}%`;
    cell.append(bar);
    row.append(label, number, cell);
    return row;
  });
}

function render({ model, el }) {
  // data-lm-suppress-shortcuts: keys pressed in here are the rater's, not JupyterLab's (where "1" makes a heading and "y" a code cell)
  const root = make("section", "panel", { tabindex: "0", "aria-label": "Rating panel", "data-lm-suppress-shortcuts": "true" });
  const head = make("header", "head"), place = make("strong", "place"), who = make("span", "who");
  const bar = make("progress", "progress", { "aria-label": "items rated" });
  head.append(place, bar, who);
  const body = make("div", "body"), pictures = make("div", "pictures"), facts = make("div", "facts"), prediction = make("p", "prediction");
  const table = make("table", "concepts"), caption = make("caption"), rows = make("tbody");
  caption.textContent = "because of these concepts, with their weights";
  table.append(caption, rows);
  const question = make("p", "question", { id: `rating-question-${Math.random().toString(36).slice(2)}` });
  const buttons = make("div", "choices", { role: "group", "aria-labelledby": question.id });
  facts.append(prediction, table, question, buttons);
  body.append(pictures, facts);
  const foot = make("footer", "foot"), back = make("button", "undo", { type: "button", "aria-keyshortcuts": "u Backspace" });
  const status = make("span", "status", { role: "status", "aria-live": "polite" }), hint = make("span", "hint");
  back.innerHTML = "<kbd>U</kbd> undo";
  foot.append(back, status, hint);
  root.append(head, body, foot);
  el.append(root);

  let waiting = null; // the timer of a request on its way; while it runs, further keys do nothing
  let shownAt = 0, seen = 0, addresses = []; // when the picture came into sight, milliseconds seen before that, the pictures' addresses
  const visible = () => document.visibilityState === "visible";
  const look = () => {
    if (!visible() && shownAt) (seen += performance.now() - shownAt), (shownAt = 0);
    else if (visible() && !shownAt && addresses.length) shownAt = performance.now();
  };
  const say = (text, failed = false) => {
    status.textContent = text;
    status.classList.toggle("rating-failed", failed);
  };

  function ask(message) {
    if (waiting) return;
    root.setAttribute("aria-busy", "true");
    waiting = setTimeout(() => say(SILENCE, true), PATIENCE);
    model.send(message);
  }
  function rate(answer) {
    if (!addresses.length) return say("Wait for the picture.");
    const seconds = (seen + (shownAt ? performance.now() - shownAt : 0)) / 1000;
    ask({ do: "rate", position: model.get("page").position, answer, seconds: Math.round(seconds * 100) / 100 });
  }
  const undo = () => ask({ do: "undo" });

  function forget() {
    addresses.forEach((address) => URL.revokeObjectURL(address));
    (addresses = []), (shownAt = 0), (seen = 0);
  }
  function draw() {
    const page = model.get("page"), { shown } = page, over = !page.position;
    forget();
    bar.max = page.total;
    bar.value = page.done;
    place.textContent = over ? `All ${page.total} rated` : `Item ${page.position} of ${page.total}`;
    who.textContent = `${page.done} rated by ${page.rater}`;
    body.hidden = over;
    back.setAttribute("aria-disabled", String(!page.done));
    hint.textContent = over ? "Thank you. Run the cells below to see the results." : "Click here, then answer by keys.";
    if (over) return pictures.replaceChildren();
    pictures.replaceChildren(...Array.from({ length: page.pictures }, (_, i) => {
      const figure = make("figure"), image = make("img", "picture", { alt: `${i ? "reference picture" : "picture"} of item ${page.position}` });
      figure.append(image);
      if (page.pictures > 1) figure.append(Object.assign(make("figcaption"), { textContent: i ? "reference" : "picture to rate" }));
      return figure;
    }));
    prediction.hidden = !shown.prediction;
    prediction.replaceChildren("The model says: ", Object.assign(make("strong"), { textContent: shown.prediction }));
    table.hidden = !shown.concepts.length;
    caption.hidden = !shown.prediction;
    rows.replaceChildren(...conceptRows(shown.concepts));
    question.textContent = shown.question;
    const held = buttons.contains(document.activeElement);
    buttons.classList.toggle("rating-pairs", page.choices.length === 2 || page.choices.length === 4);
    buttons.classList.toggle("rating-many", page.choices.length > 4);
    buttons.replaceChildren(...page.choices.map(([key, answer, label]) => {
      const button = make("button", "choice", { type: "button", "aria-keyshortcuts": key, "data-answer": answer });
      button.append(Object.assign(make("kbd"), { textContent: key.toUpperCase() }), ` ${label}`);
      button.addEventListener("click", () => rate(answer));
      return button;
    }));
    if (held) root.focus({ preventScroll: true });
    model.send({ do: "pictures", position: page.position });
  }
  function receive(message, buffers) {
    const page = model.get("page");
    if ("pictures" in message) {
      if (message.pictures !== page.position || addresses.length) return;
      addresses = buffers.map((data) => URL.createObjectURL(new Blob([data])));
      pictures.querySelectorAll("img").forEach((image, i) => (image.src = addresses[i]));
      return look();
    }
    clearTimeout(waiting);
    waiting = null;
    root.removeAttribute("aria-busy");
    say(message.says, message.failed);
  }
  function key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const pressed = event.key.toLowerCase(), page = model.get("page");
    const choice = page.choices.find(([name]) => name === pressed);
    const back = pressed === "u" || pressed === "backspace";
    if (!choice && !back) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.repeat) return; // a key held down is one answer
    back ? undo() : rate(choice[1]);
  }

  root.addEventListener("keydown", key);
  root.addEventListener("click", (event) => event.target.closest("button") || root.focus({ preventScroll: true }));
  back.addEventListener("click", undo);
  document.addEventListener("visibilitychange", look);
  model.on("change:page", draw);
  model.on("msg:custom", receive);
  draw();
  return () => {
    clearTimeout(waiting);
    forget();
    document.removeEventListener("visibilitychange", look);
    model.off("change:page", draw);
    model.off("msg:custom", receive);
  };
}

export default { render };
