//! Requests of people to the Kubernetes API of an environment, by way of the portal.

use axum::{body::Body, extract::Request, response::Response};
use serde_json::json;

use super::{Caller, Environments};
use crate::{
    audit::{Subject, entry},
    auth::{Auth, Identity, may_use::EnvironmentUse},
    error::Error,
    ports::KubernetesUser,
};

/// Reviews ask and change nothing.
const REVIEWS: [&str; 2] = ["/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/"];

/// A request to the Kubernetes API of an environment.
pub(crate) struct KubernetesRequest {
    /// What was taken off its path.
    pub(crate) prefix: String,
    /// Its path, decoded.
    pub(crate) path: String,
    /// The verb that goes into the audit trail; none for what only reads.
    pub(crate) audited: Option<&'static str>,
    /// The request, without what the portal's own guards have looked at.
    pub(crate) request: Request<Body>,
}

impl Environments {
    /// Answers a request as the virtual cluster does. A change has its entry in the audit trail before it is made.
    ///
    /// # Errors
    /// When there is no such environment, its user may not use it, or the store fails.
    pub(crate) async fn kubernetes(
        &self,
        auth: &Auth,
        identity: &Identity,
        caller: Caller<'_>,
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
        let KubernetesRequest { prefix, path, audited, request } = asked;
        let dry_run = request.uri().query().is_some_and(|q| q.split('&').any(|p| p == "dryRun=All"));
        if let Some(verb) = audited.filter(|_| !dry_run && !REVIEWS.iter().any(|r| path.starts_with(r))) {
            let action = format!("kubernetes.{verb}");
            let detail = json!({ "path": path });
            let entry = entry(self.clock.now(), caller, &action, Subject::environment(&environment), detail)?;
            self.documents.transact(vec![entry]).await?;
        }
        let user = KubernetesUser { name: identity.user_name().to_owned(), uid: identity.user.clone(), admin };
        Ok(self.planes.serve(&environment.name, user, prefix, request).await)
    }
}
