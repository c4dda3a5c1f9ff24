//! The tables: see `migrations/postgres`. Never change a migration that was released.

use sqlx::{
    PgConnection, Row, SqlSafeStr,
    migrate::{MigrateError, Migration, MigrationType, Migrator},
};

use crate::{
    StoreError, Tenant,
    engine::durable::KnownTenant,
    postgres::{PostgresAddress, failure::describe},
};

const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "log", include_str!("../../migrations/postgres/0001_log.sql")),
    (2, "encryption", include_str!("../../migrations/postgres/0002_encryption.sql")),
];

/// What is found at start.
pub(crate) struct Known {
    pub(crate) tenants: Vec<KnownTenant>,
    pub(crate) next_tenant: u32,
    /// Ids of the keys that values are sealed with.
    pub(crate) keys: Vec<String>,
}

/// Brings the tables to today's format. The caller owns the database.
pub(super) async fn migrate(connection: &mut PgConnection, address: &PostgresAddress) -> Result<(), StoreError> {
    let exists: bool = sqlx::query_scalar("SELECT to_regnamespace('vctl') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await
        .map_err(|e| describe(address, &e))?;
    if !exists {
        sqlx::raw_sql("CREATE SCHEMA vctl").execute(&mut *connection).await.map_err(|e| describe(address, &e))?;
    }
    let migrations = MIGRATIONS.iter().map(|(version, description, sql)| {
        Migration::new(*version, (*description).into(), MigrationType::Simple, sql.into_sql_str(), false)
    });
    Migrator::with_migrations(migrations.collect()).run_direct(None, connection, false).await.map_err(|error| match error {
        MigrateError::VersionMissing(version) => StoreError::Unusable(format!(
            "{address} has format {version}, written by a newer vctl; this one knows formats up to {}. Run the newer vctl, or use \
             another database",
            MIGRATIONS.len()
        )),
        MigrateError::VersionMismatch(version) => StoreError::Unusable(format!(
            "{address} has a format {version} that is not ours; use another database"
        )),
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => describe(address, &error),
        error => StoreError::backend(format!("{address}: the tables cannot be brought to today's format: {error}")),
    })
}

/// All tenants, and the first number never used.
pub(super) async fn known(connection: &mut PgConnection) -> Result<Known, sqlx::Error> {
    // One step to the end of each tenant's range.
    let rows = sqlx::query(
        "SELECT t.vc, t.name, t.compacted, (SELECT max(l.rev) FROM log l WHERE l.vc = t.vc)
         FROM tenants t WHERE NOT t.deleted ORDER BY t.vc",
    )
    .fetch_all(&mut *connection)
    .await?;
    let tenants = rows.iter().map(|row| {
        let compacted = row.get::<i64, _>(2) as u64;
        let last: Option<i64> = row.get(3);
        let name: Option<String> = row.get(1);
        KnownTenant {
            tenant: Tenant(row.get::<i32, _>(0) as u32),
            name: name.unwrap_or_default(),
            head: last.map_or(0, |l| l as u64).max(compacted),
            compacted,
        }
    });
    let last: i32 = sqlx::query_scalar("SELECT last_tenant FROM owner").fetch_one(&mut *connection).await?;
    let keys = sqlx::query_scalar("SELECT key FROM encryption").fetch_all(&mut *connection).await?;
    Ok(Known { tenants: tenants.collect(), next_tenant: last as u32 + 1, keys })
}
