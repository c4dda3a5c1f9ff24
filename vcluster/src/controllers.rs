//! Controllers: one shared work queue over the store's feed, keyed by (tenant, object).
