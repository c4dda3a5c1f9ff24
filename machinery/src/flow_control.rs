//! API priority and fairness: who a request is counted with, and whose turn it is.
//!
//! * [`bootstrap`]: upstream's mandatory and suggested FlowSchemas and PriorityLevelConfigurations.
//! * [`FlowControl`]: those of a cluster, compiled; [`FlowControl::classify`] finds the schema of a request.
//! * [`Scheduler`]: seats for requests, handed out in turn to tenants, to the priority levels of a tenant, and to the flows of a level.
//!
//! Sources: apiserver `pkg/util/flowcontrol` (`rule.go`, `apf_controller.go`), `pkg/apis/flowcontrol/bootstrap`.

pub mod bootstrap;
mod rules;
mod scheduler;

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use serde_json::Value;

pub use scheduler::{Entered, Limits, Refused, Scheduler, Turn};

use rules::Rule;

/// Name of the mandatory schema and level of administrators.
pub const EXEMPT: &str = "exempt";
/// Name of the mandatory schema and level of everything else.
pub const CATCH_ALL: &str = "catch-all";

/// A request, as schemas look at it.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// User name.
    pub user: &'a str,
    /// Groups of the user.
    pub groups: &'a [String],
    /// Kubernetes' verb, or the method in lower case.
    pub verb: &'a str,
    /// What it is about.
    pub target: Target<'a>,
}

/// What a request is about.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// A resource of an API group.
    Resource {
        /// Group; empty for the core one.
        group: &'a str,
        /// Plural.
        resource: &'a str,
        /// Subresource, or empty.
        subresource: &'a str,
        /// Namespace, or empty.
        namespace: &'a str,
    },
    /// A path.
    Path(&'a str),
}

/// A priority level: who shares its seats waits together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// Name of the PriorityLevelConfiguration.
    pub name: String,
    /// Its UID; empty when it is mandatory and not stored.
    pub uid: String,
    /// Shares of the cluster's seats; also its weight when several levels wait.
    pub shares: u32,
    /// Percent of its seats that others may use.
    pub lendable: u32,
    /// Percent of its seats that it may use of others at most.
    pub borrowing_limit: Option<u32>,
    /// Requests of one flow that may wait; none: there is no waiting, a request without a seat is refused.
    pub queue_length: Option<usize>,
    /// Bound by nothing but the tenant's share.
    pub exempt: bool,
    /// Percent of the tenant's seats that it may use, its own and what it can borrow.
    pub percent: u32,
}

impl Level {
    /// Seats that requests of this level may have at a time, of a tenant's `seats`: at least one.
    pub fn seats(&self, seats: usize) -> usize {
        if self.exempt { seats } else { (seats * self.percent as usize).div_ceil(100).clamp(1, seats.max(1)) }
    }
}

/// What a request is counted with.
#[derive(Debug, Clone)]
pub struct Classified<'a> {
    /// Name of the FlowSchema.
    pub schema: &'a str,
    /// Its UID; empty when it is mandatory and not stored.
    pub schema_uid: &'a str,
    /// The priority level.
    pub level: &'a Arc<Level>,
    /// The flow: requests of one flow wait in one queue.
    pub flow: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Distinguisher {
    None,
    User,
    Namespace,
}

#[derive(Debug)]
struct Schema {
    name: String,
    uid: String,
    precedence: i64,
    level: Arc<Level>,
    distinguisher: Distinguisher,
    rules: Vec<Rule>,
}

/// The FlowSchemas and PriorityLevelConfigurations of a cluster, ready for use. What is mandatory is there also when it is not stored.
#[derive(Debug)]
pub struct FlowControl {
    /// In order of precedence; the last one is `catch-all`.
    schemas: Vec<Schema>,
}

impl FlowControl {
    /// Compiles the objects of a cluster. Schemas whose level does not exist are left out.
    pub fn new(schemas: &[Value], levels: &[Value]) -> Self {
        let mut by_name: HashMap<String, Level> = HashMap::new();
        let mandatory = bootstrap::mandatory_levels();
        for object in mandatory.iter().chain(levels) {
            let level = level(object);
            by_name.insert(level.name.clone(), level);
        }
        share_out(&mut by_name);
        let by_name: HashMap<String, Arc<Level>> = by_name.into_iter().map(|(k, l)| (k, Arc::new(l))).collect();
        let missing = bootstrap::mandatory_schemas();
        let missing = missing.iter().filter(|m| !schemas.iter().any(|s| name(s) == name(m)));
        let mut schemas: Vec<Schema> = schemas.iter().chain(missing).filter_map(|s| schema(s, &by_name)).collect();
        schemas.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
        Self { schemas }
    }

