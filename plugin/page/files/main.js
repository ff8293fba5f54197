// The page: reads the status, draws it, and does so again when something
// happens. It only reads.

import { byId, h, setText, update } from "/page/dom.js";
import { liesIn, Owners, parseAddress, poolTitle } from "/page/model.js";
import { addressDetail, addressTable, eventItem, hits, legendItems, peerTable, poolTable, problemItems, rangeDetail, rankTable, verdictMark, verdictText } from "/page/panels.js";
import { arcsOf, drawRing } from "/page/ring.js";

const EVERY = 5000; // ms between two readings, at most
const SOON = 300; // ms from an event to the reading that it causes
const TIMEOUT = 8000; // ms for an answer
const KEPT = 100; // events shown
const MANY = 5000; // addresses in use in a pool, above which the page does not list them

// fragment returns the pool that the address of the page names; nothing if it cannot be read.
function fragment() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

const state = { status: null, owners: null, pool: fragment(), arcs: [], selected: "", focused: "", address: "", addresses: null, listing: false, ranked: "", read: 0, timer: 0, soon: false };

class Refused extends Error {}

async function get(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(TIMEOUT) });
  const body = await answer.json();
  if (!answer.ok) throw new Refused(body.detail ?? answer.statusText);
  return body;
}

const poolPath = () => "/v1/pools/" + encodeURIComponent(state.pool);

// ---

function render() {
  const { status } = state;
  state.owners = new Owners(status);
  if (!status.pools.some((p) => p.pool === state.pool)) choosePool(fullest(status.pools)?.pool ?? "");
  const pool = status.pools.find((p) => p.pool === state.pool);

  document.title = (status.verdict === "fine" ? "" : "(" + status.verdict + ") ") + "ringlet on " + status.self.name;
  setText(byId("self"), status.self.name + " · cluster " + status.cluster.slice(0, 8));
  update(byId("verdict"), [verdictMark(status.verdict), verdictText(status)]);
  byId("verdict").dataset.verdict = status.verdict;
  const asOf = byId("as-of");
  asOf.dateTime = status.as_of ?? "";
  setText(asOf, status.as_of ? new Date(status.as_of).toLocaleTimeString([], { hour12: false, timeZoneName: "short" }) : "now");
  document.body.classList.remove("unread");

  byId("problems").hidden = status.problems.length === 0;
  update(byId("problem-list"), problemItems(status.problems, status.peers));
  update(byId("pool"), status.pools.map((p) => h("option", { value: p.pool, selected: p.pool === state.pool }, poolTitle(p))));
  byId("pool").value = state.pool;
  renderRing(pool);
  update(byId("peers"), peerTable(status, state.owners, pool));
  update(byId("pools"), poolTable(status, state.pool));
  renderAddresses(pool);
}

// renderAddresses shows the addresses of the pool that were read last.
function renderAddresses(pool) {
  const filter = byId("filter").value;
  let shown = { table: [], hint: pool ? "" : "No pools yet." };
  if (pool && pool.held > MANY) shown.hint = "This pool has more addresses in use than this page lists: run ringlet ip ls --all --pool " + pool.pool + ".";
  else if (pool && state.addresses) shown = addressTable(pool, state.addresses, filter);
  update(byId("addresses"), shown.table);
  setText(byId("addresses-hint"), shown.hint);
}

// readAddresses reads the addresses of the pool, one reading at a time.
async function readAddresses() {
  const pool = state.status?.pools.find((p) => p.pool === state.pool);
  if (state.listing || document.hidden || !pool || pool.held > MANY) return;
  state.listing = true;
  try {
    const all = await get(poolPath() + "/addresses?all=true");
    if (pool.pool === state.pool) state.addresses = all;
  } catch {
    // What was read before stays; the next reading comes soon.
  }
  state.listing = false;
  renderAddresses(state.status.pools.find((p) => p.pool === state.pool));
  if (pool.pool !== state.pool) readAddresses();
}

