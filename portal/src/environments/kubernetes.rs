//! Requests of people to the Kubernetes API of an environment, by way of the portal.

use axum::{body::Body, extract::Request, response::Response};

use super::Environments;
use crate::{
    auth::{Auth, Identity, may_use::EnvironmentUse},
    error::Error,
    ports::KubernetesUser,
};

/// A request to the Kubernetes API of an environment.
pub(crate) struct KubernetesRequest {
    /// What was taken off its path.
    pub(crate) prefix: String,
    /// The request, without what the portal's own guards have looked at.
    pub(crate) request: Request<Body>,
}

impl Environments {
    /// Answers a request as the virtual cluster does, which also records it.
    ///
    /// # Errors
    /// When there is no such environment, its user may not use it, or the store fails.
    pub(crate) async fn kubernetes(
        &self,
        auth: &Auth,
        identity: &Identity,
        name: &str,
        asked: KubernetesRequest,
    ) -> Result<Response<Body>, Error> {
        let environment = self.stored(name).await?.value;
        let admin = match auth.use_of(identity, &environment).await? {
            EnvironmentUse::Admin => true,
            EnvironmentUse::Viewer => false,
            EnvironmentUse::None => {
                return Err(Error::Forbidden(format!(
                    "you may not use environment {name:?}: ask its owner to share it with you"
                )));
            }
        };
        let KubernetesRequest { prefix, request } = asked;
        let user = KubernetesUser { name: identity.user_name().to_owned(), uid: identity.user.clone(), admin };
        Ok(self.planes.serve(&environment.name, user, prefix, request).await)
    }
}
