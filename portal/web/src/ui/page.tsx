// The head of a page: where one is, what it is called, what can be done.
import { type ReactNode, useEffect, useRef } from "react";
import { Link } from "../lib/router";

export interface PageProps {
  title: string;
  heading?: ReactNode;
  sub?: ReactNode;
  crumbs?: { label: string; to: string }[];
  actions?: ReactNode;
  children: ReactNode;
}

export function Page({ title, heading, sub, crumbs, actions, children }: PageProps) {
  const first = useRef(true);
  useEffect(() => {
    document.title = `${title} · vctl`;
    // Who cannot see the page hears that it is another one.
    if (!first.current) document.getElementById("announcer")?.replaceChildren(title);
    first.current = false;
  }, [title]);
  return (
    <div className="page">
      {crumbs && (
        <nav className="crumbs" aria-label="Breadcrumb">
          {crumbs.map((crumb) => (
            <span key={crumb.to} className="ellipsis">
              <Link to={crumb.to}>{crumb.label}</Link> <span aria-hidden="true">/</span>
            </span>
          ))}
        </nav>
      )}
      <div className="head">
        <div className="titles">
          <h1>{heading ?? title}</h1>
          {sub && <div className="sub">{sub}</div>}
        </div>
        {actions && <div className="actions">{actions}</div>}
      </div>
      {children}
    </div>
  );
}

export function Panel({ title, actions, children, flush = false }: { title: ReactNode; actions?: ReactNode; children: ReactNode; flush?: boolean }) {
  return (
    <section className="panel">
      <header>
        <h2>{title}</h2>
        {actions}
      </header>
      {flush ? children : <div className="body">{children}</div>}
    </section>
  );
}

export function Tabs({ label, items, current }: { label: string; items: { id: string; label: string; to: string }[]; current: string }) {
  return (
    <nav className="tabs" aria-label={label}>
      {items.map((item) => (
        <Link key={item.id} to={item.to} aria-current={item.id === current ? "page" : undefined}>
          {item.label}
        </Link>
      ))}
    </nav>
  );
}

export function Facts({ items }: { items: [string, ReactNode][] }) {
  return (
    <dl className="facts">
      {items.map(([name, value]) => (
        <div key={name} style={{ display: "contents" }}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
