// Small helpers to build the page. Texts are always set as text: names of
// containers and peers are chosen by others.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false || value === null) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((c) => c !== undefined && c !== null && c !== ""));
  return node;
}

export function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

export const byId = (id) => document.getElementById(id);

// update replaces what is in a node, unless that would change nothing: what is
// selected or focused in it stays then.
export function update(node, children) {
  const next = node.cloneNode(false);
  next.append(...children);
  if (next.isEqualNode(node)) return false;
  node.replaceChildren(...next.childNodes);
  return true;
}

// setText changes a text only if it differs, so that screen readers are not
// told the same again and again.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
