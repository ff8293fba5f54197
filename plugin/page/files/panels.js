// The parts of the page around the ring. Each function returns nodes, made
// from what the API said.

import { h, svg } from "/page/dom.js";
import { ago, count, percent, plural, poolName, poolTitle } from "/page/model.js";

const MARK = { fine: "✓", degraded: "!", failed: "✕" };

// STANDINGS say in words where a peer stands among others, as ringlet status does.
const STANDINGS = {
  alone: "ready, the only peer", forming: "waiting for the other founders of the cluster", joining: "in no cluster yet", checking: "just started, asking the other hosts for news",
  "cut-off": "cut off from a majority", leaving: "giving its addresses to the other hosts", left: "has left its cluster", outdated: "older than its cluster", suspended: "stopped handing out addresses",
};

// verdictText is the verdict with the number of problems, if there are any, and where the peer stands.
export function verdictText(status) {
  const n = status.problems.filter((p) => p.level !== "fine").length;
  return status.verdict + ": " + (n ? plural(n, "problem", "problems") + ", " : "") + (STANDINGS[status.state] ?? status.state);
}
export const verdictMark = (verdict) => h("span", { class: "mark", "aria-hidden": "true" }, MARK[verdict] ?? "?");

// COMMAND finds the commands of a next step that are complete.
const COMMAND = /ringlet (?:(?:evict|forget|release|explain) (?!(?:and|if|its|or|on|frees|release)\b)[^\s,;]+|(?:exclude|reserve|pool) (?:add|rm) [^\s,;]+|free --for \S+ [^\s,;]+|recover --[a-z-]+|(?:rejoin|trust|doctor|check|gc)(?![\w-]))/g;

// nextStep shows a next step, whose commands can be copied.
export function nextStep(text) {
  const out = [];
  let at = 0;
  for (const found of text.matchAll(COMMAND)) {
    const command = found[0];
    out.push(text.slice(at, found.index), h("code", { class: "command" }, command));
    if (navigator.clipboard) out.push(h("button", { type: "button", class: "copy", "data-copy": command, "aria-label": "copy " + command }));
    at = found.index + command.length;
  }
  return h("p", { class: "next" }, h("span", { "aria-hidden": "true" }, "→ "), ...out, text.slice(at));
}

const isNamed = (text, name) => new RegExp("(^|[\\s(,:])" + name.replace(/[^\w-]/g, "\\$&") + "($|[\\s),;:])").test(text);

export function problemItems(problems, peers = []) {
  return problems.map((p) => {
    const links = peers.filter((o) => o.name && isNamed(p.text, o.name)).map((o) => h("button", { type: "button", class: "link", "data-peer": o.id }, "show " + o.name));
    if (p.address) links.push(h("button", { type: "button", class: "link", "data-address": p.address }, "explain " + p.address));
    return h("li", { class: "problem " + p.level },
      h("p", {}, h("strong", {}, p.level + ": "), p.text),
      p.next ? nextStep(p.next) : "",
      links.length ? h("p", { class: "links" }, ...links.flatMap((l, i) => (i ? [" · ", l] : [l]))) : "");
  });
}

// swatch shows an owner's colour with its letter or pattern.
export function swatch(owner) {
  return svg("svg", { class: "swatch arc " + owner.style, viewBox: "0 0 20 20", "aria-hidden": "true" },
    svg("rect", { class: "band", x: 1, y: 1, width: 18, height: 18, rx: 4 }),
    owner.letter ? svg("text", { class: "letter", x: 10, y: 10 }, owner.letter) : "");
}

// legendItems explains what is no peer's, and how much the peers of each zone own; the table of peers explains the rest.
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
  const shares = new Map((pool.shares ?? []).map((s) => [s.owner, s.owned]));
  for (const [zone, peers] of owners.zones()) {
    const owned = peers.reduce((n, p) => n + (shares.get(p.id) ?? 0), 0);
    const text = (zone ? "zone " + zone : "no zone") + ": " + peers.map((p) => p.letter).join(" ");
    items.push(h("li", { title: text }, h("span", {}, text), h("span", { class: "n" }, count(owned))));
  }
  return items;
}

const head = (...titles) => h("thead", {}, h("tr", {}, ...titles.map(([text, cls]) => h("th", { scope: "col", class: cls }, text))));

