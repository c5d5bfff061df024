// Makes a part of the page be like another, and leaves alone what is the same: focus, selection and what is open stay.

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.id || node.dataset?.key || null : null;
}

function isAlike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && keyOf(one) === keyOf(other);
}

// What a person has changed since the page came is theirs.
const OWN = new Map([["DETAILS", "open"], ["DIALOG", "open"]]);

function morphAttributes(from, to) {
  const own = OWN.get(from.nodeName);
  for (const { name } of [...from.attributes]) {
    if (name !== own && !to.hasAttribute(name)) from.removeAttribute(name);
  }
  for (const { name, value } of [...to.attributes]) {
    if (name !== own && from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
}

function isFilledIn(element) {
  return /^(INPUT|TEXTAREA|SELECT)$/.test(element.nodeName);
}

// What somebody wrote into parts that are no more.
function writtenIn(node) {
  const fields = node.nodeType === Node.ELEMENT_NODE ? [...node.querySelectorAll("textarea:not([readonly])")] : [];
  return fields.filter((field) => field.value !== field.defaultValue && field.value.trim()).map((field) => field.value);
}

/** Makes `from`, which is in the document, be like `to`; answers the texts that somebody had written into what is gone. */
export function morph(from, to) {
  const focused = document.activeElement, lost = [];
  morphNode(from, to, lost);
  // What was moved loses the focus.
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
  return lost;
}

function morphNode(from, to, lost) {
  if (from.nodeType === Node.TEXT_NODE) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  if (from.nodeType !== Node.ELEMENT_NODE || from.isEqualNode(to)) return;
  if (from.hasAttribute("data-own")) return;
  morphAttributes(from, to);
  if (!isFilledIn(from)) morphChildren(from, to, lost);
}

function remove(node, lost) {
  lost.push(...writtenIn(node));
  node.remove();
}

function morphChildren(from, to, lost) {
  const all = [...to.childNodes], wantedKeys = new Set(all.map(keyOf)), keyed = new Map();
  // First what isn't wanted any more, so that nothing has to be moved past it.
  for (const child of [...from.childNodes]) {
    const key = keyOf(child);
    if (key === null) continue;
    if (wantedKeys.has(key)) keyed.set(key, child);
    else remove(child, lost);
  }
  let at = from.firstChild;
  for (const wanted of all) {
    const key = keyOf(wanted), known = key === null ? null : keyed.get(key);
    if (known && isAlike(known, wanted)) {
      if (known === at) at = at.nextSibling;
      else from.insertBefore(known, at);
      morphNode(known, wanted, lost);
    } else if (at && keyOf(at) === null && isAlike(at, wanted)) {
      const same = at;
      at = at.nextSibling;
      morphNode(same, wanted, lost);
    } else {
      from.insertBefore(document.importNode(wanted, true), at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    remove(at, lost);
    at = next;
  }
}
