//! What lists can be sorted and filtered by.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use vctl_api::rest::{
    ApiKey, ApprovalRule, ClientLogin, CurrentUsage, Project, Resource, Role, Team, Template, TemplateSource,
    TemplateVersion, User, Webhook, Worker,
};

use super::{Cell, Column, Listed};
use crate::{
    access::role::BUILT_IN,
    approvals::documents::ApprovalDoc,
    documents::{EnvironmentDoc, JobDoc, Stored},
};

/// What an enumeration is called in JSON.
fn word(value: impl Serialize) -> Cell {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => Cell::Text(text),
        _ => Cell::NONE,
    }
}

fn time(at: Option<Timestamp>) -> Cell {
    at.map_or(Cell::NONE, Cell::time)
}

const fn filter<T>(name: &'static str, of: fn(&T) -> Cell) -> Column<T> {
    Column { name, of, filter: true }
}

const fn column<T>(name: &'static str, of: fn(&T) -> Cell) -> Column<T> {
    Column { name, of, filter: false }
}

impl Listed for Stored<Arc<EnvironmentDoc>> {
    const COLUMNS: &'static [Column<Self>] = &[
        filter("name", |e| Cell::text(e.value.name.as_str())),
        filter("project", |e| Cell::text(&e.value.project)),
        filter("owner", |e| Cell::text(&e.value.owner)),
        filter("template", |e| Cell::text(&e.value.template)),
        filter("templateVersion", |e| Cell::text(&e.value.template_version)),
        filter("phase", |e| word(e.value.phase)),
        filter("kind", |e| word(e.value.kind)),
        column("createdAt", |e| Cell::time(e.value.created_at)),
        column("readyAt", |e| time(e.value.ready_at)),
        column("kubernetesVersion", |e| Cell::text(e.value.kubernetes_version.to_string())),
        column("message", |e| Cell::text(&e.value.message)),
    ];
}

impl Listed for Stored<JobDoc> {
    const COLUMNS: &'static [Column<Self>] = &[
        column("id", |j| Cell::text(&j.value.id)),
        filter("environment", |j| Cell::text(j.value.environment.as_str())),
        filter("operation", |j| word(j.value.operation)),
        filter("state", |j| word(j.value.state)),
        filter("project", |j| Cell::text(&j.value.project)),
        column("createdAt", |j| Cell::time(j.value.created_at)),
        column("finishedAt", |j| time(j.value.finished_at)),
        column("error", |j| Cell::text(&j.value.error)),
    ];
    const NEWEST_FIRST: bool = true;
    const USUAL: Option<usize> = Some(100);
}

impl Listed for Stored<ApprovalDoc> {
    const COLUMNS: &'static [Column<Self>] = &[
        column("id", |a| Cell::text(&a.value.id)),
        filter("state", |a| word(a.value.state)),
        filter("kind", |a| word(a.value.kind)),
        filter("project", |a| Cell::text(&a.value.project)),
        filter("environment", |a| a.value.environment.as_deref().map_or(Cell::NONE, Cell::text)),
        filter("requestedBy", |a| Cell::text(&a.value.requested_by)),
        column("createdAt", |a| Cell::time(a.value.created_at)),
    ];
    const NEWEST_FIRST: bool = true;
    const USUAL: Option<usize> = Some(100);
}

impl Listed for ApprovalRule {
    const COLUMNS: &'static [Column<Self>] = &[filter("name", |r| Cell::text(&r.name))];
}

impl Listed for Webhook {
    const COLUMNS: &'static [Column<Self>] = &[filter("name", |w| Cell::text(&w.name))];
}

impl Listed for Template {
    const COLUMNS: &'static [Column<Self>] = &[
        filter("name", |t| Cell::text(&t.name)),
        column("title", |t| Cell::text(&t.title)),
        column("version", |t| Cell::text(&t.version)),
    ];
}

impl Listed for TemplateSource {
    const COLUMNS: &'static [Column<Self>] = &[
        filter("name", |s| Cell::text(&s.name)),
        filter("url", |s| Cell::text(&s.url)),
        column("createdAt", |s| Cell::time(s.created_at)),
        column("lastSync", |s| time(s.last_sync.as_ref().map(|last| last.at))),
    ];
}

impl Listed for Resource {
    const COLUMNS: &'static [Column<Self>] = &[
        filter("name", |r| Cell::text(&r.name)),
        filter("kind", |r| word(r.kind)),
        column("host", |r| Cell::text(&r.host)),
        column("createdAt", |r| Cell::time(r.created_at)),
    ];
}

impl Listed for Worker {
    const COLUMNS: &'static [Column<Self>] = &[
        filter("name", |w| Cell::text(&w.name)),
        filter("kind", |w| Cell::text(&w.kind)),
        column("pods", |w| Cell::Number(w.pods.into())),
        column("cpuMillis", |w| Cell::Number(w.cpu_millis)),
        column("memoryBytes", |w| Cell::Number(w.memory_bytes)),
        column("lastSeen", |w| time(w.last_seen)),
    ];
}

