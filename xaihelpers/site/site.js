// The little that a page does: boxes that scroll can be reached by Tab, and the code of a notebook can be hidden.
"use strict";

// A result's beginning is fetched, which a browser does not allow for files: without a server, links alone.
if (location.protocol === "file:" && window.DOCUMENTATION_OPTIONS) DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

function reachable() {
  for (const box of document.querySelectorAll("article pre, .math-wrapper")) {
    if (box.scrollWidth > box.clientWidth + 1) {
      box.tabIndex = 0;
      if (!box.hasAttribute("aria-label")) {
        box.setAttribute("role", "group");
        box.setAttribute("aria-label", box.matches("pre") ? "Text that scrolls" : "Equation that scrolls");
      }
    }
  }
}

function codeSwitch() {
  const facts = document.querySelector(".page-facts");
  if (!facts || !document.querySelector("div.cell_input")) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "code-switch";
  const show = (hidden) => {
    document.body.classList.toggle("no-code", hidden);
    button.textContent = hidden ? "Show the code" : "Hide the code";
    button.setAttribute("aria-pressed", String(hidden));
  };
  button.addEventListener("click", () => show(!document.body.classList.contains("no-code")));
  show(false);
  facts.append(button);
}

addEventListener("DOMContentLoaded", () => {
  codeSwitch();
  reachable();
  addEventListener("resize", reachable);
  document.addEventListener("toggle", reachable, true);
});
