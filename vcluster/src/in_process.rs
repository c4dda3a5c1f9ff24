//! The in-process [`Client`]: the pipeline without HTTP.

use std::sync::Arc;

use serde_json::{Value, json};
use tracing::{Instrument as _, Span};
use vctl_machinery::{selector::LabelSelector, status::ApiError};
use vctl_runtime::telemetry;
use vctl_store::Tenant;

use crate::{
    authorization::rules::Attributes,
    client::{Client, Listed},
    control_planes::ControlPlanes,
    objects::{
        Call, Target,
        delete::{DeleteOptions, Deleted},
        list::{ListQuery, Selection},
        update::Patch,
    },
    server::actions,
    user::User,
};

/// Which cluster.
pub(crate) enum Cluster {
    Name(String),
    Tenant(Tenant),
}

pub(crate) struct InProcess {
    planes: ControlPlanes,
    cluster: Cluster,
    user: Arc<User>,
}

impl InProcess {
    pub(crate) fn new(planes: ControlPlanes, cluster: Cluster, user: User) -> Self {
        Self { planes, cluster, user: Arc::new(user) }
    }

    /// A span for a change that is a part of something, such as a job; what controllers do by themselves has none.
    fn span(&self, verb: &str, resource: &str) -> Span {
        if !telemetry::is_traced() {
            return Span::none();
        }
        let environment = match &self.cluster {
            Cluster::Name(name) => name.clone(),
            Cluster::Tenant(tenant) => format!("{tenant:?}"),
        };
        tracing::debug_span!("control plane request", environment, verb, resource, user = self.user.name)
    }

    /// The call and its target, authorized.
    async fn begin(
        &self,
        verb: &str,
        resource: &str,
        namespace: &str,
        name: &str,
        subresource: &str,
    ) -> Result<(Call, Target), ApiError> {
        let plane = match &self.cluster {
            Cluster::Name(name) => self.planes.plane(name).await?,
            Cluster::Tenant(tenant) => self.planes.plane_of(*tenant).await?,
        };
        let catalog = plane.catalog().await?;
        let Some(descriptor) = catalog.stored(resource) else {
            return Err(ApiError {
                code: 404,
                reason: "NotFound",
                message: format!("the server could not find the requested resource {resource:?}"),
                details: Value::Null,
            });
        };
        let attributes = Attributes {
            verb: verb.into(),
            path: None,
            group: descriptor.group.clone(),
            version: descriptor.version.clone(),
            resource: descriptor.plural.clone(),
            subresource: subresource.into(),
            namespace: namespace.into(),
            name: name.into(),
        };
        plane.require(&self.user, &attributes).await?;
        let manager = self.user.name.rsplit(':').next().unwrap_or("vctl").to_owned();
        let target = Target::new(descriptor.clone(), namespace, name).through(subresource);
        Ok((Call::new(plane, self.user.clone(), manager), target))
    }
}

#[async_trait::async_trait]
impl Client for InProcess {
    async fn get(&self, resource: &str, namespace: &str, name: &str) -> Result<Value, ApiError> {
        let (call, target) = self.begin("get", resource, namespace, name, "").await?;
        call.get(&target).await
    }

    async fn list(&self, resource: &str, namespace: &str, selector: &LabelSelector) -> Result<Listed, ApiError> {
        let (call, target) = self.begin("list", resource, namespace, "", "").await?;
        let selection = Selection { labels: selector.clone(), ..Selection::default() };
        let page = call.list(&target, &ListQuery { selection, ..ListQuery::default() }).await?;
        Ok(Listed { items: page.items, revision: page.revision })
    }

    async fn create(&self, resource: &str, namespace: &str, mut object: Value) -> Result<Value, ApiError> {
        let created = async {
            let (call, target) = self.begin("create", resource, namespace, "", "").await?;
            call.check(&target.descriptor, &mut object, Vec::new())?;
            call.create(&target, object).await
        };
        created.instrument(self.span("create", resource)).await
    }

    async fn update(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        subresource: &str,
        mut object: Value,
    ) -> Result<Value, ApiError> {
        let (call, target) = self.begin("update", resource, namespace, name, subresource).await?;
        if let Some(done) = actions::by_document(&call, &target, &object).await? {
            return Ok(done);
        }
        if subresource == "scale" {
            return call.modify(&target, true, |_| Ok(object.clone())).await;
        }
        call.check(&target.descriptor, &mut object, Vec::new())?;
        Ok(call.replace(&target, object).await?.object)
    }

    async fn scale(&self, resource: &str, namespace: &str, name: &str) -> Result<Value, ApiError> {
        let (call, target) = self.begin("get", resource, namespace, name, "scale").await?;
        crate::subresource::show(&target, &call.get(&target).await?)
    }

    async fn merge_patch(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        subresource: &str,
        patch: Value,
    ) -> Result<Value, ApiError> {
        let (call, target) = self.begin("patch", resource, namespace, name, subresource).await?;
        Ok(call.patch(&target, &Patch::Merge(patch)).await?.object)
    }

    async fn apply(&self, resource: &str, namespace: &str, name: &str, mut object: Value) -> Result<Value, ApiError> {
        let applied = async {
            let (call, target) = self.begin("patch", resource, namespace, name, "").await?;
            call.check(&target.descriptor, &mut object, Vec::new())?;
            crate::objects::create::place(&target, &mut object)?;
            Ok(call.patch(&target, &Patch::Apply { configuration: object, force: true }).await?.object)
        };
        applied.instrument(self.span("apply", resource)).await
    }

    async fn delete(&self, resource: &str, namespace: &str, name: &str, options: Value) -> Result<Value, ApiError> {
        let deleted = async {
            let (call, target) = self.begin("delete", resource, namespace, name, "").await?;
            Ok(match call.delete(&target, &DeleteOptions::parse(&options)?).await? {
                Deleted::Marked(object) | Deleted::Gone(object) => object,
            })
        };
        deleted.instrument(self.span("delete", resource)).await
    }
}

/// A `Status` that says all went well.
pub(crate) fn success() -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" })
}
