//! Tokens that the platform makes for its users: who has one, and what they may here, is asked for every request.

use std::sync::Arc;

use vctl_machinery::status::ApiError;

use crate::{plane::Plane, user::User};

/// The group of all users of the platform.
pub(crate) const PLATFORM_USER: &str = "vctl:user";
/// The group of those who may do everything in the cluster.
pub(crate) const PLATFORM_ADMIN: &str = "vctl:environment-admin";
/// The group of those who may see what the role `view` shows.
pub(crate) const PLATFORM_VIEWER: &str = "vctl:environment-viewer";

/// A user of the platform as a cluster sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformUser {
    /// User name.
    pub name: String,
    /// Stable id.
    pub uid: String,
    /// Whether they may do everything in this cluster, or only see what the role `view` shows.
    pub admin: bool,
}

impl From<PlatformUser> for User {
    fn from(PlatformUser { name, uid, admin }: PlatformUser) -> Self {
        let role = if admin { PLATFORM_ADMIN } else { PLATFORM_VIEWER };
        let mut user = Self::new(name, [PLATFORM_USER.to_owned(), role.to_owned()]);
        user.uid = uid;
        user
    }
}

/// Who has the tokens that the platform makes for its users.
#[async_trait::async_trait]
pub trait PlatformTokens: Send + Sync {
    /// Whether this says that it is such a token; nothing is asked for it elsewhere then.
    fn recognises(&self, token: &str) -> bool;

    /// Who has a token for this cluster, at this moment. Asked for every request, so it must be cheap; it must not keep an answer.
    ///
    /// # Errors
    /// Why it does not count, for the log.
    async fn authenticate(&self, cluster: &str, token: &str) -> Result<PlatformUser, String>;
}

/// The user of a token of the platform, for this server's own audience. None: it is no such token.
pub(super) async fn authenticate(
    plane: &Arc<Plane>,
    token: &str,
    audiences: &[String],
) -> Option<Result<(User, Vec<String>), ApiError>> {
    let tokens = plane.shared.config.platform_tokens.as_ref().filter(|t| t.recognises(token))?;
    let own = plane.keys.issuer.clone();
    if !audiences.is_empty() && !audiences.contains(&own) {
        return Some(Err(ApiError::unauthorized()));
    }
    let found = tokens.authenticate(&plane.name, token).await;
    Some(match found {
        Ok(user) => Ok((user.into(), vec![own])),
        Err(why) => {
            tracing::debug!(why, "a token of the platform was refused");
            Err(ApiError::unauthorized())
        }
    })
}
