use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use crate::{StoreError, Tenant, engine::cell::Cell};

/// The tenants, by number and by name.
pub(crate) struct Registry(RwLock<State>);

pub(crate) struct State {
    pub(crate) cells: HashMap<Tenant, Arc<Cell>>,
    names: HashMap<Arc<str>, Option<Tenant>>,
    next: u32,
    limit: u32,
}

impl State {
    fn check_limit(&self) -> Result<(), StoreError> {
        if self.next < self.limit {
            return Ok(());
        }
        Err(StoreError::backend(format!(
            "all {} numbers of tenants have been used; move the tenants that are left to a new data directory",
            self.limit
        )))
    }

    fn number(&mut self) -> Tenant {
        self.next += 1;
        Tenant(self.next - 1)
    }
}

/// What came of claiming a name for a new tenant.
pub(crate) enum Claim {
    /// It is reserved, with a number.
    Reserved(Tenant),
    /// Another one has it.
    Taken,
    /// Another one is about to have it, but may fail.
    Wait,
}

impl Registry {
    /// The tenants found at start; `next` is the first number never used, `limit` the first that cannot be.
    pub(crate) fn new(cells: Vec<Cell>, next: u32, limit: u32) -> Self {
        let cells: HashMap<_, _> = cells.into_iter().map(|c| (c.tenant, Arc::new(c))).collect();
        let named = cells.values().filter(|c| c.tenant != Tenant::SYSTEM);
        let names = named.map(|c| (c.name.clone(), Some(c.tenant))).collect();
        Self(RwLock::new(State { cells, names, next, limit }))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, tenant: Tenant) -> Result<Arc<Cell>, StoreError> {
        self.read().cells.get(&tenant).cloned().ok_or(StoreError::NoTenant(tenant))
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<Cell>> {
        let state = self.read();
        let tenant = (*state.names.get(name)?)?;
        state.cells.get(&tenant).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Cell>> {
        let mut cells: Vec<_> = self.read().cells.values().cloned().collect();
        cells.sort_unstable_by_key(|c| c.tenant);
        cells
    }

    /// Reserves a name and a number.
    ///
    /// # Errors
    /// When all numbers have been used.
    pub(crate) fn claim(&self, name: &Arc<str>) -> Result<Claim, StoreError> {
        let mut state = self.write();
        match state.names.get(name) {
            Some(Some(_)) => return Ok(Claim::Taken),
            Some(None) => return Ok(Claim::Wait),
            None => {}
        }
        state.check_limit()?;
        let tenant = state.number();
        state.names.insert(name.clone(), None);
        Ok(Claim::Reserved(tenant))
    }

    /// A number for a tenant that takes the name of another one.
    ///
    /// # Errors
    /// When all numbers have been used.
    pub(crate) fn number(&self) -> Result<Tenant, StoreError> {
        let mut state = self.write();
        state.check_limit()?;
        Ok(state.number())
    }

    /// The reserved tenant is durable.
    pub(crate) fn insert(&self, cell: Arc<Cell>) {
        let mut state = self.write();
        state.names.insert(cell.name.clone(), Some(cell.tenant));
        state.cells.insert(cell.tenant, cell);
    }

    /// The reserved name is free again.
    pub(crate) fn release(&self, name: &str) {
        self.write().names.remove(name);
    }

    /// The tenant is deleted.
    pub(crate) fn remove(&self, cell: &Cell) {
        let mut state = self.write();
        // Another one may have the name by now.
        if state.names.get(&cell.name) == Some(&Some(cell.tenant)) {
            state.names.remove(&cell.name);
        }
        state.cells.remove(&cell.tenant);
    }
}
