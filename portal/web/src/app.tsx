// The frame around every page: navigation, who is signed in, whether changes arrive, and which page an address is.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Component, type ReactNode, Suspense, lazy, useEffect, useRef, useState } from "react";
import { Button as AriaButton, Dialog as AriaDialog, Modal, ModalOverlay } from "react-aria-components";
import { Problem, useToken as keepToken } from "./api/client";
import { listen, useLive } from "./api/live";
import { environmentsQuery, permissionsQuery, sessionQuery, waitingQuery } from "./api/queries";
import type { Session } from "./api/types";
import { Link, match, usePath } from "./lib/router";
import { type Theme, setTheme, useTheme } from "./lib/theme";
import { Menu } from "./ui/controls";
import { Empty, ErrorNote, Skeleton, State, Toasts } from "./ui/feedback";
import { Icon, type IconName, Mark } from "./ui/icons";
import { Page } from "./ui/page";

const Environments = lazy(() => import("./pages/environments"));
const Create = lazy(() => import("./pages/create"));
const EnvironmentPage = lazy(() => import("./pages/environment"));
const Templates = lazy(() => import("./pages/templates"));
const Workers = lazy(() => import("./pages/workers"));
const Jobs = lazy(() => import("./pages/jobs"));
const JobPage = lazy(() => import("./pages/job"));
const Audit = lazy(() => import("./pages/audit"));
const Projects = lazy(() => import("./pages/projects"));
const Approvals = lazy(() => import("./pages/approvals"));
const Admin = lazy(() => import("./pages/admin"));
const Account = lazy(() => import("./pages/account"));
const Settings = lazy(() => import("./pages/settings"));

const ROUTES: [string, (values: Record<string, string>) => ReactNode][] = [
  ["/", () => <Environments />],
  ["/create", () => <Create />],
  ["/environments/:name/*rest", ({ name = "", rest = "" }) => <EnvironmentPage key={name} name={name} rest={rest} />],
  ["/templates", () => <Templates />],
  ["/workers", () => <Workers />],
  ["/jobs", () => <Jobs />],
  ["/jobs/:id", ({ id = "" }) => <JobPage id={id} />],
  ["/audit", () => <Audit />],
  ["/projects", () => <Projects />],
  ["/approvals", () => <Approvals />],
  ["/admin/:section", ({ section = "" }) => <Admin section={section} />],
  ["/account", () => <Account />],
  ["/settings", () => <Settings />],
];

const NAVIGATION: { to: string; label: string; icon: IconName; under: string[]; needs?: string[] }[] = [
  { to: "/", label: "Environments", icon: "environments", under: ["/create", "/environments"] },
  { to: "/templates", label: "Templates", icon: "templates", under: [] },
  { to: "/projects", label: "Projects", icon: "projects", under: [] },
  { to: "/approvals", label: "Approvals", icon: "approvals", under: [] },
  { to: "/jobs", label: "Jobs", icon: "jobs", under: [] },
  { to: "/audit", label: "Audit", icon: "audit", under: [] },
  { to: "/workers", label: "Workers", icon: "workers", under: [] },
  { to: "/admin/users", label: "Administration", icon: "people", under: ["/admin"], needs: ["users.list", "platform.get", "teams.list"] },
  { to: "/settings", label: "Server", icon: "settings", under: [] },
];

export function App() {
  const session = useQuery(sessionQuery);
  const cache = useQueryClient();
  const signedOut = session.error instanceof Problem && session.error.status === 401;
  const signedIn = session.data !== undefined && !signedOut;
  if (session.data) keepToken(session.data);
  useEffect(() => (signedIn ? listen(cache) : undefined), [signedIn, cache]);
  if (signedOut) return <SignedOut />;
  if (session.data) return <Shell session={session.data} />;
  return <main className="main">{session.error ? <ErrorNote error={session.error} retry={() => void session.refetch()} /> : <Skeleton />}</main>;
}

/** The session has ended while the page was open; the server's own page says how to sign in. */
function SignedOut() {
  return (
    <main className="main">
      <Page title="Signed out">
        <Empty icon="leave" title="Your session has ended">
          <p>Sign in again to go on where you were.</p>
          <a className="button primary" href={location.pathname + location.search}>
            Sign in
          </a>
        </Empty>
      </Page>
    </main>
  );
}

