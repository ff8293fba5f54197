// The parts of the page around the ring. Each function returns nodes, made
// from what the API said.

import { h, svg } from "/page/dom.js";
import { ago, count, percent, plural, poolName, poolTitle } from "/page/model.js";

const MARK = { fine: "✓", degraded: "!", failed: "✕" };

export const verdictText = (status) => status.verdict + ": " + status.state;
export const verdictMark = (verdict) => h("span", { class: "mark", "aria-hidden": "true" }, MARK[verdict] ?? "?");

export function problemItems(problems) {
  return problems.map((p) => h("li", { class: "problem " + p.level },
    h("p", {}, h("strong", {}, p.level + ": "), p.text),
    p.next ? h("p", { class: "next" }, h("span", { "aria-hidden": "true" }, "→ "), p.next) : ""));
}

// swatch shows an owner's colour with its letter or pattern.
export function swatch(owner) {
  return svg("svg", { class: "swatch arc " + owner.style, viewBox: "0 0 20 20", "aria-hidden": "true" },
    svg("rect", { class: "band", x: 1, y: 1, width: 18, height: 18, rx: 4 }),
    owner.letter ? svg("text", { class: "letter", x: 10, y: 10 }, owner.letter) : "");
}

// legendItems explains what is no peer's; the table of peers explains the rest.
export function legendItems(pool, owners) {
  const items = [];
  const area = (style, name, n) => n && items.push(h("li", {}, swatch(style), h("span", {}, name), h("span", { class: "n" }, count(n))));
  area(owners.of("free"), "free for all", pool.free);
  area(owners.of("reserved"), "reserved", pool.reserved);
  area({ letter: "", style: "quarantined" }, "quarantined", pool.quarantined);
  const gauge = (cls, name, n) => n && items.push(h("li", {}, svg("svg", { class: "swatch p0", viewBox: "0 0 20 20", "aria-hidden": "true" }, svg("rect", { class: cls, x: 1, y: 4, width: 18, height: 12, rx: 3 })), h("span", {}, name), h("span", { class: "n" }, count(n))));
  gauge("gauge-held", "inner band: held", pool.held);
  gauge("gauge-resting", "resting", pool.resting);
  gauge("gauge", "ready", pool.ready);
  return items;
}

const head = (...titles) => h("thead", {}, h("tr", {}, ...titles.map(([text, cls]) => h("th", { scope: "col", class: cls }, text))));

export function peerTable(status, owners, pool) {
  const shares = new Map((pool?.shares ?? []).map((s) => [s.owner, s]));
  const rows = status.peers.map((p) => {
    const s = shares.get(p.id), self = p.id === status.self.id;
    const reach = self ? "this peer" : p.reachable ? "reachable" : "unreachable";
    return h("tr", { class: reach === "unreachable" ? "away" : "" },
      h("th", { scope: "row" }, swatch(owners.of(p.id)), h("span", { title: p.id }, p.name)),
      h("td", {}, p.state + (p.voter ? ", votes" : "")),
      h("td", {}, h("span", { class: "reach", "aria-hidden": "true" }, reach === "unreachable" ? "✕ " : "✓ "), reach,
        !self && p.heard && !p.reachable ? h("span", { class: "faint" }, " " + ago(p.heard)) : ""),
      h("td", { class: "number" }, s ? percent(s.owned, pool.size) : "–"),
      h("td", { class: "number" }, s ? count(s.owned) : "–"),
      h("td", { class: "number" }, s ? (s.told ? count(s.held) : "?") : "–"));
  });
  return [head(["Name"], ["State"], ["Reach"], ["Share", "number"], ["Owns", "number"], ["Held", "number"]), h("tbody", {}, ...rows)];
}

const STATES = [["held", "held"], ["resting", "resting"], ["ready", "ready"], ["free", "free"], ["reserved", "reserved"], ["quarantined", "quarantined"]];

// bar draws the states of a pool as one line.
function bar(pool) {
  let x = 0;
  const parts = STATES.filter(([key]) => pool[key]).map(([key]) => {
    const width = Math.max(0.5, (200 * pool[key]) / pool.size);
    const part = svg("rect", { class: "bar-" + key, x: x.toFixed(2), y: 0, width: width.toFixed(2), height: 14 });
    x += width;
    return part;
  });
  return svg("svg", { class: "bar", viewBox: "0 0 200 14", preserveAspectRatio: "none", role: "img", "aria-label": STATES.filter(([key]) => pool[key]).map(([key, name]) => count(pool[key]) + " " + name).join(", ") }, ...parts);
}

