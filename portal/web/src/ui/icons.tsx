// Line icons on a 16 pixel grid, drawn for this console.
const PATHS = {
  environments: "M2.5 5.2 8 2.3l5.5 2.9L8 8.1zM2.5 8 8 10.9 13.5 8M2.5 10.9 8 13.8l5.5-2.9",
  templates: "M2.5 2.5h11v3.2h-11zM2.5 8.4h5v5.1h-5zM10.2 8.4h3.3v5.1h-3.3z",
  workers: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01",
  jobs: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 4.8V8l2.2 1.4",
  audit: "M4 2.5h5.5L12.5 5.5v8H4zM6.2 8.2h4M6.2 10.8h4",
  settings: "M2.5 4.5h6M11.5 4.5h2M2.5 11.5h2M7.5 11.5h6M10 4.5m-1.6 0a1.6 1.6 0 1 0 3.2 0a1.6 1.6 0 1 0-3.2 0M6 11.5m-1.6 0a1.6 1.6 0 1 0 3.2 0a1.6 1.6 0 1 0-3.2 0",
  projects: "M2.5 4.2h4l1.4 1.6h5.6v7H2.5z",
  approvals: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM5.4 8.2l1.9 1.9 3.4-3.9",
  plus: "M8 3v10M3 8h10",
  search: "M7.2 12a4.8 4.8 0 1 0 0-9.6 4.8 4.8 0 0 0 0 9.6zM10.8 10.8l2.8 2.8",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  close: "M4 4l8 8M12 4l-8 8",
  copy: "M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1",
  check: "M3 8.4l3.4 3.4L13 4.8",
  download: "M8 2.5v7.6M4.8 7.2 8 10.4l3.2-3.2M2.8 13.3h10.4",
  trash: "M3 4.5h10M6.3 4.5v-2h3.4v2M4.2 4.5l.6 9h6.4l.6-9",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  warning: "M8 2.6 14.2 13.4H1.8zM8 6.6v3.2M8 11.6h.01",
  info: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 7.4v3.4M8 5.2h.01",
  cross: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM6 6l4 4M10 6l-4 4",
  circle: "M8 13.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11z",
  turning: "M8 2.5A5.5 5.5 0 1 1 2.5 8",
  table: "M2.5 3h11v10h-11zM2.5 6.3h11M2.5 9.6h11",
  cards: "M2.5 2.5h4.6v4.6H2.5zM8.9 2.5h4.6v4.6H8.9zM2.5 8.9h4.6v4.6H2.5zM8.9 8.9h4.6v4.6H8.9z",
  sun: "M8 10.8a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6zM8 1.8v1.4M8 12.8v1.4M1.8 8h1.4M12.8 8h1.4M3.6 3.6l1 1M11.4 11.4l1 1M12.4 3.6l-1 1M4.6 11.4l-1 1",
  moon: "M13.3 9.6A5.8 5.8 0 0 1 6.4 2.7a5.8 5.8 0 1 0 6.9 6.9z",
  screen: "M2 3h12v8H2zM6 13.5h4M8 11v2.5",
  leave: "M6.5 2.5h-4v11h4M10.2 5l3 3-3 3M13 8H6.2",
  refresh: "M13.2 8a5.2 5.2 0 1 1-1.6-3.8M13.3 2.3v2.8h-2.8",
  up: "M4 10l4-4 4 4",
  down: "M4 6l4 4 4-4",
  terminal: "M2 3h12v10H2zM4.6 6.2 6.6 8l-2 1.8M8.2 10h3",
  logs: "M2.5 3.5h11M2.5 6.5h8M2.5 9.5h11M2.5 12.5h6",
  share: "M11.5 6a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM4.5 10a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM11.5 14a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM6.3 7.1l3.5-2M6.3 8.9l3.5 2",
  people: "M5.8 7.4a2.4 2.4 0 1 0 0-4.8 2.4 2.4 0 0 0 0 4.8zM1.8 13.4c0-2.6 1.7-4 4-4s4 1.4 4 4M10.6 2.9a2.3 2.3 0 0 1 0 4.3M11.4 9.6c1.8.3 2.9 1.7 2.9 3.8",
  key: "M10.4 9.2a3.6 3.6 0 1 0-3.5-2.7L2.4 11v2.6H5v-1.7h1.7v-1.7l.9-.9c.8.4 1.7.6 2.8-.1zM11.2 5h.01",
  helm: "M8 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM8 1.6V4M8 12v2.4M1.6 8H4M12 8h2.4M3.5 3.5l1.7 1.7M10.8 10.8l1.7 1.7M12.5 3.5l-1.7 1.7M5.2 10.8l-1.7 1.7",
  edit: "M3 13l.6-2.8 7.2-7.2 2.2 2.2-7.2 7.2z",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, className = "" }: { name: IconName; className?: string }) {
  return (
    <svg className={`icon ${className}`} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Mark() {
  return (
    <svg className="mark" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="8" fill="#4453c8" />
      <path d="M8 9l8 14 8-14" fill="none" stroke="#fff" strokeWidth="3.4" strokeLinecap="round" strokeLinejoin="round" />
      <circle cx="16" cy="10" r="2.6" fill="#fff" />
    </svg>
  );
}