export function peerTable(status, owners, pool) {
  const zoned = status.peers.some((p) => p.zone);
  const shares = new Map((pool?.shares ?? []).map((s) => [s.owner, s]));
  const rows = status.peers.map((p) => {
    const s = shares.get(p.id), self = p.id === status.self.id;
    const reach = self ? "this peer" : p.reachable ? "reachable" : "unreachable";
    return h("tr", { class: reach === "unreachable" ? "away" : "", "data-id": p.id, tabindex: -1 },
      h("th", { scope: "row" }, swatch(owners.of(p.id)), h("span", { title: p.id }, p.name)),
      h("td", {}, p.state + (p.voter ? ", votes" : "")),
      zoned ? h("td", {}, p.zone || "–") : "",
      h("td", {}, h("span", { class: "reach", "aria-hidden": "true" }, reach === "unreachable" ? "✕ " : "✓ "), reach,
        !self && p.heard && !p.reachable ? h("span", { class: "faint" }, " " + ago(p.heard)) : ""),
      h("td", { class: "number" }, s ? percent(s.owned, pool.size) : "–"),
      h("td", { class: "number" }, s ? count(s.owned) : "–"),
      h("td", { class: "number" }, s ? (s.announced ? count(s.held) : "?") : "–"));
  });
  return [head(["Name"], ["State"], ...(zoned ? [["Zone"]] : []), ["Reach"], ["Share", "number"], ["Owns", "number"], ["Held", "number"]), h("tbody", {}, ...rows)];
}

const STATES = [["held", "held"], ["resting", "resting"], ["ready", "ready"], ["free", "free"], ["reserved", "reserved"], ["quarantined", "quarantined"]];

// bar draws how much of a pool is held, and as an outline what hosts have ready beside that.
function bar(pool) {
  const held = (200 * pool.held) / pool.size, ready = (200 * (pool.ready + pool.resting)) / pool.size;
  const parts = [];
  if (ready) parts.push(svg("rect", { class: "bar-ready", x: held.toFixed(2), y: 0.5, width: Math.max(0.5, ready).toFixed(2), height: 13 }));
  if (held) parts.push(svg("rect", { class: "bar-held", x: 0, y: 0, width: Math.max(0.5, held).toFixed(2), height: 14 }));
  return svg("svg", { class: "bar", viewBox: "0 0 200 14", preserveAspectRatio: "none", role: "img", "aria-label": percent(pool.held, pool.size) + " held: " + STATES.filter(([key]) => pool[key]).map(([key, name]) => count(pool[key]) + " " + name).join(", ") }, ...parts);
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

const clock = (time) => new Date(time).toLocaleTimeString([], { hour12: false, timeZone: "UTC" });

export function eventItem(e) {
  return h("li", { class: "event " + e.kind }, h("time", { datetime: e.time, title: e.time }, clock(e.time)), h("span", { class: "kind" }, e.kind), h("span", { class: "text" }, e.text));
}

const facts = (pairs) => h("dl", {}, ...pairs.filter(([, v]) => v).flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)]));

const MEANS = {
  held: "in use", gateway: "this host's own gateway", host: "on an interface of the host", stranger: "another device on the network answers for it",
  resting: "freed a moment ago", ready: "not in use, in a host's range", free: "owned by no host", reserved: "no container gets it automatically", quarantined: "an evicted host may be using it", elsewhere: "in a range of another host, which knows more",
};

const moment = (time) => (time ? new Date(time).toLocaleString([], { dateStyle: "medium", timeStyle: "long" }) + " (" + ago(time) + ")" : "");

// identityText names the label set of a container.
function identityText(id) {
  if (!id) return "";
  const labels = Object.entries(id.labels ?? {}).sort().map(([name, value]) => name + "=" + value);
  return id.number + (labels.length ? ": " + labels.join(", ") : "");
}

