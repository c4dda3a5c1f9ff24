//! Handlers with their description: what the table of endpoints is made of. The functions are those of `axum::routing`, and need that
//! what a handler takes and gives is described.

use axum::{
    extract::DefaultBodyLimit,
    handler::Handler as Handles,
    routing::{self, MethodFilter, MethodRouter},
};

use super::describe::{Describe, Operation};
use crate::{Portal, http::BODY_LIMIT};

/// A handler for one method.
pub(crate) struct Handler {
    pub(crate) router: MethodRouter<Portal>,
    pub(crate) describe: fn(&mut Operation<'_>),
    /// Largest body in bytes.
    pub(crate) body_limit: usize,
}

impl Handler {
    /// With another limit of its body, in bytes.
    pub(crate) fn limited(self, body_limit: usize) -> Self {
        Self { router: self.router.layer(DefaultBodyLimit::max(body_limit)), body_limit, ..self }
    }
}

pub(crate) fn on<H, T, A>(filter: MethodFilter, handler: H) -> Handler
where
    H: Handles<T, Portal> + Describe<A>,
    T: 'static,
{
    Handler { router: routing::on(filter, handler), describe: H::describe, body_limit: BODY_LIMIT }
}

macro_rules! methods {
    ($($method:ident),*) => {$(
        pub(crate) fn $method<H, T, A>(handler: H) -> Handler
        where
            H: Handles<T, Portal> + Describe<A>,
            T: 'static,
        {
            // GET answers HEAD too, as in axum.
            Handler { router: routing::$method(handler), describe: H::describe, body_limit: BODY_LIMIT }
        }
    )*};
}
methods!(get, post, put, patch, delete);
