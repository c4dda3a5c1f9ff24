//! The virtual API servers as the syncer needs them.

use std::sync::Arc;

use serde_json::Value;
use vctl_api::names::EnvironmentName;
use vctl_machinery::status::ApiError;
use vctl_runtime::serve::{Peer, Server};
use vctl_syncer::ports::{Caller, Duplex, VirtualApi};
use vctl_vcluster::{ControlPlanes, User, client::Client};

/// Calls as nodes, and the TLS server that answers pods.
pub(crate) struct NodeApi {
    pub(crate) planes: ControlPlanes,
    pub(crate) server: Server,
}

impl NodeApi {
    fn client(&self, caller: Caller<'_>) -> Result<Arc<dyn Client>, ApiError> {
        let name = EnvironmentName::new(caller.environment).map_err(|e| ApiError::bad_request(e.to_string()))?;
        Ok(self.planes.client(&name, User::internal(format!("system:node:{}", caller.node))))
    }
}

#[async_trait::async_trait]
impl VirtualApi for NodeApi {
    async fn get(&self, caller: Caller<'_>, resource: &str, namespace: &str, name: &str) -> Result<Value, ApiError> {
        self.client(caller)?.get(resource, namespace, name).await
    }

    async fn create(
        &self,
        caller: Caller<'_>,
        resource: &str,
        namespace: &str,
        object: Value,
    ) -> Result<Value, ApiError> {
        self.client(caller)?.create(resource, namespace, object).await
    }

    async fn update(
        &self,
        caller: Caller<'_>,
        resource: &str,
        namespace: &str,
        name: &str,
        object: Value,
    ) -> Result<Value, ApiError> {
        self.client(caller)?.update(resource, namespace, name, "", object).await
    }

    async fn update_status(
        &self,
        caller: Caller<'_>,
        resource: &str,
        namespace: &str,
        name: &str,
        object: Value,
    ) -> Result<Value, ApiError> {
        self.client(caller)?.update(resource, namespace, name, "status", object).await
    }

    async fn delete(
        &self,
        caller: Caller<'_>,
        resource: &str,
        namespace: &str,
        name: &str,
        options: Value,
    ) -> Result<(), ApiError> {
        self.client(caller)?.delete(resource, namespace, name, options).await.map(drop)
    }

    async fn token(
        &self,
        caller: Caller<'_>,
        namespace: &str,
        service_account: &str,
        request: Value,
    ) -> Result<Value, ApiError> {
        self.client(caller)?.update("serviceaccounts", namespace, service_account, "token", request).await
    }

    async fn tunnel(&self, environment: &str, peer: &str, stream: Box<dyn Duplex>) {
        let peer = Peer::Tunnel { environment: environment.into(), address: peer.into() };
        // Pods see a certificate of their own cluster's authority.
        match self.planes.in_cluster_tls(environment).await {
            Ok(Some(tls)) => self.server.serve_with(tls, stream, peer).await,
            Ok(None) => self.server.serve(stream, peer).await,
            Err(error) => tracing::debug!(environment, %error, "a pod's connection is not served"),
        }
    }
}