    /// The first schema that is for the request; none only for a user without any group, which authentication never makes.
    pub fn classify(&self, request: &Request<'_>) -> Option<Classified<'_>> {
        let found = self.schemas.iter().find(|s| s.rules.iter().any(|r| r.matches(request)));
        let schema = found.or_else(|| self.schemas.iter().find(|s| s.name == CATCH_ALL))?;
        let distinguished = match (schema.distinguisher, request.target) {
            (Distinguisher::User, _) => request.user,
            (Distinguisher::Namespace, Target::Resource { namespace, .. }) => namespace,
            (Distinguisher::Namespace, Target::Path(_)) | (Distinguisher::None, _) => "",
        };
        let mut hash = DefaultHasher::new();
        (&schema.name, distinguished).hash(&mut hash);
        Some(Classified { schema: &schema.name, schema_uid: &schema.uid, level: &schema.level, flow: hash.finish() })
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

fn level(object: &Value) -> Level {
    let spec = &object["spec"];
    let exempt = spec["type"] == "Exempt";
    let settings = if exempt { &spec["exempt"] } else { &spec["limited"] };
    let number =
        |field: &str, default: u32| settings[field].as_u64().map_or(default, |n| u32::try_from(n).unwrap_or(u32::MAX));
    let queuing = &settings["limitResponse"];
    let queues = queuing["type"] == "Queue";
    Level {
        name: name(object).to_owned(),
        uid: uid(object),
        shares: number("nominalConcurrencyShares", if exempt { 0 } else { 30 }),
        lendable: number("lendablePercent", 0).min(100),
        borrowing_limit: settings["borrowingLimitPercent"].as_u64().map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
        queue_length: queues.then(|| queuing["queuing"]["queueLengthLimit"].as_u64().unwrap_or(50) as usize),
        exempt,
        percent: 100,
    }
}

/// Works out what part of a tenant's seats each level may use: its own by its shares, and what the others lend.
fn share_out(levels: &mut HashMap<String, Level>) {
    let total: u64 = levels.values().map(|l| u64::from(l.shares)).sum::<u64>().max(1);
    let own = |level: &Level| u64::from(level.shares) * 100 / total;
    let lent = |level: &Level| own(level) * u64::from(level.lendable) / 100;
    let all_lent: u64 = levels.values().map(lent).sum();
    for level in levels.values_mut().filter(|l| !l.exempt) {
        let limit = level.borrowing_limit.map_or(u64::MAX, |percent| own(level) * u64::from(percent) / 100);
        let borrowed = (all_lent - lent(level)).min(limit);
        level.percent = u32::try_from((own(level) + borrowed).min(100)).unwrap_or(100);
    }
}

fn schema(object: &Value, levels: &HashMap<String, Arc<Level>>) -> Option<Schema> {
    let spec = &object["spec"];
    let level = levels.get(spec["priorityLevelConfiguration"]["name"].as_str()?)?.clone();
    let distinguisher = match spec["distinguisherMethod"]["type"].as_str() {
        Some("ByUser") => Distinguisher::User,
        Some("ByNamespace") => Distinguisher::Namespace,
        _ => Distinguisher::None,
    };
    Some(Schema {
        name: name(object).to_owned(),
        uid: uid(object),
        precedence: spec["matchingPrecedence"].as_i64().unwrap_or(1000),
        level,
        distinguisher,
        rules: spec["rules"].as_array().into_iter().flatten().map(Rule::new).collect(),
    })
}

/// The `Dangling` condition that a FlowSchema should have: it says whether its priority level exists.
pub fn dangling(level: &str, exists: bool, now: &str) -> Value {
    let (status, reason, end) =
        if exists { ("False", "Found", "and it exists") } else { ("True", "NotFound", "but there is no such object") };
    serde_json::json!({
        "type": "Dangling", "status": status, "lastTransitionTime": now, "reason": reason,
        "message": format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} {end}"),
    })
}

#[cfg(test)]
mod tests;
