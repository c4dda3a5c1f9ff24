/// [`crate::Store`] for a type with an `engine`.
macro_rules! store_over_engine {
    ($store:ty) => {
        #[async_trait::async_trait]
        impl $crate::Store for $store {
            async fn create_tenant(
                &self,
                name: &str,
                documents: Vec<$crate::Write>,
            ) -> Result<$crate::Tenant, $crate::StoreError> {
                self.engine.create_tenant(name, documents).await
            }

            async fn delete_tenant(&self, tenant: $crate::Tenant) -> Result<(), $crate::StoreError> {
                self.engine.delete_tenant(tenant).await
            }

            async fn tenants(&self) -> Result<Vec<$crate::TenantInfo>, $crate::StoreError> {
                self.engine.tenants()
            }

            async fn tenant(&self, name: &str) -> Result<Option<$crate::TenantInfo>, $crate::StoreError> {
                self.engine.tenant(name)
            }

            async fn revision(&self, tenant: $crate::Tenant) -> Result<$crate::Revision, $crate::StoreError> {
                self.engine.revision(tenant)
            }

            async fn get(
                &self,
                tenant: $crate::Tenant,
                key: &$crate::Key,
            ) -> Result<(Option<$crate::Entry>, $crate::Revision), $crate::StoreError> {
                self.engine.get(tenant, key).await
            }

            async fn list(
                &self,
                tenant: $crate::Tenant,
                options: $crate::ListOptions,
            ) -> Result<$crate::List, $crate::StoreError> {
                self.engine.list(tenant, options).await
            }

            async fn transact(
                &self,
                tenant: $crate::Tenant,
                writes: Vec<$crate::Write>,
            ) -> Result<Vec<$crate::Revision>, $crate::StoreError> {
                self.engine.transact(tenant, writes).await
            }

            async fn watch(
                &self,
                tenant: $crate::Tenant,
                scope: $crate::Scope,
                after: $crate::Revision,
            ) -> Result<$crate::Watch, $crate::StoreError> {
                self.engine.watch(tenant, scope, after)
            }

            fn feed(&self) -> Box<dyn $crate::Feed> {
                self.engine.feed()
            }

            async fn compact(
                &self,
                tenant: $crate::Tenant,
                revision: $crate::Revision,
            ) -> Result<(), $crate::StoreError> {
                self.engine.compact(tenant, revision).await
            }

            async fn export(&self, tenant: $crate::Tenant) -> Result<$crate::Export, $crate::StoreError> {
                self.engine.export(tenant).await
            }

            async fn restore_tenant(
                &self,
                name: &str,
                documents: Vec<$crate::Write>,
                above: $crate::Revision,
                replace: bool,
            ) -> Result<$crate::Tenant, $crate::StoreError> {
                self.engine.restore_tenant(name, documents, above, replace).await
            }

            async fn reencrypt(&self) -> Result<u64, $crate::StoreError> {
                self.engine.reencrypt().await
            }

            async fn close(&self) -> Result<(), $crate::StoreError> {
                self.engine.close().await
            }

            async fn ended(&self) -> Result<(), $crate::StoreError> {
                self.engine.ended().await
            }
        }
    };
}
pub(crate) use store_over_engine;
