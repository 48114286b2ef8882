/* What only the finished page knows: which boxes scroll, what is open, which colours are on, where the focus was. */

(() => {
  // A box that scrolls takes the focus, so that arrow keys can move it; one that does not is no stop on the way.
  const BOXES = {
    ".bd-article pre": "Code",
    ".bd-article div.math": "Equation",
    ".bd-article .pst-scrollable-table-container": "Table",
    ".bd-article .calculation": "Calculation",
    ".bd-article .cell_output": "Output",
    ".bd-article .cell_output > .output": "Output",
  };

  function reach(box, name) {
    const moves = (content, seen, overflow) => content > seen && ["auto", "scroll"].includes(overflow);
    const style = getComputedStyle(box);
    if (
      moves(box.scrollWidth, box.clientWidth, style.overflowX) ||
      moves(box.scrollHeight, box.clientHeight, style.overflowY)
    ) {
      box.tabIndex = 0;
      if (!box.hasAttribute("role")) box.setAttribute("role", "group");
      if (!box.hasAttribute("aria-label")) box.setAttribute("aria-label", `${name}, scrolls`);
    } else {
      box.removeAttribute("tabindex");
    }
  }

  function watchBoxes() {
    const names = new Map();
    for (const [selector, name] of Object.entries(BOXES)) {
      for (const box of document.querySelectorAll(selector)) names.set(box, name);
    }
    const observer = new ResizeObserver((entries) => entries.forEach(({ target }) => reach(target, names.get(target))));
    names.forEach((_, box) => observer.observe(box)); // also when a fold around it opens
    document.fonts.ready.then(() => names.forEach((name, box) => reach(box, name)));
  }

  // The theme takes the focus from its buttons, so that their tooltips go. Who works them by keys would lose the place.
  function keepFocus() {
    for (const button of document.querySelectorAll(".theme-switch-button, .search-button, .sidebar-toggle")) {
      button.blur = () => button.matches(":focus-visible") || HTMLElement.prototype.blur.call(button);
    }
  }

  function nameDialogs() {
    for (const [side, toggle] of [["primary", ".primary-toggle"], ["secondary", ".secondary-toggle"]]) {
      const button = document.querySelector(toggle);
      const dialog = document.getElementById(`pst-${side}-sidebar-modal`);
      if (button && dialog) dialog.setAttribute("aria-label", button.getAttribute("aria-label"));
    }
  }

  // On a wide window the button folds the chapters away; on a narrow one it opens a dialog, which says so itself.
  function sayWhetherOpen() {
    const button = document.querySelector(".primary-toggle");
    const sidebar = document.getElementById("pst-primary-sidebar");
    if (!button || !sidebar) return;
    const wide = matchMedia("(min-width: 992px)");
    const say = () => {
      if (wide.matches) button.setAttribute("aria-expanded", String(!sidebar.classList.contains("pst-sidebar-hidden")));
      else button.removeAttribute("aria-expanded");
    };
    new MutationObserver(say).observe(sidebar, { attributeFilter: ["class"] });
    wide.addEventListener("change", say);
    say();
  }

  function sayColours() {
    const root = document.documentElement;
    const names = { light: "light", dark: "dark", auto: "as the system has them" };
    const say = () => {
      for (const button of document.querySelectorAll(".theme-switch-button")) {
        button.setAttribute("aria-label", `Colours: ${names[root.dataset.mode] ?? names.auto}`);
      }
    };
    new MutationObserver(say).observe(root, { attributeFilter: ["data-mode"] });
    say();
  }

  keepFocus();
  nameDialogs();
  sayWhetherOpen();
  sayColours();
  watchBoxes();
})();