impl Listed for Project {
    const COLUMNS: &'static [Column<Self>] = &[
        filter("name", |p| Cell::text(&p.name)),
        column("title", |p| Cell::text(&p.settings.title)),
        column("createdAt", |p| time(p.created_at)),
    ];
}

impl Listed for Team {
    const COLUMNS: &'static [Column<Self>] =
        &[filter("name", |t| Cell::text(&t.name)), column("title", |t| Cell::text(&t.settings.title))];
}

impl Listed for User {
    const COLUMNS: &'static [Column<Self>] = &[
        filter("id", |u| Cell::text(&u.id)),
        column("name", |u| Cell::text(&u.name)),
        filter("email", |u| u.email.as_ref().map_or(Cell::NONE, Cell::text)),
        filter("issuer", |u| Cell::text(&u.issuer)),
        filter("disabled", |u| Cell::text(u.disabled.to_string())),
        column("createdAt", |u| Cell::time(u.created_at)),
        column("lastSignIn", |u| Cell::time(u.last_sign_in)),
    ];
}

/// The built-in ones first, from the weakest, then the others by name.
fn rank(role: &Role) -> Cell {
    let built_in = BUILT_IN.iter().position(|one| one.name == role.name).filter(|_| role.built_in);
    Cell::Text(built_in.map_or_else(|| format!("1{}", role.name), |at| format!("0{at:04}")))
}

impl Listed for Role {
    const COLUMNS: &'static [Column<Self>] = &[
        column("rank", rank),
        filter("name", |r| Cell::text(&r.name)),
        column("title", |r| Cell::text(&r.settings.title)),
        filter("builtIn", |r| Cell::text(r.built_in.to_string())),
    ];
}

/// A semantic version as a text that sorts as it does (semver 2.0.0, section 11).
fn precedence(version: &str) -> Cell {
    let Ok(version) = semver::Version::parse(version) else { return Cell::text(format!("!{version}")) };
    let part = |part: &str| match part.parse::<u64>() {
        Ok(number) => format!("0{number:020}"),
        Err(_) => format!("1{part}"),
    };
    // What is released comes after everything that came before it.
    let before: Vec<String> = version.pre.split('.').filter(|p| !p.is_empty()).map(part).collect();
    let before = if before.is_empty() { "~".to_owned() } else { before.join(" ") };
    // The end of it comes before whatever could follow in a longer one.
    Cell::Text(format!(
        "{:020}.{:020}.{:020}-{before}\u{1}{}",
        version.major, version.minor, version.patch, version.build
    ))
}

impl Listed for TemplateVersion {
    const COLUMNS: &'static [Column<Self>] = &[
        column("precedence", |v| precedence(&v.version)),
        filter("version", |v| Cell::text(&v.version)),
        column("publishedAt", |v| time(v.published_at)),
        filter("publishedBy", |v| Cell::text(&v.published_by)),
        filter("yanked", |v| Cell::text(v.yanked.to_string())),
    ];
    const NEWEST_FIRST: bool = true;
}

/// By name and age. Names are not unique, ids are.
impl Listed for ApiKey {
    const COLUMNS: &'static [Column<Self>] = &[
        column("name", |k| Cell::Text(format!("{}\0{:020}\0{}", k.name, k.created_at.as_microsecond(), k.id))),
        filter("id", |k| Cell::text(&k.id)),
        filter("user", |k| Cell::text(&k.user)),
        column("createdAt", |k| Cell::time(k.created_at)),
        column("expiresAt", |k| Cell::time(k.expires_at)),
        column("lastUsedAt", |k| time(k.last_used_at)),
    ];
}

impl Listed for CurrentUsage {
    const COLUMNS: &'static [Column<Self>] = &[
        filter("environment", |u| Cell::text(&u.environment)),
        column("cpuNanoCores", |u| Cell::Number(i64::try_from(u.point.cpu_nano_cores).unwrap_or(i64::MAX))),
        column("memoryBytes", |u| Cell::Number(i64::try_from(u.point.memory_bytes).unwrap_or(i64::MAX))),
        column("requests", |u| Cell::Number(i64::try_from(u.point.requests).unwrap_or(i64::MAX))),
    ];
}

impl Listed for ClientLogin {
    const COLUMNS: &'static [Column<Self>] = &[
        filter("id", |l| Cell::text(&l.id)),
        filter("user", |l| Cell::text(&l.user)),
        filter("client", |l| Cell::text(&l.client)),
        column("createdAt", |l| Cell::time(l.created_at)),
        column("usedAt", |l| Cell::time(l.used_at)),
        column("expiresAt", |l| Cell::time(l.expires_at)),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_by_their_precedence() {
        let order = [
            "0.9.0",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-rc.2",
            "1.0.0-rc.11",
            "1.0.0",
            "1.10.0",
        ];
        let mut sorted = order.to_vec();
        sorted.sort_by_key(|v| precedence(v));
        assert_eq!(sorted, order);
    }
}
