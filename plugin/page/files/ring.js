// The ring: the outer band says whose each range is, the inner one how full it
// is. Angles are fractions of a turn, clockwise from the top.

import { svg } from "/page/dom.js";
import { count, fraction, percent, plural, poolName, poolTitle, sizeOf } from "/page/model.js";

const CENTRE = 200;
const BAND = { outer: 190, inner: 152 };
const GAUGE = { outer: 147, inner: 124 };
const GAP = 0.0008; // between ranges
const LEAST = 0.004; // what a range is drawn with at least, else nobody finds it
const LETTER = { small: 0.011, full: 0.02 }; // from which width on there is room for one

const point = (turn, radius) => {
  const a = 2 * Math.PI * turn;
  return (CENTRE + radius * Math.sin(a)).toFixed(2) + " " + (CENTRE - radius * Math.cos(a)).toFixed(2);
};

// segment is the path of a part of a band.
function segment(from, to, { outer, inner }) {
  if (to - from > 0.9999) to = from + 0.9999; // an arc cannot end where it begins
  const large = to - from > 0.5 ? 1 : 0;
  return `M ${point(from, outer)} A ${outer} ${outer} 0 ${large} 1 ${point(to, outer)} L ${point(to, inner)} A ${inner} ${inner} 0 ${large} 0 ${point(from, inner)} Z`;
}

// arcsOf lays out the ranges of a pool. Those too narrow to be seen are widened
// and come last, above the others.
export function arcsOf(pool, owners) {
  const shares = new Map((pool.shares ?? []).map((s) => [s.owner, s]));
  const arcs = (pool.holders ?? []).map((range) => {
    let from = fraction(pool.pool, range.start), to = fraction(pool.pool, range.end, true);
    const size = sizeOf(range), share = shares.get(range.owner);
    const narrow = to - from < LEAST;
    if (narrow) {
      const middle = (from + to) / 2;
      [from, to] = [middle - LEAST / 2, middle + LEAST / 2];
    } else if (to - from < 0.99) {
      [from, to] = [from + GAP / 2, to - GAP / 2];
    }
    // Of another peer's ranges nobody here knows which are full: all are drawn
    // as full as they are together.
    const part = share && share.owned ? size / share.owned : 0;
    const own = range.owner === owners.self;
    const held = own ? range.held : share ? share.held * part : 0;
    return { range, from, to, narrow, size, held, own, announced: share?.announced ?? false, resting: share ? share.resting * part : 0, owner: owners.of(range.owner) };
  });
  return arcs.sort((a, b) => a.narrow - b.narrow || a.from - b.from);
}

// describe says in words what an arc shows.
export function describe(arc, owners) {
  const { range } = arc;
  const where = range.start === range.end ? range.start : range.start + " to " + range.end;
  let text = where + ", " + owners.title(range.owner) + (range.kind ? ": " + range.kind : "") + (range.note ? " (" + range.note + ")" : "") + ", " + plural(arc.size, "address", "addresses");
  if (arc.own) text += ", " + count(range.held) + " held";
  else if (arc.announced) text += ", about " + count(arc.held) + " held";
  return text;
}

