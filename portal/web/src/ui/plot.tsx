// A plot over time (uPlot). Loaded when one is shown.
import { useEffect, useRef } from "react";
import UPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useTheme } from "../lib/theme";

export interface PlotProps {
  /** What it shows, for those who cannot see it. */
  label: string;
  /** Seconds since 1970. */
  times: number[];
  /** A value for each time; null where there is none. */
  values: (number | null)[];
  /** How a value reads. */
  text: (value: number) => string;
  /** A name of a colour of the page: `--accent`. */
  colour: string;
  bars?: boolean;
}

const HEIGHT = 170;

export default function Plot({ label, times, values, text, colour, bars = false }: PlotProps) {
  const place = useRef<HTMLDivElement>(null);
  const theme = useTheme();
  useEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    // The canvas wants colours as they are now, not by their names.
    const colourOf = (name: string, part = 100): string => {
      element.style.color = part === 100 ? `var(${name})` : `color-mix(in srgb, var(${name}) ${part}%, transparent)`;
      const found = getComputedStyle(element).color;
      element.style.color = "";
      return found;
    };
    const draw = (): UPlot => {
      const axis = { stroke: colourOf("--text-3"), grid: { stroke: colourOf("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
      return new UPlot(
        {
          width: Math.max(element.clientWidth, 160),
          height: HEIGHT,
          cursor: { y: false, drag: { x: false, y: false } },
          scales: { y: { range: (_plot, _least, most) => [0, Math.max(most * 1.1, 1e-9)] } },
          axes: [axis, { ...axis, size: 64, values: (_plot, splits) => splits.map(text) }],
          series: [
            { label: "Time", value: (_plot, value: number | null) => (value === null ? "" : new Date(value * 1000).toLocaleTimeString()) },
            {
              label,
              stroke: colourOf(colour),
              width: 1.5,
              fill: colourOf(colour, 16),
              points: { show: false },
              spanGaps: false,
              value: (_plot, value: number | null) => (value === null ? "–" : text(value)),
              ...(bars && UPlot.paths.bars ? { paths: UPlot.paths.bars({ size: [0.8] }) } : {}),
            },
          ],
        },
        [times, values],
        element,
      );
    };
    let plot = draw();
    const again = (): void => {
      plot.destroy();
      plot = draw();
    };
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", again);
    const observer = new ResizeObserver(() => {
      const width = Math.max(element.clientWidth, 160);
      if (width !== plot.width) plot.setSize({ width, height: HEIGHT });
    });
    observer.observe(element);
    return () => {
      scheme.removeEventListener("change", again);
      observer.disconnect();
      plot.destroy();
    };
  }, [label, times, values, text, colour, bars, theme]);
  const known = values.filter((value): value is number => value !== null);
  const last = known.at(-1);
  const summary = last === undefined ? `${label}: nothing was measured` : `${label}: ${text(last)} now, at most ${text(Math.max(...known))}`;
  return <div ref={place} className="plot" role="img" aria-label={summary} />;
}