// addressDetail shows one address, as the API explains it.
export function addressDetail(a) {
  const who = a.name || (a.container ? a.container.slice(0, 12) : "");
  const out = [h("h3", {}, a.address), h("p", { class: "story" }, a.verdict), facts([
    ["State", a.state + (MEANS[a.state] ? ": " + MEANS[a.state] : "")],
    [a.state === "held" ? "Holder" : "Last holder", who && a.state !== "reserved" ? who : ""],
    ["Reserved as", a.reserved ? a.reserved.kind + (a.reserved.note ? ": " + a.reserved.note : "") : ""],
    ["Container", a.container ? a.container.slice(0, 12) : ""], ["MAC", a.mac], ["Identity", identityText(a.identity)], ["Since", moment(a.since)],
    ["Range", a.first ? a.first + " – " + a.last + ", " + a.owner + (a.owned_how && a.owned_how !== "self" ? " (" + a.owned_how + ")" : "") + (a.zone ? ", zone " + a.zone : "") : ""],
    ["Pool", poolTitle({ pool: a.pool, name: a.pool_name, network_names: a.network_names })],
    ["Conflict", a.conflict]])];
  if (a.next) out.push(nextStep(a.next));
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
    ["Held", arc.own ? count(r.held) : arc.announced ? "about " + count(arc.held) : ""], ["Decided in", "slot " + r.version]])];
  if (!addresses) return out;
  const rows = addresses.slice(0, SHOWN).map((a) => h("tr", {},
    h("th", { scope: "row" }, h("button", { type: "button", class: "link", "data-address": a.address }, a.address)), h("td", {}, a.state), h("td", {}, holderOf(a)), h("td", { class: "faint" }, a.since ? ago(a.since) : "")));
  if (rows.length) out.push(h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Addresses of the range" }, h("table", {}, head(["Address"], ["State"], ["Holder"], ["Since"]), h("tbody", {}, ...rows))));
  if (addresses.length > SHOWN) out.push(h("p", { class: "hint" }, "… and " + count(addresses.length - SHOWN) + " more"));
  return out;
}

const LISTED = 200; // rows of the table of addresses

// addressTable lists the addresses of a pool that the filter leaves, and says how many there are.
export function addressTable(pool, addresses, filter) {
  const network = poolName(pool) || pool.pool;
  const words = filter.toLowerCase().split(/\s+/).filter((w) => w);
  const found = addresses.filter((a) => {
    const text = [a.address, a.state, a.kind, a.name, a.container, a.mac, a.peer, network].join(" ").toLowerCase();
    return words.every((w) => text.includes(w));
  });
  const rows = found.slice(0, LISTED).map((a) => h("tr", {},
    h("th", { scope: "row" }, h("button", { type: "button", class: "link", "data-address": a.address }, a.address)),
    h("td", {}, holderOf(a)), h("td", {}, a.state), h("td", {}, network), h("td", {}, a.peer ?? ""), h("td", { class: "faint" }, a.since ? ago(a.since) : "")));
  const table = rows.length ? [head(["Address"], ["Name"], ["State"], ["Network"], ["Host"], ["Since"]), h("tbody", {}, ...rows)] : [];
  const more = found.length - rows.length;
  let hint = more > 0 ? "The first " + count(rows.length) + " of " + plural(found.length, "address", "addresses") + ": a filter shows others." : plural(found.length, "address", "addresses") + (words.length ? " of " + count(addresses.length) : "") + " in " + poolTitle(pool) + ".";
  if (addresses.length === 0) hint = "No address of " + poolTitle(pool) + " is in use.";
  return { table, hint };
}

// rankTable lists the rows of a pool's table: which peers take free addresses first.
export function rankTable(pool, rows) {
  const zoned = rows.some((r) => r.primary?.zone || r.secondary?.zone);
  const zone = (p) => (zoned ? [h("td", {}, p?.zone || "–")] : []);
  const lines = rows.slice(0, LISTED).map((r) => h("tr", {}, h("th", { scope: "row" }, r.start + " – " + r.end),
    h("td", {}, r.primary?.name ?? "–"), ...zone(r.primary), h("td", {}, r.secondary?.name ?? "–"), ...zone(r.secondary)));
  const title = zoned ? [["Zone"]] : [];
  const hint = rows.length > LISTED ? "The first " + count(LISTED) + " of " + count(rows.length) + " rows: ringlet ring --table --pool " + pool.pool + " lists all." : plural(rows.length, "row", "rows");
  return { table: [head(["Addresses"], ["Primary"], ...title, ["Secondary"], ...title), h("tbody", {}, ...lines)], hint };
}

// hits lists the addresses that one name has.
export function hits(name, addresses, titleOf) {
  const rows = addresses.slice(0, SHOWN).map((a) => h("tr", {},
    h("th", { scope: "row" }, h("button", { type: "button", class: "link", "data-address": a.address }, a.address)), h("td", {}, holderOf(a)), h("td", {}, a.state), h("td", {}, titleOf(a.pool)), h("td", {}, a.peer ?? "")));
  return [h("h3", {}, name + " has " + plural(addresses.length, "address", "addresses")), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Addresses of " + name }, h("table", {}, head(["Address"], ["Name"], ["State"], ["Network"], ["Host"]), h("tbody", {}, ...rows)))];
}
