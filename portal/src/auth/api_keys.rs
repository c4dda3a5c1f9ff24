//! Keys for programs: what their owner may, within scopes, until they expire.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use vctl_api::rest::{ApiKey, CreateApiKey, NewApiKey, Scopes};
use vctl_store::{Expect, StoreError, Write};

use super::{Auth, Credential, Identity, Origin, digest, secret, secrets::id};
use crate::{
    documents::{Document, EnvironmentDoc, audit, put, remove},
    environments::Caller,
    error::Error,
};

/// Marks our keys, so that scanners for leaked secrets can recognise one.
const PREFIX: &str = "vctl_key_";
/// Longest life of a key.
const MAX_LIFE: SignedDuration = SignedDuration::from_hours(24 * 366);
/// `last_used_at` is written at most so often.
const USED_STEP: SignedDuration = SignedDuration::from_mins(5);
/// Most keys of a user.
const MAX_KEYS: usize = 100;

/// A key as it is kept.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiKeyDoc {
    id: String,
    name: String,
    user: String,
    /// SHA-256 of the key.
    digest: String,
    scopes: Scopes,
    created_at: Timestamp,
    expires_at: Timestamp,
    last_used_at: Option<Timestamp>,
}

impl Document for ApiKeyDoc {
    const RESOURCE: &'static str = "apikeys.vctl.dev";
    #[expect(clippy::misnamed_getters, reason = "a document is named by its id; `name` is for people")]
    fn name(&self) -> &str {
        &self.id
    }
}

impl ApiKeyDoc {
    fn view(self) -> ApiKey {
        let Self { id, name, user, scopes, created_at, expires_at, last_used_at, .. } = self;
        ApiKey { id, name, user, scopes, created_at, expires_at, last_used_at }
    }
}

impl Credential {
    /// Whether the credential reaches this environment; whether its user may is another question.
    pub(crate) fn covers(&self, environment: &EnvironmentDoc) -> bool {
        let Self::ApiKey { scopes, .. } = self else { return true };
        let named = scopes.environment.as_ref().is_none_or(|name| name == environment.name.as_str());
        named && scopes.project.as_ref().is_none_or(|project| *project == environment.project)
    }
}

impl Auth {
    /// Makes a key; its secret is in the answer and nowhere else.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name, scope or end that makes no sense.
    pub(crate) async fn create_api_key(&self, caller: Caller<'_>, request: CreateApiKey) -> Result<NewApiKey, Error> {
        let now = self.clock.now();
        let invalid = |why: &str| Error::invalid("invalid-api-key", why);
        let CreateApiKey { name, mut scopes, expires_at } = request;
        if name.is_empty() || name.chars().count() > 64 || name.chars().any(char::is_control) {
            return Err(invalid("name must be 1 to 64 characters"));
        }
        scopes.verbs.sort_unstable();
        scopes.verbs.dedup();
        if scopes.verbs.is_empty() {
            return Err(invalid("scopes.verbs must have read, write or both"));
        }
        if expires_at <= now || expires_at.duration_since(now) > MAX_LIFE {
            return Err(invalid("expiresAt must be in the future, and at most a year from now"));
        }
        let (all, _) = self.documents.list::<ApiKeyDoc>().await?;
        if all.iter().filter(|k| k.value.user == caller.user).count() >= MAX_KEYS {
            return Err(invalid("you have 100 keys: delete those that nobody uses"));
        }
        let id = id();
        let token = format!("{PREFIX}{id}_{}", secret());
        let key = ApiKeyDoc {
            id,
            name,
            user: caller.user.to_owned(),
            digest: digest(&token),
            scopes,
            created_at: now,
            expires_at,
            last_used_at: None,
        };
        let detail = json!({"name": key.name, "scopes": key.scopes, "expiresAt": key.expires_at});
        let writes = vec![
            put(&key, Expect::Absent)?,
            audit(now, caller.actor, "api-key.create", &key.id, caller.request_id, detail)?,
        ];
        self.documents.transact(writes).await?;
        Ok(NewApiKey { key: key.view(), token })
    }

    /// The keys of a user; of all when none is named.
    pub(crate) async fn api_keys(&self, user: Option<&str>) -> Result<Vec<ApiKey>, Error> {
        let (mut all, _) = self.documents.list::<ApiKeyDoc>().await?;
        all.retain(|k| user.is_none_or(|user| k.value.user == user));
        all.sort_by(|a, b| (&a.value.name, a.created).cmp(&(&b.value.name, b.created)));
        Ok(all.into_iter().map(|k| k.value.view()).collect())
    }

    /// Ends a key: one's own, or anybody's for the administrator.
    ///
    /// # Errors
    /// [`Error::NotFound`], also for somebody else's.
    pub(crate) async fn delete_api_key(&self, caller: Caller<'_>, identity: &Identity, id: &str) -> Result<(), Error> {
        let found = self.documents.get::<ApiKeyDoc>(id).await?;
        let own = found.filter(|k| k.value.user == identity.user || identity.is_local_admin());
        let none = || Error::NotFound { what: "API key", name: id.to_owned(), nearest: Vec::new() };
        let key = own.ok_or_else(none)?;
        let detail = json!({"name": key.value.name, "user": key.value.user});
        let writes = vec![
            remove::<ApiKeyDoc>(id, Expect::Any),
            audit(self.clock.now(), caller.actor, "api-key.delete", id, caller.request_id, detail)?,
        ];
        match self.documents.transact(writes).await {
            Ok(_) => Ok(()),
            Err(StoreError::Conflict { .. }) => Err(none()),
            Err(e) => Err(e.into()),
        }
    }

    pub(super) fn is_api_key(token: &str) -> bool {
        token.starts_with(PREFIX)
    }

    /// Who has this key.
    pub(super) async fn by_api_key(&self, token: &str) -> Result<Identity, Error> {
        let id = token.strip_prefix(PREFIX).and_then(|t| t.split_once('_')).map_or("", |(id, _)| id);
        let stored = self.documents.get::<ApiKeyDoc>(id).await?.filter(|k| k.value.digest == digest(token));
        let Some(stored) = stored else { return Err(gone()) };
        let identity = self.by_api_key_id(id).await?;
        let now = self.clock.now();
        if stored.value.last_used_at.is_none_or(|at| now.duration_since(at) >= USED_STEP) {
            let used = ApiKeyDoc { last_used_at: Some(now), ..stored.value };
            self.settle(vec![put(&used, Expect::Revision(stored.revision))?]).await?;
        }
        Ok(identity)
    }

    /// Whose key this is, while it counts.
    pub(super) async fn by_api_key_id(&self, id: &str) -> Result<Identity, Error> {
        let key = self.documents.get::<ApiKeyDoc>(id).await?.map(|k| k.value);
        let key = key.filter(|k| self.clock.now() < k.expires_at).ok_or_else(gone)?;
        let credential = Credential::ApiKey { id: key.id.clone(), scopes: key.scopes };
        self.identify(&key.user, credential, None, Origin::ApiKey(key.id)).await
    }

    pub(super) async fn api_keys_of(&self, user: &str) -> Result<Vec<Write>, Error> {
        let (all, _) = self.documents.list::<ApiKeyDoc>().await?;
        let own = all.iter().filter(|k| k.value.user == user);
        Ok(own.map(|k| remove::<ApiKeyDoc>(&k.value.id, Expect::Any)).collect())
    }
}

fn gone() -> Error {
    Error::Unauthorized("the API key is not valid: it was deleted, has expired, or is mistyped".to_owned())
}
