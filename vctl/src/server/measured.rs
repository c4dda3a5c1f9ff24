//! `/metrics` of the server, for its administrator: what is measured of all environments together.

use std::sync::Arc;

use axum::{
    Router,
    response::{IntoResponse as _, Response},
    routing::get,
};
use http::{StatusCode, header};
use vctl_portal::Portal;
use vctl_runtime::metrics::{Exposition, Kind, MEDIA_TYPE, process};
use vctl_syncer::hub::Hub;
use vctl_vcluster::{ControlPlanes, controllers::Controllers};

/// Those who measure.
pub(crate) struct Measured {
    pub(crate) planes: ControlPlanes,
    pub(crate) controllers: Arc<Controllers>,
    pub(crate) hub: Hub,
    pub(crate) portal: Portal,
}

impl Measured {
    /// The endpoint, without a guard.
    pub(crate) fn router(self) -> Router {
        let this = Arc::new(self);
        Router::new().route("/metrics", get(move || async move { this.answer().await }))
    }

    async fn answer(&self) -> Response {
        match self.planes.names().await {
            Ok(names) => ([(header::CONTENT_TYPE, MEDIA_TYPE)], self.text(names.len())).into_response(),
            Err(error) => {
                tracing::warn!(%error, "the environments cannot be counted");
                (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response()
            }
        }
    }

    fn text(&self, environments: usize) -> String {
        let mut text = Exposition::default();
        text.family("vctl_environments", Kind::Gauge, "Number of environments.");
        text.sample("vctl_environments", &[], environments);
        text.family("vctl_environments_in_memory", Kind::Gauge, "Number of environments that are in use.");
        text.sample("vctl_environments_in_memory", &[], self.planes.loaded());
        self.hub.measurements(&mut text);
        self.planes.measurements(&mut text);
        self.controllers.measurements(&mut text);
        self.portal.measurements(&mut text);
        process(&mut text);
        text.into_text()
    }
}