// readTable reads the table of the pool if it is shown, again when something has changed that it depends on.
async function readTable() {
  const pool = state.status?.pools.find((p) => p.pool === state.pool);
  if (!byId("table-box").open || document.hidden || !pool) return;
  const ranked = JSON.stringify([pool.pool, state.status.peers.map((p) => [p.id, p.name, p.zone, p.state])]);
  if (ranked === state.ranked) return;
  const show = ({ table, hint }) => {
    update(byId("table"), table);
    setText(byId("table-hint"), hint);
  };
  if (pool.size / 8 > MANY) return show({ table: [], hint: "This pool has more rows than this page lists: run ringlet ring --table --pool " + pool.pool + "." });
  state.ranked = ranked;
  try {
    const rows = await get("/v1/ring/table?pool=" + encodeURIComponent(pool.pool));
    if (ranked === state.ranked) show(rankTable(pool, rows));
  } catch {
    if (ranked === state.ranked) state.ranked = ""; // the next reading comes soon
  }
}

const fullest = (pools) => pools.reduce((best, p) => (!best || p.held / p.size > best.held / best.size ? p : best), null);

function renderRing(pool) {
  const box = byId("ring");
  byId("ring-hint").hidden = !pool;
  if (!pool) {
    update(box, [h("p", { class: "hint" }, "No pools yet, so no ring: the first network makes one.")]);
    update(byId("legend"), []);
    return;
  }
  state.arcs = arcsOf(pool, state.owners);
  if (!state.arcs.some((a) => a.range.start === state.focused)) state.focused = inOrder()[0]?.range.start ?? "";
  const hadFocus = box.contains(document.activeElement);
  const changed = update(box, [drawRing(pool, state.arcs, state.owners, { problems: state.status.problems, selected: state.selected, focused: state.focused, address: state.address })]);
  if (changed && hadFocus) focusArc();
  update(byId("legend"), legendItems(pool, state.owners));
}

const inOrder = () => [...state.arcs].sort((a, b) => a.from - b.from);
const focusArc = () => byId("ring").querySelector(`[data-start="${CSS.escape(state.focused)}"]`)?.focus();

function choosePool(pool) {
  Object.assign(state, { pool, selected: "", focused: "", addresses: null, ranked: "" });
}

// ---

// wishPool is choosePool for a person, whose choice the address bar keeps.
function wishPool(pool) {
  choosePool(pool);
  history.replaceState(null, "", "#" + pool);
  readAddresses();
  readTable();
}

const show = (nodes) => update(byId("detail"), nodes);
const complain = (text) => show([h("p", { class: "refused", role: "alert" }, text)]);

async function look(address) {
  state.selected = "";
  try {
    if (!parseAddress(address)) {
      const found = await get("/v1/addresses?all=true&for=" + encodeURIComponent(address));
      if (found.length !== 1) {
        if (found.length === 0) complain("Nothing called " + address + " has an address, and it is not an address either, such as 10.50.0.7.");
        else show(hits(address, found, (pool) => poolTitle(state.status?.pools.find((p) => p.pool === pool) ?? { pool })));
        return;
      }
      address = found[0].address;
    }
    const a = await get("/v1/addresses/" + encodeURIComponent(address) + "/explain");
    state.address = a.address;
    if (a.pool && a.pool !== state.pool) wishPool(a.pool);
    show(addressDetail(a));
    render();
  } catch (error) {
    complain(error instanceof Refused ? error.message : "This peer does not answer: try again.");
  }
}

async function chooseRange(start) {
  Object.assign(state, { selected: start, focused: start, address: "" });
  render();
  const arc = state.arcs.find((a) => a.range.start === start);
  if (!arc) return;
  show(rangeDetail(arc, state.owners));
  if (!arc.own || arc.range.held === 0) return;
  try {
    const all = await get(poolPath() + "/addresses");
    const inside = all.filter((a) => liesIn(arc.range, a.address));
    if (state.selected === start) show(rangeDetail(arc, state.owners, inside));
  } catch {
    // The range itself is shown; its addresses come with another click.
  }
}

// ---

async function read() {
  clearTimeout(state.timer);
  state.soon = false;
  try {
    state.status = await get("/v1/status");
    state.read = Date.now();
    byId("banner").hidden = true;
    document.body.classList.remove("old");
    render();
    readAddresses();
    readTable();
  } catch (error) {
    const banner = byId("banner");
    banner.hidden = false;
    setText(banner, error instanceof Refused ? error.message : "This peer does not answer" + (state.read ? "; what is shown is from " + new Date(state.read).toLocaleTimeString([], { hour12: false }) : "") + ". Trying again.");
    document.body.classList.add("old");
  }
  clearTimeout(state.timer);
  state.timer = setTimeout(read, state.soon ? SOON : EVERY);
}

