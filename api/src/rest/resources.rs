//! Named resources outside of the platform, and environments that are bound to them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::ONE_LINE;
use crate::names::PATTERN;

/// What an environment's dependencies are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EnvironmentKind {
    /// Stand-ins that the template runs and fills.
    #[default]
    Mocked,
    /// Resources that are registered with the platform.
    Real,
}

/// What a resource speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResourceKind {
    /// A database of Postgres.
    Postgres,
    /// A Redis.
    Redis,
    /// A service over HTTP.
    Http,
    /// A database of MySQL or MariaDB.
    Mysql,
    /// A Kafka cluster, by one of its brokers.
    Kafka,
    /// A bucket of an object store that speaks S3: the user is the access key's id, the password its secret, the database the bucket.
    S3,
}

impl ResourceKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [Self::Postgres, Self::Redis, Self::Http, Self::Mysql, Self::Kafka, Self::S3];

    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Redis => "redis",
            Self::Http => "http",
            Self::Mysql => "mysql",
            Self::Kafka => "kafka",
            Self::S3 => "s3",
        }
    }

    /// Its usual port.
    pub const fn usual_port(self, tls: bool) -> u16 {
        match (self, tls) {
            (Self::Postgres, _) => 5432,
            (Self::Redis, _) => 6379,
            (Self::Mysql, _) => 3306,
            (Self::Kafka, _) => 9092,
            (Self::Http | Self::S3, false) => 80,
            (Self::Http | Self::S3, true) => 443,
        }
    }
}

impl std::str::FromStr for ResourceKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| {
            let all: Vec<_> = Self::ALL.into_iter().map(Self::as_str).collect();
            format!("write one of {}", all.join(", "))
        })
    }
}

/// The name of a project, or `*`, for JSON Schema.
const PROJECTS: &str = "^(\\*|[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?)$";

/// A resource that environments can be bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// Unique name.
    pub name: String,
    /// What it speaks.
    pub kind: ResourceKind,
    /// Host name or address, as the server and the pods reach it.
    pub host: String,
    /// Port.
    pub port: u16,
    /// User; empty for none.
    #[serde(default)]
    pub user: String,
    /// Database; empty for none.
    #[serde(default)]
    pub database: String,
    /// It is spoken to over TLS, with a certificate that an authority vouches for: one of `caBundle`, or of those that the server's machine
    /// trusts.
    #[serde(default)]
    pub tls: bool,
    /// Certificates of authorities (PEM) that may vouch for it; empty: those that the machine of the server trusts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ca_bundle: String,
    /// Projects whose environments may be bound to it, or name it in parameters; `*` means all.
    #[serde(default = "all_projects")]
    pub projects: Vec<String>,
    /// Whether a password is kept for it. It is never shown.
    pub has_password: bool,
    /// When it was registered.
    pub created_at: Timestamp,
}

/// What stands for all projects.
pub const ALL_PROJECTS: &str = "*";

/// Resources from before they were registered for projects are for all of them, as they were.
fn all_projects() -> Vec<String> {
    vec![ALL_PROJECTS.to_owned()]
}

impl Resource {
    /// Whether environments of a project may use it, as far as the project allows it too.
    pub fn is_for(&self, project: &str) -> bool {
        self.projects.iter().any(|p| p == project || p == ALL_PROJECTS)
    }
}

/// Body of `POST /api/v1/resources`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("examples" = [{"name": "orders", "kind": "postgres", "host": "db.example.com", "user": "orders", "database": "orders"}]))]
pub struct AddResource {
    /// Unique name: a DNS-1123 label.
    #[schemars(regex(pattern = PATTERN))]
    pub name: String,
    /// What it speaks.
    pub kind: ResourceKind,
    /// Host name or address.
    #[schemars(length(max = 253), regex(pattern = "^[-.:_0-9A-Za-z]+$"))]
    pub host: String,
    /// Port; the kind's usual one when nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// User; one of a database needs it, and whoever has a password.
    #[serde(default)]
    #[schemars(regex(pattern = ONE_LINE))]
    pub user: String,
    /// Database.
    #[serde(default)]
    #[schemars(regex(pattern = ONE_LINE))]
    pub database: String,
    /// Speak TLS.
    #[serde(default)]
    pub tls: bool,
    /// Certificates of authorities (PEM, nothing else in it) that may vouch for it, with `tls` only; empty: those that the machine of the
    /// server trusts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 65536))]
    pub ca_bundle: String,
    /// Projects that it is for; `*` means all. When nothing is said a new one is for the project `default`, and one that is replaced is for those
    /// that it was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100), inner(regex(pattern = PROJECTS)))]
    pub projects: Option<Vec<String>>,
    /// Password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
}

/// What a resource answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeResult {
    /// It can be used.
    pub ok: bool,
    /// What it is, or why it cannot be used and what to do.
    pub message: String,
    /// How long that took, in milliseconds.
    pub millis: u64,
}

/// A dependency of a template: a stand-in in environments of the kind `mocked`, a registered resource in those of the kind `real`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Binding {
    /// Its name, as in `--bind NAME=RESOURCE` and `{{ bindings.NAME.host }}`.
    pub name: String,
    /// What it speaks.
    pub kind: ResourceKind,
    /// One line for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub help: String,
    /// Where the stand-in is.
    pub mocked: StandIn,
}

/// Where a stand-in is, that manifests under `mocked/` run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StandIn {
    /// Its Service.
    pub host: String,
    /// Port.
    pub port: u16,
    /// User.
    #[serde(default)]
    pub user: String,
    /// Database.
    #[serde(default)]
    pub database: String,
    /// Name of the Secret whose key `password` has its password.
    pub secret: String,
}

/// What manifests know of a binding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bound {
    /// What it speaks.
    pub kind: ResourceKind,
    /// Host.
    pub host: String,
    /// Port.
    pub port: u16,
    /// User; empty for none.
    pub user: String,
    /// Database; empty for none.
    pub database: String,
    /// Speak TLS.
    pub tls: bool,
    /// Certificates of authorities (PEM) that vouch for it; empty: those that everybody trusts.
    #[serde(default)]
    pub ca: String,
    /// Name of the Secret whose key `password` has the password; empty when there is none.
    pub secret: String,
}

/// Bindings of an environment by their names.
pub type Bindings = BTreeMap<String, Bound>;
