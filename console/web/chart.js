// Charts with uPlot, in the colors of the page, with a text for screen readers.

import uPlot from "./vendor/uPlot.mjs";
import { html, useEffect, useRef, useState, Loaded, Select, useLoad } from "./ui.js";
import { call } from "./api.js";
import { bytes, date, short } from "./format.js";

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Formats a time on an axis that spans some seconds. */
function clock(time, span) {
  const text = date(time * 1000);
  if (span > 2 * 86400) return text.slice(5, 10);
  return span < 120 ? text.slice(11) : text.slice(11, 16);
}

/** A chart: series are {label, values, color (a CSS variable), format}; times are in seconds. */
export function Chart({ label, times, series, format = short }) {
  const root = useRef(null);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const again = () => setTurn((n) => n + 1);
    const media = window.matchMedia("(prefers-color-scheme: dark)");
    media.addEventListener("change", again);
    window.addEventListener("orcas-scheme", again);
    return () => {
      media.removeEventListener("change", again);
      window.removeEventListener("orcas-scheme", again);
    };
  }, []);
  const data = [times, ...series.map((s) => s.values)];
  const plot = useRef(null);
  useEffect(() => {
    const axis = { stroke: color("--muted"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
    const value = (u, v) => (v === null || v === undefined ? "–" : format(v));
    plot.current = new uPlot({
      width: root.current.clientWidth || 300, height: 200, cursor: { drag: { x: false, y: false } },
      scales: { y: { range: (u, min, max) => [0, max > 0 ? max * 1.1 : 1] } },
      axes: [{ ...axis, values: (u, list) => list.map((t) => clock(t, list[list.length - 1] - list[0])) }, { ...axis, size: 72, values: (u, list) => list.map((v) => (v === 0 || u.data.some((some, i) => i > 0 && some.some(Boolean)) ? format(v) : "")) }],
      series: [{ value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" }, ...series.map((s) => ({ label: s.label, stroke: color(s.color), width: 2, points: { show: times.length < 3 }, value }))],
    }, data, root.current);
    const observer = new ResizeObserver(() => root.current && plot.current.setSize({ width: root.current.clientWidth, height: 200 }));
    observer.observe(root.current);
    return () => {
      observer.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, [turn, series.length]);
  useEffect(() => plot.current?.setData(data), [times]);
  const last = series.map((s) => `${s.label} ${s.values.length ? format(s.values[s.values.length - 1] || 0) : "–"}`).join(", ");
  return html`<div class="chart" role="img" aria-label=${`${label}. Now: ${last}`} ref=${root}></div>`;
}

/** The usage of a bucket, or of the store, over time. */
export function UsageChart({ bucket }) {
  const [what, setWhat] = useState("bytes");
  const load = useLoad((signal) => call("GET", "usage", { query: { bucket }, signal }), [bucket]);
  return html`<${Loaded} of=${load}>${({ points }) => (points.length < 2 ? html`<p class="muted">The server notes the usage every hour. There is nothing to draw yet.</p>` : html`
    <div><${Select} aria-label="Show" value=${what} onValue=${setWhat} options=${[["bytes", "Size"], ["objects", "Objects"]]} /></div>
    <${Chart} key=${what} label="Usage over time" times=${points.map((p) => new Date(p.time).getTime() / 1000)} format=${what === "bytes" ? bytes : short} series=${what === "bytes" ? [
      { label: "Objects", values: points.map((p) => p.bytes), color: "--accent" }, { label: "Older versions", values: points.map((p) => p.version_bytes), color: "--warn" },
    ] : [{ label: "Objects", values: points.map((p) => p.objects), color: "--accent" }]} />`)}<//>`;
}
