//! Where an API key counts at all. What it may there, by its scopes, is cut from its owner's permissions (`access::policy`).

use crate::{
    auth::{Credential, Identity},
    error::Error,
};

/// Addresses at which a key could make more of itself.
const NOT_FOR_KEYS: [&str; 4] = ["/api/v1/api-keys", "/api/v1/login-links", "/api/v1/logins", "/api/v1/users"];

/// Refuses what no API key is for; other credentials are for everything.
///
/// # Errors
/// [`Error::Forbidden`].
pub(super) fn within(identity: &Identity, path: &str) -> Result<(), Error> {
    let Credential::ApiKey { .. } = &identity.credential else { return Ok(()) };
    let refused = |why: &str| Err(Error::Forbidden(format!("an API key is not for this: {why}")));
    if !path.starts_with("/api/v1/") && path != "/metrics" {
        return refused("it is for the REST API");
    }
    if NOT_FOR_KEYS.iter().any(|p| path.starts_with(p)) {
        return refused("sign in to manage users, keys, logins and sign-in links");
    }
    Ok(())
}