export function poolTable(status, chosen) {
  const rows = status.pools.map((p) => h("tr", { class: p.pool === chosen ? "chosen" : "" },
    h("th", { scope: "row" }, h("button", { type: "button", class: "link", "data-pool": p.pool, "aria-pressed": String(p.pool === chosen) }, poolName(p) || p.pool), poolName(p) ? h("span", { class: "faint" }, " " + p.pool) : ""),
    h("td", { class: "bar-cell" }, bar(p)),
    ...STATES.map(([key]) => h("td", { class: "number" }, p[key] ? count(p[key]) : "–")),
    h("td", { class: "number" }, count(p.size))));
  if (rows.length === 0) rows.push(h("tr", {}, h("td", { colspan: 9, class: "hint" }, "No pools yet: the first network makes one, or ringlet pool create.")));
  return [head(["Pool"], ["Use"], ...STATES.map(([, name]) => [name, "number"]), ["size", "number"]), h("tbody", {}, ...rows)];
}

const clock = (time) => new Date(time).toLocaleTimeString([], { hour12: false });

export function eventItem(e) {
  return h("li", { class: "event " + e.kind }, h("time", { datetime: e.time, title: e.time }, clock(e.time)), h("span", { class: "kind" }, e.kind), h("span", { class: "text" }, e.text));
}

const facts = (pairs) => h("dl", {}, ...pairs.filter(([, v]) => v).flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)]));

const MEANS = {
  held: "in use", gateway: "this host's own gateway", host: "on an interface of the host", stranger: "another device on the network answers for it",
  resting: "freed a moment ago", ready: "not in use, in a host's range", free: "owned by no host", reserved: "no container gets it automatically", quarantined: "an evicted host may be using it", elsewhere: "in a range of another host, which knows more",
};

const moment = (time) => (time ? new Date(time).toLocaleString() + " (" + ago(time) + ")" : "");

// addressDetail shows one address, as the API explains it.
export function addressDetail(a) {
  const who = a.name || (a.container ? a.container.slice(0, 12) : "");
  const out = [h("h3", {}, a.address), h("p", { class: "story" }, a.verdict), facts([
    ["State", a.state + (MEANS[a.state] ? ": " + MEANS[a.state] : "")],
    [a.state === "held" ? "Holder" : "Last holder", who && a.state !== "reserved" ? who : ""],
    ["Reserved as", a.reserved ? a.reserved.kind + (a.reserved.note ? ": " + a.reserved.note : "") : ""],
    ["Container", a.container ? a.container.slice(0, 12) : ""], ["MAC", a.mac], ["Since", moment(a.since)],
    ["Range", a.first ? a.first + " – " + a.last + ", " + a.owner + (a.owned_how && a.owned_how !== "self" ? " (" + a.owned_how + ")" : "") : ""],
    ["Pool", poolTitle({ pool: a.pool, name: a.pool_name, network_names: a.network_names })],
    ["Conflict", a.conflict]])];
  if (a.next) out.push(h("p", { class: "next" }, h("span", { "aria-hidden": "true" }, "→ "), a.next));
  if (a.refusals?.length) {
    out.push(h("h4", {}, "Lately refused"), h("ul", { class: "refusals" }, ...a.refusals.map((r) => h("li", {}, h("time", { datetime: r.last }, ago(r.last)), " ", r.to + ": " + r.why, r.times > 1 ? h("span", { class: "faint" }, " (" + r.times + " times)") : ""))));
  }
  return out;
}

const SHOWN = 100; // addresses of a range

// holderOf names who has an address, or had it before it was freed.
function holderOf(a) {
  const who = a.name || (a.container ? a.container.slice(0, 12) : "");
  return who && ["resting", "ready", "free"].includes(a.state) ? "last: " + who : who;
}

// rangeDetail shows a range, and the addresses in it if this peer has them.
export function rangeDetail(arc, owners, addresses) {
  const r = arc.range;
  const out = [h("h3", {}, r.start === r.end ? r.start : r.start + " – " + r.end), facts([
    ["Owner", owners.title(r.owner)], ["Reserved as", r.kind ? r.kind + (r.note ? ": " + r.note : "") : ""], ["Size", plural(arc.size, "address", "addresses")],
    ["Held", arc.own ? count(r.held) : arc.told ? "about " + count(arc.held) : ""], ["Decided in", "slot " + r.version]])];
  if (!addresses) return out;
  const rows = addresses.slice(0, SHOWN).map((a) => h("tr", {},
    h("th", { scope: "row" }, h("button", { type: "button", class: "link", "data-address": a.address }, a.address)), h("td", {}, a.state), h("td", {}, holderOf(a)), h("td", { class: "faint" }, a.since ? ago(a.since) : "")));
  if (rows.length) out.push(h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Addresses of the range" }, h("table", {}, head(["Address"], ["State"], ["Holder"], ["Since"]), h("tbody", {}, ...rows))));
  if (addresses.length > SHOWN) out.push(h("p", { class: "hint" }, "… and " + count(addresses.length - SHOWN) + " more"));
  return out;
}
