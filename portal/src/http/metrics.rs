//! Measurements of requests to the portal.

use std::time::Duration;

use http::{Method, StatusCode};
use vctl_runtime::metrics::{Counter, Exposition, Histogram, Kind};

/// Upper bounds in seconds.
const BOUNDS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "other"];
/// Codes that are counted each by itself; the others are counted as the last.
const CODES: [u16; 22] =
    [200, 201, 202, 204, 303, 304, 101, 400, 401, 403, 404, 405, 409, 412, 413, 415, 422, 429, 500, 502, 503, 0];

/// Counts requests as they are answered.
pub(crate) struct HttpMetrics {
    answered: [[Counter; CODES.len()]; METHODS.len()],
    seconds: Histogram,
}

impl Default for HttpMetrics {
    fn default() -> Self {
        Self { answered: Default::default(), seconds: Histogram::new(BOUNDS) }
    }
}

impl HttpMetrics {
    pub(crate) fn answered(&self, method: &Method, code: StatusCode, took: Duration) {
        let method = METHODS.iter().position(|m| *m == method.as_str()).unwrap_or(METHODS.len() - 1);
        let code = CODES.iter().position(|c| *c == code.as_u16()).unwrap_or(CODES.len() - 1);
        if let Some(counter) = self.answered.get(method).and_then(|codes| codes.get(code)) {
            counter.add_one();
        }
        self.seconds.observe(took);
    }

    pub(crate) fn write(&self, text: &mut Exposition) {
        const TOTAL: &str = "vctl_portal_requests_total";
        text.family(TOTAL, Kind::Counter, "Number of requests to portal and REST API, by method and code.");
        for (method, codes) in METHODS.iter().zip(&self.answered) {
            for (code, counter) in CODES.iter().zip(codes).filter(|(_, counter)| counter.get() > 0) {
                text.sample(TOTAL, &[("code", &code.to_string()), ("method", method)], counter.get());
            }
        }
        const SECONDS: &str = "vctl_portal_request_duration_seconds";
        text.family(SECONDS, Kind::Histogram, "How long it took until requests to portal and REST API were answered.");
        text.histogram(SECONDS, &[], &self.seconds);
    }
}