// readSoon brings the next reading forward, once, however much happens until
// then.
function readSoon() {
  if (document.hidden || state.soon) return;
  state.soon = true;
  clearTimeout(state.timer);
  state.timer = setTimeout(read, SOON);
}

// follow shows events as they come. The browser connects again by itself, and
// goes on where it was.
function follow() {
  const list = byId("events"), waiting = [];
  const flush = () => {
    list.prepend(...waiting.splice(0).slice(-KEPT).reverse());
    while (list.children.length > KEPT) list.lastElementChild.remove();
  };
  const add = (node) => {
    if (waiting.push(node) === 1) setTimeout(flush, 50);
  };
  const source = new EventSource("/v1/events");
  const live = (text, on) => {
    setText(byId("live"), text);
    byId("live").dataset.live = on;
  };
  source.onopen = () => live("live", true);
  source.onerror = () => live(source.readyState === EventSource.CLOSED ? "not live: read every 5 s" : "reconnecting", false);
  source.onmessage = (m) => {
    add(eventItem(JSON.parse(m.data)));
    readSoon();
  };
  source.addEventListener("gap", () => add(h("li", { class: "event gap" }, "… events before this are not kept any more")));
}

// ---

const STEP = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

function listen() {
  byId("pool").addEventListener("change", (e) => {
    wishPool(e.target.value);
    state.address = "";
    render();
  });
  byId("pools").addEventListener("click", (e) => {
    const pool = e.target.closest("[data-pool]")?.dataset.pool;
    if (!pool) return;
    wishPool(pool);
    state.address = "";
    render();
    byId("pools").querySelector(`[data-pool="${CSS.escape(pool)}"]`)?.focus();
  });
  byId("look").addEventListener("submit", (e) => {
    e.preventDefault();
    const address = byId("address").value.trim();
    if (address) look(address);
  });
  for (const box of ["detail", "addresses", "problem-list"]) {
    byId(box).addEventListener("click", (e) => {
      const address = e.target.closest("[data-address]")?.dataset.address;
      if (!address) return;
      byId("address").value = address;
      look(address);
      if (box !== "detail") byId("detail").scrollIntoView({ block: "nearest" });
    });
  }
  byId("table-box").addEventListener("toggle", readTable);
  byId("filter").addEventListener("input", () => renderAddresses(state.status?.pools.find((p) => p.pool === state.pool)));
  document.addEventListener("click", (e) => {
    const peer = e.target.closest("[data-peer]")?.dataset.peer, copy = e.target.closest("[data-copy]");
    if (peer) byId("peers").querySelector(`[data-id="${CSS.escape(peer)}"]`)?.focus();
    if (copy) navigator.clipboard.writeText(copy.dataset.copy).then(() => { copy.dataset.done = "copied"; }, () => { copy.dataset.done = "not copied"; });
  });
  const ring = byId("ring");
  const startOf = (e) => e.target.closest("[data-start]")?.dataset.start;
  ring.addEventListener("click", (e) => startOf(e) && chooseRange(startOf(e)));
  ring.addEventListener("keydown", (e) => {
    const start = startOf(e);
    if (!start) return;
    const arcs = inOrder(), at = arcs.findIndex((a) => a.range.start === start);
    if (e.key === "Enter" || e.key === " ") chooseRange(start);
    else if (e.key in STEP) moveTo(arcs.at((at + STEP[e.key]) % arcs.length));
    else if (e.key === "Home") moveTo(arcs[0]);
    else if (e.key === "End") moveTo(arcs.at(-1));
    else return;
    e.preventDefault();
  });
  document.addEventListener("visibilitychange", () => document.hidden || read());
}

function moveTo(arc) {
  for (const g of byId("ring").querySelectorAll("[data-start]")) g.setAttribute("tabindex", g.dataset.start === arc.range.start ? 0 : -1);
  state.focused = arc.range.start;
  focusArc();
}

listen();
read();
follow();
