//! Handlers with their description: what the table of endpoints is made of. The functions are those of `axum::routing`, and need that
//! what a handler takes and gives is described.

use axum::{
    handler::Handler as Handles,
    routing::{self, MethodFilter, MethodRouter},
};

use super::describe::{Describe, Operation};
use crate::Portal;

/// A handler for one method.
pub(crate) struct Handler {
    pub(crate) router: MethodRouter<Portal>,
    pub(crate) describe: fn(&mut Operation<'_>),
}

impl Handler {
    /// With something around it that changes nothing of what is described.
    pub(crate) fn map(self, change: impl FnOnce(MethodRouter<Portal>) -> MethodRouter<Portal>) -> Self {
        Self { router: change(self.router), ..self }
    }
}

pub(crate) fn on<H, T, A>(filter: MethodFilter, handler: H) -> Handler
where
    H: Handles<T, Portal> + Describe<A>,
    T: 'static,
{
    Handler { router: routing::on(filter, handler), describe: H::describe }
}

macro_rules! methods {
    ($($method:ident),*) => {$(
        pub(crate) fn $method<H, T, A>(handler: H) -> Handler
        where
            H: Handles<T, Portal> + Describe<A>,
            T: 'static,
        {
            // GET answers HEAD too, as in axum.
            Handler { router: routing::$method(handler), describe: H::describe }
        }
    )*};
}
methods!(get, post, put, patch, delete);
