// Before something is done to a release, a dialog says once more what that would do. What is sent is what it spoke of: the page below it is
// brought up to date meanwhile, and if the release is another one by then, its tag lets the server refuse and say who did what. Each form
// is sent once; without scripts the tag keeps a second one from doing anything.
import { make } from "./make.js";
import { texts } from "./texts.js";

const sent = new WeakSet();

function dialogFor(form, button) {
  const said = document.getElementById(form.getAttribute("aria-describedby"))?.textContent ?? "";
  const answer = (value, words) => make("button", { value }, words);
  return make("dialog", { "aria-labelledby": "asked" }, make("p", { id: "asked" }, said),
    make("form", { method: "dialog" }, answer("cancel", texts.cancel), answer("yes", button.textContent)));
}

// The form as it is now, however the page changes.
function kept(form) {
  const fields = [...new FormData(form)].map(([name, value]) => make("input", { type: "hidden", name, value }));
  return make("form", { method: "post", action: form.getAttribute("action"), hidden: "" }, ...fields);
}

// The browser gives the focus back to where it was when the dialog closes.
function ask(form, button) {
  const dialog = dialogFor(form, button), wanted = kept(form);
  document.body.append(dialog);
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (dialog.returnValue !== "yes" || sent.has(form)) return;
    sent.add(form);
    document.body.append(wanted);
    wanted.submit();
  });
  dialog.showModal();
}

export function confirmActions() {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("form.action")) return;
    event.preventDefault();
    if (!sent.has(form) && !document.querySelector("dialog[open]")) ask(form, event.submitter ?? form.querySelector("button"));
  });
  // Back from another page, the form may be meant anew.
  addEventListener("pageshow", () => document.querySelectorAll("form.action").forEach((form) => sent.delete(form)));
}
