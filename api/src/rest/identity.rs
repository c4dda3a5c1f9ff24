//! Who is signed in, by what, and what is made for them.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::ONE_LINE;

/// Answer of `POST /api/v1/login-links`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginLink {
    /// Opens the portal signed in; works once.
    pub url: String,
    /// When it stops working.
    pub expires_at: Timestamp,
}

/// Answer of `GET /api/v1/identity`: whoever asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdentityView {
    /// Stable id: `local-admin`, or `ISSUER-NAME:SUB`.
    pub user: String,
    /// As the audit trail says it.
    pub actor: String,
    /// Name for people.
    pub name: String,
    /// Verified email address.
    pub email: Option<String>,
    /// Groups that the issuer said last.
    pub groups: Vec<String>,
    /// By what: `administrator`, `session`, `access-token` or `api-key`.
    pub credential: String,
    /// What an API key may be used for; none for other credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Scopes>,
}

/// Somebody whom an issuer has signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// `ISSUER-NAME:SUB`.
    pub id: String,
    /// Name of the issuer in the server's configuration.
    pub issuer: String,
    /// Name for people.
    pub name: String,
    /// Verified email address.
    pub email: Option<String>,
    /// Groups that the issuer said last.
    pub groups: Vec<String>,
    /// When they first signed in.
    pub created_at: Timestamp,
    /// When they last signed in.
    pub last_sign_in: Timestamp,
    /// Nothing of theirs counts.
    pub disabled: bool,
}

/// Body of `PATCH /api/v1/users/ID`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeUser {
    /// Whether nothing of theirs is to count.
    pub disabled: bool,
}

/// What may be done with an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeyVerb {
    /// Requests that change nothing; inside of environments, what a viewer may.
    Read,
    /// Requests that change something.
    Write,
}

/// What an API key may be used for, within what its owner may.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scopes {
    /// What may be done.
    #[schemars(length(min = 1))]
    pub verbs: Vec<KeyVerb>,
    /// Only with environments of this project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only with this environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
}

/// Body of `POST /api/v1/api-keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("examples" = [{"name": "ci", "scopes": {"verbs": ["read"]}, "expiresAt": "2030-01-01T00:00:00Z"}]))]
pub struct CreateApiKey {
    /// What people call it.
    #[schemars(length(min = 1, max = 64), regex(pattern = ONE_LINE))]
    pub name: String,
    /// What it may be used for.
    pub scopes: Scopes,
    /// When it ends: at most a year from now.
    pub expires_at: Timestamp,
}

/// A key for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKey {
    /// Its id, which is no secret.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Id of the user whose it is.
    pub user: String,
    /// What it may be used for.
    pub scopes: Scopes,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends.
    pub expires_at: Timestamp,
    /// When it was last used, to five minutes.
    pub last_used_at: Option<Timestamp>,
}

/// Answer of `POST /api/v1/api-keys`: the only time that the key is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewApiKey {
    /// What it is.
    #[serde(flatten)]
    pub key: ApiKey,
    /// The secret to send as `Authorization: Bearer`.
    pub token: String,
}

/// A login of the command line on some machine: what `vctl login` makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientLogin {
    /// Its id, which is no secret.
    pub id: String,
    /// Id of the user whose it is.
    pub user: String,
    /// Who signed in, as the audit trail says it.
    pub actor: String,
    /// The machine, as it calls itself.
    pub client: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last got an access token.
    pub used_at: Timestamp,
    /// When it ends unless it is used before.
    pub expires_at: Timestamp,
    /// This request came by it.
    pub current: bool,
}

/// Answer of `POST /api/v1/environments/NAME/compact`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compacted {
    /// The oldest revision that can be read or watched from now on.
    pub revision: u64,
}

/// Answer of `POST /api/v1/reencrypt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reencrypted {
    /// Values that were encrypted anew.
    pub values: u64,
}

/// Body of `POST /api/v1/environments/NAME/token`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateEnvironmentToken {
    /// A token that outlives the session or login it was made with, for this many seconds (at most 30 days). None: one of ten minutes,
    /// which ends with that session or login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 2_592_000))]
    pub ttl_seconds: Option<u64>,
}

/// Answer of `POST /api/v1/environments/NAME/token`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentToken {
    /// Bearer token for the Kubernetes API of the environment.
    pub token: String,
    /// When it ends.
    pub expires_at: Timestamp,
}

/// Answer of `POST /oauth/token` (RFC 6749, section 5.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenResponse {
    /// Short-lived: `Authorization: Bearer`.
    pub access_token: String,
    /// `Bearer`.
    pub token_type: String,
    /// Seconds that the access token is good for.
    pub expires_in: u64,
    /// Good for one refresh. None when another refresh has just happened: its answer has the new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// Who has signed in, as the audit trail says it.
    pub actor: String,
}

/// Error of `/oauth` (RFC 6749, section 5.2, and RFC 8628, section 3.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OauthError {
    /// Short name: `invalid_grant`, `authorization_pending`, ..
    pub error: String,
    /// For people.
    pub error_description: String,
}

/// Answer of `POST /oauth/device_authorization` (RFC 8628, section 3.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceAuthorization {
    /// What the command line asks with.
    pub device_code: String,
    /// What the person types.
    pub user_code: String,
    /// Where they type it.
    pub verification_uri: String,
    /// The same with the code filled in.
    pub verification_uri_complete: String,
    /// Seconds until both end.
    pub expires_in: u64,
    /// Seconds between questions.
    pub interval: u64,
}
