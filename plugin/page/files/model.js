// What the page knows of addresses, numbers and owners. It draws nothing.

// parseAddress returns an address as {bits, value}, or null.
export function parseAddress(text) {
  text = text.trim();
  if (/^\d{1,3}(\.\d{1,3}){3}$/.test(text)) {
    const parts = text.split(".").map(Number);
    if (parts.some((p) => p > 255)) return null;
    return { bits: 32, value: parts.reduce((n, p) => n * 256n + BigInt(p), 0n) };
  }
  if (!/^[0-9a-f:]+$/i.test(text) || !text.includes(":")) return null;
  const halves = text.split("::");
  if (halves.length > 2) return null;
  const groups = halves.map((half) => (half === "" ? [] : half.split(":")));
  const missing = 8 - groups.flat().length;
  if (halves.length === 1 ? missing !== 0 : missing < 1) return null;
  const all = halves.length === 1 ? groups[0] : [...groups[0], ...Array(missing).fill("0"), ...groups[1]];
  if (all.some((g) => !/^[0-9a-f]{1,4}$/i.test(g))) return null;
  return { bits: 128, value: all.reduce((n, g) => n * 65536n + BigInt(parseInt(g, 16)), 0n) };
}

// extent returns the first address of a pool and how many there are.
export function extent(cidr) {
  const [address, length] = cidr.split("/");
  const a = parseAddress(address);
  return { bits: a.bits, start: a.value, size: 1n << BigInt(a.bits - Number(length)) };
}

// fraction returns where in a pool an address lies, from 0 to 1; past says
// that its far side is meant. It is null for one outside.
export function fraction(pool, address, past = false) {
  const e = extent(pool), a = parseAddress(address);
  if (!a || a.bits !== e.bits) return null;
  const offset = a.value - e.start;
  if (offset < 0n || offset >= e.size) return null;
  return Number(((offset + (past ? 1n : 0n)) * 1000000000n) / e.size) / 1e9;
}

// liesIn reports whether an address lies in a range. A fraction is too coarse for that:
// that of an IPv6 pool stands for billions of addresses.
export function liesIn(range, address) {
  const [a, first, last] = [address, range.start, range.end].map(parseAddress);
  return a !== null && a.bits === first.bits && a.value >= first.value && a.value <= last.value;
}

// count writes a number of addresses, powers of two where it has more digits
// than anybody reads.
export function count(n) {
  if (n < 1e7) return Math.round(n).toLocaleString("en");
  const power = Math.round(Math.log2(n));
  return (Math.abs(n / 2 ** power - 1) < 1e-6 ? "2" : "≈ 2") + String(power).replace(/\d/g, (d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]);
}

export const plural = (n, one, many) => count(n) + " " + (n === 1 ? one : many);

export function sizeOf(range) {
  return Number(parseAddress(range.end).value - parseAddress(range.start).value + 1n);
}

export function percent(part, whole) {
  if (!whole || !part) return "0 %";
  const p = (100 * part) / whole;
  return p < 0.1 ? "< 0.1 %" : p > 99.9 && p < 100 ? "> 99.9 %" : p < 10 ? p.toFixed(1) + " %" : Math.floor(p) + " %";
}

export function ago(time, now = Date.now()) {
  if (!time) return "";
  const s = Math.max(0, Math.round((now - new Date(time)) / 1000));
  if (s < 60) return s + " s ago";
  if (s < 3600) return Math.floor(s / 60) + " min ago";
  if (s < 48 * 3600) return Math.floor(s / 3600) + " h ago";
  return Math.floor(s / 86400) + " d ago";
}

// poolName is what people call a pool: its own name, and the Docker networks of this host on it.
export const poolName = (p) => [...new Set([p.name, ...(p.network_names || [])])].filter((name) => name).join(", ");

export const poolTitle = (p) => (poolName(p) ? poolName(p) + " (" + p.pool + ")" : p.pool);

// Owners gives each peer a letter and a colour, as the command line does, and
// knows how the owners of ranges are called.
export class Owners {
  constructor(status) {
    this.self = status.self.id;
    this.peers = new Map();
    status.peers.forEach((p, i) => {
      this.peers.set(p.id, {
        id: p.id, name: p.name, letter: i < 26 ? String.fromCharCode(65 + i) : "*", style: p.state === "evicted" ? "quarantined" : "peer p" + (i % 12),
        zone: p.zone ?? "", state: p.state, reachable: p.reachable, self: p.id === this.self,
      });
    });
  }
  of(owner) {
    if (owner === "free") return { name: "free", letter: "", style: "free" };
    if (owner === "reserved") return { name: "reserved", letter: "r", style: "reserved" };
    return this.peers.get(owner) ?? { name: "a peer that was forgotten", letter: "q", style: "quarantined" };
  }
  // title is the name with what distinguishes the owner.
  title(owner) {
    const o = this.of(owner);
    return o.name + (o.self ? " (this peer)" : "") + (o.state === "evicted" ? " (evicted: quarantined)" : "") + (this.isAway(o) ? " (unreachable)" : "") + (o.zone ? ", zone " + o.zone : "");
  }
  // zones lists the zones of the cluster, each with its peers, in the order in which they come first; nothing if no peer has named one.
  zones() {
    const zones = Map.groupBy([...this.peers.values()].filter((p) => p.state !== "evicted"), (p) => p.zone);
    return zones.size > 1 || !zones.has("") ? [...zones] : [];
  }
  // isAway reports whether an owner is a peer that this one does not reach. One that was evicted is shown as that.
  isAway(o) {
    return o.reachable === false && !o.self && o.state !== "evicted";
  }
}