function patterns() {
  const pattern = (id, size, ...children) => svg("pattern", { id, width: size, height: size, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, ...children);
  return svg("defs", {},
    pattern("hatch", 6, svg("rect", { width: 6, height: 6, class: "pattern-ground" }), svg("rect", { width: 3, height: 6, class: "pattern-quarantined" })),
    pattern("cross", 6, svg("rect", { width: 6, height: 6, class: "pattern-ground" }), svg("path", { d: "M0 3H6M3 0V6", class: "pattern-reserved" })),
    pattern("away", 7, svg("rect", { width: 2.5, height: 7, class: "pattern-away" })),
    pattern("dots", 5, svg("rect", { width: 5, height: 5, class: "pattern-ground" }), svg("circle", { cx: 2.5, cy: 2.5, r: 1.4, class: "pattern-resting" })),
  );
}

function drawArc(arc, owners, selected, focused) {
  const key = arc.range.start;
  const classes = ["arc", arc.owner.style, arc.own ? "own" : "", owners.isAway(arc.owner) ? "away" : "", key === selected ? "chosen" : ""].filter((c) => c).join(" ");
  const g = svg("g", { class: classes, "data-start": key, role: "button", tabindex: key === focused ? 0 : -1, "aria-pressed": String(key === selected), "aria-label": describe(arc, owners) },
    svg("title", {}, describe(arc, owners)),
    svg("path", { class: "band", d: segment(arc.from, arc.to, BAND) }));
  if (owners.isAway(arc.owner)) g.append(svg("path", { class: "hatched", d: segment(arc.from, arc.to, BAND) }));
  if (arc.owner.style !== "free" && arc.owner.style !== "reserved") g.append(...gauge(arc));
  if (arc.to - arc.from > LETTER.small && arc.owner.letter) {
    const [x, y] = point((arc.from + arc.to) / 2, (BAND.outer + BAND.inner) / 2).split(" ");
    g.append(svg("text", { class: arc.to - arc.from > LETTER.full ? "letter" : "letter small", x, y, "aria-hidden": "true" }, arc.owner.letter));
  }
  return g;
}

// gauge draws how full a range is: held, then resting, then ready.
function gauge(arc) {
  const width = arc.to - arc.from;
  const held = arc.from + width * Math.min(1, arc.held / arc.size);
  const resting = Math.min(arc.to, held + width * (arc.resting / arc.size));
  const out = [svg("path", { class: "gauge", d: segment(arc.from, arc.to, GAUGE) })];
  if (held - arc.from > 0.0003) out.push(svg("path", { class: "gauge-held", d: segment(arc.from, held, GAUGE) }));
  if (resting - held > 0.0003) out.push(svg("path", { class: "gauge-resting", d: segment(held, resting, GAUGE) }));
  return out;
}

// conflicts marks the addresses that two use.
function conflicts(pool, problems) {
  return problems.filter((p) => p.address && p.code === "conflict").flatMap((p) => {
    const at = fraction(pool.pool, p.address);
    if (at === null) return [];
    const [x, y] = point(at, BAND.outer - 2).split(" ").map(Number);
    return [svg("g", { class: "conflict", role: "img", "aria-label": "conflict at " + p.address },
      svg("title", {}, p.text),
      svg("path", { d: `M ${x} ${y - 11} L ${x + 11} ${y + 8} L ${x - 11} ${y + 8} Z` }),
      svg("text", { x, y: y + 3 }, "!"))];
  });
}

function pin(pool, address) {
  const at = address ? fraction(pool.pool, address) : null;
  if (at === null) return [];
  const middle = at + fraction(pool.pool, address, true);
  const [from, to] = [point(middle / 2, BAND.outer + 6), point(middle / 2, GAUGE.inner - 8)];
  return [svg("g", { class: "pin", "aria-hidden": "true" }, svg("path", { d: `M ${from} L ${to}` }), svg("circle", { cx: to.split(" ")[0], cy: to.split(" ")[1], r: 4 }))];
}

// drawRing returns the picture of a pool.
export function drawRing(pool, arcs, owners, { problems, selected, focused, address }) {
  const text = (cls, y, what) => svg("text", { class: cls, x: CENTRE, y }, what);
  return svg("svg", { viewBox: "0 0 400 400", role: "group", "aria-label": "Ring of pool " + poolTitle(pool) + ": " + percent(pool.held, pool.size) + " held. " + plural(arcs.length, "range", "ranges") },
    patterns(),
    ...arcs.map((a) => drawArc(a, owners, selected, focused)),
    ...conflicts(pool, problems), ...pin(pool, address),
    svg("g", { class: "centre", "aria-hidden": "true" },
      text("big", 190, percent(pool.held, pool.size)),
      text("small", 214, count(pool.held) + " of " + count(pool.size) + " held"),
      text("small faint", 236, poolName(pool) || pool.pool)));
}
