//! Another certificate authority for a cluster; see [`crate::keys`] for the steps.

use std::time::Duration;

use jiff::Timestamp;
use vctl_api::names::EnvironmentName;
use vctl_machinery::{selector::LabelSelector, status::ApiError};
use vctl_runtime::serve::Tls;
use vctl_store::Tenant;

use super::{ControlPlanes, check_authentication};
use crate::{
    audit::AuditPolicy,
    controllers::{Roots, root_ca},
    keys::{self, KeysDocument},
    storage,
    user::User,
};

/// The identity that distributes certificates, as the controller of the same purpose.
const PUBLISHER: &str = "system:serviceaccount:kube-system:root-ca-certificate-publisher";

impl ControlPlanes {
    /// First step: makes the next authority, which is believed from now on; the present one still signs. Repeated, it changes nothing;
    /// neither does it while the authority before the present one is still believed, if that is to end `now`.
    ///
    /// # Errors
    /// 404 when there is no such cluster; 409 while the authority before the present one is still believed, unless `now`.
    pub async fn announce_authority(&self, name: &EnvironmentName, now: bool) -> Result<(), ApiError> {
        let at = self.shared.config.clock.now();
        let change = |document: &mut KeysDocument| {
            if now && document.changes_at().is_some_and(|until| at < until) {
                return Ok(false);
            }
            document.announce(name.as_str(), at)
        };
        self.edit(name, change).await.map(drop)
    }

    /// Second step: every namespace's `kube-root-ca.crt` holds all authorities that are believed.
    ///
    /// # Errors
    /// When one cannot be written; what was written stays.
    pub async fn publish_roots(&self, name: &EnvironmentName) -> Result<(), ApiError> {
        let roots = self.roots_of(self.tenant(name).await?).await?;
        let client = self.client(name, User::internal(PUBLISHER));
        let namespaces = client.list("namespaces", "", &LabelSelector::default()).await?.items;
        for namespace in &namespaces {
            root_ca::publish(&*client, namespace, &roots.pem).await?;
        }
        Ok(())
    }

    /// Third step: the announced authority signs; certificates of the one before count until `overlap` from now. Repeated, it changes
    /// nothing.
    ///
    /// # Errors
    /// 404 when there is no such cluster.
    pub async fn switch_authority(&self, name: &EnvironmentName, overlap: Duration) -> Result<(), ApiError> {
        let until = self.shared.config.clock.now().checked_add(overlap).unwrap_or(Timestamp::MAX);
        self.edit(name, |document| Ok(document.switch(until))).await.map(drop)
    }

    /// Last step: certificates of the authority before the present one do not count any more. Happens by itself at the end of the
    /// overlap.
    ///
    /// # Errors
    /// 404 when there is no such cluster.
    pub async fn drop_authority(&self, name: &EnvironmentName) -> Result<(), ApiError> {
        self.edit(name, |document| Ok(document.finish())).await.map(drop)
    }

    /// Sets whose tokens count besides the cluster's own: an AuthenticationConfiguration, or none.
    ///
    /// # Errors
    /// 404 when there is no such cluster; 400 with everything that is wrong with the configuration.
    pub async fn set_authentication(
        &self,
        name: &EnvironmentName,
        configuration: Option<serde_json::Value>,
    ) -> Result<(), ApiError> {
        if let Some(configuration) = &configuration {
            check_authentication(configuration).map_err(ApiError::bad_request)?;
        }
        let change = |document: &mut KeysDocument| {
            let changes = document.authentication != configuration;
            document.authentication.clone_from(&configuration);
            Ok(changes)
        };
        self.edit(name, change).await.map(drop)
    }

    /// Sets what is recorded of requests: a Policy of `audit.k8s.io/v1`, or none for the server's own.
    ///
    /// # Errors
    /// 404 when there is no such cluster; 400 with everything that is wrong with the policy.
    pub async fn set_audit_policy(
        &self,
        name: &EnvironmentName,
        policy: Option<serde_json::Value>,
    ) -> Result<(), ApiError> {
        if let Some(policy) = &policy {
            AuditPolicy::new(policy).map_err(|e| ApiError::bad_request(e.to_string()))?;
        }
        let change = |document: &mut KeysDocument| {
            let changes = document.audit_policy != policy;
            document.audit_policy.clone_from(&policy);
            Ok(changes)
        };
        self.edit(name, change).await.map(drop)
    }

    /// What serves the pods of a cluster over TLS; none where the server's own certificate does.
    ///
    /// # Errors
    /// 404 when there is no such cluster.
    pub async fn in_cluster_tls(&self, name: &str) -> Result<Option<Tls>, ApiError> {
        self.plane(name).await?.in_cluster_tls().await
    }

    async fn tenant(&self, name: &EnvironmentName) -> Result<Tenant, ApiError> {
        let info = self.shared.store.tenant(name.as_str()).await.map_err(storage::error)?;
        Ok(info.ok_or_else(storage::gone)?.tenant)
    }

    /// Changes a cluster's keys; the next request meets the new ones.
    async fn edit(
        &self,
        name: &EnvironmentName,
        change: impl Fn(&mut KeysDocument) -> Result<bool, ApiError> + Send + Sync,
    ) -> Result<KeysDocument, ApiError> {
        let tenant = self.tenant(name).await?;
        let document = keys::edit(&*self.shared.store, tenant, change).await?;
        // The feed says so too, but a request that comes before that must not meet the old keys.
        self.lock().retain(|_, p| p.tenant != tenant);
        Ok(document)
    }

    /// What pods must trust; an authority whose time is over goes for good.
    pub(super) async fn roots_of(&self, tenant: Tenant) -> Result<Roots, ApiError> {
        let now = self.shared.config.clock.now();
        let document = keys::edit(&*self.shared.store, tenant, |document| Ok(document.expire(now))).await?;
        Ok(Roots { pem: document.roots(&self.shared.config.server_ca_pem), changes_at: document.changes_at() })
    }
}