function Shell({ session }: { session: Session }) {
  const path = usePath();
  const main = useRef<HTMLElement>(null);
  const [open, setOpen] = useState(false);
  useEffect(() => setOpen(false), [path]);
  return (
    <>
      <a className="skip" href="#main">
        Skip to content
      </a>
      <div id="announcer" className="hidden-visually" role="status" aria-live="polite" />
      <div className="topbar">
        <AriaButton className="button quiet icon-only" aria-label="Navigation" aria-expanded={open} onPress={() => setOpen(true)}>
          <Icon name="menu" />
        </AriaButton>
        <Link to="/" className="brand">
          <Mark /> vctl
        </Link>
        <Live />
      </div>
      <ModalOverlay className="drawer-veil" isOpen={open} isDismissable onOpenChange={setOpen}>
        <Modal className="drawer">
          <AriaDialog className="side" aria-label="Navigation">
            <Side session={session} path={path} />
          </AriaDialog>
        </Modal>
      </ModalOverlay>
      <div className="shell">
        <div className="side">
          <Side session={session} path={path} />
        </div>
        <main className="main" id="main" ref={main} tabIndex={-1}>
          <Boundary key={path}>
            <Suspense fallback={<Skeleton />}>
              <Routed path={path} />
            </Suspense>
          </Boundary>
        </main>
      </div>
      <Toasts />
    </>
  );
}

function Routed({ path }: { path: string }) {
  for (const [pattern, render] of ROUTES) {
    const values = match(pattern, path);
    if (values) return render(values);
  }
  return (
    <Page title="Not found">
      <Empty icon="search" title="There is no such page">
        <p>
          <Link to="/">Go to your environments</Link>
        </p>
      </Empty>
    </Page>
  );
}

const THEMES: { id: Theme; label: string; icon: IconName }[] = [
  { id: "system", label: "As the system", icon: "screen" },
  { id: "light", label: "Light", icon: "sun" },
  { id: "dark", label: "Dark", icon: "moon" },
];

function Side({ session, path }: { session: Session; path: string }) {
  const environments = useQuery(environmentsQuery);
  const mine = useQuery(permissionsQuery({})).data ?? [];
  const waiting = useQuery(waitingQuery);
  const counts: Record<string, number | string | null | undefined> = { "/": environments.data?.total, "/approvals": waiting.data };
  const chosen = useTheme();
  const icon = THEMES.find((each) => each.id === chosen)?.icon ?? "screen";
  return (
    <>
      <Link to="/" className="brand">
        <Mark /> vctl
      </Link>
      <nav className="nav" aria-label="Main">
        {NAVIGATION.filter((item) => item.needs === undefined || item.needs.some((each) => mine.includes(each))).map((item) => {
          const current = path === item.to || (item.to !== "/" && path.startsWith(`${item.to}/`)) || item.under.some((prefix) => path.startsWith(prefix));
          return (
            <Link key={item.to} to={item.to} aria-current={current ? "page" : undefined}>
              <Icon name={item.icon} />
              {item.label}
              {counts[item.to] != null && <span className="count">{counts[item.to]?.toLocaleString("en")}</span>}
            </Link>
          );
        })}
      </nav>
      <div className="side-foot">
        <Live />
        <div className="who">
          <Link to="/account" title={session.actor} className="ellipsis">
            {session.actor}
          </Link>
          <Menu label="Colours" icon={icon} selected={chosen} entries={THEMES.map((each) => ({ ...each, onAction: () => setTheme(each.id) }))} />
          <form method="post" action="/logout">
            <input type="hidden" name="csrf" value={session.csrfToken ?? ""} />
            <button className="button quiet icon-only" type="submit" aria-label="Sign out" title="Sign out">
              <Icon name="leave" />
            </button>
          </form>
        </div>
      </div>
    </>
  );
}

function Live() {
  const live = useLive();
  return (
    <span className="live" role="status">
      {live === "live" ? <State tone="good">Live</State> : live === "lost" ? <State tone="bad">Reconnecting</State> : <State tone="busy">Connecting</State>}
    </span>
  );
}

/** A page that breaks does not take the others along. */
class Boundary extends Component<{ children: ReactNode }, { error?: unknown }> {
  override state: { error?: unknown } = {};

  static getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error };
  }

  override render(): ReactNode {
    if (this.state.error === undefined) return this.props.children;
    return (
      <Page title="Something broke">
        <ErrorNote error={this.state.error} retry={() => location.reload()} />
      </Page>
    );
  }
}
